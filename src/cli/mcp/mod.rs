//! Owns `massgen mcp`: what massgen offers to other agents as a server of the Model Context Protocol,
//! and how the user signs in at servers of others. It decides about no call; the gate does, as for
//! every other caller.

mod callback;
mod guarded;
mod hints;
mod http;
pub(crate) mod login;
pub(crate) mod serve;
mod stdio;
mod token;
