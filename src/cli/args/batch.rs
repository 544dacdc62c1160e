//! Arguments of `massgen batch`.

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::batch::next_step::RETRIES_DEFAULT;
use crate::cli::args::{parse_dollars, parse_job_count};
use crate::cli::help::{BATCH_COMPARE_EXAMPLES, BATCH_RUN_EXAMPLES};
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::spending::money::Money;
use crate::world::store::naming::LAST;

/// Commands for batches of tasks.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum BatchCommand {
    /// Start a batch: each task of a file is run on its own copy of its project.
    #[command(after_help = BATCH_RUN_EXAMPLES)]
    Run(BatchRunArguments),
    /// Continue a batch that was stopped or that has no money left.
    Resume(BatchResumeArguments),
    /// Run cells again that have a result already.
    Retry(BatchRetryArguments),
    /// List the batches of this directory, newest first.
    List {
        /// Print one JSON object per batch, one per line. Default: a table.
        #[arg(long)]
        json: bool,
    },
    /// Show how many cells are in which state, and the money.
    Status(BatchNameArguments),
    /// Show the state until every cell has a result, or no process works on the batch.
    Watch(BatchWatchArguments),
    /// Show the results: a table by tag, or all of them as JSON.
    Results(BatchResultsArguments),
    /// Compare the results of two batches of the same tasks.
    #[command(after_help = BATCH_COMPARE_EXAMPLES)]
    Compare(BatchCompareArguments),
    /// Stop a batch: no cell begins, and the runs in progress are parked.
    Cancel(BatchNameArguments),
    /// Deliver the changes of a cell to its project.
    Apply(BatchApplyArguments),
    /// Export a batch with all its records to one archive.
    Export(BatchExportArguments),
    /// Run cells of a batch; schedulers start this.
    #[command(hide = true)]
    Cell(BatchCellArguments),
    /// Run cells of a batch until none is left; jobs of queues start this.
    #[command(hide = true)]
    Worker(BatchWorkerArguments),
}

/// Where the cells run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BatchEngine {
    /// As processes of this machine.
    Local,
    /// As jobs of Slurm.
    Slurm,
    /// As jobs of another queue, by the commands of `--queue-commands`.
    Commands,
    /// As Jobs of Kubernetes, by `kubectl`.
    Kubernetes,
}

// How the cells of a batch are started. What is not given is as at the last start of the batch.
#[derive(Args, Clone, Debug)]
pub(crate) struct BatchStartSettingsArguments {
    /// Where the cells run: `local`, as processes of this machine; `slurm`, as jobs of Slurm;
    /// `kubernetes`, as pods of Kubernetes; `commands`, as jobs of another queue. Default: `local`.
    #[arg(long = "on", value_name = "ENGINE")]
    pub engine: Option<BatchEngine>,
    /// Number of jobs at the same time. Default: 4.
    #[arg(long, value_name = "COUNT", value_parser = parse_job_count)]
    pub parallel: Option<usize>,
    /// Number of cells for each job. Jobs of a queue run cells until none is left, so this only
    /// limits how many jobs are submitted. Default: 1.
    #[arg(long, value_name = "COUNT", value_parser = parse_job_count)]
    pub cells_per_job: Option<usize>,
    /// The jobs of a queue.
    #[command(flatten)]
    pub queue: QueueArguments,
}

// How jobs of a queue are submitted.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueueArguments {
    /// Slurm: the partition. Default: that of the site.
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Slurm: the account. Default: that of the user.
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Slurm: the time limit of a job, such as `2:00:00`; 90 seconds before, its run is parked.
    /// Default: that of the partition.
    #[arg(long, value_name = "LIMIT")]
    pub time: Option<String>,
    /// Slurm: a further option of `sbatch`, such as `--slurm-option=--qos=high`; repeatable.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, value_parser = parse_option)]
    pub slurm_option: Vec<String>,
    /// Run the commands of the queue on this host over `ssh`, which must not ask for a password.
    /// The host needs the same directories. Default: they run here.
    #[arg(long, value_name = "HOST", value_parser = parse_login)]
    pub login: Option<String>,
    /// File with the commands `submit`, `list` and `cancel` for `--on commands`.
    #[arg(long, value_name = "FILE")]
    pub queue_commands: Option<String>,
    /// File with the image, the storage and the secrets of the pods for `--on kubernetes`.
    #[arg(long, value_name = "FILE")]
    pub kubernetes: Option<String>,
    /// The weakest sandbox that nodes may have: `overlay`, `namespaces` or `landlock`. A node with
    /// a weaker one runs no cell. Default: what the config says.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub require_sandbox: Option<SandboxLevel>,
}

