//! massgen: several LLM agents, one task, one gate.
//!
//! The modules stand in import order: each names only those above it. That list is the layer
//! diagram, and `tests/it/tidy.rs` holds it. The library is public for the tests and the doctests;
//! it promises no stable interface.

// words: types without rules
pub mod error;
pub mod id;
pub mod path;
pub mod dotenv;
pub mod host;
pub mod wording;

// rules: pure functions; no disk, no clock, no network
pub mod permissions;
pub mod spending;
pub mod tools;
pub mod syntax;
pub mod commands;
pub mod call_rules;
pub mod programs;
pub mod roles;
pub mod confinement;
pub mod hooks;
pub mod prompt;
pub mod evidence;
pub mod config;
pub mod layout;
pub mod ballot;
pub mod event;
pub mod brief;
pub mod delivery;

// the world: all side effects, behind one gate
pub mod world;

// minds: models and the loop that lets one work
pub mod backend;
pub mod agent;

// the house: one turn from task to delivery
pub mod orchestrator;
pub mod replay;
pub mod resume;
pub mod pipeline;

// the door
pub mod cli;
