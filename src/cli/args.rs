//! Defines the command line: the table from which parsing, help, completions and the manual page
//! are made. Parsing does nothing else; it neither reads a file nor decides a run.

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::cli::format::OutputFormat;
use crate::cli::help::{
    APPLY_EXAMPLES, CHECK_EXAMPLES, DIFF_EXAMPLES, DOCKER_EXAMPLES, DOCTOR_EXAMPLES, EXAMPLES,
    EXPLAIN_EXAMPLES, HOOK_EXAMPLES, LOGS_EXAMPLES, MODELS_EXAMPLES, REPLAY_EXAMPLES,
    SANDBOX_EXAMPLES, SCHEMA_EXAMPLES, SELFTEST_EXAMPLES, SESSIONS_EXAMPLES, TOOL_EXAMPLES,
    UNDO_EXAMPLES,
};
use crate::cli::mcp_arguments::McpCommand;
use crate::cli::phase_argument::PhaseArgument;
use crate::cli::pipeline_arguments::PipelineCommand;
use crate::cli::session_arguments::{InteractiveArguments, SessionArguments};
use crate::config::rates::RateLimit;
use crate::config::vendors::VENDORS;
use crate::config::{retention, size};
use crate::permissions::grant::Permission;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;
use crate::spending::money::Money;
use crate::world::store::naming::LAST;

/// Everything that was typed.
#[derive(Debug, Parser)]
#[command(
    name = "massgen",
    version,
    about = "Lets several LLM agents work on one task, vote, and deliver the winner's files.",
    override_usage = "massgen [OPTIONS] TASK [-]\n       massgen [OPTIONS]            (types a session on a terminal)\n       massgen COMMAND",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct CliArguments {
    /// What to do instead of a run.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    /// How to run.
    #[command(flatten)]
    pub run: RunArguments,
    /// Does what `massgen roles` does, for the config of `--config`, if there is one.
    #[arg(long, conflicts_with = "task")]
    pub permissions: bool,
    /// Does what `massgen branches` does.
    #[arg(long, exclusive = true)]
    pub branches: bool,
}

/// What a run is started with.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RunArguments {
    /// The task, quoted as one argument; a further `-` appends standard input to it, and `-` alone
    /// is standard input as the task.
    #[arg(value_name = "TASK")]
    pub task: Vec<String>,
    /// The team: a YAML file, or `@examples/NAME` for one that is built in. Default: `config.yaml`
    /// in `.massgen`, `~/.massgen/configs` or `~/.config/massgen`, and without one a team from the
    /// keys in the environment and the local servers that answer.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// The model of a team of one agent. Default: the backend's own.
    #[arg(short, long, value_name = "MODEL", conflicts_with = "config")]
    pub model: Option<String>,
    /// The backend type of a team of one agent. Default: the one that the model's name tells.
    #[arg(short, long, value_name = "TYPE", conflicts_with = "config",
        value_parser = backend_types(), hide_possible_values = true)]
    pub backend: Option<String>,
    /// The endpoint of a team of one agent. Default: the backend's own.
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub base_url: Option<String>,
    /// What a team of one agent is told beside the task. Default: nothing.
    #[arg(long, value_name = "TEXT", conflicts_with = "config")]
    pub system_message: Option<String>,
    /// Opens the current directory to the agents, for reading (`ro`) or so that the final agent may
    /// also write (`rw`). Default: closed unless the config opens it.
    #[arg(long, value_name = "ACCESS")]
    pub cwd_context: Option<CwdContext>,
    /// A file that the final answer is also written to. Default: none.
    #[arg(short, long, value_name = "FILE")]
    pub output_file: Option<String>,
    /// What standard output gets. Default: `text`.
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_default_value = true,
        conflicts_with_all = ["automation", "dry_run"])]
    pub output_format: OutputFormat,
    /// Prints only `KEY: value` lines for scripts on standard output. Default: off.
    #[arg(long)]
    pub automation: bool,
    /// The time for the whole run, in seconds. Default: the config's, or 1800.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub orchestrator_timeout: Option<u64>,
    /// How often vendors may be asked in a minute, all agents together: requests, or tokens with
    /// `tpm` after the number. Holds beside the config's `rate_limits`. Default: the config's.
    #[arg(long, value_name = "[TYPE[/MODEL]=]N", value_parser = RateLimit::parse)]
    pub rate_limit: Vec<RateLimit>,
    /// What holds local commands of all agents to their grants: `auto`, `A`, `B`, `C`, or `off` for
    /// nothing. Default: what the config says, else `auto`.
    #[arg(long, value_name = "TIER")]
    pub sandbox: Option<SandboxLevelChoice>,
    /// How much the run may use.
    #[command(flatten)]
    pub limits: LimitArguments,
    /// How what comes of the run is delivered.
    #[command(flatten)]
    pub delivery: DeliveryArguments,
    /// Asks the program that listens at this socket about calls that `permissions` has asked, instead of
    /// whoever sits at the terminal. Default: the terminal; without one, such calls are denied.
    #[arg(long, value_name = "SOCKET")]
    pub ask_file: Option<String>,
    /// A file with what you would answer if the pipeline of the config asked you about the task: any text,
    /// of which all roles are told as it is. Default:
    /// you are asked at the terminal; without one, assumptions hold.
    #[arg(long, value_name = "FILE")]
    pub answers: Option<String>,
    /// The file of what models cost. Default: `~/.massgen/models.yaml`, if it is there.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
    /// Which session the run is a turn of.
    #[command(flatten)]
    pub session: SessionArguments,
    /// How a session that is typed shows itself.
    #[command(flatten)]
    pub typed: InteractiveArguments,
    /// Logs every detail, in `massgen_debug.log` in the run's log directory. Default: off.
    #[arg(long)]
    pub debug: bool,
    /// Shows the team, the grants of every agent in both phases and what each model would first be
    /// sent, or of a pipeline its roles, its project and its course, and calls nobody. Default: off.
    #[arg(long)]
    pub dry_run: bool,
}

