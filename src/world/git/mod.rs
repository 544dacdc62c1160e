//! Owns the running of git on repositories that massgen keeps. Trees that agents wrote to are looked
//! at with it, so it must never run or ask what a tree, a project or the user's settings bring along:
//! no hook, no watcher of files, no filter, no driver of diffs or merges, no alias, no pager.

pub mod merge_base;
mod ownership;
pub mod checkout;
pub mod history;
pub mod hub;
pub mod import;
mod next_index;
pub mod object;
pub mod private_repository;
pub mod project;
pub mod receiver;
pub mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::single_line;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};

/// How long one run of git may take.
const TIME_MAX: Duration = Duration::from_mins(10);
/// The most that git may answer, in bytes.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How much of what git says of a fault is passed on, in characters.
const FAULT_CHARS_MAX: usize = 300;
/// The oldest version that merges without a tree on the disk: `git merge-tree --write-tree`.
const VERSION_MIN: (u32, u32) = (2, 38);

/// Which settings are about hooks.
const HOOK_KEYS: &str = "^hook\\.";

/// What git is told in every run, whatever the settings of the repository say.
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
    // From git 2.55 on, this holds for all hooks that settings name; `hooks_disabled` for those of 2.54.
    "hook.post-index-change.enabled=false",
    "hook.reference-transaction.enabled=false",
    "maintenance.auto=false",
    // Whoever mends a conflict sees what both sides began with.
    "merge.conflictStyle=diff3",
    "protocol.allow=never",
    // Whether the user trusts a repository of another's is asked of their own git: `ProjectRepository::discover`.
    "safe.directory=*",
    "submodule.recurse=false",
];

/// What git finds in its environment, beside `PATH` and what a single run adds.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("HOME", "/nonexistent"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // `protocol.allow` gives way to a repository's `protocol.ext.allow`; this gives way to nothing.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

/// Variables that point git at another repository than the one it is run in, as they do in a hook: those
/// of `git rev-parse --local-env-vars`.
const OF_ANOTHER_REPOSITORY: &[&str] = &[
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

/// What git takes of the user's environment when it is asked for their settings, their name and whom
/// they trust; with `*` all that begin so.
const OF_USER: &[&str] = &[
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
    // Makes git more careful, and nothing else.
    "GIT_TEST_ASSUME_DIFFERENT_OWNER",
];

/// The git program of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitProgram {
    program: AbsPath,
    /// The directories in which programs are looked for, as in `PATH`.
    path: String,
    /// What of the user's environment their settings and their name are found by.
    listed: ProcessEnvironment,
    /// The user's environment, for what they could type themselves.
    whole: ProcessEnvironment,
}

/// One run of git.
#[derive(Clone, Copy, Debug)]
struct GitInvocation<'a> {
    /// The directory that it runs in.
    dir: &'a AbsPath,
    /// What follows the settings.
    arguments: &'a [&'a str],
    /// What it finds in its environment beside the usual.
    env: &'a [(&'a str, &'a str)],
    /// What it reads.
    input: &'a [u8],
    /// How much of what it answers is read, in bytes.
    output_bytes_max: u64,
}

impl<'a> GitInvocation<'a> {
    /// A run with these arguments in `dir`, that reads nothing.
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

/// What git answered.
#[derive(Debug)]
struct GitOutput {
    code: i32,
    output: Vec<u8>,
    errors: String,
}

impl GitProgram {
    /// The program that is found with the environment `env` of the user.
    ///
    /// # Errors
    /// There is none, or it is older than 2.38.
    pub async fn find(env: &BTreeMap<String, String>) -> Result<Self> {
        let path_variable = env.get("PATH").map(String::as_str).unwrap_or_default();
        let missing = || {
            Error::new(ErrorKind::Environment, "there is no `git` in `PATH`")
                .with_hint("install git 2.38 or newer")
        };
        let program = process::find("git", path_variable).ok_or_else(missing)?;
        let git = Self {
            program,
            path: path_variable.to_owned(),
            // What it says is read in English.
            listed: ProcessEnvironment::inherit_listed(env, OF_USER)
                .with("LC_ALL", "C")
                .with("GIT_ALLOW_PROTOCOL", "none"),
            whole: ProcessEnvironment::inherit_except(env, OF_ANOTHER_REPOSITORY),
        };
        let top = AbsPath::top();
        let call = GitInvocation::new(&top, &["--version"]);
        let said = text(&git.ask(call).await?)?.to_owned();
        match parse_version(&said) {
            Some(version) if version >= VERSION_MIN => Ok(git),
            Some(_) | None => {
                let message = format!(
                    "git says `{}`: expected version 2.38 or newer",
                    single_line(&said, FAULT_CHARS_MAX)
                );
                Err(Error::new(ErrorKind::Environment, message).with_hint("install a newer git"))
            }
        }
    }

    /// What git answers, if all went well.
    async fn ask(&self, call: GitInvocation<'_>) -> Result<Vec<u8>> {
        let answer = self.try_ask(call).await?;
        match answer.code {
            0 => Ok(answer.output),
            _ => Err(call.git_error(&answer.errors)),
        }
    }

