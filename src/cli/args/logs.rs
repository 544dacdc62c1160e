//! Arguments of `massgen logs`.

use clap::Subcommand;

use crate::world::store::naming::LAST;

/// Commands for the logs of runs.
#[derive(Debug, Subcommand)]
pub(crate) enum LogsCommand {
    /// List the runs in this directory, newest first.
    List {
        /// Print one JSON object per run, one per line. Default: a table.
        #[arg(long)]
        json: bool,
    },
    /// Show a run from its log, as the terminal displayed it.
    Show {
        /// The run, or a pipeline by its name. Default: the newest run.
        #[arg(default_value = LAST, hide_default_value = true)]
        run: String,
        /// Print the events as JSON, one per line. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// Like `show`, then follow new events until the run ends.
    Follow {
        /// The run, or a pipeline by its name. Default: the newest run.
        #[arg(default_value = LAST, hide_default_value = true)]
        run: String,
        /// Print the events as JSON, one per line. Default: text.
        #[arg(long)]
        json: bool,
        /// Show the run on the whole terminal; works for a run that has ended too.
        #[arg(long, conflicts_with = "json")]
        dashboard: bool,
    },
    /// Export all logs of a run to one archive. Secrets are redacted as they are on disk.
    Export {
        /// The run.
        run: String,
        /// Archive to create. Default: the name of the run and `.tar.gz`, in the current
        /// directory.
        #[arg(short, long, value_name = "FILE")]
        output: Option<String>,
    },
}