/// How what comes of a run is delivered.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct DeliveryArguments {
    /// Applies what the final agent delivers unasked, whatever `delivery` in the config says.
    /// Default: as the config says.
    #[arg(short, long)]
    pub yes: bool,
}

/// How much a run may use. A flag stands in the place of the config's limit for the run; an agent's
/// own limits hold beside it.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct LimitArguments {
    /// US dollars that the run may cost; it replaces the limit of the config, higher or lower. When
    /// they are spent, the best answer so far is the result, and the exit status is 5. Default: the
    /// config's, or any.
    #[arg(long = "max-cost-usd", value_name = "DOLLARS", value_parser = parse_dollars,
        allow_negative_numbers = true)]
    pub cost: Option<Money>,
    /// Tokens of requests and replies that the run may use, in the same way. Default: the config's,
    /// or any.
    #[arg(long = "max-tokens-total", value_name = "COUNT", value_parser = parse_tokens,
        allow_negative_numbers = true)]
    pub tokens: Option<u64>,
    /// Tool calls that the run may make, in the same way. Default: the config's, or any.
    #[arg(long = "max-tool-calls", value_name = "COUNT", value_parser = parse_call_count,
        allow_negative_numbers = true)]
    pub tool_calls: Option<u64>,
}

fn backend_types() -> PossibleValuesParser {
    let names: Vec<&str> = VENDORS.iter().map(|vendor| vendor.name).collect();
    PossibleValuesParser::from(names)
}

fn parse_seconds(text: &str) -> Result<u64, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected whole seconds, at least 1"),
        Ok(seconds) => Ok(seconds),
    }
}

fn parse_dollars(text: &str) -> Result<Money, &'static str> {
    Money::from_dollars(text).ok_or("expected US dollars, such as 0.50")
}

fn parse_tokens(text: &str) -> Result<u64, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number, at least 1"),
        Ok(tokens) => Ok(tokens),
    }
}

fn parse_jobs(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number, at least 1"),
        Ok(jobs) => Ok(jobs),
    }
}

fn parse_call_count(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "expected a whole number")
}

/// How the current directory is opened to the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CwdContext {
    /// For reading.
    #[value(alias = "read")]
    Ro,
    /// For reading, and for writing in the final phase.
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

