//! The disk, the clock, outgoing connections, processes.
//!
//! The modules are in an order in which each imports only those above it. `sys` is private, so no
//! module outside can reach the disk around what is offered here; an agent's calls reach it only
//! through [`access`] and then [`exec`].

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the place that the others are sent to"
)]
mod sys;
pub mod io;
pub mod sandbox;
pub mod store;
pub mod batch_engine;
pub mod git;
pub mod approval;
pub mod mcp;
pub mod access;
pub mod exec;
pub mod delivery;
pub mod diagnostics;
