//! The `massgen config` commands: checks config files, lists and shows the built-in examples, and
//! prints the schema of configs.

use serde_json::{Value, json};

use crate::cli::args::ConfigCommand;
use crate::cli::command_line::usage_error;
use crate::cli::environment::{self, LoadedEnvironment};
use crate::cli::missing_files::{MissingFile, MissingFileKind, missing_files};
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::run_context::require_agent_scripts;
use crate::cli::skills::describe_configured;
use crate::cli::team_file::TeamFile;
use crate::config::diagnostic::{Diagnostic, Severity};
use crate::config::{Config, LoadedConfig, examples, schema};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::grants::InheritedPaths;
use crate::orchestrator::program_files::require_hook_programs;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess};
use crate::text::{count_noun, escape_line, escape_name, single_line};

/// Result of checking one file.
struct ConfigCheckReport {
    errors: usize,
    warnings: usize,
    text: String,
    json: Value,
    /// The files and programs that the config names and that do not exist.
    missing_files: Vec<MissingFile>,
}

/// Runs a `massgen config` subcommand.
pub(crate) fn run(
    host: &Host,
    command: &ConfigCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    match command {
        ConfigCommand::Check {
            files,
            json,
            strict,
        } => {
            return check(host, files, ReportFormat::from(*json), *strict, output);
        }
        ConfigCommand::Examples => {
            for example in examples::EXAMPLES {
                output.result(&format!("{}\n    {}\n", example.name, example.summary()))?;
            }
        }
        ConfigCommand::Show { name } => output.result(example_text(name)?)?,
        ConfigCommand::Schema => output.result(&format!("{:#}\n", schema::schema()))?,
    }
    Ok(ExitStatus::Success)
}

fn example_text(name: &str) -> Result<&'static str> {
    let Some(example) = examples::find_example(name) else {
        let error = Error::new(ErrorKind::Usage, format!("no built-in config `{name}`"));
        let error = match examples::nearest_name(name) {
            Some(nearest) => error.with_hint(format!("did you mean `{nearest}`?")),
            None => error,
        };
        return Err(error.with_hint("see `massgen config examples`"));
    };
    Ok(example.text)
}

fn check(
    host: &Host,
    files: &[String],
    format: ReportFormat,
    is_strict: bool,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let LoadedEnvironment { host, warnings } = environment::load(host);
    for warning in &warnings {
        output.warning(warning);
    }
    let found_file = match files {
        [] => Some(find_default_name(&host, output)?),
        [_, ..] => None,
    };
    let mut status = ExitStatus::Success;
    for file in files.iter().chain(&found_file) {
        let report = ConfigCheckReport::check_file(file, &host);
        if report.fails(is_strict) {
            status = ExitStatus::Usage;
        }
        output.result(&match format {
            ReportFormat::Json => report.into_json(file),
            ReportFormat::Text => report.to_text(file),
        })?;
    }
    Ok(status)
}

/// Returns the config that a run would find, as an argument that names the file itself.
fn find_default_name(host: &Host, output: &mut CliOutput<'_>) -> Result<String> {
    let file = TeamFile::find_default(host, output)?;
    let path = file.as_ref().and_then(TeamFile::path);
    path.map(ToString::to_string).ok_or_else(|| {
        usage_error("no config is found here, and none is named")
            .with_hint("name one: massgen config check FILE")
            .with_hint("or write one: massgen init")
    })
}

impl ConfigCheckReport {
    fn check_file(file: &str, host: &Host) -> Self {
        match TeamFile::find(file, host).map(|team| team.load(host)) {
            Ok(Ok(loaded_config)) => match require_parts(&loaded_config.config, host) {
                Ok(()) => Self::from_loaded(&loaded_config)
                    .with_obstacle(&loaded_config.config, host)
                    .with_missing_files(&loaded_config.config, host)
                    .with_skills(&loaded_config.config, host),
                Err(error) => Self::from_error(&error),
            },
            Ok(Err(invalid)) => {
                let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Error;
                let errors = invalid.diagnostics.iter().filter(is_error).count();
                Self {
                    errors,
                    warnings: invalid.diagnostics.len().saturating_sub(errors),
                    text: invalid.render(),
                    json: invalid.to_json(),
                    missing_files: Vec::new(),
                }
            }
            Err(error) => Self::from_error(&error),
        }
    }

    fn from_loaded(loaded_config: &LoadedConfig) -> Self {
        Self {
            errors: 0,
            warnings: loaded_config.warnings.len(),
            text: loaded_config.render(),
            json: loaded_config.to_json(),
            missing_files: Vec::new(),
        }
    }

    /// Adds why a run in this directory would be refused, if it would: a path that the config opens
    /// is not there.
    fn with_obstacle(mut self, config: &Config, host: &Host) -> Self {
        let Some(error) = find_obstacle(config, host) else {
            return self;
        };
        let reason = escape_line(&single_line(&error.to_string(), usize::MAX));
        self.add_paragraph(&format!(
            "error: a run in this directory would be refused: {reason}"
        ));
        if let Value::Object(fields) = &mut self.json {
            fields.insert("obstacle".to_owned(), Value::from(reason));
        }
        self.errors = self.errors.saturating_add(1);
        self
    }

