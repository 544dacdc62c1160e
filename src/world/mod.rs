//! Owns all side effects: the disk, the clock, the network. `sys` is private, so no module outside
//! can reach the disk around what is offered here; an agent's calls reach it only through [`gate`]
//! and then [`exec`].

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the place that the others are sent to"
)]
mod sys;
pub mod file_change;
pub mod merge_bases;
pub mod clock;
pub mod event_sink;
pub mod files;
pub mod file_finder;
pub mod terminal_mode;
pub mod pager;
pub mod web_browser;
pub mod locate;
mod directory_seal;
pub mod sandbox;
pub mod overlay;
pub mod docker;
pub mod exec_environment;
pub mod approval;
pub mod verdict;
pub mod program_environment;
pub mod mcp;
pub mod agent_socket;
pub mod hook_runner;
mod call_context;
pub mod policy;
mod admission;
pub mod gate;
pub mod exec;
pub mod external_call;
pub mod secrets;
pub mod store;
pub mod delivery;
pub mod http;
pub mod approval_socket;
pub mod telemetry;
pub mod probe;
pub mod script_runner;
pub mod git;
