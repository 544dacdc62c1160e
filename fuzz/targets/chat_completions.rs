//! Any bytes, read as what a server with Chat Completions sends.

#![no_main]

use std::sync::LazyLock;

use decoding::Decoding;
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/it/decoding.rs"]
mod decoding;

static DECODING: LazyLock<Decoding> = LazyLock::new(|| Decoding::of("moonshot"));

fuzz_target!(|body: &[u8]| DECODING.check(body));
