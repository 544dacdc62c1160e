//! How the cells of a batch are started: the flags of this command, and for what they leave out,
//! the flags of the last start of the batch.

use serde::{Deserialize, Serialize};

use crate::batch::kubernetes::settings::KubernetesSettings;
use crate::batch::queue_commands::{QUEUE_COMMANDS_BYTES_MAX, QueueCommands};
use crate::batch::task::BatchTask;
use crate::batch::worker_script::{WorkerScript, job_variables};
use crate::cli::args::batch::{BatchEngine, BatchStartSettingsArguments, QueueArguments};
use crate::cli::batch::pod_environment::{
    WORKERS_MAX, host_of_pods, pod_executable, pod_variables, read_pod_settings, require_project,
    require_storage,
};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::batch_scheduler::JobQueue;
use crate::world::batch_scheduler::command_queue::{COMMANDS, CommandQueue};
use crate::world::batch_scheduler::kubernetes::{
    KUBECTL_MISSING_HINT, KUBERNETES, KubernetesQueue,
};
use crate::world::batch_scheduler::site_command::SiteCommands;
use crate::world::batch_scheduler::slurm::{SLURM, SlurmQueue, SlurmSettings};
use crate::world::io::files::{read_capped, real_path};
use crate::world::store::batches::BatchDir;
use crate::world::store::project_directory::STATE_DIR_VARIABLE;

/// Default number of jobs at the same time.
const PARALLEL_DEFAULT: usize = 4;

/// How the cells of a batch are started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BatchStartSettings {
    /// Where they run.
    #[serde(rename = "on")]
    pub(super) engine: BatchEngine,
    /// The number of jobs at the same time.
    pub(super) parallel: usize,
    /// The number of cells for each job.
    pub(super) cells_per_job: usize,
    /// The login node on which the commands of the queue run, if that is not this host.
    login: Option<String>,
    slurm: SlurmSettings,
    /// The commands of another queue, as they were when the user named their file.
    commands: Option<QueueCommands>,
    /// The settings of pods of Kubernetes, as their file was when the user named it.
    kubernetes: Option<KubernetesSettings>,
    /// The weakest sandbox that nodes may have.
    require_sandbox: Option<SandboxLevel>,
}

impl BatchStartSettings {
    /// Creates the settings from `arguments`; what they leave out is taken from the settings of
    /// `batch`.
    pub(super) fn new(
        arguments: &BatchStartSettingsArguments,
        batch: Option<&BatchDir>,
        host: &Host,
    ) -> Result<Self> {
        let saved_settings = match batch.map(Self::read_saved).transpose() {
            // Damaged settings are replaced, as the hint about them asks the user to.
            Err(_) if arguments.engine.is_some() => None,
            settings => settings?.flatten(),
        };
        let settings_of_engine = saved_settings
            .filter(|saved| arguments.engine.is_none_or(|engine| engine == saved.engine));
        let saved_engine = settings_of_engine.as_ref().map(|saved| saved.engine);
        let engine = arguments
            .engine
            .or(saved_engine)
            .unwrap_or(BatchEngine::Local);
        let defaults = settings_of_engine.unwrap_or_else(|| Self {
            engine,
            parallel: PARALLEL_DEFAULT,
            cells_per_job: 1,
            login: None,
            slurm: SlurmSettings::default(),
            commands: None,
            kubernetes: None,
            require_sandbox: None,
        });
        let queue = &arguments.queue;
        reject_foreign_flags(engine, queue)?;
        let commands_file = queue.queue_commands.as_deref();
        let commands = commands_file
            .map(|name| read_commands(name, host))
            .transpose()?;
        let pods_file = queue.kubernetes.as_deref();
        let kubernetes = pods_file
            .map(|name| read_pod_settings(name, host))
            .transpose()?;
        let settings = Self {
            engine,
            parallel: arguments.parallel.unwrap_or(defaults.parallel),
            cells_per_job: arguments.cells_per_job.unwrap_or(defaults.cells_per_job),
            login: queue.login.clone().or(defaults.login),
            slurm: SlurmSettings {
                partition: queue.partition.clone().or(defaults.slurm.partition),
                account: queue.account.clone().or(defaults.slurm.account),
                time: queue.time.clone().or(defaults.slurm.time),
                options: if queue.slurm_option.is_empty() {
                    defaults.slurm.options
                } else {
                    queue.slurm_option.clone()
                },
            },
            commands: commands.or(defaults.commands),
            kubernetes: kubernetes.or(defaults.kubernetes),
            require_sandbox: queue.require_sandbox.or(defaults.require_sandbox),
        };
        settings.require_complete(host)?;
        Ok(settings)
    }

