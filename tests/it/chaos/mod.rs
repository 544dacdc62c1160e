//! Commands that are killed, as are massgen and the processes of their sandbox, at any moment; and
//! commands that try to exhaust the machine. Nothing of them is left, and the run continues.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

mod contained;
mod kills;
mod random;
mod fixture;
mod traces;

use std::path::Path;

use massgen::path::AbsPath;
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use massgen::world::sandbox::Sandbox;

use crate::project::binary;

/// Returns the levels that this machine supports, as detected by massgen itself.
fn levels() -> Vec<SandboxLevel> {
    let dir = tempfile::tempdir().unwrap();
    let abs = |path: &Path| AbsPath::new(path).unwrap();
    let (executable, dir) = (abs(&binary()), abs(dir.path()));
    let holds = |level: &SandboxLevel| match Sandbox::open(
        SandboxLevelChoice::Only(*level),
        &executable,
        &dir,
    ) {
        Ok(_) => true,
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    };
    [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ]
    .into_iter()
    .filter(holds)
    .collect()
}
