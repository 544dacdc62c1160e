//! Implements `massgen explain command`: the commands that a command line consists of, the result
//! of each check, and how they would be isolated if they ran. Nothing of the line is run, and
//! nothing is created or tested: everything follows from the config and the grants.

use std::fmt;

use serde::Serialize;

use crate::call_rules::CallRules;
use crate::call_rules::judge::CallJudgement;
use crate::commands::judge::{CommandCheck, check_command, check_line};
use crate::commands::line::{ShellWord, SimpleCommand, WrappedKind};
use crate::commands::parse::parse;
use crate::commands::{CommandPolicy, CommandRules};
use crate::config::command_line::{CommandBounds, CommandLineConfig};
use crate::config::execution_mode::ExecutionMode;
use crate::config::size;
use crate::path::AbsPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Permission, Phase};
use crate::permissions::rules::{ASKED_BY_CONFIG, DENIED_BY_CONFIG};
use crate::sandbox_policy::AccessiblePath;
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::ResourceLimits;
use crate::sandbox_policy::compile::reachable_paths;
use crate::sandbox_policy::sandbox_level::{
    CONTAINER_LEAVES_OPEN, SandboxLevel, SandboxLevelChoice,
};
use crate::text::escape_name;

/// The tool that runs a command line.
const EXECUTE_COMMAND: &str = "execute_command";
/// The decision that refuses a command.
const DENY: &str = "deny";
/// The result of a check that allows.
const PASS: &str = "pass";
/// The result of a check that refuses.
const REFUSE: &str = "refuse";
/// The result of a check, and the decision, that asks for approval.
const ASK: &str = "ask";

/// Explanation of one command line, for one agent in one phase.
#[derive(Debug, Serialize)]
pub struct CommandReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    phase: Phase,
    command: String,
    decision: &'static str,
    policy: &'static str,
    /// Why the line could not be parsed, or not completely.
    unread: Option<String>,
    /// The checks of the whole line.
    checks: Vec<CheckReport>,
    commands: Vec<SimpleCommandReport>,
    /// Its isolation and limits.
    #[serde(rename = "holds")]
    sandbox: Option<SandboxReport>,
    /// Why there is no report of its isolation.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsandboxed: Option<&'static str>,
}

/// One simple command.
#[derive(Debug, Serialize)]
struct SimpleCommandReport {
    text: String,
    /// The expression in the position of its name.
    #[serde(skip)]
    name_as_written: Option<String>,
    /// Its name; `None` if it is known only at run time.
    name: Option<String>,
    arguments: Vec<String>,
    /// The steps by which it is reached, from the outside in.
    reached: Vec<String>,
    /// The commands that it starts in turn.
    starts: Option<&'static str>,
    checks: Vec<CheckReport>,
}

/// One check.
#[derive(Debug, Serialize)]
struct CheckReport {
    rule: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(rename = "way_out", skip_serializing_if = "Option::is_none")]
    suggestion: Option<String>,
}

/// The caller of a command.
#[derive(Debug)]
pub struct CommandCaller<'a> {
    /// The agent.
    pub agent: String,
    /// The agent's permissions in the phase.
    pub permissions: &'a PathPermissionManager,
    /// The rules in `permissions` of the config.
    pub rules: &'a CallRules,
    /// Its command settings; `None` if it may run none.
    pub commands: Option<&'a CommandLineConfig>,
}

/// What isolates commands.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ExplainedIsolation {
    /// massgen's own sandbox.
    Sandbox {
        /// The sandbox level; `None` if a run uses the strongest one available.
        level: Option<SandboxLevel>,
    },
    /// The agent's own container.
    Container {
        /// The image.
        image: String,
    },
}

/// Isolation and limits of a command.
#[derive(Debug, Serialize)]
struct SandboxReport {
    /// What isolates the command.
    by: ExplainedIsolation,
    /// What the isolation does not prevent.
    leaves_open: Vec<String>,
    /// The paths that the command could access.
    open: Vec<SandboxOpenPath>,
    /// The hidden paths, which it could not access.
    hidden: Vec<String>,
    /// `on`, `off`, or the domains that it could connect to.
    network: Vec<String>,
    memory_bytes: Option<u64>,
    processes: u64,
    open_files: u64,
    file_bytes: u64,
    cpu_seconds: Option<u64>,
    timeout_seconds: u64,
    output_bytes: u64,
    /// The names of variables in addition to those that every command has.
    env: Vec<String>,
}

