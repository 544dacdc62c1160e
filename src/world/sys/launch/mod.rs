//! massgen's side of the sandbox helpers: the processes are started here, spoken to over one socket
//! each, waited for and killed. Their task is not known here.

pub(crate) mod process;
pub(crate) mod overlay_request;
pub(crate) mod poll;
pub(crate) mod control;
pub(crate) mod fork_server;
pub(crate) mod spawner;
