//! Defines the command line: parsing, help, completions and the manual pages follow from these
//! types. Parsing does nothing else: it reads no file and starts no run.
//!
//! Types that derive `Args` have `//` comments, because clap prints a doc comment of theirs as the
//! help of the command that contains them.

use clap::builder::{ArgPredicate, PossibleValuesParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::cli::args::batch::BatchCommand;
use crate::cli::args::gate_calls::{ExplainCommand, HookCommand, SandboxArguments, ToolArguments};
use crate::cli::args::init::InitArguments;
use crate::cli::args::logs::LogsCommand;
use crate::cli::args::mcp::McpCommand;
use crate::cli::args::memory::MemoryCommand;
use crate::cli::args::pipeline::PipelineCommand;
use crate::cli::args::session::{DisplayArguments, SessionArguments};
use crate::cli::args::skills::SkillsCommand;
use crate::cli::args::web::WebArguments;
use crate::cli::format::OutputFormat;
use crate::cli::help::{
    ADVISE_EXAMPLES, APPLY_EXAMPLES, CHECK_EXAMPLES, DIFF_EXAMPLES, DOCKER_EXAMPLES,
    DOCTOR_EXAMPLES, EXAMPLES, EXPLAIN_EXAMPLES, INIT_EXAMPLES, LOGS_EXAMPLES, MEMORY_EXAMPLES,
    MODELS_EXAMPLES, PIPELINE_EXAMPLES, REPLAY_EXAMPLES, SANDBOX_EXAMPLES, SCHEMA_EXAMPLES,
    SELFTEST_EXAMPLES, SESSIONS_EXAMPLES, SKILLS_EXAMPLES, TOOL_EXAMPLES, UNDO_EXAMPLES,
    WEB_EXAMPLES,
};
use crate::config::copies::COPIES_MAX;
use crate::config::keys::workflow::ITERATION_LIMIT_MAX;
use crate::config::rates::RateLimit;
use crate::config::settings::ConfigSetting;
use crate::config::vendors::VENDORS;
use crate::config::{Strategy, retention, size};
use crate::permissions::grant::Permission;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;
use crate::spending::money::Money;
use crate::world::store::naming::LAST;

pub(crate) mod batch;
pub(crate) mod gate_calls;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod pipeline;
pub(crate) mod recorded;
pub(crate) mod session;
pub(crate) mod skills;
pub(crate) mod web;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "massgen",
    version,
    about = "Let several LLM agents work on one task, vote, and deliver the winner's files.",
    override_usage = "massgen [OPTIONS] TASK [-]\n       massgen [OPTIONS]            (starts an interactive session)\n       massgen COMMAND",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct CliArguments {
    /// The command to execute instead of a run.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    /// The arguments of a run.
    #[command(flatten)]
    pub run: RunArguments,
    /// Former name of `massgen pipeline roles`.
    #[arg(long, conflicts_with = "task", hide = true)]
    pub permissions: bool,
    /// Former name of `massgen pipeline branches`.
    #[arg(long, exclusive = true, hide = true)]
    pub branches: bool,
}

impl CliArguments {
    /// Returns the command line with all its subcommands and their arguments.
    pub(crate) fn full_command() -> clap::Command {
        let mut command = Self::command();
        command.build();
        command
    }
}

// Arguments of a run.
#[derive(Args, Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct RunArguments {
    /// The task, quoted as one argument. `-` after it appends standard input to the task; `-`
    /// alone reads the task from standard input.
    #[arg(value_name = "TASK")]
    pub task: Vec<String>,
    /// Config of the team: a YAML file, or `@examples/NAME` for a built-in one. Default:
    /// `config.yaml` in `.massgen`, `~/.massgen/configs` or `~/.config/massgen`; if there is
    /// none, a team built from the API keys in the environment and the running local servers.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Model of a team without a config; repeat it for a team of several agents. Default: the
    /// default model of the backend, or the only one that the endpoint lists.
    #[arg(short, long, value_name = "MODEL", conflicts_with = "config")]
    pub model: Vec<String>,
    /// Backend type of a team without a config. Default: derived from the model name.
    #[arg(short, long, value_name = "TYPE", conflicts_with = "config",
        value_parser = backend_types(), hide_possible_values = true)]
    pub backend: Option<String>,
    /// API endpoint of a team without a config. Default: the endpoint of the backend.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub base_url: Option<String>,
    /// Additional system message of a team without a config. Default: none.
    #[arg(long, value_name = "TEXT", conflicts_with = "config")]
    pub system_message: Option<String>,
    /// Set a key of the config for this run, such as `orchestrator.voting_sensitivity=strict` or
    /// `agents[0].backend.model=gpt-5`; repeat it for several. The value is YAML and is checked as
    /// that of the file. Without a config, it is a key of the team that is built.
    #[arg(long, value_name = "KEY=VALUE", value_parser = ConfigSetting::parse)]
    pub set: Vec<ConfigSetting>,
    /// Give the agents access to the current directory: `ro` to read, `rw` to let the final
    /// agent write too. Default: no access unless the config gives it.
    #[arg(long, value_name = "ACCESS")]
    #[arg(default_value_if("best_of", ArgPredicate::IsPresent, "rw"))]
    pub cwd_context: Option<CwdContext>,
    /// Make this number of independent attempts, in copies of the current directory, and deliver
    /// the best that passes the checks: `--strategy best-of` and `--cwd-context rw`, with the
    /// agents of the team in turn. On a terminal, the delivery is reviewed. Default: the agents of
    /// the team.
    #[arg(long, value_name = "COUNT", value_parser = parse_attempt_count)]
    pub best_of: Option<u32>,
    /// How the winner is found: `consensus`, `best-of`, `first-pass` or `cascade`. Default: from the config,
    /// or `consensus`.
    #[arg(long, value_name = "STRATEGY", value_parser = parse_strategy)]
    pub strategy: Option<Strategy>,
    /// Command that an answer must pass, run on your files as the answer would leave them; repeat
    /// it for several. It is added to `checks` of the config. Default: only those.
    #[arg(long, value_name = "COMMAND", value_parser = parse_check)]
    pub check: Vec<String>,
    /// Also write the final answer to this file. Default: none.
    #[arg(short, long, value_name = "FILE")]
    pub output_file: Option<String>,
    /// Also append a summary of the run in Markdown to this file, such as `$GITHUB_STEP_SUMMARY`.
    /// Default: none.
    #[arg(long, value_name = "FILE")]
    pub summary_file: Option<String>,
    /// Also write the results of the checks to this file, in the format of `JUnit`. Default: none.
    #[arg(long, value_name = "FILE")]
    pub junit_file: Option<String>,
    /// Also keep the changed files and the diff of each agent's last answer in this directory, which
    /// must be new or empty. Default: none.
    #[arg(long, value_name = "DIR")]
    pub keep_attempts: Option<String>,
    /// Format of standard output. Default: `text`.
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_default_value = true,
        conflicts_with_all = ["automation", "dry_run"])]
    #[arg(default_value_if("json", "true", "json"))]
    pub output_format: OutputFormat,
    /// The same as `--output-format json`.
    #[arg(long, conflicts_with_all = ["output_format", "automation", "dry_run"])]
    pub json: bool,
    /// Print only the answer and never begin a session, as `-p` of other tools does: `--quiet`;
    /// without a task, standard input is the task. Default: off.
    #[arg(short, long, conflicts_with_all = ["dashboard", "automation"])]
    pub print: bool,
    /// Print only `KEY: value` lines for scripts on standard output. Default: off.
    #[arg(long)]
    pub automation: bool,
    /// Timeout of the whole run, in seconds. Default: from the config, or 1800.
    #[arg(long, visible_alias = "timeout", value_name = "SECONDS", value_parser = parse_seconds,
        allow_negative_numbers = true)]
    pub orchestrator_timeout: Option<u64>,
    /// Rate limit for all agents together: requests per minute, or tokens per minute with the
    /// suffix `tpm`. Applies in addition to `rate_limits` of the config. Default: from the
    /// config.
    #[arg(long, value_name = "[TYPE[/MODEL]=]N", value_parser = RateLimit::parse)]
    pub rate_limit: Vec<RateLimit>,
    /// Sandbox level for local commands of all agents: `auto`, `overlay`, `namespaces`,
    /// `landlock` or `off`. Default: from the config, or `auto`.
    #[arg(long, value_name = "LEVEL")]
    pub sandbox: Option<SandboxLevelChoice>,
    /// Run without the agents whose API key is missing, if there are others. Default: ask on the
    /// terminal; without a terminal, such a key is an error.
    #[arg(long)]
    pub skip_missing: bool,
    /// Limits of the run.
    #[command(flatten)]
    pub limits: LimitArguments,
    /// How the result is delivered.
    #[command(flatten)]
    pub delivery: DeliveryArguments,
    /// Unix socket of a program that answers approval requests instead of the terminal.
    /// Default: ask on the terminal; without a terminal, deny.
    #[arg(long, value_name = "SOCKET")]
    pub approval_socket: Option<String>,
    /// Directory in which scripts leave messages for the running agents, as files `msg_*.json`
    /// with `{"content": "text", "target_agents": ["name"]}`; without `target_agents` for all.
    /// Each file is removed when it has been read. Default: no messages from files.
    #[arg(long, value_name = "DIR")]
    pub inbox_dir: Option<String>,
    /// File with answers to the pipeline's clarifying questions, passed verbatim to every role.
    /// Default: ask on the terminal; without a terminal, use the agents' assumptions.
    #[arg(long, value_name = "FILE")]
    pub clarifications: Option<String>,
    /// File with model prices. Default: `~/.massgen/models.yaml`, if it exists.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
    /// The session that the run belongs to.
    #[command(flatten)]
    pub session: SessionArguments,
    /// How runs and interactive sessions are displayed.
    #[command(flatten)]
    pub display: DisplayArguments,
    /// Park the run on SIGTERM, SIGUSR1 or SIGHUP: stop at once without recording an end and exit
    /// with status 75; `massgen --continue` resumes it. Default: these signals end the run.
    #[arg(long, conflicts_with = "dry_run")]
    pub park: bool,
    /// Write a detailed log to `massgen_debug.log` in the run's log directory. Default: off.
    #[arg(long)]
    pub debug: bool,
    /// Show the team, each agent's grants in both phases and the first prompt, without calling
    /// any model. For a pipeline: its roles, project and stage order. Default: off.
    #[arg(long)]
    pub dry_run: bool,
}

