//! The command lines of single calls to a gate: `massgen explain`, `massgen tool`, `massgen
//! sandbox`, the hooks of other programs, and the options for the caller and the phase that they
//! share.

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::help::HOOK_EXAMPLES;
use crate::permissions::grant::Phase;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;

// Arguments of `massgen tool`.
#[derive(Args, Debug)]
pub(crate) struct ToolArguments {
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call as a JSON object, or `-` for standard input.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub args: String,
    /// Run the command in a container of this image. Default: as the config says, or in the
    /// sandbox.
    #[arg(long, value_name = "IMAGE", conflicts_with = "sandbox")]
    pub docker: Option<String>,
    /// On whose behalf, and in which sandbox, the call is made.
    #[command(flatten)]
    pub caller: CallerArguments,
}

// Arguments of `massgen sandbox`.
#[derive(Args, Debug)]
pub(crate) struct SandboxArguments {
    /// Run the command on your write paths as an answer would leave them, and discard what it
    /// writes: `last/agent2.1`, or `last` for the answer that won. Default agent: its author.
    #[arg(long, value_name = "RUN[/ANSWER]")]
    pub answer: Option<String>,
    /// On whose behalf, and in which sandbox, the call is made.
    #[command(flatten)]
    pub caller: CallerArguments,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Hooks of other programs.
#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Answer one request of Claude Code's `PreToolUse` hook from standard input.
    #[command(after_help = HOOK_EXAMPLES)]
    PreToolUse(HookArguments),
}

// Arguments of a hook. They are not `CallerArguments`, because `--sandbox` would have no effect:
// the program that asks runs the command itself.
#[derive(Args, Debug)]
pub(crate) struct HookArguments {
    /// The source of the grants.
    #[command(flatten)]
    pub source: GrantsSource,
    /// The agent whose grants apply. Default: the only one.
    #[arg(long, value_name = "ID", conflicts_with = "grants")]
    pub agent: Option<String>,
    /// Socket of the run that the program takes part in; the run decides. Default: no run.
    #[arg(long, value_name = "SOCKET",
        conflicts_with_all = ["grants", "config", "agent", "phase", "in_sandbox"])]
    pub socket: Option<String>,
    /// The phase of the call.
    #[command(flatten)]
    pub phase: PhaseArguments,
    /// Declare that the program runs in a sandbox with these grants, which restricts its
    /// commands. Default: no sandbox, and `Bash` is denied.
    #[arg(long)]
    pub in_sandbox: bool,
}

// The agent on whose behalf a call is made, and its sandbox.
#[derive(Args, Debug)]
pub(crate) struct CallerArguments {
    /// The source of the grants.
    #[command(flatten)]
    pub source: GrantsSource,
    /// The agent whose grants apply. Default: the only one.
    #[arg(long, value_name = "ID", conflicts_with = "grants")]
    pub agent: Option<String>,
    /// The phase of the call.
    #[command(flatten)]
    pub phase: PhaseArguments,
    /// Sandbox level for commands: `auto`, `overlay`, `namespaces`, `landlock` or `off`.
    /// Default: from the config, or `auto`.
    #[arg(long, value_name = "LEVEL")]
    pub sandbox: Option<SandboxLevelChoice>,
}

// The source of the grants of a call.
#[derive(Args, Debug)]
pub(crate) struct GrantsSource {
    /// JSON file with grants:
    /// `{"workspace":DIR,"temp_workspaces":[DIR],"context_paths":[{"path",
    /// "permission","protected_paths"?}],"permissions":{"deny":[RULE]}}`. Default: the grants of
    /// the config.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub grants: Option<String>,
    /// Config whose grants apply. Default: the config that a run would use.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
}

/// Commands of `massgen explain`.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    /// Explain whether a path may be read and written, by which grant and rule.
    Path(ExplainPathArguments),
    /// Explain which commands a command line consists of, whether they may run, by which rule
    /// and in which sandbox.
    Command(ExplainCommandArguments),
    /// Explain which paths a prompt opens and what the agents read of it.
    Prompt {
        /// The prompt.
        #[arg(value_name = "TEXT")]
        text: String,
        /// Directory that relative paths in the prompt are resolved against. Default: the
        /// current directory.
        #[arg(long, value_name = "DIR")]
        base: Option<String>,
        /// Print JSON. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// Decide about tool calls: read one JSON object per line from standard input and print one
    /// decision for each.
    Calls(GrantsSource),
}

// Arguments of `massgen explain path`.
#[derive(Args, Debug)]
pub(crate) struct ExplainPathArguments {
    /// The path, relative to the current directory.
    pub path: String,
    /// The agent. Default: every agent.
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The phase. Default: both.
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<PhaseArgument>,
    /// Config of the team. Default: the config that a run would use.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Print JSON. Default: text.
    #[arg(long)]
    pub json: bool,
}

// Arguments of `massgen explain command`.
#[derive(Args, Debug)]
pub(crate) struct ExplainCommandArguments {
    /// The command line, as an agent would pass it to `execute_command`.
    #[arg(value_name = "COMMAND", allow_hyphen_values = true)]
    pub command: String,
    /// The agent. Default: the only one.
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The phase of the call.
    #[command(flatten)]
    pub phase: PhaseArguments,
    /// Config of the team. Default: the config that a run would use, or the default rules.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Print JSON. Default: text.
    #[arg(long)]
    pub json: bool,
}

/// A phase as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PhaseArgument {
    /// The agents work and vote.
    Coordination,
    /// The winner delivers.
    Final,
}

impl From<PhaseArgument> for Phase {
    fn from(phase: PhaseArgument) -> Self {
        match phase {
            PhaseArgument::Coordination => Phase::Coordination,
            PhaseArgument::Final => Phase::Final,
        }
    }
}

// The phase in which a call is decided about.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PhaseArguments {
    /// The phase. Default: coordination.
    #[arg(
        long,
        value_name = "PHASE",
        default_value = "coordination",
        hide_default_value = true
    )]
    phase: PhaseArgument,
}

impl From<PhaseArguments> for Phase {
    fn from(arguments: PhaseArguments) -> Self {
        arguments.phase.into()
    }
}