    /// Adds which files and programs of servers and tools do not exist. That is no finding about
    /// the config itself, because it may be meant for another machine.
    fn with_missing_files(mut self, config: &Config, host: &Host) -> Self {
        self.missing_files = missing_files(config, host.env("PATH").unwrap_or_default());
        let warning = |missing: &MissingFile| {
            let (noun, file) = (missing.kind.noun(), escape_name(&missing.file));
            let MissingFile { subject, hint, .. } = missing;
            format!("warning: `{subject}`: {noun} `{file}` not found\n  = hint: {hint}")
        };
        let warnings: Vec<String> = self.missing_files.iter().map(warning).collect();
        for warning in warnings {
            self.add_paragraph(&warning);
        }
        if let Value::Object(fields) = &mut self.json {
            for kind in MissingFileKind::ALL {
                let missing = self
                    .missing_files
                    .iter()
                    .filter(|missing| missing.kind == kind);
                let files: Vec<&str> = missing.map(|missing| missing.file.as_str()).collect();
                if !files.is_empty() {
                    fields.insert(format!("missing_{}s", kind.noun()), Value::from(files));
                }
            }
        }
        self
    }

    /// Returns how many files and programs are missing, such as `2 files and 1 program`.
    fn missing_files_summary(&self) -> String {
        let counts = MissingFileKind::ALL.map(|kind| {
            let missing = self
                .missing_files
                .iter()
                .filter(|missing| missing.kind == kind);
            (missing.count(), kind.noun())
        });
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, noun)| count_noun(count, noun))
            .collect();
        counts.join(" and ")
    }

    /// Adds the skills that the config offers to agents.
    fn with_skills(mut self, config: &Config, host: &Host) -> Self {
        if let Some((lines, json)) = describe_configured(config, host) {
            self.add_paragraph(&lines);
            if let Value::Object(fields) = &mut self.json {
                fields.insert("skills".to_owned(), json);
            }
        }
        self
    }

    fn from_error(error: &Error) -> Self {
        Self {
            errors: 1,
            warnings: 0,
            text: error_text(error),
            json: unreadable_file_json(error),
            missing_files: Vec::new(),
        }
    }

    /// Adds a paragraph to the findings.
    fn add_paragraph(&mut self, paragraph: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(paragraph);
    }

    /// Returns whether the check failed; in a strict one, warnings count as errors.
    fn fails(&self, is_strict: bool) -> bool {
        self.errors > 0 || (is_strict && self.warnings > 0)
    }

    /// Returns the findings with their lines, followed by the file's name and its verdict.
    fn to_text(&self, file: &str) -> String {
        let verdict = match (self.errors, self.warnings) {
            (0, 0) if !self.missing_files.is_empty() => {
                format!("ok, but {} not found", self.missing_files_summary())
            }
            (0, 0) => "ok".to_owned(),
            (errors, warnings) => {
                format!(
                    "{}, {}",
                    count_noun(errors, "error"),
                    count_noun(warnings, "warning")
                )
            }
        };
        let separator = if self.text.is_empty() { "" } else { "\n\n" };
        format!("{}{separator}{file}: {verdict}\n", self.text)
    }

    /// Returns one line of JSON, with the file's name.
    fn into_json(mut self, file: &str) -> String {
        if let Value::Object(fields) = &mut self.json {
            fields.insert("file".to_owned(), Value::from(file));
        }
        format!("{}\n", self.json)
    }
}

/// Checks what a config needs besides itself: the programs of its hooks and the scripts of its
/// models.
fn require_parts(config: &Config, host: &Host) -> Result<()> {
    require_hook_programs(config, &host.cwd, &host.env)?;
    require_agent_scripts(config, &host.cwd)
}

/// Returns why the paths that a config opens cannot be opened here, if they cannot. Those of a
/// pipeline's roles are not known before it runs.
fn find_obstacle(config: &Config, host: &Host) -> Option<Error> {
    if config.workflow.is_some() {
        return None;
    }
    let layout = RunLayout::plan(config, &host.state_parent, RunName::new(0));
    let inherited = InheritedPaths {
        home: host.home.as_ref(),
        ..InheritedPaths::default()
    };
    let access = DeliveryAccess::ReadWrite;
    AgentTeam::assemble(config, &layout, &host.cwd, inherited, access).err()
}

/// Returns `error` with its causes and hints, as it would be printed at the end of a command.
fn error_text(error: &Error) -> String {
    let causes = error.causes().map(|cause| format!("caused by: {cause}"));
    let hints = error.hints().iter().map(|hint| format!("hint: {hint}"));
    let lines: Vec<String> = [format!("error: {error}")]
        .into_iter()
        .chain(causes)
        .chain(hints)
        .map(|line| escape_line(line.trim_end()))
        .collect();
    lines.join("\n")
}

/// Returns the result of checking a file that cannot be read.
fn unreadable_file_json(error: &Error) -> Value {
    let finding = json!({
        "message": error.to_string(),
        "location": "root",
        "suggestion": error.hints().first(),
        "causes": error.causes().map(ToString::to_string).collect::<Vec<_>>(),
        "hints": error.hints(),
    });
    json!({
        "valid": false,
        "error_count": 1,
        "warning_count": 0,
        "errors": [finding],
        "warnings": [],
    })
}
