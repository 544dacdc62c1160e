//! Owns the step from a tree to a [`Config`]: first every key and value against the table of keys,
//! then what they mean together. All that is wrong is found at once.

use crate::config::check::mapping_view::MappingView;
use crate::config::diagnostic::{Diagnostic, Severity};
use crate::config::found_config::RestrictedUse;
use crate::config::keys::models::MODELS_FILE;
use crate::config::keys::root::ROOT;
use crate::config::yaml::YamlNode;
use crate::config::{Config, ConfigContext, ConfigOrigin};
use crate::spending::models::KnownModel;

mod agents;
mod backend;
mod checks;
mod commands;
mod context_paths;
mod docker;
mod hooks;
mod expand;
mod found_config;
mod external_agents;
mod limits;
mod models;
mod orchestrator;
mod overlap;
mod parameters;
mod paths;
mod permissions;
mod servers;
mod unmatched_rules;
mod mapping_view;
mod key_walk;
mod workflow;

#[cfg(test)]
mod tests;

/// The most agents of a team; each holds a conversation in memory.
pub const AGENTS_MAX: usize = 512;
/// The most paths of one list; each is held open during a run.
pub const PATHS_MAX: usize = 256;
/// The most keys of one mapping; the rest is not looked at.
pub const KEYS_MAX: usize = 256;
/// The most findings that are kept of one file.
const FINDINGS_MAX: usize = 100;

/// What was found wrong so far.
#[derive(Debug, Default)]
struct DiagnosticList {
    list: Vec<Diagnostic>,
    has_errors: bool,
    is_cut: bool,
}

impl DiagnosticList {
    /// Keeps a finding. A warning that was given before is only counted, and gives way to an error
    /// when there are too many.
    fn push(&mut self, diagnostic: Diagnostic) {
        let is_error = diagnostic.severity == Severity::Error;
        self.has_errors |= is_error;
        let mut warnings = self
            .list
            .iter_mut()
            .filter(|found| found.severity == Severity::Warning);
        if let Some(same) = warnings.find(|found| found.message == diagnostic.message) {
            same.repeats = same.repeats.saturating_add(1);
        } else if self.list.len() < FINDINGS_MAX {
            self.list.push(diagnostic);
        } else {
            self.is_cut = true;
            let last = |found: &Diagnostic| found.severity == Severity::Warning;
            let place = self.list.iter().rposition(last).filter(|_| is_error);
            if let Some(warning) = place.and_then(|place| self.list.get_mut(place)) {
                *warning = diagnostic;
            }
        }
    }

    /// The findings in the order of the file; those about the whole file come first.
    fn finish(mut self) -> Vec<Diagnostic> {
        self.list
            .sort_by_key(|found| found.span.as_ref().map_or(0, |span| span.start));
        if self.is_cut {
            let message = format!("there is more to say: only the first {FINDINGS_MAX} are listed");
            self.list.push(Diagnostic::warning("", message));
        }
        self.list
    }
}

/// Everything that the checks of one file share.
#[derive(Debug)]
struct ConfigChecker<'a> {
    /// What the tree was read from.
    text: &'a str,
    origin: &'a ConfigOrigin,
    context: &'a ConfigContext<'a>,
    /// Whether agents work where a pipeline puts them, and need no `cwd`.
    is_pipeline: bool,
    findings: DiagnosticList,
}

/// Checks the tree of a config's text. Gives the config with what in it only a named config may say.
/// Without a config, at least one of the findings is an error.
pub fn check(
    mut tree: YamlNode,
    text: &str,
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> (Option<(Config, Vec<RestrictedUse>)>, Vec<Diagnostic>) {
    let written = tree.clone();
    let mut checker = ConfigChecker::new(text, origin, context);
    let hint = "a config is a mapping with `agents`; see `massgen config examples`";
    let config = if checker.walk(&mut tree, &ROOT, hint) {
        checker.build_config(&tree)
    } else {
        None
    };
    let reaches = found_config::restricted_uses((&written, &tree), origin, context);
    checker.finish(config.map(|config| (config, reaches)))
}

/// Checks the tree of a file of models. Without models, at least one of the findings is an error.
pub fn check_models(
    mut tree: YamlNode,
    text: &str,
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> (Option<Vec<KnownModel>>, Vec<Diagnostic>) {
    let mut checker = ConfigChecker::new(text, origin, context);
    let hint = "a file of models is a mapping with `models`; see `docs/limits.md`";
    let models = checker
        .walk(&mut tree, &MODELS_FILE, hint)
        .then(|| checker.models(&tree));
    checker.finish(models)
}

impl<'a> ConfigChecker<'a> {
    fn new(text: &'a str, origin: &'a ConfigOrigin, context: &'a ConfigContext<'a>) -> Self {
        Self {
            text,
            origin,
            context,
            is_pipeline: false,
            findings: DiagnosticList::default(),
        }
    }

    /// Whether the agent of this backend has a workspace.
    fn has_workspace(&self, backend: &MappingView<'_>) -> bool {
        self.is_pipeline || backend.get("cwd").is_some()
    }

    /// What was made, if nothing is wrong with it, and all findings.
    fn finish<T>(self, made: Option<T>) -> (Option<T>, Vec<Diagnostic>) {
        let has_errors = self.findings.has_errors;
        (made.filter(|_| !has_errors), self.findings.finish())
    }
}
