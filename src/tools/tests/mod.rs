//! Tests of this module, by subject.

mod offering;
mod parsing;