/// Parses an option for `sbatch`.
fn parse_option(text: &str) -> Result<String, &'static str> {
    if text.starts_with('-') {
        Ok(text.to_owned())
    } else {
        Err("expected an option of `sbatch`, such as `--qos=high`")
    }
}

/// Parses the name of a host for `ssh`.
fn parse_login(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.starts_with('-') {
        Err("expected a host, such as `me@login.example.org`")
    } else {
        Ok(text.to_owned())
    }
}

/// Parses the level of a sandbox that enforces something.
fn parse_level(text: &str) -> Result<SandboxLevel, &'static str> {
    match text.parse() {
        Ok(SandboxLevelChoice::Only(
            level @ (SandboxLevel::Overlay | SandboxLevel::Namespaces | SandboxLevel::Landlock),
        )) => Ok(level),
        Ok(_) | Err(_) => Err("expected `overlay`, `namespaces` or `landlock`"),
    }
}

// Arguments of `massgen batch run`.
#[derive(Args, Debug)]
pub(crate) struct BatchRunArguments {
    /// The task file: one JSON object per line, with `id`, `text` and optionally `project`,
    /// `config`, `limits`, `checks` and `tags`.
    #[arg(value_name = "TASKS")]
    pub tasks: String,
    /// Config of the team: a YAML file, or `@examples/NAME` for a built-in one.
    #[arg(short, long, value_name = "FILE")]
    pub config: String,
    /// How the cells are started.
    #[command(flatten)]
    pub settings: BatchStartSettingsArguments,
    /// Let the texts of tasks open this file or directory, and what is in it, for reading by
    /// mentioning it (`@PATH`). Repeatable. Default: mentions open nothing.
    #[arg(long, value_name = "PATH")]
    pub allow_mentions: Vec<String>,
    /// Maximum cost of the whole batch in US dollars. When it is reached, the runs are parked and
    /// the exit status is 5. Default: no limit.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars,
        allow_negative_numbers = true)]
    pub max_cost_usd: Option<Money>,
    /// Number of repetitions of a cell after faults of its machine, such as a killed process.
    /// Default: 3.
    #[arg(long, value_name = "COUNT", default_value_t = RETRIES_DEFAULT, hide_default_value = true)]
    pub retries: u32,
    /// File with model prices. Default: `~/.massgen/models.yaml`, if it exists.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
}

// Arguments of `massgen batch resume`.
#[derive(Args, Debug)]
pub(crate) struct BatchResumeArguments {
    /// The batch: its name, a prefix of the name, or `last`. Default: the last one.
    #[arg(value_name = "BATCH", default_value = LAST, hide_default_value = true)]
    pub batch: String,
    /// How the cells are started.
    #[command(flatten)]
    pub settings: BatchStartSettingsArguments,
    /// Raise the maximum cost of the whole batch to this. Default: unchanged.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars,
        allow_negative_numbers = true)]
    pub max_cost_usd: Option<Money>,
}

/// Results that are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RetrySelection {
    /// Cells without a usable result.
    Failed,
    /// Cells with an incomplete answer.
    Partial,
    /// Cells whose checks failed, or that did not complete.
    Unsuccessful,
    /// All cells.
    All,
}

// Arguments of `massgen batch retry`.
#[derive(Args, Debug)]
pub(crate) struct BatchRetryArguments {
    /// The batch: its name, a prefix of the name, or `last`. Default: the last one.
    #[arg(value_name = "BATCH", default_value = LAST, hide_default_value = true)]
    pub batch: String,
    /// Cells to run again: `failed`, `partial`, `unsuccessful` or `all`. Default: `failed`.
    #[arg(
        long,
        value_name = "OUTCOME",
        default_value = "failed",
        hide_default_value = true
    )]
    pub only: RetrySelection,
    /// How the cells are started.
    #[command(flatten)]
    pub settings: BatchStartSettingsArguments,
}

