//! Links debug builds at a fixed address: tests start and fork massgen thousands of times, and each
//! start of a position-independent debug build relocates 340,000 addresses and copies their pages.
//! Release builds stay position independent.

#![expect(
    clippy::disallowed_methods,
    reason = "Cargo passes its settings to a build script in the environment"
)]

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if is_debug && is_linux {
        println!("cargo:rustc-link-arg=-no-pie");
    }
}
