//! Jobs of Slurm, by the site's own commands: arrays of workers, which Slurm requeues when their
//! node fails. How jobs ended is never asked: sites forget it after minutes, and accounting may be
//! off.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::batch::worker_script::WorkerScript;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::single_line;
use crate::world::batch_scheduler::site_command::SiteCommands;
use crate::world::batch_scheduler::{JobListing, JobQueue, QueueJob};

/// The value of `--on` for this queue.
pub const SLURM: &str = "slurm";
/// The key of the configuration that limits the size of arrays.
const ARRAY_MAX_KEY: &str = "MaxArraySize";
/// Slurm's default for the size of arrays, used if the site's configuration does not name one.
const ARRAY_MAX_DEFAULT: usize = 1001;
/// The signal by which runs are parked before the time limit, and how many seconds before.
const SIGNAL_OPTION: &str = "--signal=B:TERM@90";
/// The variables of the shell that a job gets.
const EXPORT_OPTION: &str = "--export=HOME,PATH,USER,LOGNAME,LANG";
/// The name of a job in claims, as the shell of the job knows it.
const JOB_NAME: &str = "\"${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}_${SLURM_ARRAY_TASK_ID:-0}\"";
/// The name of the node, as the shell of the job knows it.
const NODE_NAME: &str = "\"$SLURMD_NODENAME\"";
/// Short names of the states of jobs that are not running: pending, being configured, requeued,
/// held or revoked.
const WAITING_STATES: &[&str] = &["PD", "CF", "RD", "RF", "RH", "RQ", "RV", "SE"];

/// What `squeue` prints of a job: its array and the index there, its state, how often it was
/// started again, and why it waits.
const FIELDS: &str =
    "--Format=ArrayJobID:30,ArrayTaskID:30,StateCompact:10,RestartCnt:10,Reason:40";
/// The index of a job that is in no array.
const NO_ARRAY: &str = "N/A";
/// Why a job waits that Slurm has requeued: it begins again after two minutes. Other jobs take its
/// cells meanwhile.
const REQUEUE_DELAY_REASON: &str = "BeginTime";

/// The most characters of an unexpected line that are shown.
const SHOWN_CHARS_MAX: usize = 200;

/// What the user chose for the jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlurmSettings {
    /// The partition.
    pub partition: Option<String>,
    /// The account.
    pub account: Option<String>,
    /// The time limit of a job, in Slurm's notation.
    pub time: Option<String>,
    /// Further options of `sbatch`.
    pub options: Vec<String>,
}

/// A job as `squeue` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListedSlurmJob {
    job: QueueJob,
    /// Whether Slurm has requeued it and does not start it soon.
    is_held_back: bool,
}

/// Submits workers to Slurm.
#[derive(Debug)]
pub struct SlurmQueue {
    site: SiteCommands,
    settings: SlurmSettings,
    script: WorkerScript,
    /// The directory of what the jobs print.
    output_dir: AbsPath,
    /// The largest size of an array; 0 if the site allows none, so that each job is submitted
    /// alone.
    array_max: usize,
}

impl SlurmQueue {
    /// Creates the queue of the jobs with this script.
    pub fn new(
        site: SiteCommands,
        settings: SlurmSettings,
        script: WorkerScript,
        output_dir: AbsPath,
    ) -> Self {
        Self {
            site,
            settings,
            script,
            output_dir,
            array_max: ARRAY_MAX_DEFAULT,
        }
    }

    /// Returns the arguments of `sbatch` for an array of `jobs` jobs.
    fn arguments(&self, jobs: usize, excluded_nodes: &[String]) -> Vec<String> {
        let settings = &self.settings;
        // In file names, `%` begins a field.
        let output_dir = self.output_dir.to_string().replace('%', "%%");
        let mut arguments = vec![
            "--parsable".to_owned(),
            format!("--job-name={}", self.script.batch),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            SIGNAL_OPTION.to_owned(),
            EXPORT_OPTION.to_owned(),
            format!("--chdir={}", self.script.dir),
        ];
        if self.array_max > 0 {
            arguments.push(format!("--array=0-{}", jobs.saturating_sub(1)));
            arguments.push(format!("--output={output_dir}/%A_%a.txt"));
        } else {
            arguments.push(format!("--output={output_dir}/%j_0.txt"));
        }
        let named_options = [
            ("partition", &settings.partition),
            ("account", &settings.account),
            ("time", &settings.time),
        ];
        for (name, value) in named_options {
            arguments.extend(value.iter().map(|value| format!("--{name}={value}")));
        }
        if !excluded_nodes.is_empty() {
            arguments.push(format!("--exclude={}", excluded_nodes.join(",")));
        }
        arguments.extend(settings.options.iter().cloned());
        arguments
    }