/// What can be done instead of a run.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Checks, lists and shows team configs.
    #[command(subcommand, arg_required_else_help = false)]
    Config(ConfigCommand),
    /// Lists the models that are known, with what they hold and what they cost.
    #[command(after_help = MODELS_EXAMPLES)]
    Models(ModelsArguments),
    /// Says what agents may do and why, without doing it.
    #[command(subcommand, arg_required_else_help = false, after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainCommand),
    /// Carries out one tool call as an agent would, through the same gate.
    #[command(after_help = TOOL_EXAMPLES)]
    Tool(ToolArguments),
    /// Runs one command as an agent would, on your own standard streams; its exit status is that of
    /// massgen.
    #[command(after_help = SANDBOX_EXAMPLES)]
    Sandbox(SandboxArguments),
    /// Offers massgen to other agents, as a server of the Model Context Protocol; signs you in at
    /// servers of others.
    #[command(subcommand, arg_required_else_help = false)]
    Mcp(McpCommand),
    /// Answers other programs that ask before they call a tool.
    #[command(subcommand, arg_required_else_help = false)]
    Hook(HookCommand),
    /// Lists, shows, follows and packs the records of runs.
    #[command(subcommand, arg_required_else_help = false, after_help = LOGS_EXAMPLES)]
    Logs(LogsCommand),
    /// Lists, shows, resumes, forks, packs, takes in and removes sessions.
    #[command(subcommand, arg_required_else_help = false, after_help = SESSIONS_EXAMPLES)]
    Sessions(SessionsCommand),
    /// Shows what a run delivered, or would deliver.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArguments),
    /// Applies what was not taken of a delivery, or the answer of another agent.
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(ApplyArguments),
    /// Takes a delivery back.
    #[command(after_help = UNDO_EXAMPLES)]
    Undo(UndoArguments),
    /// Plays a recorded run again through this version, offline, and compares what agents decide.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArguments),
    /// What can be done with a pipeline of roles.
    #[command(flatten)]
    Pipeline(PipelineCommand),
    /// Prints the schemas of what scripts read.
    #[command(subcommand, arg_required_else_help = false, after_help = SCHEMA_EXAMPLES)]
    Schema(SchemaCommand),
    /// Tries what a run needs; says what is missing and what to do about it.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Tries attacks and ordinary work against the sandbox of this machine; nothing is left.
    #[command(after_help = SELFTEST_EXAMPLES)]
    Selftest(SelftestArguments),
    /// Builds the image that agents' containers are made from.
    #[command(subcommand, arg_required_else_help = false, after_help = DOCKER_EXAMPLES)]
    Docker(DockerCommand),
    /// Prints a completion script, for example `massgen completions bash`.
    Completions {
        /// The shell that the script is for.
        shell: Shell,
    },
    /// Prints the manual pages, for example `massgen man | man -l -`.
    Man,
}

/// Which models are listed.
#[derive(Args, Debug)]
pub(crate) struct ModelsArguments {
    /// Text that the name of a model or of its vendor holds. Default: all models.
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
    /// The file of your own models. Default: `~/.massgen/models.yaml`, if it is there.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
    /// Prints JSON. Default: text.
    #[arg(long)]
    pub json: bool,
}

/// What is looked at.
#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    /// Asks every endpoint of the team for its models, with its key. Default: nobody is asked.
    #[arg(long)]
    pub online: bool,
    /// The team whose needs count. Default: looked up as for a run.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Prints one JSON object. Default: text.
    #[arg(long)]
    pub json: bool,
}

/// What can be done about containers.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum DockerCommand {
    /// Builds the image, with the engine that a run would use.
    Build {
        /// Builds the one for `command_line_docker_enable_sudo`. Default: the one without `sudo`.
        #[arg(long)]
        sudo: bool,
    },
    /// Prints what it is built by.
    Dockerfile,
}

