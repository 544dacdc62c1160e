//! Builds the checks of a config: each is a command with a name that voters see.

use crate::check_results::CheckRequirement;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, scalar_text};
use crate::config::checks::{
    CHECK_NAME_CHARS_MAX, CHECK_SECONDS_DEFAULT, CheckConfig, ChecksConfig, FailedCheckPolicy,
    FileGlobs, JudgeConfig, PARALLEL_CHECKS_DEFAULT,
};
use crate::config::diagnostic::quote;

use crate::config::keys::{checks, root};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::text::single_line;

/// The maximum number of checks; every answer waits for all of them.
const CHECKS_MAX: usize = 32;

impl ConfigChecker<'_> {
    /// Returns the checks of the config; empty if it has none.
    pub(super) fn checks(&mut self, root: &MappingView<'_>) -> ChecksConfig {
        let items = root.items(&root::CHECKS);
        let hint = "one can run a script";
        let count = (items.len(), CHECKS_MAX);
        self.limit_count(root.at(&root::CHECKS), count, "checks", hint);
        let mut list: Vec<CheckConfig> = Vec::new();
        for (path, item) in items.into_iter().take(CHECKS_MAX) {
            let Some(check) = self.check(path.clone(), item) else {
                continue;
            };
            if list.iter().any(|earlier| earlier.name == check.name) {
                let message = format!("two checks are called {}", quote(&check.name));
                self.refuse((path, &item.span), message, "give each a unique `name`");
                continue;
            }
            list.push(check);
        }
        let on_failure = match root.word(&root::ON_CHECK_FAILURE) {
            Some("keep") => FailedCheckPolicy::Keep,
            Some("ask") => FailedCheckPolicy::Ask,
            _ => FailedCheckPolicy::Undo,
        };
        let parallel = root.integer(&root::PARALLEL_CHECKS);
        ChecksConfig {
            list,
            parallel: parallel.unwrap_or(PARALLEL_CHECKS_DEFAULT),
            on_failure,
            sandbox: None,
            commands: None,
            setup: self.setup(root),
            judge: self.judge(root),
        }
    }

    fn judge(&mut self, root: &MappingView<'_>) -> Option<JudgeConfig> {
        let section = root.section(&root::JUDGE)?;
        let command = section.text(&checks::JUDGE_COMMAND)?;
        let files = section.text(&checks::JUDGE_FILES);
        let canary = section
            .text(&checks::CANARY)
            .map(|canary| canary.value.trim());
        Some(JudgeConfig {
            check: CheckConfig {
                name: "judge".to_owned(),
                command: command.value.trim().to_owned(),
                requirement: CheckRequirement::Informational,
                timeout_seconds: section
                    .integer(&checks::JUDGE_TIMEOUT)
                    .unwrap_or(CHECK_SECONDS_DEFAULT),
                retries: 0,
                fixed: FileGlobs::default(),
                files: files.and_then(|files| self.path(&files)),
            },
            canary: canary
                .filter(|canary| !canary.is_empty())
                .map(str::to_owned),
        })
    }

    fn setup(&mut self, root: &MappingView<'_>) -> Option<String> {
        let command = root.text(&root::SETUP)?;
        let line = command.value.trim();
        if line.is_empty() || line.contains('\0') {
            let message = "`setup` must be a shell command";
            let hint = "write one, such as `npm ci`";
            self.refuse(&command, message, hint);
            return None;
        }
        Some(line.to_owned())
    }

    fn check(&mut self, path: String, item: &YamlNode) -> Option<CheckConfig> {
        let view = MappingView {
            node: item,
            path: path.clone(),
        };
        let (command, name) = match item.value {
            YamlValue::Scalar(_) => (scalar_text(item, path)?, None),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => {
                (view.text(&checks::COMMAND)?, view.text(&checks::NAME))
            }
        };
        if command.value.trim().is_empty() || command.value.contains('\0') {
            let message = "a check must be a shell command";
            self.refuse(&command, message, "write one, such as `cargo test -q`");
            return None;
        }
        let line = command.value.trim();
        let name = name.map_or(line, |name| name.value.trim());
        Some(CheckConfig {
            name: single_line(name, CHECK_NAME_CHARS_MAX),
            command: line.to_owned(),
            requirement: match view.flag(&checks::REQUIRED) {
                Some(false) => CheckRequirement::Informational,
                Some(true) | None => CheckRequirement::Required,
            },
            timeout_seconds: view
                .integer(&checks::TIMEOUT)
                .unwrap_or(CHECK_SECONDS_DEFAULT),
            retries: view.integer(&checks::RETRIES).unwrap_or_default(),
            fixed: self.file_globs(&view, &checks::FIXED),
            files: None,
        })
    }
}
