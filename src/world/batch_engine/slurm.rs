//! Jobs of Slurm, by the site's own commands: one array for each submission, whose jobs Slurm
//! requeues when their node fails. How jobs ended is never asked: sites forget it after minutes, and
//! accounting may be off.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::batch::job_script::JobScript;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::single_line;
use crate::world::batch_engine::{ArrayEngine, JobCounts};
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};
use crate::world::sys::state_files::{dir, file};

/// The value of `--on` for this queue.
pub const SLURM: &str = "slurm";
/// The key of the configuration that limits the size of arrays.
const ARRAY_MAX_KEY: &str = "MaxArraySize";
/// Slurm's default for the size of arrays, used if the site's configuration does not name one.
const ARRAY_MAX_DEFAULT: u32 = 1001;
/// The signal by which runs are parked before the time limit, and how many seconds before.
const SIGNAL_OPTION: &str = "--signal=B:TERM@90";
/// The variables of the shell that a job gets.
const EXPORT_OPTION: &str = "--export=HOME,PATH,USER,LOGNAME,LANG";
/// The index of a job, as the shell of the job knows it.
const INDEX: &str = "\"$SLURM_ARRAY_TASK_ID\"";
/// The line of the shell by which a job requeues itself. One job of each array has the id of the whole
/// array, so `$SLURM_JOB_ID` would requeue all of them.
const REQUEUE: &str = "scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"";
/// Short names of the states of jobs that are not running: pending, being configured, requeued,
/// held or revoked.
const WAITING_STATES: &[&str] = &["PD", "CF", "RD", "RF", "RH", "RQ", "RV", "SE"];
/// The variables that Slurm's commands need, in addition to those of every login. None is a secret.
const VARIABLES: &[&str] = &["TZ", "TMPDIR", "SLURM_CONF", "SLURM_CLUSTERS"];
/// Timeout of a command.
const COMMAND_TIME_MAX: Duration = Duration::from_mins(1);
/// Maximum size of the output that is read, in bytes: enough for a line about each of 100,000 jobs.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum length of the reason why a command failed, in characters.
const ERROR_CHARS_MAX: usize = 500;
/// How much of the output of a job is shown, in bytes.
const JOB_OUTPUT_BYTES_MAX: u64 = 2000;
/// The shortest time between two polls. It is doubled up to [`POLL_MAX`] while nothing changes.
const POLL_MIN: Duration = Duration::from_millis(500);
/// The longest time between two polls.
const POLL_MAX: Duration = Duration::from_secs(8);

/// Submits arrays to Slurm.
#[derive(Debug)]
pub struct SlurmEngine {
    env: ProcessEnvironment,
    /// Further options of `sbatch`.
    options: Vec<String>,
    script: JobScript,
    /// The directory of what the jobs print.
    output_dir: AbsPath,
    /// The number of jobs at the same time.
    parallel: usize,
    last_counts: JobCounts,
    poll_interval: Duration,
}

impl SlurmEngine {
    /// Creates the engine of the jobs with this script and further `options` of `sbatch`. Slurm's
    /// commands get few variables of `env`.
    pub fn new(
        env: &BTreeMap<String, String>,
        options: Vec<String>,
        script: JobScript,
        output_dir: AbsPath,
        parallel: usize,
    ) -> Self {
        Self {
            env: ProcessEnvironment::inherit_for_login(env, VARIABLES),
            options,
            script,
            output_dir,
            parallel,
            last_counts: JobCounts::default(),
            poll_interval: POLL_MIN,
        }
    }

    /// Returns the arguments of `sbatch` for an array of `indexes` jobs.
    fn arguments(&self, indexes: u32) -> Vec<String> {
        // In file names, `%` begins a field.
        let output_dir = self.output_dir.to_string().replace('%', "%%");
        let last_index = indexes.saturating_sub(1);
        let mut arguments = vec![
            "--parsable".to_owned(),
            format!("--job-name={}", self.script.batch),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            SIGNAL_OPTION.to_owned(),
            EXPORT_OPTION.to_owned(),
            format!("--chdir={}", self.script.dir),
            format!("--array=0-{last_index}%{}", self.parallel),
            format!("--output={output_dir}/%A_%a.txt"),
        ];
        arguments.extend(self.options.iter().cloned());
        arguments
    }