// How the result of a run is delivered.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryArguments {
    /// Apply the delivery without asking, whatever `delivery` says in the config. Default: from
    /// the config.
    #[arg(short, long)]
    pub yes: bool,
    /// Ask which changes of the delivery are applied, whatever `delivery` says in the config.
    /// Needs a terminal. Default: from the config.
    #[arg(long, conflicts_with_all = ["yes", "automation"])]
    pub review: bool,
    /// Pick the answer that is delivered, of those that the team has given. Needs a terminal.
    /// Default: the team selects one.
    #[arg(long, conflicts_with_all = ["yes", "automation"])]
    pub pick: bool,
}

// Limits of a run. A flag replaces the limit of the config; limits of single agents still apply.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct LimitArguments {
    /// Maximum cost of the run in US dollars, instead of the limit in the config. When it is
    /// reached, the best answer so far is the result, and the exit status is 5. Default: from
    /// the config, or no limit.
    #[arg(long = "max-cost-usd", value_name = "DOLLARS", value_parser = parse_dollars,
        allow_negative_numbers = true)]
    pub cost: Option<Money>,
    /// Maximum number of tokens in requests and replies, with the same effect. Default: from
    /// the config, or no limit.
    #[arg(long = "max-tokens-total", value_name = "COUNT", value_parser = parse_token_count,
        allow_negative_numbers = true)]
    pub tokens: Option<u64>,
    /// Maximum number of tool calls, with the same effect. Default: from the config, or no
    /// limit.
    #[arg(long = "max-tool-calls", value_name = "COUNT", value_parser = parse_call_count,
        allow_negative_numbers = true)]
    pub tool_calls: Option<u64>,
    /// Maximum number of iterations of a pipeline, instead of `max_iterations` in the config. When
    /// they are used, the exit status is 5. Default: from the config, or 3.
    #[arg(long = "max-iterations", value_name = "COUNT", value_parser = parse_iteration_count,
        allow_negative_numbers = true)]
    pub iterations: Option<u32>,
}

