//! Session flags: which session a run is a turn of, and how an interactive session is displayed.

use clap::Args;

/// Which session a run is a turn of.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SessionArguments {
    /// Goes on with the session of this directory that was used last: the agents know its turns, begin
    /// with the files of the last one, and may use the paths that it opened. Without a task it goes on
    /// with the last run, if that was broken off. Default: a new session.
    #[arg(long = "continue", conflicts_with = "session_id")]
    pub go_on: bool,
    /// Goes on with this session, in the same way: its id, the beginning of it, or `last`. Default: a
    /// new session.
    #[arg(long, value_name = "ID")]
    pub session_id: Option<String>,
}

/// How a session that is typed shows itself.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct InteractiveArguments {
    /// Shows a session that is typed in plain lines that are never drawn anew, and lists paths after Tab.
    /// Default: off, unless `MASSGEN_SCREEN_READER` is set.
    #[arg(long)]
    pub screen_reader: bool,
}
