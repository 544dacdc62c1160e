//! Arguments of the commands that inspect and revert pipelines of roles.

use clap::{Args, Subcommand};

use crate::cli::help::{
    BRANCHES_EXAMPLES, LOG_EXAMPLES, RESET_EXAMPLES, REVERT_EXAMPLES, ROLES_EXAMPLES,
};
use crate::roles::RoleName;
use crate::world::store::naming::LAST;

/// Commands for pipelines of roles.
#[derive(Debug, Subcommand)]
pub(crate) enum PipelineCommand {
    /// Show the rights and directories of a pipeline's roles.
    #[command(after_help = ROLES_EXAMPLES)]
    Roles(RolesArguments),
    /// List the branches of a pipeline and where their files are.
    #[command(after_help = BRANCHES_EXAMPLES)]
    Branches(PipelineArguments),
    /// List the commits of a pipeline's roles, newest first.
    #[command(after_help = LOG_EXAMPLES)]
    Log(PipelineArguments),
    /// Revert all merged work of a role in a new commit.
    #[command(after_help = REVERT_EXAMPLES)]
    Revert(RoleArguments),
    /// Reset a role of a pipeline, so that it starts again without its own files.
    #[command(after_help = RESET_EXAMPLES)]
    Reset(RoleArguments),
}

// Arguments of `massgen pipeline roles`.
#[derive(Args, Debug, Default)]
pub(crate) struct RolesArguments {
    /// Config of the pipeline. Default: the built-in roles.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Print JSON, one object per line. Default: a table.
    #[arg(long)]
    pub json: bool,
}

// A pipeline to show.
#[derive(Args, Debug)]
pub(crate) struct PipelineArguments {
    /// The pipeline: its name, a prefix of the name, or `last`. Default: the last one.
    #[arg(value_name = "RUN", default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// Print JSON, one object per line. Default: a table.
    #[arg(long)]
    pub json: bool,
}

// A role of a pipeline.
#[derive(Args, Debug)]
pub(crate) struct RoleArguments {
    /// The pipeline: its name, a prefix of the name, or `last`. Default: the last one.
    #[arg(value_name = "RUN", default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// The role.
    #[arg(long, value_name = "ROLE", value_parser = RoleName::parse)]
    pub role: RoleName,
}

impl Default for PipelineArguments {
    fn default() -> Self {
        Self {
            run: LAST.to_owned(),
            json: false,
        }
    }
}
