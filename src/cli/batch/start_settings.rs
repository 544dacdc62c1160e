//! How the cells of a batch are started: the flags of this command, and for what they leave out,
//! the flags of the last start of the batch.

use serde::{Deserialize, Serialize};

use crate::batch::job_script::{JobScript, job_variables};
use crate::cli::args::batch::{BatchEngine, BatchStartSettingsArguments};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::world::batch_engine::ArrayEngine;
use crate::world::batch_engine::local::LocalEngine;
use crate::world::batch_engine::slurm::SlurmEngine;
use crate::world::io::files::real_path;
use crate::world::store::batches::{BatchDir, BatchRecord};

/// Default number of jobs at the same time.
const PARALLEL_DEFAULT: usize = 4;
/// How often a process of this machine is started again, in addition to the repetitions of a cell.
const RESTARTS: u32 = 2;

/// How the cells of a batch are started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BatchStartSettings {
    /// Where they run.
    #[serde(rename = "on")]
    pub(super) engine: BatchEngine,
    /// The number of jobs at the same time.
    parallel: usize,
    /// The number of cells for each job.
    pub(super) cells_per_job: usize,
    /// Further options of `sbatch`.
    slurm_options: Vec<String>,
}

impl BatchStartSettings {
    /// Creates the settings from `arguments`; what they leave out is taken from the settings of
    /// `batch`.
    pub(super) fn new(
        arguments: &BatchStartSettingsArguments,
        batch: Option<&BatchDir>,
    ) -> Result<Self> {
        let saved = batch.and_then(Self::saved);
        let saved_engine = saved.as_ref().map(|saved| saved.engine);
        let engine = arguments.engine.or(saved_engine).unwrap_or_default();
        let saved = saved.filter(|saved| saved.engine == engine);
        let defaults = saved.unwrap_or_else(|| Self {
            engine,
            parallel: PARALLEL_DEFAULT,
            cells_per_job: 1,
            slurm_options: Vec::new(),
        });
        let given_options = &arguments.slurm_option;
        if !given_options.is_empty() && engine != BatchEngine::Slurm {
            let message = "`--slurm-option` applies only to jobs of Slurm";
            return Err(Error::new(ErrorKind::Usage, message).with_hint("add `--on slurm`"));
        }
        Ok(Self {
            engine,
            parallel: arguments.parallel.unwrap_or(defaults.parallel),
            cells_per_job: arguments.cells_per_job.unwrap_or(defaults.cells_per_job),
            slurm_options: if given_options.is_empty() {
                defaults.slurm_options
            } else {
                given_options.clone()
            },
        })
    }

    /// Returns the settings with which `batch` was started last, if they can be read.
    pub(super) fn saved(batch: &BatchDir) -> Option<Self> {
        batch.settings()
    }

    /// Returns `host` as it is for jobs: those of Slurm get few variables of the user's shell.
    pub(super) fn host_of_jobs(&self, host: &Host) -> Host {
        let mut job_host = host.clone();
        if self.engine == BatchEngine::Slurm {
            job_host.env = job_variables(&host.env);
        }
        job_host
    }

    /// Saves the settings for the next start of `batch`.
    pub(super) fn save(&self, batch: &BatchDir) -> Result<()> {
        batch.keep_settings(self)
    }

    /// Returns what runs the jobs; `None` if the user starts them.
    pub(super) fn engine(
        &self,
        batch: &BatchDir,
        record: &BatchRecord,
        host: &Host,
    ) -> Result<Option<Box<dyn ArrayEngine>>> {
        let executable = real_path(&host.executable)?;
        Ok(Some(match self.engine {
            BatchEngine::Array => return Ok(None),
            BatchEngine::Local => Box::new(LocalEngine::new(
                executable,
                host.cwd.clone(),
                &host.env,
                batch.name(),
                self.parallel,
                record.retries.saturating_add(RESTARTS),
            )),
            BatchEngine::Slurm => {
                let script = JobScript {
                    executable,
                    dir: host.cwd.clone(),
                    batch: batch.name(),
                    variables: job_variables(&host.env),
                };
                let (options, output_dir) = (self.slurm_options.clone(), batch.jobs_dir()?);
                Box::new(SlurmEngine::new(
                    &host.env,
                    options,
                    script,
                    output_dir,
                    self.parallel,
                ))
            }
        }))
    }
}
