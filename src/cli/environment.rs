//! Reads `.env` files: decides which of their variables are used, and warns about the others. No
//! variable from such a file ever becomes part of a process's environment.

use std::collections::BTreeMap;

use crate::config::lookup::{DotenvLocation, dotenv_locations, is_process_only};
use crate::config::vendors::{is_key_variable, key_variables_after};
use crate::dotenv::{DotenvAssignment, DotenvAuthor, ParsedDotenv, parse};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::text::{count_noun, list_first};
use crate::world::io::files::{inspect, read_own, read_regular_file};
use crate::world::io::locate::locate;

/// Maximum size of an `.env` file, in bytes.
const ENV_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Maximum number of unreadable lines that are reported for each file.
const PROBLEMS_SHOWN_MAX: usize = 5;
/// Maximum number of unused variables that are named.
const NAMES_SHOWN_MAX: usize = 5;
/// Maximum length of a name that is shown, in bytes.
const NAME_BYTES_MAX: usize = 40;

/// The process, with the variables of the `.env` files, and warnings about what could not be used.
#[derive(Debug)]
pub(crate) struct LoadedEnvironment {
    /// The process, with its environment unchanged.
    pub host: Host,
    /// Warnings about the files for the user.
    pub warnings: Vec<String>,
}

/// Reads the `.env` files of the current directory, the user and the executable, and adds their
/// variables to a copy of `host`.
pub(crate) fn load(host: &Host) -> LoadedEnvironment {
    let locations = dotenv_locations(&host.cwd, host.home.as_ref(), host.executable_dir.as_ref());
    let mut host = host.clone();
    let mut warnings = Vec::new();
    for location in locations {
        match read_file(&location) {
            Ok(None) => {}
            Ok(Some(text)) => {
                let ParsedDotenv {
                    assignments,
                    problems,
                } = parse(&text);
                let shown_problems = problems.iter().take(PROBLEMS_SHOWN_MAX);
                let file = &location.file;
                warnings.extend(
                    shown_problems
                        .map(|problem| format!("`{file}:{}` {}", problem.line, problem.kind)),
                );
                let hidden_count = problems.len().saturating_sub(PROBLEMS_SHOWN_MAX);
                if hidden_count > 0 {
                    let hidden_lines = count_noun(hidden_count, "more line");
                    warnings.push(format!("`{file}`: {hidden_lines} cannot be read"));
                }
                let (candidates, ignored_names) = filter_assignments(assignments, location.author);
                warnings.extend(ignored_warning(&location, &ignored_names));
                // The user's own file may set a key that outranks one of the environment.
                let (assignments, outranked_names) = match location.author {
                    DotenvAuthor::User => (candidates, Vec::new()),
                    DotenvAuthor::Stranger => split_outranked(candidates, &host.env),
                };
                warnings.extend(outranked_warning(&location, &outranked_names));
                warnings.extend(unexpanded_warning(&location, &assignments));
                host.dotenv.add(file, location.author, assignments);
            }
            Err(error) => warnings.push(unreadable_file_warning(&error)),
        }
    }
    LoadedEnvironment { host, warnings }
}

/// Returns the warning that a file is not used, with its hints.
fn unreadable_file_warning(error: &Error) -> String {
    let hints = error.hints().iter().map(|hint| format!("; {hint}"));
    let hints: String = hints.collect();
    format!("ignoring its variables: {error:#}{hints}")
}

/// Reads a file, if it exists. A file that came with a directory is not read if it is a symlink
/// that leads out of that directory: it could be made to print lines of any of the user's files.
fn read_file(location: &DotenvLocation) -> Result<Option<String>> {
    let DotenvLocation { file, author } = location;
    if inspect(file) == LookupResult::Missing {
        return Ok(None);
    }
    let bytes = match author {
        DotenvAuthor::User => read_own(file, ENV_FILE_BYTES_MAX)?,
        DotenvAuthor::Stranger => {
            require_inside(file)?;
            read_regular_file(file, ENV_FILE_BYTES_MAX)?
        }
    };
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| {
        let message = format!("`{file}` is not UTF-8");
        Error::new(ErrorKind::Config, message)
    })
}

fn require_inside(file: &AbsPath) -> Result<()> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    let (target, folder) = (locate(file)?.into_real(), locate(&folder)?.into_real());
    if target.is_within(&folder) {
        return Ok(());
    }
    let message = format!("`{file}` is a symlink to a file outside its directory");
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("replace it by a file, or set the variables in `~/.massgen/.env`"))
}

