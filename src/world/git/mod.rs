//! Runs git on repositories that massgen keeps, and on the user's, to inspect it, to commit there
//! and to push. It inspects trees that agents wrote, so it must never run anything that comes with
//! a tree, a project or the user's settings: no hook, file system monitor, filter, diff or merge
//! driver, alias or pager. Only a push runs with all of the user's settings.

pub mod object;
pub mod ownership;
pub mod project;
pub mod bare_repository;
pub mod tree;
pub mod checkout;
pub mod commit_files;
pub mod history;
mod ignored;
pub mod import;
mod next_index;
pub mod private_repository;
pub mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::single_line;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};

/// The timeout of one run of git.
const TIME_MAX: Duration = Duration::from_mins(10);
/// The longest output of git, in bytes.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How much of git's error output is passed on, in characters.
const ERROR_CHARS_MAX: usize = 300;
/// The oldest version that merges without a working tree: `git merge-tree --write-tree`.
const VERSION_MIN: (u32, u32) = (2, 38);

/// The settings of hooks, as a regular expression.
const HOOK_KEYS: &str = "^hook\\.";

/// The settings of every run of git, whatever the repository's own settings are.
const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.fsync=committed,reference",
    "core.fsyncMethod=batch",
    "core.logAllRefUpdates=false",
    "core.pager=cat",
    "checkout.workers=0",
    "commit.gpgSign=false",
    "diff.external=",
    "diff.ignoreSubmodules=all",
    "gc.auto=0",
    // Git 2.55 disables all configured hooks of an event by this; see `hook_disabling_variables`
    // for 2.54.
    "hook.post-index-change.enabled=false",
    "hook.reference-transaction.enabled=false",
    "maintenance.auto=false",
    // Agents that resolve a conflict see the common ancestor of both sides.
    "merge.conflictStyle=diff3",
    "protocol.allow=never",
    // Whether the user trusts a repository of another user is left to their own git:
    // `ProjectRepository::discover`.
    "safe.directory=*",
    "submodule.recurse=false",
];

/// The environment of git, apart from `PATH` and what a single run adds.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("HOME", "/nonexistent"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // A repository's `protocol.ext.allow` overrides `protocol.allow`, but not this.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

/// Variables that point git at a repository other than the one that it runs in, as in a hook: those
/// of `git rev-parse --local-env-vars`.
const REPOSITORY_VARIABLES: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Variables that git inherits from the user when it is asked for their settings, their identity
/// and whom they trust; `*` at the end matches every variable with that prefix.
const USER_VARIABLES: &[&str] = &[
    "EMAIL",
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "HOME",
    "LOGNAME",
    "PATH",
    "SUDO_UID",
    "TZ",
    "USER",
    "XDG_CONFIG_HOME",
    // Makes git more careful, and has no other effect.
    "GIT_TEST_ASSUME_DIFFERENT_OWNER",
];

/// The git program of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitProgram {
    program: AbsPath,
    /// The directories in which programs are searched, as in `PATH`.
    path: String,
    /// The part of the user's environment by which git finds their settings and identity.
    settings_env: ProcessEnvironment,
    /// The user's environment, for commands that users could type themselves.
    full_env: ProcessEnvironment,
}

/// One run of git.
#[derive(Clone, Copy, Debug)]
struct GitInvocation<'a> {
    /// The directory that it runs in.
    dir: &'a AbsPath,
    /// The arguments after the settings.
    arguments: &'a [&'a str],
    /// Additional environment variables.
    env: &'a [(&'a str, &'a str)],
    /// Its standard input.
    input: &'a [u8],
    /// The most that is read of its output, in bytes.
    output_bytes_max: u64,
}

