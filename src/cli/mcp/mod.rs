//! Owns `massgen mcp`: what massgen offers to other agents as a server of the Model Context Protocol,
//! and how the user signs in at servers of others. It decides about no call; the gate does, as for
//! every other caller.

pub(crate) mod tracked_run;
mod oauth_callback;
mod run_handler;
mod tool_handler;
mod tool_annotations;
mod http;
pub(crate) mod login;
pub(crate) mod orchestrate;
mod requests;
mod run_registry;
pub(crate) mod serve;
mod stdio;
mod token;
pub(crate) mod transport;
