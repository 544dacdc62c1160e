//! Arguments of the commands that list and show skills.

use clap::{Args, Subcommand};

/// Commands for skills.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills that `use_skills` offers to agents in this directory.
    List {
        /// The source of the skills.
        #[command(flatten)]
        source: SkillSourceArguments,
    },
    /// Show the `SKILL.md` of a skill and where it is, without running anything.
    Show {
        /// Name of the skill.
        name: String,
        /// The source of the skills.
        #[command(flatten)]
        source: SkillSourceArguments,
    },
}

// The source of the skills.
#[derive(Args, Debug)]
pub(crate) struct SkillSourceArguments {
    /// Config whose `skills_directory` precedes the others. Default: only `~/.massgen/skills`,
    /// `.massgen/skills` and `.claude/skills`.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Print JSON, one object per skill and line. Default: text.
    #[arg(long)]
    pub json: bool,
}
