//! The configuration of the commands that check answers, and globs for files of the user.

use globset::{Glob, GlobBuilder, GlobMatcher};

use crate::check_results::CheckRequirement;
use crate::config::command_line::CommandLineConfig;
use crate::path::{AbsPath, RelPath};
use crate::permissions::path_rules::{folded_matcher, split_literal};
use crate::permissions::protected::fold_name;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;
use crate::text::single_line;

/// The default timeout of a check, in seconds.
pub const CHECK_SECONDS_DEFAULT: u64 = 10 * 60;

/// The longest name of a check, in characters.
pub(crate) const CHECK_NAME_CHARS_MAX: usize = 60;

/// How many checks run at the same time by default.
pub const PARALLEL_CHECKS_DEFAULT: usize = 4;

/// The checks of answers.
#[derive(Clone, Debug)]
pub struct ChecksConfig {
    /// The commands, in the order of the file. Names are unique.
    pub list: Vec<CheckConfig>,
    /// How many of them run at the same time.
    pub parallel: usize,
    /// What to do with a delivery when a required check fails afterwards.
    pub on_failure: FailedCheckPolicy,
    /// The sandbox level from the command line; `None` uses that of the agent's commands.
    pub sandbox: Option<SandboxLevelChoice>,
    /// The commands like which checks run; `None` uses those of the agent whose work is checked.
    pub commands: Option<CommandLineConfig>,
    /// The command that prepares the user's trees for agents and checks.
    pub setup: Option<String>,
    /// What measures the work when the run is over.
    pub judge: Option<JudgeConfig>,
}

/// What measures the work when the run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeConfig {
    /// Its command and files.
    pub check: CheckConfig,
    /// A text that stands only in its files.
    pub canary: Option<String>,
}

impl Default for ChecksConfig {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            parallel: PARALLEL_CHECKS_DEFAULT,
            on_failure: FailedCheckPolicy::default(),
            sandbox: None,
            commands: None,
            setup: None,
            judge: None,
        }
    }
}

impl ChecksConfig {
    /// Returns whether nothing runs on answers or deliveries.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.judge.is_none()
    }

    /// Returns whether an answer must pass a check.
    pub fn has_required(&self) -> bool {
        let mut checks = self.list.iter();
        checks.any(|check| check.requirement == CheckRequirement::Required)
    }

    /// Adds a check that an answer must pass, named after its command, unless there is one of this
    /// name.
    pub fn require(&mut self, command: &str) {
        let name = single_line(command, CHECK_NAME_CHARS_MAX);
        if self.list.iter().all(|check| check.name != name) {
            self.list.push(CheckConfig {
                name,
                command: command.to_owned(),
                requirement: CheckRequirement::Required,
                timeout_seconds: CHECK_SECONDS_DEFAULT,
                retries: 0,
                fixed: FileGlobs::default(),
                files: None,
            });
        }
    }
}

/// A command that is run on every answer, in the tree as it would be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConfig {
    /// Its name for voters and reports.
    pub name: String,
    /// The command line for the shell.
    pub command: String,
    /// Whether an answer must pass it.
    pub requirement: CheckRequirement,
    /// The timeout, in seconds.
    pub timeout_seconds: u64,
    /// How often it is run again if it fails.
    pub retries: u32,
    /// The files that it takes from the user's trees, whatever an answer does to them.
    pub fixed: FileGlobs,
    /// A directory whose files are laid over the checked ones.
    pub files: Option<AbsPath>,
}

/// What to do with a delivery when a required check fails afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailedCheckPolicy {
    /// Revert it.
    #[default]
    Undo,
    /// Keep it.
    Keep,
    /// Ask the user; revert it if no one can be asked.
    Ask,
}

/// Globs such as `tests/**`; `*` does not match `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileGlobs(Vec<Glob>);

impl FileGlobs {
    /// Adds a glob.
    ///
    /// # Errors
    /// `text` is not a glob; the string says why.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let glob = GlobBuilder::new(text).literal_separator(true).build();
        self.0.push(glob.map_err(|error| error.kind().to_string())?);
        Ok(())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the literal names with which the globs start, where there are some.
    pub fn literal_beginnings(&self) -> Vec<RelPath> {
        let globs = self.0.iter().map(Glob::glob);
        globs
            .filter_map(|glob| split_literal(glob).map(|(literal, _)| literal))
            .collect()
    }

    /// Returns the function that says whether one of them matches a path, in any spelling that some
    /// file system treats as the same.
    pub fn matcher(&self) -> impl Fn(&RelPath) -> bool {
        let globs = self.0.iter().map(Glob::glob);
        // Each is a glob.
        let matchers = globs.filter_map(|glob| folded_matcher(glob).ok().flatten());
        let matchers: Vec<GlobMatcher> = matchers.collect();
        move |path| {
            let names: Vec<_> = path.names().map(fold_name).collect();
            let path = names.join("/");
            matchers.iter().any(|matcher| matcher.is_match(&path))
        }
    }
}