/// The flags that limit a run.
const LIMIT_FLAGS: [&str; 5] = [
    "--max-cost-usd",
    "--max-tokens-total",
    "--max-tool-calls",
    "--max-iterations",
    "--orchestrator-timeout",
];

/// The other name of the last of them.
const TIMEOUT_ALIAS: &str = "--timeout";

impl LimitArguments {
    /// Returns these limits, and those of `other` where none is given.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            cost: self.cost.or(other.cost),
            tokens: self.tokens.or(other.tokens),
            tool_calls: self.tool_calls.or(other.tool_calls),
            iterations: self.iterations.or(other.iterations),
        }
    }
}

impl RunArguments {
    /// Returns the flags that limit the run, as words of a command line.
    pub(crate) fn limit_words(&self) -> Vec<String> {
        let LimitArguments {
            cost,
            tokens,
            tool_calls,
            iterations,
        } = self.limits;
        let seconds = self.orchestrator_timeout;
        let values = [
            cost.map(|cost| cost.to_string()),
            tokens.map(|max| max.to_string()),
            tool_calls.map(|max| max.to_string()),
            iterations.map(|max| max.to_string()),
            seconds.map(|max| max.to_string()),
        ];
        let words = LIMIT_FLAGS
            .into_iter()
            .zip(values)
            .filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        words.flatten().collect()
    }
}