/// A path that the command could access.
#[derive(Debug, Serialize)]
struct SandboxOpenPath {
    path: String,
    permission: Permission,
}

impl CommandReport {
    /// Parses `line` and runs every check on it. Without a caller, the rules are those of an empty
    /// config.
    pub fn new(line: &str, phase: Phase, caller: Option<&CommandCaller<'_>>) -> Self {
        let commands = caller.and_then(|caller| caller.commands);
        let rules = commands.map_or_else(CommandRules::default, |config| {
            config.rules(ExplainedIsolation::from_config(config).assumed_level())
        });
        let parsed_line = parse(line);
        let line_checks = check_line(&rules, line, &parsed_line).into_iter();
        let permissions_check =
            caller.and_then(|caller| CheckReport::from_rules(caller.rules, line));
        let asks_for_approval = permissions_check
            .as_ref()
            .is_some_and(|check| check.outcome == ASK);
        let checks: Vec<CheckReport> = line_checks
            .map(CheckReport::from_check)
            .chain(permissions_check)
            .collect();
        let command_reports: Vec<SimpleCommandReport> = parsed_line
            .commands
            .iter()
            .map(|command| SimpleCommandReport::from_command(&rules, command))
            .collect();
        let command_checks = command_reports.iter().flat_map(|report| &report.checks);
        let mut all_checks = command_checks.chain(&checks);
        let is_refused = all_checks.any(|check| check.outcome == REFUSE);
        let unsandboxed = match (caller, commands) {
            (None, _) => Some("no config: the sandbox is unknown"),
            (Some(_), None) => Some("the agent may not run commands"),
            (Some(_), Some(_)) => None,
        };
        let may_run = caller.is_none() || commands.is_some();
        Self {
            agent: caller.map(|caller| caller.agent.clone()),
            phase,
            command: line.to_owned(),
            decision: if is_refused || !may_run {
                DENY
            } else if asks_for_approval {
                ASK
            } else {
                "allow"
            },
            policy: match rules.policy {
                CommandPolicy::Standard => "standard",
                CommandPolicy::Strict => "strict",
            },
            unread: parsed_line.unparsed_reason.map(|reason| reason.to_string()),
            checks,
            commands: command_reports,
            sandbox: caller.and_then(SandboxReport::from_caller),
            unsandboxed,
        }
    }

    /// Returns whether the command would be refused.
    pub fn is_refused(&self) -> bool {
        self.decision == DENY
    }

