//! The one integration binary: each file has one subject; nothing here mocks massgen's own code.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare a disk and look at it, and start the real binary"
)]

mod disk;
mod http_server;
mod project;

mod agreement;
mod backend_faults;
mod backend_wire;
mod cli;
mod corpus;
mod docs;
mod gate;
mod races;
mod records;
mod runs;
mod store;
mod tidy;
mod tools;
mod tools_doc;
