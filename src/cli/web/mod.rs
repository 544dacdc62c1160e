//! Implements `massgen web`: a page that shows, starts and reviews runs, served on this machine.
//!
//! The page reads event logs by sequence number. Each of its requests to the API has a bearer
//! token, and only a POST changes anything. The page decides nothing itself: it may do what the
//! command line that started the server may do.

mod batches;
mod browse;
mod change_json;
mod config_form;
mod delivery_choice;
mod link_codes;
mod listed_pipelines;
mod logged_run;
mod overview;
mod page_assets;
pub(crate) mod page_run;
mod pending_questions;
mod pipeline_review;
mod reply;
mod reverted_files;
mod review;
mod router;
mod web_run_registry;
mod run_control;
mod run_feed;
mod run_limits;
mod run_log;
mod run_resumption;
mod run_start;
pub(crate) mod serve;
mod server_state;
mod stream;
mod text_pieces;
