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
pub mod text;

// rules: pure functions; no disk, no clock, no network
pub mod permissions;
pub mod spending;
pub mod tools;
pub mod bounded_parse;
pub mod commands;
pub mod call_rules;
pub mod code_mode;
pub mod roles;
pub mod sandbox_policy;
pub mod hooks;
pub mod mentions;
pub mod check_results;
pub mod config;
pub mod layout;
pub mod ballot;
pub mod event;
pub mod prompts;
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