    /// Runs a command of Slurm with `input` and returns its output.
    async fn run(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<String> {
        let path = process::find(program, self.env.program_path()).ok_or_else(|| {
            Error::new(ErrorKind::Environment, format!("cannot find `{program}`"))
                .with_hint("run this where jobs are submitted: `ssh HOST`")
        })?;
        let exit = process::run(ProgramInvocation {
            path: &path,
            arguments,
            env: &self.env,
            dir: &self.script.dir,
            input,
            output_bytes_max: OUTPUT_BYTES_MAX,
            time_max: COMMAND_TIME_MAX,
        });
        let reason = match exit.await {
            Ok(ProgramExit::Exited {
                code: Some(0),
                output,
                ..
            }) => return Ok(String::from_utf8_lossy(&output).into_owned()),
            Ok(ProgramExit::Exited { code, errors, .. }) if errors.trim().is_empty() => code
                .map_or_else(
                    || "a signal ended it".to_owned(),
                    |code| format!("exit status {code}"),
                ),
            Ok(ProgramExit::Exited { errors, .. }) => single_line(errors.trim(), ERROR_CHARS_MAX),
            Ok(ProgramExit::Killed) => "it took longer than a minute".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("`{program}` failed: {reason}");
        Err(Error::new(ErrorKind::Environment, message))
    }

    fn name_filter(&self) -> String {
        format!("--name={}", self.script.batch)
    }
}

#[async_trait]
impl ArrayEngine for SlurmEngine {
    fn name(&self) -> &'static str {
        SLURM
    }

    fn outlives_control(&self) -> bool {
        true
    }

    async fn indexes_max(&mut self) -> Result<u32> {
        let settings_text = self.run("scontrol", &["show", "config"], b"").await;
        let settings_text = settings_text
            .map_err(|error| error.with_hint("see whether `sinfo` shows the nodes of the site"))?;
        Ok(parse_array_max(&settings_text).unwrap_or(ARRAY_MAX_DEFAULT))
    }

    async fn submit(&mut self, submission: u32, indexes: u32) -> Result<()> {
        let script = self.script.text(submission, INDEX, REQUEUE);
        let arguments = self.arguments(indexes);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let result = self.run("sbatch", &arguments, script.as_bytes()).await;
        let hint = "name options of the site, such as `--slurm-option=--partition=NAME`";
        result.map(drop).map_err(|error| error.with_hint(hint))
    }

    async fn poll(&mut self) -> Result<JobCounts> {
        let arguments = [
            "--noheader",
            "--array",
            "--format=%t",
            "--me",
            &self.name_filter(),
        ];
        let output = self.run("squeue", &arguments, b"").await?;
        let states = output.split_whitespace();
        let (waiting, running): (Vec<&str>, Vec<&str>) =
            states.partition(|state| WAITING_STATES.contains(state));
        let counts = JobCounts {
            running: running.len(),
            waiting: waiting.len(),
        };
        self.poll_interval = if counts == self.last_counts {
            self.poll_interval.saturating_mul(2).min(POLL_MAX)
        } else {
            POLL_MIN
        };
        self.last_counts = counts;
        Ok(counts)
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.poll_interval).await;
    }

    async fn cancel_waiting(&mut self) -> Result<()> {
        let arguments = ["--me", &self.name_filter(), "--state=PENDING"];
        self.run("scancel", &arguments, b"").await.map(drop)
    }

    /// Returns the end of the output of the last job that printed anything.
    fn failure_hint(&self) -> String {
        let mut names = dir::names_if_exists(&self.output_dir).unwrap_or_default();
        names.sort_unstable();
        let printed = names.iter().rev().find_map(|name| {
            let end = file::read_end(&self.output_dir.join(name), JOB_OUTPUT_BYTES_MAX).ok()?;
            let text = String::from_utf8_lossy(&end).trim().to_owned();
            (!text.is_empty()).then(|| format!("the last one printed: {text}"))
        });
        let default_hint =
            "its directory and the program `massgen` must have the same paths on all nodes";
        printed.unwrap_or_else(|| default_hint.to_owned())
    }
}

/// Returns the largest size of an array in the output of `scontrol show config`.
fn parse_array_max(settings_text: &str) -> Option<u32> {
    let line = settings_text
        .lines()
        .find(|line| line.starts_with(ARRAY_MAX_KEY))?;
    line.split_once('=')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_array_is_read() {
        let settings_text = "MailProg = /bin/mail\nMaxArraySize            = 1001\n";
        assert_eq!(parse_array_max(settings_text), Some(1001));
        assert_eq!(parse_array_max("MaxArraySize = many"), None);
    }
}
