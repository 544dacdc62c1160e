//! Session flags: which session a run is a turn of, and how runs and sessions are displayed.

use clap::Args;

// The session that a run belongs to.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SessionArguments {
    /// Continue the most recently used session of this directory: the agents know its turns,
    /// start with the files of the last one, and may use the paths that it opened. Without a
    /// task, resume the last run if it was interrupted. Default: a new session.
    #[arg(long = "continue", conflicts_with = "session_id")]
    pub continue_last: bool,
    /// Continue this session in the same way: its id, a prefix of the id, or `last`. Default: a
    /// new session.
    #[arg(long, value_name = "ID")]
    pub session_id: Option<String>,
}

// How runs and interactive sessions are displayed.
#[derive(Args, Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct DisplayArguments {
    /// Show a run on the whole terminal, with a cell for each agent, and leave its lines behind at
    /// the end. Default: from the config, or on a terminal with two or more agents.
    #[arg(long, conflicts_with = "plain")]
    pub dashboard: bool,
    /// Show a run as plain lines. Default: off, unless `MASSGEN_PLAIN` or `CI` is set.
    #[arg(long, alias = "no-display")]
    pub plain: bool,
    /// Show only the answer, questions, warnings and errors of a run. Default: show its progress.
    #[arg(short, long, conflicts_with_all = ["dashboard", "automation"])]
    #[arg(default_value_if("print", "true", "true"))]
    pub quiet: bool,
    /// Display runs and sessions as plain lines that are never redrawn, and list paths on Tab.
    /// Default: off, unless `MASSGEN_SCREEN_READER` is set.
    #[arg(long)]
    pub screen_reader: bool,
}