    /// Returns one line of JSON.
    pub fn to_json(&self) -> String {
        // Strings can always be serialized to JSON.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

impl SimpleCommandReport {
    fn from_command(rules: &CommandRules, command: &SimpleCommand) -> Self {
        Self {
            text: command.to_string(),
            name_as_written: command.words.first().map(|word| word.raw.clone()),
            name: command.name(),
            arguments: command
                .words
                .iter()
                .skip(1)
                .map(ShellWord::display_text)
                .collect(),
            reached: command.steps.iter().map(ToString::to_string).collect(),
            starts: match command.wrapped_kind {
                WrappedKind::Nothing => None,
                WrappedKind::Commands => Some("commands"),
                WrappedKind::OneCommand => Some("one command instead"),
                WrappedKind::Unknown => Some("commands that are known only at run time"),
            },
            checks: check_command(rules, command)
                .map(CheckReport::from_check)
                .collect(),
        }
    }
}

impl CheckReport {
    /// Returns the check of a line against `permissions` of the config; `None` if no rule is about
    /// it.
    fn from_rules(rules: &CallRules, line: &str) -> Option<Self> {
        let report = |rule, outcome, reason| Self {
            rule,
            outcome,
            reason,
            suggestion: None,
        };
        match rules.judge(EXECUTE_COMMAND, Some(line)) {
            CallJudgement::Undecided => None,
            CallJudgement::Allowed => Some(report("permissions-allow", PASS, None)),
            CallJudgement::Asked(matched) => {
                Some(report(ASKED_BY_CONFIG, ASK, Some(matched.reason)))
            }
            CallJudgement::Denied(matched) => {
                Some(report(DENIED_BY_CONFIG, REFUSE, Some(matched.reason)))
            }
        }
    }

    fn from_check(check: CommandCheck) -> Self {
        let refusal = check.refusal;
        Self {
            rule: check.rule,
            outcome: if refusal.is_some() { REFUSE } else { PASS },
            suggestion: refusal.as_ref().map(|refusal| refusal.suggestion.clone()),
            reason: refusal.map(|refusal| refusal.reason),
        }
    }
}

impl ExplainedIsolation {
    fn from_config(config: &CommandLineConfig) -> Self {
        match (&config.mode, config.sandbox) {
            (ExecutionMode::Docker(docker), _) => ExplainedIsolation::Container {
                image: docker.image.clone(),
            },
            (ExecutionMode::Local, SandboxLevelChoice::Auto) => {
                ExplainedIsolation::Sandbox { level: None }
            }
            (ExecutionMode::Local, SandboxLevelChoice::Only(level)) => {
                ExplainedIsolation::Sandbox { level: Some(level) }
            }
        }
    }

    /// Returns the level whose accessible paths are shown. A container has those of `namespaces`.
    fn assumed_level(&self) -> SandboxLevel {
        match self {
            ExplainedIsolation::Sandbox { level } => level.unwrap_or(SandboxLevel::Overlay),
            ExplainedIsolation::Container { .. } => SandboxLevel::Namespaces,
        }
    }

    fn leaves_open(&self) -> &'static [&'static str] {
        match self {
            ExplainedIsolation::Sandbox { level: Some(level) } => level.leaves_open(),
            ExplainedIsolation::Sandbox { level: None } => &[
                "which level that is; at level `landlock` commands of a run work on copies of your write \
                 paths and single commands only read them, and without any level all commands are refused: `massgen doctor` tests it",
            ],
            ExplainedIsolation::Container { .. } => CONTAINER_LEAVES_OPEN,
        }
    }
}

impl fmt::Display for ExplainedIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplainedIsolation::Sandbox {
                level: Some(SandboxLevel::Off),
            } => f.write_str("nothing: the sandbox is off"),
            ExplainedIsolation::Sandbox { level: Some(level) } => {
                write!(f, "sandbox level `{level}` ({})", level.description())
            }
            ExplainedIsolation::Sandbox { level: None } => {
                f.write_str("the strongest sandbox of this machine")
            }
            ExplainedIsolation::Container { image } => write!(f, "a container of `{image}`"),
        }
    }
}

impl SandboxReport {
    fn from_caller(caller: &CommandCaller<'_>) -> Option<Self> {
        let config = caller.commands?;
        let (open_paths, hidden_paths) = reachable_paths(
            caller.permissions,
            ExplainedIsolation::from_config(config).assumed_level(),
        );
        let mut report = Self::without_paths(config);
        let unenforced_rules = caller
            .rules
            .unenforced_for_commands()
            .map(|rule| format!("new files in the workspace, despite `{rule}`"));
        report.leaves_open.extend(unenforced_rules);
        Some(Self {
            open: open_paths
                .iter()
                .map(SandboxOpenPath::from_accessible_path)
                .collect(),
            hidden: hidden_paths.iter().map(AbsPath::to_string).collect(),
            ..report
        })
    }

    /// Describes how commands would be isolated, without the paths that they could access.
    fn without_paths(config: &CommandLineConfig) -> Self {
        let CommandLineConfig {
            limits,
            bounds,
            env,
            ..
        } = config;
        let isolation = ExplainedIsolation::from_config(config);
        let ResourceLimits {
            memory_bytes,
            processes,
            open_files,
            file_bytes,
            cpu_seconds,
            ..
        } = *limits;
        let CommandBounds {
            timeout_seconds,
            output_bytes_max,
        } = *bounds;
        Self {
            leaves_open: isolation
                .leaves_open()
                .iter()
                .map(ToString::to_string)
                .collect(),
            by: isolation,
            open: Vec::new(),
            hidden: Vec::new(),
            network: match config.network_access() {
                _ if config.sandbox == SandboxLevelChoice::Only(SandboxLevel::Off) => {
                    vec!["on".to_owned()]
                }
                NetworkPolicy::Off => vec!["off".to_owned()],
                NetworkPolicy::On => vec!["on".to_owned()],
                NetworkPolicy::Domains(domains) => {
                    domains.iter().map(ToString::to_string).collect()
                }
            },
            memory_bytes,
            processes,
            open_files,
            file_bytes,
            cpu_seconds,
            timeout_seconds,
            output_bytes: output_bytes_max,
            env: env.keys().cloned().collect(),
        }
    }

