//! Owns `massgen config …`: checks of files, and what is built in.

use serde_json::{Value, json};

use crate::cli::args::ConfigCommand;
use crate::cli::environment::{self, Completed};
use crate::cli::output::{Form, Output};
use crate::cli::team_file::TeamFile;
use crate::config::diagnostic::{Diagnostic, Severity};
use crate::config::{Loaded, examples, schema};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::hooks::expect_programs;
use crate::wording::counted;

/// Whether warnings count as errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strictness {
    /// Only errors fail a check.
    Errors,
    /// Warnings fail it too.
    Warnings,
}

/// What a check found in one file.
struct Findings {
    errors: usize,
    warnings: usize,
    text: String,
    json: Value,
}

/// Carries out what follows `massgen config`.
pub(crate) fn run(
    host: &Host,
    command: &ConfigCommand,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    match command {
        ConfigCommand::Check {
            files,
            json,
            strict,
        } => {
            let strictness = if *strict {
                Strictness::Warnings
            } else {
                Strictness::Errors
            };
            return check(host, files, Form::from(*json), strictness, output);
        }
        ConfigCommand::Examples => {
            for example in examples::EXAMPLES {
                output.result(&format!("{}\n    {}\n", example.name, example.summary()))?;
            }
        }
        ConfigCommand::Show { name } => output.result(example(name)?)?,
        ConfigCommand::Schema => output.result(&format!("{:#}\n", schema::schema()))?,
    }
    Ok(ExitStatus::Delivered)
}

fn example(name: &str) -> Result<&'static str> {
    let Some(example) = examples::find(name) else {
        let error = Error::new(ErrorKind::Usage, format!("no config `{name}` is built in"));
        let error = match examples::nearest_name(name) {
            Some(nearest) => error.hint(format!("did you mean `{nearest}`?")),
            None => error,
        };
        return Err(error.hint("`massgen config examples` lists what is built in"));
    };
    Ok(example.text)
}

fn check(
    host: &Host,
    files: &[String],
    form: Form,
    strictness: Strictness,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let Completed { host, warnings } = environment::complete(host);
    for warning in &warnings {
        output.warning(warning);
    }
    let mut status = ExitStatus::Delivered;
    for file in files {
        let findings = Findings::of(file, &host);
        if findings.fails(strictness) {
            status = ExitStatus::Usage;
        }
        output.result(&match form {
            Form::Json => findings.for_scripts(file),
            Form::Text => findings.for_people(file),
        })?;
    }
    Ok(status)
}

impl Findings {
    fn of(file: &str, host: &Host) -> Self {
        match TeamFile::named(file, host).map(|team| team.load(host)) {
            Ok(Ok(loaded)) => match expect_programs(&loaded.config, &host.cwd, &host.env) {
                Ok(()) => Self::without_errors(&loaded),
                Err(error) => Self::unreadable(&error),
            },
            Ok(Err(invalid)) => {
                let is_error = |found: &&Diagnostic| found.severity == Severity::Error;
                let errors = invalid.diagnostics.iter().filter(is_error).count();
                Self {
                    errors,
                    warnings: invalid.diagnostics.len().saturating_sub(errors),
                    text: invalid.render(),
                    json: invalid.to_json(),
                }
            }
            Err(error) => Self::unreadable(&error),
        }
    }

    fn without_errors(loaded: &Loaded) -> Self {
        Self {
            errors: 0,
            warnings: loaded.warnings.len(),
            text: loaded.render(),
            json: loaded.to_json(),
        }
    }

    fn unreadable(error: &Error) -> Self {
        Self {
            errors: 1,
            warnings: 0,
            text: format!("error: {error}"),
            json: unreadable(error),
        }
    }

    fn fails(&self, strictness: Strictness) -> bool {
        match strictness {
            Strictness::Errors => self.errors > 0,
            Strictness::Warnings => self.errors > 0 || self.warnings > 0,
        }
    }

    /// The findings with their lines, and last the file's name with its verdict.
    fn for_people(&self, file: &str) -> String {
        let verdict = match (self.errors, self.warnings) {
            (0, 0) => "ok".to_owned(),
            (errors, warnings) => {
                format!(
                    "{}, {}",
                    counted(errors, "error"),
                    counted(warnings, "warning")
                )
            }
        };
        let space = if self.text.is_empty() { "" } else { "\n\n" };
        format!("{}{space}{file}: {verdict}\n", self.text)
    }

    /// One line of JSON, with the file's name.
    fn for_scripts(mut self, file: &str) -> String {
        if let Value::Object(fields) = &mut self.json {
            fields.insert("file".to_owned(), Value::from(file));
        }
        format!("{}\n", self.json)
    }
}

/// The result of a check whose file cannot be read.
fn unreadable(error: &Error) -> Value {
    let finding = json!({
        "message": error.to_string(),
        "location": "root",
        "suggestion": error.hints().first(),
    });
    json!({
        "valid": false,
        "error_count": 1,
        "warning_count": 0,
        "errors": [finding],
        "warnings": [],
    })
}
