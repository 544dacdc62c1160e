//! What was found for a first team, as the user reads it: models, programs and logins, and what it
//! means to give them to an agent.

use crate::config::draft::first_team::TeamCandidate;
use crate::config::external_agents::{ExternalAgentKind, KINDS, LoginFile};
use crate::dotenv::ConfigVariables;
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::text::escape_name;
use crate::world::io::files::inspect;

/// What it means to choose a model.
const MODEL_NOTE: &str = "What an agent reads is sent to the vendor or the server of its model, and \
                          so is the key; no agent sees a model's key.";
/// What it means to choose a program.
const PROGRAM_NOTE: &str = "A program works with its own tools, and its costs may be unknown; \
                            massgen confines it and passes it its API key or token, which it and \
                            its commands can read.";
/// What is done with logins.
const LOGIN_NOTE: &str = "No agent gets a login, which is valid until you revoke it: a program \
                          needs an API key, or, for Claude Code, the token of `claude \
                          setup-token` as `CLAUDE_CODE_OAUTH_TOKEN`.";

/// A login that a program keeps for the user.
#[derive(Debug)]
pub(super) struct FoundLogin {
    program: &'static str,
    /// The file, as it is shown.
    file: String,
}

/// Finds the logins of known programs. Their files are not read.
pub(super) fn find_logins(host: &Host) -> Vec<FoundLogin> {
    let logins = KINDS.iter().filter_map(|kind| {
        let file = login_file(kind.login?, host)?;
        let home = host.home.as_ref();
        let below = home.and_then(|home| file.below(home));
        let path = below.map_or_else(|| file.to_string(), |below| format!("~/{below}"));
        (inspect(&file) == LookupResult::File).then_some(FoundLogin {
            program: kind.command.first().copied()?,
            file: escape_name(&path),
        })
    });
    logins.collect()
}

fn login_file(login: LoginFile, host: &Host) -> Option<AbsPath> {
    let variable_directory = login.variable.and_then(|name| host.env(name));
    let directory = match variable_directory {
        Some(directory) => host.cwd.join(directory),
        None => host.home.as_ref()?.join(login.directory),
    };
    Some(directory.join(login.name))
}

impl FoundLogin {
    /// Describes it, and its file.
    pub(super) fn describe(&self) -> String {
        format!("login of `{}` in `{}`", self.program, self.file)
    }
}

/// Describes a program, and the variable with which it would sign in.
pub(super) fn describe_program(
    kind: &ExternalAgentKind,
    candidate: &TeamCandidate,
    env: &ConfigVariables,
) -> String {
    let is_set = |name: &&str| env.get_non_empty(name).is_some();
    let key = candidate.vendor.key_variables.iter().copied().find(is_set);
    let account = match (key, kind.token.filter(is_set)) {
        (Some(key), _) => format!("key {key}"),
        (None, Some(token)) => format!("token {token}"),
        (None, None) if kind.token.is_some() => "no API key and no token".to_owned(),
        (None, None) => "no API key".to_owned(),
    };
    format!("{}, {account}", candidate.source)
}

/// Returns the lines that list what was found.
pub(super) fn found_lines(candidates: &[TeamCandidate], logins: &[FoundLogin]) -> Vec<String> {
    let numbered = (1..).zip(candidates);
    let candidate_lines = numbered.map(|(number, candidate)| candidate_line(number, candidate));
    let login_lines = logins
        .iter()
        .map(|login| format!("  -  {}", login.describe()));
    let notes = [
        (!candidates.iter().all(TeamCandidate::is_program)).then_some(MODEL_NOTE),
        candidates
            .iter()
            .any(TeamCandidate::is_program)
            .then_some(PROGRAM_NOTE),
        (!logins.is_empty()).then_some(LOGIN_NOTE),
    ];
    let is_empty = candidates.is_empty() && logins.is_empty();
    let heading = if is_empty { "Found: nothing" } else { "Found:" };
    std::iter::once(heading.to_owned())
        .chain(candidate_lines)
        .chain(login_lines)
        .chain(notes.into_iter().flatten().map(str::to_owned))
        .collect()
}

/// Returns the line about a candidate with this number.
pub(super) fn candidate_line(number: usize, candidate: &TeamCandidate) -> String {
    let name = &candidate.name;
    let source = escape_name(&candidate.source);
    match &candidate.model {
        Some(model) => format!("  {number}  {name:<12} {}, {source}", escape_name(model)),
        None => format!("  {number}  {name:<12} {source}"),
    }
}
