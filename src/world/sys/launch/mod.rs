//! Owns massgen's side of the processes that build sandboxes: they are started, spoken with over
//! one socket each, waited for and killed here. What they are to do is not known here.

pub(crate) mod control;
pub(crate) mod process;
pub(crate) mod spawner;
pub(crate) mod overlay_request;
pub(crate) mod fork_server;
pub(crate) mod poll;
