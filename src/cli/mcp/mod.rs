//! Implements `massgen mcp`: massgen as an MCP server for other agents, and the user's sign-in at
//! other MCP servers. It must not decide about any call; the gate does, as for every other caller.

pub(crate) mod tracked_run;
mod oauth_callback;
mod run_handler;
mod tool_handler;
mod http;
pub(crate) mod login;
pub(crate) mod orchestrate;
pub(crate) mod packages;
mod requests;
mod run_registry;
pub(crate) mod serve;
pub(crate) mod transport;