    /// Checks that the settings have what the engine needs.
    fn require_complete(&self, host: &Host) -> Result<()> {
        let reject = |message: &str, hint: &str| {
            Err(Error::new(ErrorKind::Usage, message.to_owned()).with_hint(hint))
        };
        match (self.engine, &self.kubernetes) {
            (BatchEngine::Commands, _) if self.commands.is_none() => reject(
                "`--on commands` needs the commands of the queue",
                "name their file: `--queue-commands FILE`",
            ),
            (BatchEngine::Kubernetes, None) => reject(
                "`--on kubernetes` needs the image and the storage of the pods",
                "name a file with them: `--kubernetes FILE`; docs/batch.md has an example",
            ),
            (BatchEngine::Kubernetes, Some(_)) if self.parallel > WORKERS_MAX => reject(
                &format!("`--parallel` can be at most {WORKERS_MAX} with `--on kubernetes`"),
                "each pod runs cells until none is left: fewer pods finish them too",
            ),
            (BatchEngine::Kubernetes, Some(settings)) => {
                require_storage(settings, host)?;
                pod_executable(settings, host).map(drop)
            }
            (BatchEngine::Local | BatchEngine::Slurm | BatchEngine::Commands, _) => Ok(()),
        }
    }

    /// Checks that jobs have the project of `task`, as far as that can be known.
    pub(super) fn require_project(&self, task: &BatchTask, host: &Host) -> Result<()> {
        match self.pod_settings() {
            Some(settings) => require_project(settings, task, host),
            None => Ok(()),
        }
    }

    /// Returns `host` as it is for jobs: those of a queue get few variables of the user's shell.
    pub(super) fn host_of_jobs(&self, host: &Host) -> Host {
        if let Some(settings) = self.pod_settings() {
            return host_of_pods(settings, host);
        }
        let mut job_host = host.clone();
        if self.engine != BatchEngine::Local {
            job_host.env = job_variables(&host.env);
        }
        job_host
    }

    /// Returns where jobs find the keys that the user's shell has.
    pub(super) fn key_hint(&self) -> &'static str {
        match self.engine {
            BatchEngine::Local | BatchEngine::Slurm | BatchEngine::Commands => {
                "jobs do not have the keys of this shell: put them into `~/.massgen/.env`"
            }
            BatchEngine::Kubernetes => {
                "pods do not have the keys of this shell: name a secret of the cluster in the file \
                 of `--kubernetes`: `secrets: [{name: NAME, env: [VARIABLE]}]`"
            }
        }
    }

    /// Returns the settings of the pods, if pods run the cells.
    fn pod_settings(&self) -> Option<&KubernetesSettings> {
        let settings = self.kubernetes.as_ref();
        settings.filter(|_| self.engine == BatchEngine::Kubernetes)
    }

    /// Returns the settings with which `batch` was started last, if it was.
    ///
    /// # Errors
    /// They are damaged.
    pub(super) fn read_saved(batch: &BatchDir) -> Result<Option<Self>> {
        let settings = batch.settings().map(|text| serde_json::from_slice(&text));
        settings.transpose().map_err(|error| {
            let message = "the settings in `scheduler.json` of the batch cannot be read";
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("name what starts its cells: massgen batch resume --on …")
        })
    }

    /// Saves the settings for the next start of `batch`.
    pub(super) fn save(&self, batch: &BatchDir) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::bug("the settings have no JSON form").with_source(error))?;
        batch.keep_settings(&text)
    }

    /// Returns the queue of the jobs; `None` if they are processes of this machine.
    pub(super) fn queue(&self, batch: &BatchDir, host: &Host) -> Result<Option<Box<dyn JobQueue>>> {
        let engine_name = match self.engine {
            BatchEngine::Local => return Ok(None),
            BatchEngine::Slurm => SLURM,
            BatchEngine::Commands => COMMANDS,
            BatchEngine::Kubernetes => KUBERNETES,
        };
        let level_option = self
            .require_sandbox
            .map(|level| ["--require-sandbox".to_owned(), level.to_string()]);
        let mut arguments: Vec<String> = level_option.into_iter().flatten().collect();
        if let Some(settings) = self.pod_settings() {
            // Kubernetes replaces pods that fail.
            arguments.push("--fail-only-on-signals".to_owned());
            let script = WorkerScript {
                executable: pod_executable(settings, host)?,
                dir: host.cwd.clone(),
                batch: batch.name(),
                engine: engine_name,
                arguments,
                variables: pod_variables(settings, host),
            };
            let site_commands =
                SiteCommands::of_client(host.cwd.clone(), &host.env, KUBECTL_MISSING_HINT);
            let queue = KubernetesQueue::new(site_commands, settings.clone(), script);
            return Ok(Some(Box::new(queue)));
        }
        let mut variables = job_variables(&host.env);
        if self.login.is_some() {
            // The user's shell on the other host has its own variables.
            variables.retain(|name, _| name == STATE_DIR_VARIABLE);
        }
        let script = WorkerScript {
            executable: real_path(&host.executable)?,
            dir: host.cwd.clone(),
            batch: batch.name(),
            engine: engine_name,
            arguments,
            variables,
        };
        let site_commands = SiteCommands::new(host.cwd.clone(), &host.env, self.login.clone());
        let jobs_dir = batch.jobs_dir()?;
        let queue: Box<dyn JobQueue> = match &self.commands {
            Some(commands) if self.engine == BatchEngine::Commands => {
                let commands = commands.clone();
                Box::new(CommandQueue::new(site_commands, commands, script, jobs_dir))
            }
            Some(_) | None => {
                let settings = self.slurm.clone();
                Box::new(SlurmQueue::new(site_commands, settings, script, jobs_dir))
            }
        };
        Ok(Some(queue))
    }
}

