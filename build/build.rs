//! Prepares a build: compresses the files that become part of the executable, and chooses how it is
//! linked.

#![expect(
    clippy::disallowed_methods,
    reason = "Cargo passes its settings to a build script in the environment"
)]

mod embedded_files;
mod link_options;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build");
    link_options::choose();
    embedded_files::compress()
}
