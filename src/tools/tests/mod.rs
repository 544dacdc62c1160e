//! The tables of this module's tests, by subject.

mod offering;
mod parsing;
mod workflow;