impl<'a> GitInvocation<'a> {
    /// Creates a run with these arguments in `dir`, without input.
    fn new(dir: &'a AbsPath, arguments: &'a [&'a str]) -> Self {
        Self {
            dir,
            arguments,
            env: &[],
            input: b"",
            output_bytes_max: OUTPUT_BYTES_MAX,
        }
    }
}

/// The output of git.
#[derive(Debug)]
struct GitOutput {
    code: i32,
    stdout: Vec<u8>,
    stderr: String,
}

impl GitProgram {
    /// Finds git through the user's environment `env`.
    ///
    /// # Errors
    /// There is no git, or it is older than 2.38.
    pub async fn find(env: &BTreeMap<String, String>) -> Result<Self> {
        let path_variable = env.get("PATH").map(String::as_str).unwrap_or_default();
        let missing_error = || {
            Error::new(ErrorKind::Environment, "`git` not found in `PATH`")
                .with_hint("install git 2.38 or newer")
        };
        let program = process::find("git", path_variable).ok_or_else(missing_error)?;
        let git = Self {
            program,
            path: path_variable.to_owned(),
            // Its messages are parsed, so they must be in English.
            settings_env: ProcessEnvironment::inherit_listed(env, USER_VARIABLES)
                .with("LC_ALL", "C")
                .with("GIT_ALLOW_PROTOCOL", "none"),
            full_env: ProcessEnvironment::inherit_except(env, REPOSITORY_VARIABLES),
        };
        let root = AbsPath::root();
        let call = GitInvocation::new(&root, &["--version"]);
        let version_line = text(&git.run(call).await?)?.to_owned();
        match parse_version(&version_line) {
            Some(version) if version >= VERSION_MIN => Ok(git),
            Some(_) | None => {
                let message = format!(
                    "git reports `{}`: expected version 2.38 or newer",
                    single_line(&version_line, ERROR_CHARS_MAX)
                );
                Err(Error::new(ErrorKind::Environment, message).with_hint("install a newer git"))
            }
        }
    }

    /// Runs git and returns its output; a failure is an error.
    async fn run(&self, call: GitInvocation<'_>) -> Result<Vec<u8>> {
        let output = self.try_run(call).await?;
        match output.code {
            0 => Ok(output.stdout),
            _ => Err(call.git_error(&output.stderr)),
        }
    }

    /// Runs git and returns its output, whatever its exit status.
    async fn try_run(&self, call: GitInvocation<'_>) -> Result<GitOutput> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let arguments: Vec<&str> = settings.chain(call.arguments.iter().copied()).collect();
        let env = [("PATH", self.path.as_str())];
        let env = env.iter().chain(ENVIRONMENT).chain(call.env).copied();
        self.run_program(call, &arguments, &ProcessEnvironment::from_variables(env))
            .await
    }

    /// Runs a git command that has hooks in a repository of the user's, without configured hooks,
    /// which `core.hooksPath` does not disable.
    async fn run_without_hooks(&self, call: GitInvocation<'_>) -> Result<Vec<u8>> {
        let hook_variables = self.hook_disabling_variables(call.dir).await?;
        let count = hook_variables.len().to_string();
        let mut env = vec![("GIT_CONFIG_COUNT", count.as_str())];
        for (key, (setting, value_variable)) in &hook_variables {
            env.extend([
                (key.as_str(), setting.as_str()),
                (value_variable.as_str(), "false"),
            ]);
        }
        env.extend_from_slice(call.env);
        self.run(GitInvocation { env: &env, ..call }).await
    }

    /// Returns the variables that disable each configured hook of the repository at `dir`: the one
    /// for the setting, the setting, and the one for its value.
    async fn hook_disabling_variables(
        &self,
        dir: &AbsPath,
    ) -> Result<Vec<(String, (String, String))>> {
        let arguments = ["config", "--null", "--name-only", "--get-regexp", HOOK_KEYS];
        let output = self.try_run(GitInvocation::new(dir, &arguments)).await?;
        let names: BTreeSet<&str> = match output.code {
            0 => text(&output.stdout)?
                .split('\0')
                .filter_map(hook_name)
                .collect(),
            // There are none.
            1 => BTreeSet::new(),
            _ => return Err(GitInvocation::new(dir, &arguments).git_error(&output.stderr)),
        };
        let numbered_names = names.into_iter().enumerate();
        let variables = numbered_names.map(|(number, name)| {
            let key = format!("GIT_CONFIG_KEY_{number}");
            let value = format!("GIT_CONFIG_VALUE_{number}");
            (key, (format!("hook.{name}.enabled"), value))
        });
        Ok(variables.collect())
    }

