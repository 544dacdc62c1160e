//! Tests of the user's tree after a command.
#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare a disk, run scripts in an overlay on it, and look at it"
)]

mod commit;
mod fixture;
mod inventory;
mod masks;
