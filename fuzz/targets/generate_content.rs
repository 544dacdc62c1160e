//! Any bytes, read as what Google sends.

#![no_main]

use std::sync::LazyLock;

use decoding::Decoding;
use libfuzzer_sys::fuzz_target;

#[path = "../../tests/it/decoding.rs"]
mod decoding;

static DECODING: LazyLock<Decoding> = LazyLock::new(|| Decoding::of("gemini"));

fuzz_target!(|body: &[u8]| DECODING.check(body));
