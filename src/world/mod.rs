//! Owns all side effects: the disk, the clock, the network. `sys` is private, so that nothing
//! outside this module reaches the disk but through what is offered here.

mod sys;

pub mod clock;
pub mod files;
pub mod store;
