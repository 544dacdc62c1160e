//! Decides about every access of an agent: [`gate`] turns a tool call into a permitted action or a
//! denial, with what the user's hooks and a person say about it.

pub mod verdict;
pub mod merge_bases;
pub mod hook_runner;
mod call_context;
pub mod policy;
mod admission;
pub mod gate;
pub mod external_call;