/// Returns the accepted values of `--backend`.
pub(crate) fn backend_types() -> PossibleValuesParser {
    let names: Vec<&str> = VENDORS.iter().map(|vendor| vendor.name).collect();
    PossibleValuesParser::from(names)
}

fn parse_check(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("expected a shell command, such as `cargo test -q`"),
        command => Ok(command.to_owned()),
    }
}

fn parse_seconds(text: &str) -> Result<u64, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected whole seconds, at least 1"),
        Ok(seconds) => Ok(seconds),
    }
}

pub(crate) fn parse_dollars(text: &str) -> Result<Money, &'static str> {
    Money::from_dollars(text).ok_or("expected US dollars, such as 0.50")
}

fn parse_token_count(text: &str) -> Result<u64, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number, at least 1"),
        Ok(count) => Ok(count),
    }
}

fn parse_attempt_count(text: &str) -> Result<u32, String> {
    let count = text.parse::<u32>().ok();
    let count = count.filter(|count| (1..=COPIES_MAX).contains(count));
    count.ok_or_else(|| format!("expected a whole number from 1 to {COPIES_MAX}"))
}

fn parse_strategy(text: &str) -> Result<Strategy, &'static str> {
    let mut strategies = Strategy::ALL.into_iter();
    let strategy = strategies.find(|strategy| strategy.name() == text);
    strategy.ok_or("expected `consensus`, `best-of`, `first-pass` or `cascade`")
}

pub(crate) fn parse_job_count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number, at least 1"),
        Ok(count) => Ok(count),
    }
}

fn parse_call_count(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "expected a whole number")
}

fn parse_iteration_count(text: &str) -> Result<u32, String> {
    text.parse::<u32>()
        .ok()
        .filter(|count| (1..=ITERATION_LIMIT_MAX).contains(&i64::from(*count)))
        .ok_or_else(|| format!("expected a whole number from 1 to {ITERATION_LIMIT_MAX}"))
}

/// Access of the agents to the current directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CwdContext {
    /// Read access.
    #[value(alias = "read")]
    Ro,
    /// Read access, and write access in the final phase.
    #[value(alias = "write")]
    Rw,
}

impl From<CwdContext> for Permission {
    fn from(access: CwdContext) -> Self {
        match access {
            CwdContext::Ro => Permission::Read,
            CwdContext::Rw => Permission::Write,
        }
    }
}