/// What the self test tries.
#[derive(Args, Debug)]
pub(crate) struct SelftestArguments {
    /// The tier that is tried: `A`, `B`, `C`, or `auto` for the strongest. Default: every tier that
    /// this machine has.
    #[arg(long, value_name = "TIER")]
    pub sandbox: Option<SandboxLevelChoice>,
    /// Tries containers of this image, which is on this machine and holds bash, git and Python, in
    /// place of the tiers.
    #[arg(long, value_name = "IMAGE", conflicts_with = "sandbox")]
    pub docker: Option<String>,
    /// Tries only cases whose name or class matches. Default: all.
    #[arg(long, value_name = "REGEX")]
    pub only: Option<String>,
    /// How many cases are tried at once. Default: one for each processor.
    #[arg(long, value_name = "COUNT", value_parser = parse_jobs)]
    pub jobs: Option<usize>,
    /// Prints one JSON object. Default: text.
    #[arg(long)]
    pub json: bool,
}

/// Which schema is printed.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Prints the JSON Schema (draft 2020-12) of every line of `--output-format stream-json` and of
    /// `events.jsonl`, and of the object of `--output-format json`.
    Events,
}

/// What can be done with configs.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Reports every error and warning of team configs; ends with 2 if there is an error.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// The YAML files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
        /// Prints one JSON object for each file, one on a line. Default: text.
        #[arg(long)]
        json: bool,
        /// Ends with 2 on warnings too. Default: only on errors.
        #[arg(long)]
        strict: bool,
    },
    /// Lists the configs that are built in.
    Examples,
    /// Prints a config that is built in, for example `massgen config show basic/offline_demo`.
    Show {
        /// Its name, as `massgen config examples` lists it.
        name: String,
    },
    /// Prints the JSON Schema of team configs, for editors.
    Schema,
}

