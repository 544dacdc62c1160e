//! Arguments of `massgen batch`.

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::batch::next_step::RETRIES_DEFAULT;
use crate::cli::args::{parse_dollars, parse_job_count};
use crate::cli::help::BATCH_RUN_EXAMPLES;
use crate::spending::money::Money;
use crate::world::batch_engine::local::LOCAL;
use crate::world::batch_engine::slurm::SLURM;
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
    Watch(BatchNameArguments),
    /// Show the results: a table by tag, or all of them as JSON.
    Results(BatchNameArguments),
    /// Compare batches of the same tasks: what their teams solve, what their candidates and the
    /// selection gain, and at what price.
    Compare(BatchCompareArguments),
    /// Stop a batch: no cell begins, and the runs in progress are parked.
    Cancel(BatchNameArguments),
    /// Deliver the changes of a cell to its project.
    Apply(BatchApplyArguments),
    /// Run the cells of one index of a submission; engines of arrays start this.
    Job(BatchJobArguments),
}

/// What runs the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BatchEngine {
    /// Processes of this machine.
    #[default]
    Local,
    /// Arrays of Slurm.
    Slurm,
    /// An array that the user submits.
    Array,
}

impl BatchEngine {
    /// Returns the value of `--on`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => LOCAL,
            Self::Slurm => SLURM,
            Self::Array => "array",
        }
    }
}

// How the cells of a batch are started. What is not given is as at the last start of the batch.
#[derive(Args, Clone, Debug)]
pub(crate) struct BatchStartSettingsArguments {
    /// What runs the cells: `local`, processes of this machine; `slurm`, an array of Slurm;
    /// `array`, an array that you submit: its batch, submission and number of indexes are printed,
    /// and index I runs `massgen batch job BATCH SUBMISSION I`. Default: `local`.
    #[arg(long = "on", value_name = "ENGINE")]
    pub engine: Option<BatchEngine>,
    /// Number of jobs at the same time. Default: 4.
    #[arg(long, value_name = "COUNT", value_parser = parse_job_count)]
    pub parallel: Option<usize>,
    /// Number of cells for each job, which runs them one after another. Default: 1, or as many as
    /// the largest array of the engine requires.
    #[arg(long, value_name = "COUNT", value_parser = parse_job_count)]
    pub cells_per_job: Option<usize>,
    /// Slurm: an option of `sbatch`, such as `--slurm-option=--time=2:00:00`; repeatable. Runs are
    /// parked 90 seconds before the time limit. Default: those of the site.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, value_parser = parse_option)]
    pub slurm_option: Vec<String>,
}

/// Parses an option for `sbatch`.
fn parse_option(text: &str) -> Result<String, &'static str> {
    if text.starts_with('-') {
        Ok(text.to_owned())
    } else {
        Err("expected an option of `sbatch`, such as `--time=2:00:00`")
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
    /// Number of repetitions of a cell whose process was lost. Default: 3.
    #[arg(long, value_name = "COUNT", default_value_t = RETRIES_DEFAULT, hide_default_value = true)]
    pub retries: u32,
    /// File with model prices. Default: `~/.massgen/models.yaml`, if it exists.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
}

// Arguments of `massgen batch compare`.
#[derive(Args, Debug)]
pub(crate) struct BatchCompareArguments {
    /// The batches: names, prefixes of names, or `last`. The others are compared with the first.
    #[arg(value_name = "BATCH", required = true)]
    pub batches: Vec<String>,
    /// Print one JSON object. Default: a table and sentences.
    #[arg(long)]
    pub json: bool,
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
    /// Maximum cost of the whole batch in US dollars from now on. Default: unchanged.
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
    /// Print JSON: one object, or one per line for each change of `watch` and each cell of `results`.
    /// Default: text.
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

// Arguments of `massgen batch job`.
#[derive(Args, Debug)]
pub(crate) struct BatchJobArguments {
    /// The batch.
    #[arg(value_name = "BATCH")]
    pub batch: String,
    /// The number of the submission, from 1.
    #[arg(value_name = "SUBMISSION")]
    pub submission: u32,
    /// The index of the job in the array, from 0.
    #[arg(value_name = "INDEX")]
    pub index: u32,
}