/// Commands other than a run. The arguments of a command are only built when it is parsed or
/// described.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CliCommand {
    /// Write a config of your first team from the models and programs that are found.
    #[command(aliases = ["setup", "quickstart"], after_help = INIT_EXAMPLES)]
    Init(InitArguments),
    /// Show a team of four at work, without a key or a network: its models are a script. You
    /// review the one file that it writes into the current directory.
    Demo,
    /// Check, list and show team configs.
    #[command(subcommand, arg_required_else_help = false)]
    Config(ConfigCommand),
    /// List known models with their context sizes and prices.
    #[command(after_help = MODELS_EXAMPLES)]
    Models(ModelsArguments),
    /// Explain what agents may do and why, without doing it.
    #[command(subcommand, arg_required_else_help = false, after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainCommand),
    /// Make one tool call as an agent would, with the same permission checks.
    #[command(after_help = TOOL_EXAMPLES)]
    Tool(ToolArguments),
    /// Run one command as an agent would, with your standard streams. The exit status is that
    /// of the command.
    #[command(after_help = SANDBOX_EXAMPLES)]
    Sandbox(SandboxArguments),
    /// Run massgen as an MCP server for other agents; sign in to MCP servers.
    #[command(subcommand, arg_required_else_help = false)]
    Mcp(McpCommand),
    /// Show, start and review runs in a page of your browser, served on this machine.
    #[command(after_help = WEB_EXAMPLES)]
    Web(WebArguments),
    /// Answer permission hooks of other programs.
    #[command(subcommand, arg_required_else_help = false)]
    Hook(HookCommand),
    /// List, show, follow and export the logs of runs.
    #[command(subcommand, arg_required_else_help = false, after_help = LOGS_EXAMPLES)]
    Logs(LogsCommand),
    /// List, show, resume, fork, export, import and delete sessions.
    #[command(subcommand, arg_required_else_help = false, after_help = SESSIONS_EXAMPLES)]
    Sessions(SessionsCommand),
    /// List, show and remove the notes that agents keep between sessions.
    #[command(subcommand, arg_required_else_help = false, after_help = MEMORY_EXAMPLES)]
    Memory(MemoryCommand),
    /// List and show the skills that agents may be offered.
    #[command(subcommand, arg_required_else_help = false, after_help = SKILLS_EXAMPLES)]
    Skills(SkillsCommand),
    /// Show what a run delivered, or would deliver.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArguments),
    /// Apply changes of a delivery that were not applied, or the answer of another agent.
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(ApplyArguments),
    /// Revert a delivery.
    #[command(after_help = UNDO_EXAMPLES)]
    Undo(UndoArguments),
    /// Replay a recorded run offline with this version, and compare the agents' decisions.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArguments),
    /// Say which of your teams paid off, from your own runs in this directory.
    #[command(after_help = ADVISE_EXAMPLES)]
    Advise {
        /// Print one JSON object. Default: a table and sentences.
        #[arg(long)]
        json: bool,
    },
    /// Run many tasks, each on its own copy of its project; show and deliver the results.
    #[command(subcommand, arg_required_else_help = false)]
    Batch(BatchCommand),
    /// Show, revert and reset the work of a pipeline's roles.
    #[command(subcommand, arg_required_else_help = false, after_help = PIPELINE_EXAMPLES)]
    Pipeline(PipelineCommand),
    /// Print the JSON schemas of machine-readable output.
    #[command(subcommand, arg_required_else_help = false, after_help = SCHEMA_EXAMPLES)]
    Schema(SchemaCommand),
    /// Check this machine and a config for problems, and suggest fixes.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Test the sandbox of this machine with attacks and ordinary work, without leaving
    /// anything behind.
    #[command(after_help = SELFTEST_EXAMPLES)]
    Selftest(SelftestArguments),
    /// Build the container image for agents.
    #[command(subcommand, arg_required_else_help = false, after_help = DOCKER_EXAMPLES)]
    Docker(DockerCommand),
    /// Print a completion script, for example `massgen completions bash`.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual pages, for example `massgen man | man -l -`.
    Man,
}