/// Splits the variables of a file into those that its author may set and the names of the others.
fn filter_assignments(
    assignments: Vec<DotenvAssignment>,
    author: DotenvAuthor,
) -> (Vec<DotenvAssignment>, Vec<String>) {
    let may_set = |assignment: &DotenvAssignment| match author {
        DotenvAuthor::User => !is_process_only(&assignment.name),
        DotenvAuthor::Stranger => is_key_variable(&assignment.name),
    };
    let (accepted, ignored): (Vec<DotenvAssignment>, Vec<DotenvAssignment>) =
        assignments.into_iter().partition(may_set);
    let mut ignored_names: Vec<String> = ignored
        .into_iter()
        .map(|assignment| assignment.name)
        .collect();
    ignored_names.sort();
    ignored_names.dedup();
    (accepted, ignored_names)
}

/// Splits the keys of a file that may have come with a project into those that are used, and the
/// names of those that would be used instead of another key of the same vendor in the user's
/// environment.
fn split_outranked(
    assignments: Vec<DotenvAssignment>,
    env: &BTreeMap<String, String>,
) -> (Vec<DotenvAssignment>, Vec<String>) {
    let is_set = |name: &str| env.get(name).is_some_and(|value| !value.trim().is_empty());
    let is_outranked = |assignment: &DotenvAssignment| {
        !is_set(&assignment.name) && key_variables_after(&assignment.name).any(is_set)
    };
    let (outranked, accepted): (Vec<DotenvAssignment>, Vec<DotenvAssignment>) =
        assignments.into_iter().partition(is_outranked);
    let names = outranked.into_iter().map(|assignment| assignment.name);
    (accepted, names.collect())
}

/// Returns the warning that keys are not used because of others in the environment, if there are
/// any.
fn outranked_warning(location: &DotenvLocation, names: &[String]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let (name_list, file) = (list_first(names, NAMES_SHOWN_MAX), &location.file);
    Some(format!(
        "ignoring {name_list} in `{file}`: your environment has another key of the vendor; export what \
         you need"
    ))
}

/// Returns the warning that variables are not used, if there are any.
fn ignored_warning(location: &DotenvLocation, names: &[String]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    // A line of something else, for example of a multi-line key, may look like a long name.
    let (short_names, long_names): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.len() <= NAME_BYTES_MAX);
    let description = match (short_names.as_slice(), long_names.len()) {
        ([], long_count) => count_noun(long_count, "variable"),
        (short_names, 0) => list_first(short_names, NAMES_SHOWN_MAX),
        (short_names, long_count) => {
            let name_list = list_first(short_names, NAMES_SHOWN_MAX);
            format!("{name_list}, {long_count} with long names")
        }
    };
    let file = &location.file;
    Some(match location.author {
        DotenvAuthor::User => {
            format!("ignoring {description} in `{file}`: set it in your environment")
        }
        DotenvAuthor::Stranger => format!(
            "ignoring variables in `{file}`, which may only set API keys: {description}; export what \
             you need, or set it in `~/.massgen/.env`"
        ),
    })
}

/// Returns the warning that `${…}` in values is not expanded, if there is any.
fn unexpanded_warning(
    location: &DotenvLocation,
    assignments: &[DotenvAssignment],
) -> Option<String> {
    let unexpanded = assignments
        .iter()
        .filter(|assignment| assignment.value.contains("${"));
    let names: Vec<&String> = unexpanded.map(|assignment| &assignment.name).collect();
    if names.is_empty() {
        return None;
    }
    let name_list = list_first(&names, NAMES_SHOWN_MAX);
    let file = &location.file;
    Some(format!(
        "`{file}`: variables are not expanded, so {name_list} contains `${{` literally"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_project_does_not_replace_one_of_the_environment() {
        #[track_caller]
        fn check(in_file: &str, in_env: &str, expected: &[&str]) {
            let assignments = vec![DotenvAssignment {
                line: 1,
                name: in_file.to_owned(),
                value: "of the project".to_owned(),
            }];
            let env = BTreeMap::from([(in_env.to_owned(), "of the user".to_owned())]);
            let (accepted, outranked) = split_outranked(assignments, &env);
            assert_eq!(outranked, expected);
            assert_eq!(accepted.len(), 1 - expected.len());
        }
        let claude = "CLAUDE_CODE_API_KEY";
        check(claude, "ANTHROPIC_API_KEY", &[claude]);
        // It is the key of other vendors, too, and the other one comes first.
        check("ANTHROPIC_API_KEY", claude, &[]);
        check(claude, "OPENAI_API_KEY", &[]);
        check(claude, claude, &[]);
    }
}
