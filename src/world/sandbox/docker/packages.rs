//! Installs packages in a container: those that the config lists, and the dependencies of the
//! workspace. A failure is reported, and the run continues without them.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::config::docker::DependencyInstall;
use crate::text::{join_with_commas, single_line};
use crate::world::io::files::read_regular_file;
use crate::world::sandbox::docker::command::ContainerCommand;
use crate::world::sandbox::docker::engine::ContainerUser;
use crate::world::sandbox::docker::engine_error::command_error;
use crate::world::sandbox::docker::replaceable_container::{ContainerGuard, ReplaceableContainer};
use crate::world::sandbox::running_commands::RunningCommand;
use crate::world::sandbox::{CommandWaitLimits, ExitReason};

/// Timeout for installing the packages of one kind, or of one dependency file.
const INSTALL_TIME_MAX: Duration = Duration::from_mins(10);
/// Captured output of an installation, in bytes.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;
/// Longest reported reason of a failure, in characters.
const FAILURE_CHARS_MAX: usize = 300;
/// Largest dependency file that is read, in bytes.
const DEPENDENCIES_BYTES_MAX: u64 = 1024 * 1024;

/// Installs packages of the image's distribution.
const SYSTEM_SCRIPT: &str =
    r#"apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@""#;
/// Installs Python packages.
const PYTHON_SCRIPT: &str = r#"python3 -m pip install --quiet "$@""#;
/// Installs npm packages where their programs are in `PATH` and no privileges are needed.
const NPM_SCRIPT: &str = r#"npm install --global --silent --prefix "$HOME/.local" "$@""#;
/// Dependency files of a workspace, with the commands that install them.
const DEPENDENCY_FILES: &[(&str, &str)] = &[
    (
        "requirements.txt",
        "python3 -m pip install --quiet -r requirements.txt",
    ),
    ("pyproject.toml", "python3 -m pip install --quiet -e ."),
    ("package.json", "npm install --silent"),
];

/// Hashes of the dependency files at the last installation.
pub(super) type DependencyHashes = BTreeMap<&'static str, [u8; 32]>;

impl ReplaceableContainer {
    /// Installs the packages that the config lists; returns a sentence about each kind that failed.
    pub(super) fn install_packages(&self) -> Vec<String> {
        let packages = &self.spec.config.packages;
        let root = ContainerUser::ROOT;
        let own_user = self.engine.container_user();
        let kinds = [
            ("the system", &packages.system, SYSTEM_SCRIPT, root),
            ("Python", &packages.python, PYTHON_SCRIPT, own_user),
            ("npm", &packages.npm, NPM_SCRIPT, own_user),
        ];
        let guard = self.lock();
        let mut failures = Vec::new();
        for (kind, names, script, user) in kinds {
            if names.is_empty() {
                continue;
            }
            let shell = ["/bin/sh", "-c", script, "massgen"].map(str::to_owned);
            let container_command = ContainerCommand {
                program: shell.into_iter().chain(names.iter().cloned()).collect(),
                user,
                ..self.base_command()
            };
            if let Some(reason) =
                self.run_installation(&guard, container_command, &self.register_command())
            {
                let names = join_with_commas(names);
                failures.push(format!(
                    "{kind} packages were not installed ({names}): {reason}"
                ));
            }
        }
        failures
    }

    /// Installs the dependencies of the workspace if its files have changed; returns a line about
    /// each file that failed.
    pub(super) fn install_dependencies(
        &self,
        guard: &ContainerGuard<'_>,
        hashes: &Mutex<DependencyHashes>,
    ) -> String {
        if self.spec.config.packages.dependencies == DependencyInstall::Manual {
            return String::new();
        }
        let mut failures = String::new();
        for (name, script) in DEPENDENCY_FILES {
            if !self.has_changed(name, hashes) {
                continue;
            }
            let running_command = self.register_command();
            let container_command = self.agent_command(script, &self.workspace, &running_command);
            if let Some(reason) = self.run_installation(guard, container_command, &running_command)
            {
                failures.push_str("massgen could not install what `");
                failures.push_str(name);
                failures.push_str("` names: ");
                failures.push_str(&reason);
                failures.push('\n');
            }
        }
        failures
    }

    /// Returns whether a dependency file exists and has changed since the last time. The change is
    /// recorded at once: an installation that fails is not repeated until the file changes again.
    fn has_changed(&self, name: &'static str, hashes: &Mutex<DependencyHashes>) -> bool {
        let path = self.workspace.join(name);
        let Ok(Some(bytes)) = read_regular_file(&path, DEPENDENCIES_BYTES_MAX) else {
            return false;
        };
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let mut hashes = hashes.lock();
        hashes.insert(name, digest) != Some(digest)
    }

    /// Runs the command of an installation. Returns why it failed; `None` if it did not.
    fn run_installation(
        &self,
        guard: &ContainerGuard<'_>,
        container_command: ContainerCommand,
        running_command: &RunningCommand,
    ) -> Option<String> {
        let limits = CommandWaitLimits {
            time_max: INSTALL_TIME_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
            interrupt: None,
            network: None,
        };
        let output = match self.execute(guard, container_command, running_command, limits) {
            Ok(output) => output,
            Err(error) => return Some(command_error(error).to_string()),
        };
        let message = [output.stderr.text, output.stdout.text];
        let message = message
            .iter()
            .find(|text| !text.trim().is_empty())
            .map(|text| single_line(text, FAILURE_CHARS_MAX));
        match output.exit_reason {
            ExitReason::Exited(0) => None,
            ExitReason::Exited(_) if message.is_some() => message,
            ExitReason::Refused { reason, .. } => Some(reason),
            reason @ (ExitReason::Exited(_)
            | ExitReason::Signalled(_)
            | ExitReason::TimedOut
            | ExitReason::Interrupted
            | ExitReason::DiskFull(_)) => Some(reason.to_string()),
        }
    }
}
