//! The command line of `massgen explain`.

use clap::{Args, Subcommand};

use crate::cli::args::gate_calls::GrantsSource;
use crate::cli::args::phase::{PhaseArgument, PhaseArguments};

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
