//! Arguments of the commands that list, show and remove notes.

use clap::Subcommand;

/// Commands for the notes that agents keep between sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List the notes of this directory.
    List {
        /// Print JSON, one object per note and line. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// Show a note.
    Show {
        /// The note, such as `short_term/style.md` or `style`.
        name: String,
        /// Print one JSON object. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// Remove a note, so that no later agent is given it.
    Clear {
        /// The note. Default: all notes.
        name: Option<String>,
    },
}
