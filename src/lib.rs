//! massgen: several LLM agents, one task, one gate.
//!
//! The modules are listed in import order: each imports only those above it. That list is the layer
//! diagram, and `tests/it/tidy.rs` enforces it. The library is public for the tests and the
//! doctests; its interface is not stable.

// values: types without rules
pub mod error;
pub mod id;
pub mod path;
pub mod dotenv;
pub mod text;
pub mod markdown;

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
pub mod answer_changes;
pub mod config;
pub mod host;
pub mod layout;
pub mod ballot;
pub mod event;
pub mod run_view;
pub mod prompts;
pub mod delivery;
pub mod batch;

// world: files, processes and outgoing connections, behind one gate
pub mod world;

// models, and the loop of one agent
pub mod backend;
pub mod agent;

// one turn, from task to delivery
pub mod orchestrator;
pub mod replay;
pub mod resume;
pub mod pipeline;

// entry points
pub mod cli;
