//! Owns `massgen mcp`: what massgen offers to other agents as a server of the Model Context Protocol.
//! It decides about no call; the gate does, as for every other caller.

pub(crate) mod board;
mod conductor;
mod guarded;
mod hints;
mod http;
pub(crate) mod orchestrate;
mod requests;
mod runs;
pub(crate) mod serve;
mod stdio;
mod token;
pub(crate) mod way;