/// Refuses flags that do not apply to the engine.
fn reject_foreign_flags(engine: BatchEngine, queue: &QueueArguments) -> Result<()> {
    let slurm_flags = [
        (queue.partition.is_some(), "--partition"),
        (queue.account.is_some(), "--account"),
        (queue.time.is_some(), "--time"),
        (!queue.slurm_option.is_empty(), "--slurm-option"),
    ];
    let command_flags = [(queue.queue_commands.is_some(), "--queue-commands")];
    let kubernetes_flags = [(queue.kubernetes.is_some(), "--kubernetes")];
    let login_flags = [(queue.login.is_some(), "--login")];
    let queue_flags = [(queue.require_sandbox.is_some(), "--require-sandbox")];
    let (foreign_flags, suggestion): (Vec<_>, &str) = match engine {
        BatchEngine::Local => (
            slurm_flags
                .into_iter()
                .chain(command_flags)
                .chain(kubernetes_flags)
                .chain(login_flags)
                .chain(queue_flags)
                .collect(),
            "add `--on slurm`, `--on kubernetes` or `--on commands`",
        ),
        BatchEngine::Slurm => (
            command_flags.into_iter().chain(kubernetes_flags).collect(),
            "add `--on commands` or `--on kubernetes` instead",
        ),
        BatchEngine::Commands => (
            slurm_flags.into_iter().chain(kubernetes_flags).collect(),
            "write it into the commands of the queue",
        ),
        BatchEngine::Kubernetes => (
            slurm_flags
                .into_iter()
                .chain(command_flags)
                .chain(login_flags)
                .collect(),
            "write what pods need into the file of `--kubernetes`",
        ),
    };
    match foreign_flags.into_iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, flag)) => {
            let message = format!("`{flag}` does not apply to the chosen scheduler");
            Err(Error::new(ErrorKind::Usage, message).with_hint(suggestion))
        }
    }
}

/// Reads the file `name` of `--queue-commands`.
fn read_commands(name: &str, host: &Host) -> Result<QueueCommands> {
    let bytes = read_capped(&host.cwd.join(name), QUEUE_COMMANDS_BYTES_MAX)?;
    let file_error = |reason: &str| Error::new(ErrorKind::Usage, format!("`{name}` {reason}"));
    let bytes = bytes.ok_or_else(|| file_error("does not exist"))?;
    let text = String::from_utf8(bytes).map_err(|_| file_error("is not UTF-8"))?;
    QueueCommands::parse(&text, name)
}