/// What can be done with the records of runs.
#[derive(Debug, Subcommand)]
pub(crate) enum LogsCommand {
    /// Lists the runs of this directory, newest first.
    List {
        /// Prints one JSON object for each run, one on a line. Default: a table.
        #[arg(long)]
        json: bool,
    },
    /// Tells a run from its records, as the terminal showed it.
    Show {
        /// The run.
        run: String,
        /// Prints the events, one JSON object on a line. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// As `show`, and goes on as the run does until it ends.
    Follow {
        /// The run. Default: the newest.
        #[arg(default_value = LAST, hide_default_value = true)]
        run: String,
        /// Prints the events, one JSON object on a line. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// Packs all records of a run into one archive, secrets taken out as they are on disk.
    Export {
        /// The run.
        run: String,
        /// The archive, a new file. Default: the run's name and `.tar.gz`, in this directory.
        #[arg(short, long, value_name = "FILE")]
        output: Option<String>,
    },
}

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Lists the sessions of this directory, the one that was used last first.
    List {
        /// Prints one JSON object for each session, one on a line. Default: a table.
        #[arg(long)]
        json: bool,
    },
    /// Shows the turns of a session: tasks, answers and what is open.
    Show {
        /// The session.
        #[arg(default_value = LAST, hide_default_value = true)]
        session: String,
        /// Prints one JSON object for each turn, one on a line. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// Goes on with the last run of a session if it was broken off, from its last recorded event:
    /// what models have said is not asked for again.
    Resume {
        /// The session.
        #[arg(default_value = LAST, hide_default_value = true)]
        session: String,
        /// The config that holds from now on. Default: the one that the run began with.
        #[arg(short, long, value_name = "FILE")]
        config: Option<String>,
    },
    /// Makes a second session of the same turns and prints its id.
    Fork {
        /// The session.
        session: String,
    },
    /// Packs a session into one archive, secrets taken out as they are on disk.
    Export {
        /// The session.
        session: String,
        /// The archive, a new file. Default: the session's id and `.tar.gz`, in this directory.
        #[arg(short, long, value_name = "FILE")]
        output: Option<String>,
    },
    /// Takes in a session that was exported, here or elsewhere, and prints the id that it has from now
    /// on.
    Import {
        /// The archive.
        file: String,
    },
    /// Removes what nobody has used for long, or the oldest: sessions, the records and workspaces of
    /// runs, pipelines, and what is kept of deliveries. What is in use stays, and so does the newest of
    /// each kind.
    Prune(PruneArguments),
    /// Removes sessions with all their turns. The files that were delivered stay.
    Delete {
        /// The sessions.
        #[arg(required = true, value_name = "SESSION")]
        sessions: Vec<String>,
    },
}

/// Which delivery is shown.
#[derive(Args, Debug)]
pub(crate) struct DiffArguments {
    /// The run. Default: the newest that delivers something.
    #[arg(default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// Shows only what lies there. Default: all.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<String>,
    /// Shows how many lines of each file differ, and not which. Default: the lines.
    #[arg(long)]
    pub stat: bool,
}

/// What is applied.
#[derive(Args, Debug)]
pub(crate) struct ApplyArguments {
    /// The run. Default: the newest that delivers something.
    #[arg(default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// Applies the answer of this agent: its id, or its name among the agents, such as `agent2`.
    /// Default: what the final agent offered.
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Applies only what lies there; a directory outside of the current one has to be named.
    /// Default: all.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<String>,
    /// Applies unasked. Default: on a terminal you are asked.
    #[arg(short, long)]
    pub yes: bool,
    /// What becomes of what a pipeline of roles made: `merge` commits a merge with its history to your
    /// branch, `squash` one commit, `files` leaves git alone. Default: `merge` in a project, else `files`.
    #[arg(long = "as", value_name = "SHAPE")]
    pub shape: Option<HistoryModeArgument>,
    /// Pushes your branch to this remote after a merge or squash, with your own git. Default: nothing is
    /// pushed.
    #[arg(long, value_name = "REMOTE")]
    pub push: Option<String>,
}

/// What becomes of what a pipeline made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryModeArgument {
    /// A merge with its history.
    Merge,
    /// One commit.
    Squash,
    /// Files alone.
    Files,
}

/// What is taken back.
#[derive(Args, Debug)]
pub(crate) struct UndoArguments {
    /// The run. Default: the newest that delivers something.
    #[arg(default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// Takes back only what lies there; a directory outside of the current one has to be named.
    /// Default: all.
    #[arg(long, value_name = "PATH")]
    pub path: Vec<String>,
    /// Also replaces what was changed since the delivery; it is kept with the delivery. Default: it
    /// stays.
    #[arg(long)]
    pub force: bool,
}

/// What is removed.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PruneArguments {
    /// Removes what nobody has used for so long: `12h`, `30d` or `2w`. Default: any age is kept.
    #[arg(long, value_name = "AGE", value_parser = parse_age, required_unless_present = "larger_than")]
    pub older_than: Option<u64>,
    /// Removes the oldest as long as all of it takes up more than this: `500MiB`, `5GiB`. Default: any
    /// size is kept.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub larger_than: Option<u64>,
    /// Only says what would be removed. Default: it is removed.
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

/// Which run is played again, and how that is told.
#[derive(Args, Debug)]
pub(crate) struct ReplayArguments {
    /// The run: a log directory, its name, the beginning of it, or `last`.
    pub run: String,
    /// Prints one JSON object. Default: text.
    #[arg(long)]
    pub json: bool,
    /// Keeps the workspaces and records of the replay, and says where. Default: they are removed.
    #[arg(long)]
    pub keep: bool,
}

/// What can be explained.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    /// Says whether a path may be read and written, by which grant and rule.
    Path(ExplainPathArguments),
    /// Says which commands a command line is made of, and what may be run, by which rule and in what.
    Command(ExplainCommandArguments),
    /// Says which paths a prompt opens, and what the agents read of it.
    Prompt {
        /// The prompt.
        #[arg(value_name = "TEXT")]
        text: String,
        /// What relative paths in the prompt are relative to. Default: the current directory.
        #[arg(long, value_name = "DIR")]
        base: Option<String>,
        /// Prints JSON. Default: text.
        #[arg(long)]
        json: bool,
    },
    /// Answers tool calls, one JSON object on each line of standard input, with a decision each.
    Calls(GrantsSource),
}

/// Which path is explained, and for whom.
#[derive(Args, Debug)]
pub(crate) struct ExplainPathArguments {
    /// The path, relative to the current directory.
    pub path: String,
    /// The agent that asks. Default: every agent.
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The phase that it asks in. Default: both.
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<PhaseArgument>,
    /// The team. Default: looked up as for a run.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Prints JSON. Default: text.
    #[arg(long)]
    pub json: bool,
}