    fn name_filter(&self) -> [String; 2] {
        ["--me".to_owned(), format!("--name={}", self.script.batch)]
    }
}

#[async_trait]
impl JobQueue for SlurmQueue {
    fn name(&self) -> &'static str {
        SLURM
    }

    async fn preflight(&mut self) -> Result<()> {
        let arguments = ["show", "config"].map(str::to_owned);
        let output = self.site.run("scontrol", &arguments, b"").await;
        let settings_text = output
            .map_err(|error| error.with_hint("see whether `sinfo` shows the nodes of the site"))?;
        self.array_max = parse_array_max(&settings_text).unwrap_or(ARRAY_MAX_DEFAULT);
        Ok(())
    }

    async fn submit(&mut self, jobs: usize, excluded_nodes: &[String]) -> Result<()> {
        let script = self.script.text(JOB_NAME, NODE_NAME);
        let mut jobs_left = jobs;
        while jobs_left > 0 {
            let count = jobs_left.min(self.array_max.max(1));
            let arguments = self.arguments(count, excluded_nodes);
            let submit_result = self.site.run("sbatch", &arguments, script.as_bytes()).await;
            submit_result.map_err(|error| {
                error.with_hint(
                    "options of the site: `--partition`, `--account`, `--time`, `--slurm-option=…`",
                )
            })?;
            jobs_left = jobs_left.saturating_sub(count);
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<JobListing> {
        let arguments: Vec<String> = ["--noheader", "--array", FIELDS]
            .map(str::to_owned)
            .into_iter()
            .chain(self.name_filter())
            .collect();
        let output = self.site.run("squeue", &arguments, b"").await?;
        let lines = output.lines().filter(|line| !line.trim().is_empty());
        let parsed_lines = lines.map(|line| {
            parse_job(line).ok_or_else(|| {
                let line = single_line(line, SHOWN_CHARS_MAX);
                let message = format!("`squeue` printed an unexpected line: {line}");
                Error::new(ErrorKind::Environment, message)
            })
        });
        let listed_jobs = parsed_lines.collect::<Result<Vec<ListedSlurmJob>>>()?;
        // A job that is held back is left out, so that others take its cells meanwhile.
        let active_jobs = listed_jobs
            .into_iter()
            .filter(|listed| !listed.is_held_back);
        let jobs: Vec<QueueJob> = active_jobs.map(|listed| listed.job).collect();
        Ok(jobs.into())
    }

    async fn cancel_waiting(&mut self) -> Result<()> {
        let mut arguments = self.name_filter().to_vec();
        arguments.push("--state=PENDING".to_owned());
        self.site.run("scancel", &arguments, b"").await.map(drop)
    }
}

/// Returns the largest size of an array in the output of `scontrol show config`.
fn parse_array_max(settings_text: &str) -> Option<usize> {
    let line = settings_text
        .lines()
        .find(|line| line.starts_with(ARRAY_MAX_KEY))?;
    line.split_once('=')?.1.trim().parse().ok()
}

/// Parses a line of `squeue` in the form of [`FIELDS`]; a job without an array has the name `12_0`.
fn parse_job(line: &str) -> Option<ListedSlurmJob> {
    let mut words = line.split_whitespace();
    let (id, task) = (words.next()?, words.next()?);
    let (state, restarts) = (words.next()?, words.next()?);
    let task = if task == NO_ARRAY { "0" } else { task };
    let is_held_back =
        words.next() == Some(REQUEUE_DELAY_REASON) && restarts.parse::<u32>().ok()? > 0;
    Some(ListedSlurmJob {
        job: QueueJob {
            name: format!("{id}_{task}"),
            is_waiting: WAITING_STATES.contains(&state),
        },
        is_held_back,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_slurm_commands_is_parsed() {
        let settings_text = "MailProg = /bin/mail\nMaxArraySize            = 1001\n";
        assert_eq!(parse_array_max(settings_text), Some(1001));
        assert_eq!(parse_array_max("MaxArraySize = many"), None);
        for (line, name, is_waiting, is_held_back) in [
            ("12  3  R  0  None", "12_3", false, false),
            ("12  4  PD  0  BeginTime", "12_4", true, false),
            ("12  4  PD  1  BeginTime", "12_4", true, true),
            ("13  N/A  CG  0  ReqNodeNotAvail, n1", "13_0", false, false),
            ("13  0  RQ  2", "13_0", true, false),
        ] {
            let name = name.to_owned();
            let job = QueueJob { name, is_waiting };
            let expected = ListedSlurmJob { job, is_held_back };
            assert_eq!(parse_job(line), Some(expected), "{line}");
        }
        assert_eq!(parse_job("slurm_load_jobs error: no"), None);
    }
}
