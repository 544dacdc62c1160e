//! The tables of this module's tests, by subject.

mod input;
mod offering;
mod parsing;
mod workflow;