/// Which command line is explained, and for whom.
#[derive(Args, Debug)]
pub(crate) struct ExplainCommandArguments {
    /// The command line, as an agent would give it to `execute_command`.
    #[arg(value_name = "COMMAND", allow_hyphen_values = true)]
    pub command: String,
    /// The agent that runs it. Default: the only one.
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The phase that it runs it in. Default: coordination.
    #[arg(
        long,
        value_name = "PHASE",
        default_value = "coordination",
        hide_default_value = true
    )]
    pub phase: PhaseArgument,
    /// The team. Default: looked up as for a run; without one, the rules are those of a config that
    /// says nothing.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Prints JSON. Default: text.
    #[arg(long)]
    pub json: bool,
}

/// Which call is carried out, and for whom.
#[derive(Args, Debug)]
pub(crate) struct ToolArguments {
    /// The tool's name.
    pub name: String,
    /// The arguments as a JSON object, or `-` for standard input.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub args: String,
    /// Runs the command in a container of this image. Default: in what the config says, else in the
    /// sandbox.
    #[arg(long, value_name = "IMAGE", conflicts_with = "sandbox")]
    pub docker: Option<String>,
    /// Who calls.
    #[command(flatten)]
    pub caller: CallerArguments,
}

/// One command that is to be run.
#[derive(Args, Debug)]
pub(crate) struct SandboxArguments {
    /// Who runs it.
    #[command(flatten)]
    pub caller: CallerArguments,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// What another program asks before it calls a tool of its own.
#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Answers one request of Claude Code's `PreToolUse` hook, on standard input, as the gate decides.
    #[command(after_help = HOOK_EXAMPLES)]
    PreToolUse(HookArguments),
}

/// For whom a hook answers.
#[derive(Args, Debug)]
pub(crate) struct HookArguments {
    /// Where the grants stand.
    #[command(flatten)]
    pub source: GrantsSource,
    /// The agent of the config whose grants hold. Default: the only one.
    #[arg(long, value_name = "ID", conflicts_with = "grants")]
    pub agent: Option<String>,
    /// The socket of the run that the program is an agent of: its gate answers. Default: no run's.
    #[arg(long, value_name = "SOCKET",
        conflicts_with_all = ["grants", "config", "agent", "phase", "in_sandbox"])]
    pub socket: Option<String>,
    /// The phase that it calls in. Default: coordination.
    #[arg(
        long,
        value_name = "PHASE",
        default_value = "coordination",
        hide_default_value = true
    )]
    pub phase: PhaseArgument,
    /// Says that the program runs in a sandbox with these grants, so that its commands are held by more
    /// than their text. Default: it does not, and `Bash` is denied.
    #[arg(long)]
    pub in_sandbox: bool,
}

/// For whom something is done, and in what.
#[derive(Args, Debug)]
pub(crate) struct CallerArguments {
    /// Where the grants stand.
    #[command(flatten)]
    pub source: GrantsSource,
    /// The agent of the config that calls. Default: the only one.
    #[arg(long, value_name = "ID", conflicts_with = "grants")]
    pub agent: Option<String>,
    /// The phase that it calls in. Default: coordination.
    #[arg(
        long,
        value_name = "PHASE",
        default_value = "coordination",
        hide_default_value = true
    )]
    pub phase: PhaseArgument,
    /// What holds a command to its grants: `auto`, `A`, `B`, `C` or `off`. Default: what the config
    /// says, else `auto`.
    #[arg(long, value_name = "TIER")]
    pub sandbox: Option<SandboxLevelChoice>,
}

/// Where the grants of a call stand.
#[derive(Args, Debug)]
pub(crate) struct GrantsSource {
    /// A JSON file of grants: `{"workspace":DIR,"temp_workspaces":[DIR],"context_paths":[{"path",
    /// "permission","protected_paths"?}],"permissions":{"deny":[RULE]}}`. Default: none.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub grants: Option<String>,
    /// The team whose grants hold. Default: looked up as for a run.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
}
