//! Files that the user names, the clock, the trait of event sinks, the terminal, HTTP, and the
//! user's own programs.

use crate::error::{Error, Result};

pub mod clock;
pub mod event_sink;
pub mod files;
pub mod file_change;
pub mod locate;
pub mod project_link;
pub mod tree_changes;
pub mod answer_file;
pub mod config_file;
pub mod message_inbox;
pub mod secrets;
pub mod file_finder;
pub mod terminal_mode;
pub mod stop_signal;
pub mod terminal_input;
pub mod user_terminal;
pub mod user_programs;
mod tls;
pub mod http;
pub mod page_fetcher;

/// Does work that blocks, apart from the threads that serve tasks.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|_| Error::bug("a part of massgen failed unexpectedly"))?
}