    /// What git answers, whatever its status.
    async fn try_ask(&self, call: GitInvocation<'_>) -> Result<GitOutput> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let arguments: Vec<&str> = settings.chain(call.arguments.iter().copied()).collect();
        let env = [("PATH", self.path.as_str())];
        let env = env.iter().chain(ENVIRONMENT).chain(call.env).copied();
        self.run(call, (&arguments, &ProcessEnvironment::from_variables(env)))
            .await
    }

    /// What git answers in the repository of a user to a command that has hooks, if all went well. Git runs
    /// hooks that the settings of a repository name, wherever its directory of hooks is said to be.
    async fn ask_without_hooks(&self, call: GitInvocation<'_>) -> Result<Vec<u8>> {
        let disabled = self.hooks_disabled(call.dir).await?;
        let count = disabled.len().to_string();
        let mut env = vec![("GIT_CONFIG_COUNT", count.as_str())];
        for (key, (setting, place)) in &disabled {
            env.extend([(key.as_str(), setting.as_str()), (place.as_str(), "false")]);
        }
        env.extend_from_slice(call.env);
        self.ask(GitInvocation { env: &env, ..call }).await
    }

    /// The variables that disable each hook which the settings around `dir` name: those of its key, with
    /// the key, and that of its value.
    async fn hooks_disabled(&self, dir: &AbsPath) -> Result<Vec<(String, (String, String))>> {
        let words = ["config", "--null", "--name-only", "--get-regexp", HOOK_KEYS];
        let answer = self.try_ask(GitInvocation::new(dir, &words)).await?;
        let names: BTreeSet<&str> = match answer.code {
            0 => text(&answer.output)?
                .split('\0')
                .filter_map(hook_name)
                .collect(),
            // There is none.
            1 => BTreeSet::new(),
            _ => return Err(GitInvocation::new(dir, &words).git_error(&answer.errors)),
        };
        let numbered = names.into_iter().enumerate();
        let variables = numbered.map(|(number, name)| {
            let key = format!("GIT_CONFIG_KEY_{number}");
            let value = format!("GIT_CONFIG_VALUE_{number}");
            (key, (format!("hook.{name}.enabled"), value))
        });
        Ok(variables.collect())
    }

    /// What git answers with the settings of the user, whatever its status. Only for words that run
    /// nothing which a repository brings along.
    async fn try_as_user(&self, call: GitInvocation<'_>) -> Result<GitOutput> {
        self.run(call, (call.arguments, &self.listed)).await
    }

    async fn run(
        &self,
        call: GitInvocation<'_>,
        (arguments, env): (&[&str], &ProcessEnvironment),
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
            Ok(ProgramExit::Exited { output, .. }) if reaches(&output, OUTPUT_BYTES_MAX) => {
                Err(call.git_error("it answered more than massgen reads"))
            }
            // Nobody has read the rest of it, so its status says nothing.
            Ok(ProgramExit::Exited { output, errors, .. })
                if reaches(&output, call.output_bytes_max) =>
            {
                Ok(GitOutput {
                    code: 0,
                    output,
                    errors,
                })
            }
            Ok(ProgramExit::Exited {
                code: Some(code),
                output,
                errors,
            }) => Ok(GitOutput {
                code,
                output,
                errors,
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

fn reaches(output: &[u8], bytes_max: u64) -> bool {
    u64::try_from(output.len()).is_ok_and(|len| len >= bytes_max)
}

impl GitInvocation<'_> {
    /// That it ended otherwise than it should.
    fn git_error(&self, why: &str) -> Error {
        let verb = self.arguments.iter().find(|word| !word.starts_with('-'));
        let verb = verb.copied().unwrap_or_default();
        let why = single_line(why.trim(), FAULT_CHARS_MAX);
        let message = format!("`git {verb}` failed in `{}`: {why}", self.dir);
        Error::new(ErrorKind::Environment, message)
    }
}

/// The names of an answer that ends each with a NUL.
fn nul_separated(answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    let names = answer.split(|byte| *byte == 0);
    names.filter(|name| !name.is_empty())
}

/// The answer as text, without the newline at its end.
fn text(answer: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(answer);
    let text = text.map_err(|_| Error::new(ErrorKind::Environment, "git answered with no text"))?;
    Ok(text.trim_end_matches('\n'))
}

/// The name of the hook that a setting is about: `lint` of `hook.lint.command`.
fn hook_name(setting: &str) -> Option<&str> {
    let (name, _) = setting.strip_prefix("hook.")?.rsplit_once('.')?;
    Some(name)
}

/// The first two numbers of what `git --version` says.
fn parse_version(said: &str) -> Option<(u32, u32)> {
    let numbers = said.strip_prefix("git version ")?;
    let mut numbers = numbers.split('.');
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
        let check = |said: &str, expected| assert_eq!(parse_version(said), expected, "{said}");
        check("git version 2.47.3", Some((2, 47)));
        check("git version 2.38", Some((2, 38)));
        check("git version 2.39.5 (Apple Git-154)", Some((2, 39)));
        check("git 2.47", None);
        check("git version two", None);
    }
}
