//! The HTTP server of `massgen mcp --http` and `massgen web`: its address, limits on connections,
//! and the checks that every request must pass before its path counts.

pub(crate) mod listener;
pub(crate) mod origin_guard;
pub(crate) mod token;
