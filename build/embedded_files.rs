//! Compresses the larger files that `src/cli/embedded_file.rs` makes part of the executable.

use std::env;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The directories whose files are compressed.
const DIRECTORIES: [&str; 2] = ["src/cli/web/page", "src/cli/selftest/cases"];

/// Writes each file below the directories into the output directory, as `PATH.gz`.
pub(crate) fn compress() -> Result<(), Box<dyn Error>> {
    let output = env::var("OUT_DIR")?;
    for directory in DIRECTORIES {
        println!("cargo:rerun-if-changed={directory}");
        compress_directory(Path::new(directory), Path::new(&output))?;
    }
    Ok(())
}

fn compress_directory(directory: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(output.join(directory))?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            compress_directory(&path, output)?;
            continue;
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(&path)?)?;
        let compressed = output.join(format!("{}.gz", path.display()));
        fs::write(compressed, encoder.finish()?)?;
    }
    Ok(())
}