// Arguments of `massgen models`.
#[derive(Args, Debug)]
pub(crate) struct ModelsArguments {
    /// List only models whose name or vendor contains this text. Default: all models.
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
    /// List only models that you can use now: their API key is set, or they need none. Default: all,
    /// the usable ones first.
    #[arg(long)]
    pub usable: bool,
    /// File with your own models. Default: `~/.massgen/models.yaml`, if it exists.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
    /// Print JSON. Default: text.
    #[arg(long)]
    pub json: bool,
}

// Arguments of `massgen doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    /// List the models of every endpoint of the team, with its API key. Default: no network
    /// access.
    #[arg(long)]
    pub online: bool,
    /// Config of the team to check for. Default: the config that a run would use.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Print one JSON object. Default: text.
    #[arg(long)]
    pub json: bool,
}

/// Commands for containers.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum DockerCommand {
    /// Build the image with the engine that a run would use.
    Build {
        /// Build the image for `command_line_docker_enable_sudo`. Default: the image
        /// without `sudo`.
        #[arg(long)]
        sudo: bool,
    },
    /// Print the Dockerfile of the image.
    Dockerfile,
}

// Arguments of `massgen selftest`.
#[derive(Args, Debug)]
pub(crate) struct SelftestArguments {
    /// Sandbox level to test: `overlay`, `namespaces`, `landlock`, or `auto` for the strongest
    /// one. Default: every available level.
    #[arg(long, value_name = "LEVEL")]
    pub sandbox: Option<SandboxLevelChoice>,
    /// Test containers of this local image instead of the sandbox; it must contain bash, git
    /// and Python.
    #[arg(long, value_name = "IMAGE", conflicts_with = "sandbox")]
    pub docker: Option<String>,
    /// Run only cases whose name or class matches this regular expression. Default: all.
    #[arg(long, value_name = "REGEX")]
    pub only: Option<String>,
    /// Number of cases to run in parallel. Default: one per processor.
    #[arg(long, value_name = "COUNT", value_parser = parse_job_count)]
    pub jobs: Option<usize>,
    /// Print one JSON object. Default: text.
    #[arg(long)]
    pub json: bool,
}

/// Schemas to print.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Print the JSON Schema (draft 2020-12) of each line of `--output-format stream-json` and
    /// `events.jsonl`, and of the object of `--output-format json`.
    Events,
}

/// Commands for configs.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report every error and warning in team configs; exit with status 2 if there is an error.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// YAML files. Default: the config that a run would use.
        #[arg(value_name = "FILE")]
        files: Vec<String>,
        /// Print one JSON object per file, one per line. Default: text.
        #[arg(long)]
        json: bool,
        /// Exit with status 2 on warnings too. Default: only on errors.
        #[arg(long)]
        strict: bool,
    },
    /// List the built-in configs.
    Examples,
    /// Print a built-in config, for example `massgen config show basic/offline_demo`.
    Show {
        /// Name of the config, as listed by `massgen config examples`.
        name: String,
    },
    /// Print the JSON Schema of team configs, for editors.
    Schema,
}

/// Commands for sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions of this directory, most recently used first.
    List {
        /// Print one JSON object per session, one per line. Default: a table.
        #[arg(long)]
        json: bool,
    },
    /// Show the turns of a session: tasks, answers and paths that are open.
    Show {
        /// The session. Default: the last one.
        #[arg(default_value = LAST, hide_default_value = true)]
        session: String,
        /// Print one JSON object per turn, one per line. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// Resume the session's interrupted run from its last event, without repeating model calls.
    Resume {
        /// The session. Default: the last one.
        #[arg(default_value = LAST, hide_default_value = true)]
        session: String,
        /// Config to use from now on. Default: the config that the run started with.
        #[arg(short, long, value_name = "FILE")]
        config: Option<String>,
    },
    /// Copy a session with all its turns and print the id of the copy.
    Fork {
        /// The session.
        session: String,
    },
    /// Export a session to one archive. Secrets are redacted as they are on disk.
    Export {
        /// The session.
        session: String,
        /// Archive to create. Default: the session id and `.tar.gz`, in the current
        /// directory.
        #[arg(short, long, value_name = "FILE")]
        output: Option<String>,
    },
    /// Import an exported session and print its new id.
    Import {
        /// The archive.
        file: String,
    },
    /// Remove unused or old sessions, logs and workspaces of runs, pipelines and delivery
    /// records. What is in use and the newest of each kind are kept.
    Prune(PruneArguments),
    /// Delete sessions with all their turns. Delivered files are kept.
    Delete {
        /// The sessions.
        #[arg(required = true, value_name = "SESSION")]
        sessions: Vec<String>,
    },
}

