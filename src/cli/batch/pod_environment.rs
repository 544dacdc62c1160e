//! What the pods of a batch on Kubernetes have of this machine: directories, the program, variables
//! and keys. What they lack is an error before anything is submitted.

use std::collections::BTreeMap;

use crate::batch::kubernetes::settings::{KUBERNETES_FILE_BYTES_MAX, KubernetesSettings};
use crate::batch::task::BatchTask;
use crate::batch::worker_script::job_variables;
use crate::cli::environment;
use crate::dotenv::DotenvVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::io::files::{read_capped, real_path};

/// Maximum number of workers of a batch: the state of all pods is read at once.
pub(super) const WORKERS_MAX: usize = 1000;
/// The variable of the user's home.
const HOME: &str = "HOME";
/// The variable of the user's programs. Images have their own.
const PATH: &str = "PATH";
/// What stands for the value of a variable from a secret of the cluster, which is not known here.
const UNKNOWN_VALUE: &str = "value-of-a-secret-of-the-cluster";

/// Reads the file `name` of `--kubernetes`.
pub(super) fn read_pod_settings(name: &str, host: &Host) -> Result<KubernetesSettings> {
    let bytes = read_capped(&host.cwd.join(name), KUBERNETES_FILE_BYTES_MAX)?;
    let file_error = |reason: &str| {
        Error::new(ErrorKind::Usage, format!("`{name}` {reason}"))
            .with_hint("\"Kubernetes\" in docs/batch.md has an example of such a file")
    };
    let bytes = bytes.ok_or_else(|| file_error("does not exist"))?;
    let text = String::from_utf8(bytes).map_err(|_| file_error("is not UTF-8"))?;
    KubernetesSettings::parse(&text, name)
}

/// Checks that pods have the directory of the batch and can write to it.
pub(super) fn require_storage(settings: &KubernetesSettings, host: &Host) -> Result<()> {
    for dir in [&host.cwd, &host.state_parent] {
        if !settings.can_write_to(dir) {
            let message = format!("pods would not have `{dir}`: no volume is mounted there");
            return Err(Error::new(ErrorKind::Usage, message).with_hint(format!(
                "mount the storage that this directory is on, at the same path: `volumes: \
                 [{{persistent_volume_claim: NAME, mount_path: {dir}}}]` in the file of \
                 `--kubernetes`"
            )));
        }
    }
    Ok(())
}

/// Checks that pods have the project of `task`.
pub(super) fn require_project(
    settings: &KubernetesSettings,
    task: &BatchTask,
    host: &Host,
) -> Result<()> {
    let Some(project) = &task.project else {
        return Ok(());
    };
    let project_dir = AbsPath::resolve(&host.cwd, project.location());
    if settings.has_path(&project_dir) {
        return Ok(());
    }
    let message = format!("task `{}`: pods would not have `{project_dir}`", task.id);
    Err(Error::new(ErrorKind::Usage, message)
        .with_hint("add a volume at that path to the file of `--kubernetes`"))
}

/// Returns the path of massgen in the pods.
pub(super) fn pod_executable(settings: &KubernetesSettings, host: &Host) -> Result<AbsPath> {
    if let Some(path) = &settings.massgen {
        return Ok(path.clone());
    }
    let executable = real_path(&host.executable)?;
    if settings.has_path(&executable) {
        return Ok(executable);
    }
    let message = format!("pods would not have `{executable}`");
    Err(Error::new(ErrorKind::Usage, message).with_hint(
        "name the path of massgen in the image: `massgen: /usr/local/bin/massgen` in the file of \
         `--kubernetes`",
    ))
}

/// Returns the variables of the user's shell that pods get.
pub(super) fn pod_variables(
    settings: &KubernetesSettings,
    host: &Host,
) -> BTreeMap<String, String> {
    let mut variables = job_variables(&host.env);
    variables.remove(PATH);
    let has_home = |home: &AbsPath| settings.has_path(home);
    if !host.home.as_ref().is_some_and(has_home) {
        variables.remove(HOME);
    }
    variables
}

/// Returns `host` as it is for pods. Keys in secrets are there, with other values.
pub(super) fn host_of_pods(settings: &KubernetesSettings, host: &Host) -> Host {
    let mut pod_host = host.clone();
    pod_host.env = pod_variables(settings, host);
    pod_host.env.extend(settings.env.clone());
    let secrets = settings.secret_variables();
    pod_host
        .env
        .extend(secrets.map(|name| (name.clone(), UNKNOWN_VALUE.to_owned())));
    let home = host.home.as_ref().map(AbsPath::to_string);
    if home.as_ref() != pod_host.env.get(HOME) {
        pod_host.home = None;
    }
    pod_host.executable_dir = None;
    pod_host.dotenv = DotenvVariables::default();
    environment::load(&pod_host).host
}
