//! How the cells of a batch are started: the flags of this command, and for what they leave out,
//! the flags of the last start of the batch.

use serde::{Deserialize, Serialize};

use crate::batch::queue_commands::{QUEUE_COMMANDS_BYTES_MAX, QueueCommands};
use crate::batch::worker_script::{WorkerScript, job_variables};
use crate::cli::batch_arguments::{BatchEngine, BatchStartSettingsArguments, QueueArguments};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::batch_scheduler::JobQueue;
use crate::world::batch_scheduler::command_queue::{COMMANDS, CommandQueue};
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
    /// What starts them.
    pub(super) on: BatchEngine,
    /// The number of jobs at the same time.
    pub(super) parallel: usize,
    /// The number of cells for each job.
    pub(super) cells_per_job: usize,
    /// The login node on which the commands of the queue run, if that is not this host.
    login: Option<String>,
    slurm: SlurmSettings,
    /// The commands of another queue, as they were when the user named their file.
    commands: Option<QueueCommands>,
    /// The weakest sandbox that nodes may have.
    require_sandbox: Option<SandboxLevel>,
}

impl BatchStartSettings {
    /// Creates the settings from `arguments`; what they leave out is taken from the settings of `batch`.
    pub(super) fn new(
        arguments: &BatchStartSettingsArguments,
        batch: Option<&BatchDir>,
        host: &Host,
    ) -> Result<Self> {
        let kept = match batch.map(Self::kept).transpose() {
            // The user names the engine anew.
            Err(_) if arguments.on.is_some() => None,
            kept => kept?.flatten(),
        };
        let kept = kept.filter(|kept| arguments.on.is_none_or(|on| on == kept.on));
        let on = kept.as_ref().map_or(BatchEngine::Local, |kept| kept.on);
        let on = arguments.on.unwrap_or(on);
        let kept = kept.unwrap_or_else(|| Self {
            on,
            parallel: PARALLEL_DEFAULT,
            cells_per_job: 1,
            login: None,
            slurm: SlurmSettings::default(),
            commands: None,
            require_sandbox: None,
        });
        let queue = &arguments.queue;
        reject_foreign_flags(on, queue)?;
        let named = queue.queue_commands.as_deref();
        let commands = named.map(|name| read_commands(name, host)).transpose()?;
        let settings = Self {
            on,
            parallel: arguments.parallel.unwrap_or(kept.parallel),
            cells_per_job: arguments.cells_per_job.unwrap_or(kept.cells_per_job),
            login: queue.login.clone().or(kept.login),
            slurm: SlurmSettings {
                partition: queue.partition.clone().or(kept.slurm.partition),
                account: queue.account.clone().or(kept.slurm.account),
                time: queue.time.clone().or(kept.slurm.time),
                options: if queue.slurm_option.is_empty() {
                    kept.slurm.options
                } else {
                    queue.slurm_option.clone()
                },
            },
            commands: commands.or(kept.commands),
            require_sandbox: queue.require_sandbox.or(kept.require_sandbox),
        };
        if settings.on == BatchEngine::Commands && settings.commands.is_none() {
            let message = "`--on commands` needs the commands of the queue";
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("name their file: `--queue-commands FILE`"));
        }
        Ok(settings)
    }

    /// Returns the settings with which `batch` was started last, if it was.
    ///
    /// # Errors
    /// They are damaged.
    pub(super) fn kept(batch: &BatchDir) -> Result<Option<Self>> {
        let kept = batch.settings().map(|text| serde_json::from_slice(&text));
        kept.transpose().map_err(|error| {
            let message = "the settings in `scheduler.json` of the batch cannot be read";
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("name what starts its cells: massgen batch resume --on …")
        })
    }

    /// Keeps the settings for the next start of `batch`.
    pub(super) fn keep(&self, batch: &BatchDir) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::bug("the settings have no JSON form").with_source(error))?;
        batch.keep_settings(&text)
    }

    /// Returns the queue of the jobs; `None` if they are processes of this machine.
    pub(super) fn queue(&self, batch: &BatchDir, host: &Host) -> Result<Option<Box<dyn JobQueue>>> {
        let engine = match self.on {
            BatchEngine::Local => return Ok(None),
            BatchEngine::Slurm => SLURM,
            BatchEngine::Commands => COMMANDS,
        };
        let required = self.require_sandbox.map(|level| level.to_string());
        let required = required.map(|level| ["--require-sandbox".to_owned(), level]);
        let mut variables = job_variables(&host.env);
        if self.login.is_some() {
            // The user's shell on the other host has its own variables.
            variables.retain(|name, _| name == STATE_DIR_VARIABLE);
        }
        let script = WorkerScript {
            executable: real_path(&host.executable)?,
            dir: host.cwd.clone(),
            batch: batch.name(),
            engine,
            arguments: required.into_iter().flatten().collect(),
            variables,
        };
        let site = SiteCommands::new(host.cwd.clone(), &host.env, self.login.clone());
        let jobs = batch.jobs_dir()?;
        let queue: Box<dyn JobQueue> = match &self.commands {
            Some(commands) if self.on == BatchEngine::Commands => {
                Box::new(CommandQueue::new(site, commands.clone(), script, jobs))
            }
            Some(_) | None => Box::new(SlurmQueue::new(site, self.slurm.clone(), script, jobs)),
        };
        Ok(Some(queue))
    }
}

/// Refuses flags that do not apply to the engine.
fn reject_foreign_flags(on: BatchEngine, queue: &QueueArguments) -> Result<()> {
    let of_slurm = [
        (queue.partition.is_some(), "--partition"),
        (queue.account.is_some(), "--account"),
        (queue.time.is_some(), "--time"),
        (!queue.slurm_option.is_empty(), "--slurm-option"),
    ];
    let of_commands = [(queue.queue_commands.is_some(), "--queue-commands")];
    let of_queues = [
        (queue.login.is_some(), "--login"),
        (queue.require_sandbox.is_some(), "--require-sandbox"),
    ];
    let (foreign, way_out): (Vec<_>, &str) = match on {
        BatchEngine::Local => (
            of_slurm
                .into_iter()
                .chain(of_commands)
                .chain(of_queues)
                .collect(),
            "add `--on slurm` or `--on commands`",
        ),
        BatchEngine::Slurm => (of_commands.into(), "add `--on commands` instead"),
        BatchEngine::Commands => (of_slurm.into(), "write it into the commands of the queue"),
    };
    match foreign.into_iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, flag)) => {
            let message = format!("`{flag}` does not apply to the chosen scheduler");
            Err(Error::new(ErrorKind::Usage, message).with_hint(way_out))
        }
    }
}

fn read_commands(name: &str, host: &Host) -> Result<QueueCommands> {
    let bytes = read_capped(&host.cwd.join(name), QUEUE_COMMANDS_BYTES_MAX)?;
    let unreadable = |why: &str| Error::new(ErrorKind::Usage, format!("`{name}` {why}"));
    let bytes = bytes.ok_or_else(|| unreadable("does not exist"))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("is not UTF-8"))?;
    QueueCommands::parse(&text, name)
}
