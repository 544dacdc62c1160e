//! The one integration binary: each file has one subject; nothing here mocks massgen's own code.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod backend_faults;
mod backend_wire;
mod http_server;