// Arguments of `massgen diff`.
#[derive(Args, Debug)]
pub(crate) struct DiffArguments {
    /// The run or pipeline. Default: the newest one with a delivery.
    #[arg(default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// Show the files of the last answer of this agent, by its id or its name among the agents,
    /// such as `agent2`. Default: the result of the final agent.
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Show only changes below this path. Default: all.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<String>,
    /// Show only the number of changed lines per file. Default: the changed lines.
    #[arg(long)]
    pub stat: bool,
}

// Arguments of `massgen apply`.
#[derive(Args, Debug)]
pub(crate) struct ApplyArguments {
    /// The run or pipeline. Default: the newest one with a delivery.
    #[arg(default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// Apply the answer of this agent, by its id or its name among the agents, such as
    /// `agent2`. Default: the result of the final agent.
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Apply only changes below this path. Directories outside the current one must be named
    /// explicitly. Default: all.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<String>,
    /// Apply without asking. Default: ask on the terminal.
    #[arg(short, long)]
    pub yes: bool,
    /// How a pipeline's result reaches your git history: `merge` adds a merge commit with all
    /// commits of the roles to your branch, `squash` adds one commit, `none` delivers files
    /// only. Default: `merge` in a project, else `none`.
    #[arg(long, value_name = "MODE")]
    pub history: Option<HistoryModeArgument>,
    /// After a merge or squash, push your branch to this remote with your git. Default: do not
    /// push.
    #[arg(long, value_name = "REMOTE")]
    pub push: Option<String>,
}

/// How the result of a pipeline reaches the git history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryModeArgument {
    /// A merge commit with all commits of the roles.
    Merge,
    /// One commit.
    Squash,
    /// Files only, without a commit.
    #[value(name = "none")]
    Files,
}

// Arguments of `massgen undo`.
#[derive(Args, Debug)]
pub(crate) struct UndoArguments {
    /// The run or pipeline. Default: the newest one with a delivery.
    #[arg(default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// Revert only changes below this path. Directories outside the current one must be named
    /// explicitly. Default: all.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<String>,
    /// Also revert files that were changed after the delivery; your version is kept with the
    /// delivery. Default: leave them unchanged.
    #[arg(long)]
    pub force: bool,
}

// Arguments of `massgen sessions prune`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PruneArguments {
    /// Remove what has not been used for this long: `12h`, `30d` or `2w`. Default: no age
    /// limit.
    #[arg(long, value_name = "AGE", value_parser = parse_age, required_unless_present = "larger_than")]
    pub older_than: Option<u64>,
    /// Remove the oldest until everything together is at most this large: `500MiB`, `5GiB`.
    /// Default: no size limit.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub larger_than: Option<u64>,
    /// Only print what would be removed. Default: remove it.
    #[arg(long)]
    pub dry_run: bool,
}

fn parse_age(text: &str) -> Result<u64, &'static str> {
    retention::seconds(text).ok_or("expected hours, days or weeks, such as 12h, 30d or 2w")
}

fn parse_size(text: &str) -> Result<u64, &'static str> {
    let units = text.to_ascii_lowercase().replace("ib", "b");
    size::bytes(&units).ok_or("expected a size, such as 500MiB or 5GiB")
}

// Arguments of `massgen replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayArguments {
    /// The run: a log directory, its name, a prefix of the name, or `last`.
    pub run: String,
    /// Print one JSON object. Default: text.
    #[arg(long)]
    pub json: bool,
    /// Keep the workspaces and logs of the replay and print their location. Default: remove
    /// them.
    #[arg(long)]
    pub keep: bool,
}

#[cfg(test)]
mod tests;