    /// Runs git with the user's settings and returns its output, whatever its exit status. Only for
    /// commands that run nothing that comes with a repository.
    async fn try_run_as_user(&self, call: GitInvocation<'_>) -> Result<GitOutput> {
        self.run_program(call, call.arguments, &self.settings_env)
            .await
    }

    /// Runs the program with these arguments and this environment.
    async fn run_program(
        &self,
        call: GitInvocation<'_>,
        arguments: &[&str],
        env: &ProcessEnvironment,
    ) -> Result<GitOutput> {
        let program = ProgramInvocation {
            path: &self.program,
            arguments,
            env,
            dir: call.dir,
            input: call.input,
            output_bytes_max: call.output_bytes_max,
            time_max: TIME_MAX,
        };
        match process::run(program).await {
            Ok(ProgramExit::Exited { output, .. }) if reaches_limit(&output, OUTPUT_BYTES_MAX) => {
                Err(call.git_error("it answered more than massgen reads"))
            }
            // The rest of its output was not read, so its exit status has no meaning.
            Ok(ProgramExit::Exited { output, errors, .. })
                if reaches_limit(&output, call.output_bytes_max) =>
            {
                Ok(GitOutput {
                    code: 0,
                    stdout: output,
                    stderr: errors,
                })
            }
            Ok(ProgramExit::Exited {
                code: Some(code),
                output,
                errors,
            }) => Ok(GitOutput {
                code,
                stdout: output,
                stderr: errors,
            }),
            Ok(ProgramExit::Exited { code: None, .. }) => Err(call.git_error("a signal ended it")),
            Ok(ProgramExit::Killed) => {
                let minutes = TIME_MAX.as_secs() / 60;
                Err(call.git_error(&format!("it did not end in {minutes} minutes")))
            }
            Err(error) => Err(Error::io("cannot start git", error)),
        }
    }
}

/// Returns whether the output has at least `bytes_max` bytes.
fn reaches_limit(output: &[u8], bytes_max: u64) -> bool {
    u64::try_from(output.len()).is_ok_and(|len| len >= bytes_max)
}

impl GitInvocation<'_> {
    /// Creates the error for a failed run.
    fn git_error(&self, reason: &str) -> Error {
        let command = self
            .arguments
            .iter()
            .find(|word| !word.starts_with('-'))
            .copied()
            .unwrap_or_default();
        let reason = single_line(reason.trim(), ERROR_CHARS_MAX);
        let message = format!("`git {command}` failed in `{}`: {reason}", self.dir);
        Error::new(ErrorKind::Environment, message)
    }
}

/// Returns output as text, with replacement characters for invalid UTF-8.
fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Splits NUL-terminated names.
fn nul_separated(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    let names = output.split(|byte| *byte == 0);
    names.filter(|name| !name.is_empty())
}

/// Returns the output as text, without the newline at its end.
fn text(output: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(output)
        .map_err(|_| Error::new(ErrorKind::Environment, "git answered with no text"))?;
    Ok(text.trim_end_matches('\n'))
}

/// Returns the name of the hook in a setting: `lint` in `hook.lint.command`.
fn hook_name(setting: &str) -> Option<&str> {
    let (name, _) = setting.strip_prefix("hook.")?.rsplit_once('.')?;
    Some(name)
}

/// Parses the first two numbers of the output of `git --version`.
fn parse_version(version_line: &str) -> Option<(u32, u32)> {
    let version = version_line.strip_prefix("git version ")?;
    let mut numbers = version.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_named_by_what_stands_between_the_first_and_the_last_dot() {
        let check = |setting: &str, expected| assert_eq!(hook_name(setting), expected, "{setting}");
        check("hook.lint.command", Some("lint"));
        check("hook.a.b=c d.event", Some("a.b=c d"));
        check("hook..event", Some(""));
        check("hook.jobs", None);
        check("core.hookspath", None);
    }

    #[test]
    fn the_version_is_its_first_two_numbers() {
        let check = |version_line: &str, expected| {
            assert_eq!(parse_version(version_line), expected, "{version_line}");
        };
        check("git version 2.47.3", Some((2, 47)));
        check("git version 2.38", Some((2, 38)));
        check("git version 2.39.5 (Apple Git-154)", Some((2, 39)));
        check("git 2.47", None);
        check("git version two", None);
    }
}
