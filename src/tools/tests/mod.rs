//! Tests of this module, by subject.

mod input;
mod offering;
mod parsing;
mod workflow;
