//! The check that decides between the attempts of `--best-of` if none is given: what the project
//! seems to be tested with, which the user confirms.

use tokio_util::sync::CancellationToken;

use crate::cli::command_line::usage_error;
use crate::cli::deliveries::interactive_review::TerminalLines;
use crate::cli::interrupts::interrupted_before_run;
use crate::cli::output::CliOutput;
use crate::cli::run_context::PreparedRun;
use crate::cli::run_frontend::UserPresence;
use crate::error::Result;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::world::io::files::inspect;

/// The files of projects, each with the command that usually tests such a project.
const TEST_COMMANDS: [(&str, &str); 6] = [
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("pyproject.toml", "python3 -m pytest -q"),
    ("pytest.ini", "python3 -m pytest -q"),
    ("package.json", "npm test"),
    ("Makefile", "make test"),
];

/// Adds a check to a run of several attempts that has none: the one that the user confirms or types.
///
/// # Errors
/// The user is not present, or interrupted massgen.
pub(crate) fn add_found_check(
    prepared: &mut PreparedRun,
    user: UserPresence,
    stop: &CancellationToken,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let found = find_test_command(&prepared.team.host.cwd);
    if user == UserPresence::Absent {
        let example = found.unwrap_or("make test");
        let message = "`--best-of` needs a check that decides between the attempts";
        return Err(usage_error(message)
            .with_hint(format!("name one: --check \"{example}\""))
            .with_hint("to let a review alone decide, set `copies` and `strategy` in a config"));
    }
    let question = match found {
        Some(command) => {
            format!("check answers with `{command}`? [Y]es (default) / [N]o / another command:")
        }
        None => "command that an answer must pass (default: none):".to_owned(),
    };
    let line = TerminalLines::ask_once(stop, &question, output);
    let line = line.ok_or_else(interrupted_before_run)?;
    let command = match (line.trim(), found) {
        ("" | "y" | "Y" | "yes", Some(command)) => command,
        ("" | "n" | "N" | "no", _) => return Ok(()),
        (typed, _) => typed,
    };
    prepared.team.config.checks.require(command);
    // Recorded, so that the run is resumed with it.
    let words = ["--check".to_owned(), command.to_owned()];
    prepared.team.host.arguments.splice(0..0, words);
    Ok(())
}

/// Returns the command that usually tests a project like the one in `dir`.
fn find_test_command(dir: &AbsPath) -> Option<&'static str> {
    let is_there = |file: &str| inspect(&dir.join(file)) != LookupResult::Missing;
    let mut commands = TEST_COMMANDS.iter();
    let (_, command) = commands.find(|(file, _)| is_there(file))?;
    Some(command)
}
