//! Jobs of a queue that massgen does not know, by the user's commands. The scripts of the jobs and
//! the ids that the queue gave them are files of the batch.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::batch::queue_commands::{QueueCommands, parse_job_list, parse_submitted_id};
use crate::batch::worker_script::WorkerScript;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::shell_words::quote_word;
use crate::text::single_line;
use crate::world::batch_scheduler::site_command::SiteCommands;
use crate::world::batch_scheduler::{JobListing, JobQueue, QueueJob};
use crate::world::sys::state_files::create_once::create_once;
use crate::world::sys::state_files::dir;
use crate::world::sys::state_files::file;

/// The value of `--on` for this queue.
pub const COMMANDS: &str = "commands";
/// The name of the node, as the shell of the job knows it.
const NODE_NAME: &str = "\"$(uname -n)\"";
/// The suffix of the scripts of jobs.
const SCRIPT_SUFFIX: &str = ".sh";
/// The suffix of the files with the ids of jobs.
const ID_SUFFIX: &str = ".id";
/// How long a job is missing from the output of `list` before it counts as lost: a queue that is
/// restarted may list no jobs for a moment.
const LOSS_DELAY: Duration = Duration::from_secs(30);
/// The most characters of unexpected output that are shown.
const SHOWN_CHARS_MAX: usize = 200;
/// Number of seconds that a job waits for the file with its id.
const ID_WAIT_SECONDS: u32 = 120;
/// Maximum size of the file with the id of a job, in bytes.
const ID_FILE_BYTES_MAX: u64 = 4096;

/// Submits workers by the user's commands.
#[derive(Debug)]
pub struct CommandQueue {
    /// Where and how the commands run.
    site: SiteCommands,
    commands: QueueCommands,
    script: WorkerScript,
    /// The directory of the scripts and of what the jobs print.
    dir: AbsPath,
}

impl CommandQueue {
    /// Creates the queue of the jobs with this script.
    pub fn new(
        site: SiteCommands,
        commands: QueueCommands,
        script: WorkerScript,
        dir: AbsPath,
    ) -> Self {
        Self {
            site,
            commands,
            script,
            dir,
        }
    }

    async fn run_shell(&self, line: &str) -> Result<String> {
        let words = ["-c", line].map(str::to_owned);
        let output = self.site.run("sh", &words, b"").await;
        output.map_err(|error| error.with_hint(format!("the command was: {line}")))
    }

    /// Creates the script of a new job; returns its name and its path.
    fn create_script(&self) -> Result<CreatedScript> {
        let names = dir::names_if_exists(&self.dir)?;
        let numbers = names.iter().filter_map(|name| {
            let number = name.strip_suffix(SCRIPT_SUFFIX)?;
            number.parse::<u32>().ok()
        });
        let mut number = numbers.max().unwrap_or(0);
        loop {
            number = number.saturating_add(1);
            let name = number.to_string();
            let output = quote_word(&self.output_file(&name).to_string());
            let text = self.script.text(&name, NODE_NAME);
            // Before its id is recorded, the job would not be known as one of the batch.
            let id = quote_word(&self.dir.join(format!("{name}{ID_SUFFIX}")).to_string());
            let preamble = format!(
                "\nexec >> {output} 2>&1\nn=0\nuntil [ -s {id} ]; do n=$((n+1)); \
                 [ $n -le {ID_WAIT_SECONDS} ] || exit 3; sleep 1; done\n"
            );
            // After the first line, which names the shell.
            let text = text.replacen('\n', &preamble, 1);
            let path = self.dir.join(format!("{name}{SCRIPT_SUFFIX}"));
            // If another process has created it meanwhile, the next number is tried.
            if create_once(&path, text.as_bytes())?.is_some() {
                return Ok(CreatedScript { name, path });
            }
        }
    }

    /// Returns the file of what a job prints. It exists as soon as the job begins.
    fn output_file(&self, name: &str) -> AbsPath {
        self.dir.join(format!("{name}.txt"))
    }

    /// Returns the names of the jobs by their ids. A job whose id cannot be read is left out.
    fn names_by_id(&self) -> Result<BTreeMap<String, String>> {
        let mut names = BTreeMap::new();
        for file_name in dir::names_if_exists(&self.dir)? {
            let Some(name) = file_name.strip_suffix(ID_SUFFIX) else {
                continue;
            };
            let path = self.dir.join(&file_name);
            let bytes = file::read_regular_capped(&path, ID_FILE_BYTES_MAX)
                .ok()
                .flatten();
            let id = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            let Some(id) = id else {
                continue;
            };
            // A queue that was restarted may use an id again: the newest job has it.
            let number = |name: &str| name.parse::<u32>().unwrap_or(0);
            let is_newest = |known: &String| number(known) < number(name);
            if names.get(&id).is_none_or(is_newest) {
                names.insert(id, name.to_owned());
            }
        }
        Ok(names)
    }
}

/// The script of a new job.
#[derive(Debug)]
struct CreatedScript {
    name: String,
    path: AbsPath,
}

#[async_trait]
impl JobQueue for CommandQueue {
    fn name(&self) -> &'static str {
        COMMANDS
    }

    fn loss_delay(&self) -> Duration {
        LOSS_DELAY
    }

    async fn preflight(&mut self) -> Result<()> {
        let line = self.commands.list_line(&self.script.batch);
        self.run_shell(&line).await.map(drop)
    }

    async fn submit(&mut self, jobs: usize, _excluded_nodes: &[String]) -> Result<()> {
        for _ in 0..jobs {
            let script = self.create_script()?;
            let path = script.path.to_string();
            let line = self.commands.submit_line(&path, &self.script.batch);
            let output = self.run_shell(&line).await?;
            let id = parse_submitted_id(&output).map_err(|reason| {
                let output = single_line(&output, SHOWN_CHARS_MAX);
                let message = format!("`submit` printed `{output}`: {reason}");
                Error::new(ErrorKind::Usage, message)
                    .with_hint("cut the id out of what it prints, for example with `sed`")
            })?;
            let path = self.dir.join(format!("{}{ID_SUFFIX}", script.name));
            file::replace(&path, id.as_bytes())?;
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<JobListing> {
        let line = self.commands.list_line(&self.script.batch);
        let listed_jobs = parse_job_list(&self.run_shell(&line).await?);
        let names = self.names_by_id()?;
        let jobs = listed_jobs.into_iter().filter_map(|job| {
            Some(QueueJob {
                name: names.get(&job.id)?.clone(),
                is_waiting: job.is_waiting,
            })
        });
        Ok(jobs.collect::<Vec<QueueJob>>().into())
    }

    async fn cancel_waiting(&mut self) -> Result<()> {
        let line = self.commands.list_line(&self.script.batch);
        let listed_jobs = parse_job_list(&self.run_shell(&line).await?);
        let names = self.names_by_id()?;
        // A queue that was restarted may have given the id of a job that has begun to another one.
        for job in listed_jobs.iter().filter(|job| job.is_waiting) {
            let Some(name) = names.get(&job.id) else {
                continue;
            };
            if file::exists(&self.output_file(name))? {
                continue;
            }
            // A failure is no error: a job that has ended needs no cancel, and one that has begun
            // meanwhile acts on the files of the batch.
            let cancelled = self.run_shell(&self.commands.cancel_line(&job.id)).await;
            cancelled.map(drop).unwrap_or_default();
        }
        Ok(())
    }
}