    /// Describes the resource limits of a command for people.
    fn limits_text(&self) -> String {
        let mut limits = vec![
            format!("{} processes", self.processes),
            format!("{} open files per process", self.open_files),
            format!("files of {}", size::describe(self.file_bytes)),
            format!("{} seconds", self.timeout_seconds),
            format!("output of {}", size::describe(self.output_bytes)),
        ];
        let memory = self.memory_bytes.map(size::describe);
        limits.extend(memory.map(|memory| format!("memory of {memory}")));
        limits.extend(
            self.cpu_seconds
                .map(|seconds| format!("{seconds} CPU seconds")),
        );
        limits.join(", ")
    }
}

/// Describes the isolation and resource limits of an agent's commands in one line.
pub(crate) fn describe_isolation(config: &CommandLineConfig) -> String {
    let report = SandboxReport::without_paths(config);
    let (isolation, network) = (&report.by, report.network.join(", "));
    let limits = report.limits_text();
    format!("isolation: {isolation}; network {network}; at most {limits}")
}

impl SandboxOpenPath {
    fn from_accessible_path(accessible_path: &AccessiblePath) -> Self {
        Self {
            path: accessible_path.path.to_string(),
            permission: accessible_path.permission,
        }
    }
}

impl fmt::Display for CommandReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = self.agent.as_deref().unwrap_or("the agent");
        writeln!(f, "{agent}, {} phase: {}", self.phase, self.decision)?;
        if let Some(unread) = &self.unread {
            writeln!(f, "  the line was not fully parsed: {unread}")?;
        }
        for check in &self.checks {
            check.write_indented(f, "  ")?;
        }
        for command in &self.commands {
            write!(f, "{command}")?;
        }
        if let Some(sandbox) = &self.sandbox {
            write!(f, "{sandbox}")?;
        }
        match self.unsandboxed {
            Some(reason) => writeln!(f, "  {reason}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SimpleCommandReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name_as_written, &self.name) {
            (None, _) => writeln!(f, "  (no command) {}", self.text)?,
            (Some(written), Some(name)) if written != name => {
                writeln!(f, "  {}\n    name     {name}", self.text)?;
            }
            (Some(_), _) => writeln!(f, "  {}", self.text)?,
        }
        if !self.reached.is_empty() {
            writeln!(f, "    reached  {}", self.reached.join(", "))?;
        }
        if let Some(starts) = self.starts {
            writeln!(f, "    starts   {starts}")?;
        }
        let passed_rules: Vec<&str> = self
            .checks
            .iter()
            .filter(|check| check.reason.is_none())
            .map(|check| check.rule)
            .collect();
        if !passed_rules.is_empty() {
            writeln!(f, "    pass     {}", passed_rules.join(", "))?;
        }
        let mut refused_checks = self.checks.iter().filter(|check| check.reason.is_some());
        refused_checks.try_for_each(|check| check.write_indented(f, "    "))
    }
}

impl CheckReport {
    fn write_indented(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        let Self { rule, outcome, .. } = self;
        match &self.reason {
            Some(reason) => writeln!(f, "{indent}{outcome:8} {rule}: {reason}")?,
            None => writeln!(f, "{indent}{outcome:8} {rule}")?,
        }
        match &self.suggestion {
            Some(suggestion) => writeln!(f, "{indent}         instead: {suggestion}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  isolation: {}", self.by)?;
        for SandboxOpenPath { path, permission } in &self.open {
            writeln!(f, "    {:8} {}", permission.to_string(), escape_name(path))?;
        }
        for path in &self.hidden {
            writeln!(f, "    hidden   {}", escape_name(path))?;
        }
        writeln!(f, "    network  {}", self.network.join(", "))?;
        writeln!(f, "    limits   {}", self.limits_text())?;
        if !self.env.is_empty() {
            writeln!(f, "    env      {}", self.env.join(", "))?;
        }
        for access in &self.leaves_open {
            writeln!(f, "    open     {access}")?;
        }
        Ok(())
    }
}
