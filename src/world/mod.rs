//! Owns all side effects: the disk, the clock, the network. `sys` is private, so no module outside
//! can reach the disk around what is offered here; an agent's calls reach it only through [`gate`]
//! and then [`exec`].

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the place that the others are sent to"
)]
mod sys;
pub mod change;
pub mod bases;
pub mod clock;
pub mod files;
pub mod browse;
pub mod terminal;
pub mod pager;
pub mod browser;
pub mod locate;
mod seal;
pub mod sandbox;
pub mod stage;
pub mod docker;
pub mod commands;
pub mod consultation;
pub mod verdict;
pub mod programs;
pub mod mcp;
pub mod relay;
pub mod hooks;
mod calling;
pub mod policy;
mod admission;
pub mod gate;
pub mod exec;
pub mod foreigner;
pub mod secrets;
pub mod store;
pub mod delivery;
pub mod http;
pub mod ask_socket;
pub mod telemetry;
pub mod probe;
pub mod ground;
pub mod git;