// A batch to show or stop.
#[derive(Args, Debug)]
pub(crate) struct BatchNameArguments {
    /// The batch: its name, a prefix of the name, or `last`. Default: the last one.
    #[arg(value_name = "BATCH", default_value = LAST, hide_default_value = true)]
    pub batch: String,
    /// Print one JSON object. Default: text.
    #[arg(long)]
    pub json: bool,
}

// Arguments of `massgen batch watch`.
#[derive(Args, Debug)]
pub(crate) struct BatchWatchArguments {
    /// The batch: its name, a prefix of the name, or `last`. Default: the last one.
    #[arg(value_name = "BATCH", default_value = LAST, hide_default_value = true)]
    pub batch: String,
    /// Print one JSON object for each change. Default: a view of the whole terminal, or text.
    #[arg(long, conflicts_with = "plain")]
    pub json: bool,
    /// Print a line for each change also on a terminal.
    #[arg(long)]
    pub plain: bool,
}

// Arguments of `massgen batch results`.
#[derive(Args, Debug)]
pub(crate) struct BatchResultsArguments {
    /// The batch: its name, a prefix of the name, or `last`. Default: the last one.
    #[arg(value_name = "BATCH", default_value = LAST, hide_default_value = true)]
    pub batch: String,
    /// Print the result of each cell as one JSON object per line. Default: a table by tag.
    #[arg(long)]
    pub json: bool,
}

// Arguments of `massgen batch compare`.
#[derive(Args, Debug)]
pub(crate) struct BatchCompareArguments {
    /// The first batch.
    #[arg(value_name = "FIRST")]
    pub first: String,
    /// The second batch.
    #[arg(value_name = "SECOND", default_value = LAST, hide_default_value = true)]
    pub second: String,
    /// Print one JSON object. Default: text.
    #[arg(long)]
    pub json: bool,
}

// Arguments of `massgen batch apply`.
#[derive(Args, Debug)]
pub(crate) struct BatchApplyArguments {
    /// The batch.
    #[arg(value_name = "BATCH")]
    pub batch: String,
    /// The cell: the id of its task.
    #[arg(value_name = "CELL")]
    pub cell: String,
    /// Deliver only these paths. Default: everything.
    #[arg(value_name = "PATH")]
    pub path: Vec<String>,
    /// Deliver without asking. Default: ask on a terminal.
    #[arg(short, long)]
    pub yes: bool,
}

// Arguments of `massgen batch export`.
#[derive(Args, Debug)]
pub(crate) struct BatchExportArguments {
    /// The batch: its name, a prefix of the name, or `last`.
    #[arg(value_name = "BATCH")]
    pub batch: String,
    /// Archive to create. Default: the name of the batch and `.tar.gz`, in the current directory.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
}

// Arguments of `massgen batch cell`.
#[derive(Args, Debug)]
pub(crate) struct BatchCellArguments {
    /// The batch.
    #[arg(value_name = "BATCH")]
    pub batch: String,
    /// The numbers of the cells, from 0.
    #[arg(value_name = "NUMBER", required = true)]
    pub cells: Vec<u32>,
    /// What started the job, for the results.
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    pub engine: String,
    /// The job of that scheduler. Default: none.
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
}

// Arguments of `massgen batch worker`.
#[derive(Args, Debug)]
pub(crate) struct BatchWorkerArguments {
    /// The batch.
    #[arg(value_name = "BATCH")]
    pub batch: String,
    /// What started the job, for the results.
    #[arg(long, value_name = "ENGINE")]
    pub engine: String,
    /// The name of the job; a job that is started again has the same.
    #[arg(long, value_name = "NAME")]
    pub job: String,
    /// The node, as the scheduler names it.
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// The weakest sandbox that the node may have. Default: any.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub require_sandbox: Option<SandboxLevel>,
    /// End with 0 unless a signal ends the job or massgen fails: the scheduler replaces jobs that
    /// fail.
    #[arg(long)]
    pub fail_only_on_signals: bool,
}
