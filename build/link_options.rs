//! Chooses how the program is linked. See
//! `docs/decisions/0113-functions-that-run-are-placed-together.md`.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const FUNCTION_ORDER: &str = "build/function_order.ld";

/// Passes the options to Cargo.
///
/// Debug builds are linked at a fixed address: tests start and fork massgen thousands of times, and
/// each start of a position-independent debug build relocates 340,000 addresses and copies their
/// pages. Release builds stay position independent; their relocations are stored in a compact form,
/// and the functions that a run executes are placed together.
pub(crate) fn choose() {
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if !is_linux {
        return;
    }
    if is_debug {
        println!("cargo:rustc-link-arg=-no-pie");
        return;
    }
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let options = [
        "-Wl,-z,pack-relative-relocs".to_owned(),
        format!("-Wl,--script={directory}/{FUNCTION_ORDER}"),
    ];
    for option in options {
        if links_and_runs(&option) == Some(true) {
            println!("cargo:rustc-link-arg-bins={option}");
        } else {
            println!("cargo:warning=massgen is linked without `{option}`: it cannot be used here");
        }
    }
}

/// Returns whether a program of one line can be linked with `option` and then runs, if that can be
/// tried: not every linker knows every option, and not every C library can load the result.
fn links_and_runs(option: &str) -> Option<bool> {
    let target = env::var("TARGET").ok()?;
    if env::var("HOST").ok()? != target {
        return None;
    }
    let directory = PathBuf::from(env::var("OUT_DIR").ok()?);
    let (source, program) = (directory.join("trial.rs"), directory.join("trial"));
    fs::write(&source, "fn main() {}\n").ok()?;
    let mut compiler = Command::new(env::var("RUSTC").ok()?);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    if let Ok(flags) = env::var("CARGO_ENCODED_RUSTFLAGS") {
        compiler.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    }
    compiler.args(["--target", &target, "--edition=2024"]);
    compiler.arg("-o").args([&program, &source]);
    let linking = compiler.arg(format!("-Clink-arg={option}")).output().ok()?;
    Some(linking.status.success() && Command::new(&program).status().ok()?.success())
}
