//! Turns a tree into a [`Config`]: first checks every key and value against the table of keys, and
//! then their combinations. All errors are reported together.

use crate::config::check::agents::is_external_agent;
use crate::config::check::mapping_view::{FindingPlace, MappingView, TextValue};
use crate::config::check::media::TeamMedia;
pub use crate::config::check::paths::breadth_reason;
use crate::config::diagnostic::{Diagnostic, Severity, quote};
use crate::config::keys::found_config::RestrictedUse;
use crate::config::keys::machine_policy::MACHINE_POLICY;
use crate::config::keys::models::MODELS_FILE;
use crate::config::keys::root::ROOT;
use crate::config::machine_policy::MachinePolicy;
use crate::config::yaml::{YamlEntry, YamlNode};
use crate::config::{Config, ConfigContext, ConfigOrigin, keys};
use crate::spending::models::KnownModel;

mod agents;
mod backend;
mod checks;
mod commands;
mod context_paths;
mod custom_tools;
mod docker;
mod hooks;
mod expand;
mod found_config;
mod external_agents;
mod limits;
mod machine_policy;
mod media;
mod models;
mod oauth;
mod orchestrator;
mod overlap;
mod parameters;
mod paths;
mod permissions;
mod preparation;
mod servers;
mod subagent_model;
mod unmatched_rules;
mod mapping_view;
mod key_walk;
mod workflow;

#[cfg(test)]
mod tests;

/// The maximum number of agents in a team; each holds a conversation in memory.
pub const AGENTS_MAX: usize = 512;
/// The maximum number of paths in one list; each is held open during a run.
pub const PATHS_MAX: usize = 256;
/// The maximum number of keys in one mapping; further ones are not checked.
pub const KEYS_MAX: usize = 256;
/// The maximum number of findings that are kept for one file.
const FINDINGS_MAX: usize = 100;

/// The findings so far: errors and warnings.
#[derive(Debug, Default)]
struct DiagnosticList {
    diagnostics: Vec<Diagnostic>,
    has_errors: bool,
    is_truncated: bool,
}

impl DiagnosticList {
    /// Adds a finding. A repeated warning is only counted, and if there are too many findings, an
    /// error replaces a warning.
    fn push(&mut self, diagnostic: Diagnostic) {
        let is_error = diagnostic.severity == Severity::Error;
        self.has_errors |= is_error;
        let is_warning = |finding: &Diagnostic| finding.severity == Severity::Warning;
        let mut earlier = self.diagnostics.iter_mut();
        // An error may have the message of an earlier warning, and stays an error.
        let is_repeated = |finding: &&mut Diagnostic| {
            !is_error && is_warning(finding) && finding.message == diagnostic.message
        };
        if let Some(warning) = earlier.find(is_repeated) {
            warning.repeats = warning.repeats.saturating_add(1);
        } else if self.diagnostics.len() < FINDINGS_MAX {
            self.diagnostics.push(diagnostic);
        } else {
            self.is_truncated = true;
            let last_warning = self.diagnostics.iter().rposition(is_warning);
            let replaced_index = last_warning.filter(|_| is_error);
            if let Some(index) = replaced_index
                && let Some(warning) = self.diagnostics.get_mut(index)
            {
                *warning = diagnostic;
            }
        }
    }

    /// Returns the findings in the order of the file; those about the whole file come first.
    fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics
            .sort_by_key(|finding| finding.span.as_ref().map_or(0, |span| span.start));
        if self.is_truncated {
            let message = format!("only the first {FINDINGS_MAX} findings are listed");
            self.diagnostics.push(Diagnostic::warning("", message));
        }
        self.diagnostics
    }
}

/// The state shared by all checks of one file.
#[derive(Debug)]
struct ConfigChecker<'a> {
    /// The source of the tree.
    text: &'a str,
    origin: &'a ConfigOrigin,
    context: &'a ConfigContext<'a>,
    /// Whether a pipeline decides where agents work, so that they need no `cwd`.
    is_pipeline: bool,
    /// The settings about media that apply to all agents.
    media: TeamMedia,
    findings: DiagnosticList,
}

/// Checks the tree of a config. Returns the config, with its uses that only a named config may
/// have. If there is no config, at least one of the findings is an error.
pub fn check(
    mut tree: YamlNode,
    text: &str,
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> (Option<(Config, Vec<RestrictedUse>)>, Vec<Diagnostic>) {
    let unexpanded_tree = tree.clone();
    let mut checker = ConfigChecker::new(text, origin, context);
    if holds_rate_limits(&tree) {
        let message = "this is a file of MassGen's rate limits, and not the config of a team";
        let error = Diagnostic::error("", message);
        let hint = "write them in the config of a team: `rate_limits: [{type: gemini, model: M, rpm: \
                    9, tpm: 240000}]`";
        checker.findings.push(error.with_suggestion(hint));
        return checker.finish(None);
    }
    let hint = "a config is a mapping with `agents`; see `massgen config examples`";
    let config = if checker.walk(&mut tree, &ROOT, hint) {
        checker.build_config(&tree)
    } else {
        None
    };
    let restricted_uses = found_config::restricted_uses(&unexpanded_tree, &tree, origin, context);
    checker.finish(config.map(|config| (config, restricted_uses)))
}

/// Checks the tree of a file of models. If no models are returned, at least one of the findings is
/// an error.
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

/// Checks the tree of the policy of a machine. It can be used only if there are no findings.
pub fn check_machine_policy(
    mut tree: YamlNode,
    text: &str,
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> (Option<MachinePolicy>, Vec<Diagnostic>) {
    let mut checker = ConfigChecker::new(text, origin, context);
    let hint = "a policy is a mapping with `vendors`, `hosts`, `min_sandbox_level`, `limits` or \
                `permissions`; see `docs/administrators.md`";
    let policy = checker
        .walk(&mut tree, &MACHINE_POLICY, hint)
        .then(|| checker.machine_policy(&tree));
    checker.finish(policy)
}

/// Returns whether a file has nothing but rate limits: in a mapping of vendors to mappings of
/// models.
fn holds_rate_limits(tree: &YamlNode) -> bool {
    let has_only = |node: &YamlNode, is_expected: &dyn Fn(&YamlEntry) -> bool| {
        !node.entries().is_empty() && node.entries().iter().all(is_expected)
    };
    let is_limit = |entry: &YamlEntry| ["rpm", "tpm", "rpd"].contains(&entry.key.as_str());
    let is_model = |entry: &YamlEntry| has_only(&entry.value, &is_limit);
    let is_vendor = |entry: &YamlEntry| has_only(&entry.value, &is_model);
    has_only(tree, &is_vendor)
}

impl<'a> ConfigChecker<'a> {
    fn new(text: &'a str, origin: &'a ConfigOrigin, context: &'a ConfigContext<'a>) -> Self {
        Self {
            text,
            origin,
            context,
            is_pipeline: false,
            media: TeamMedia::default(),
            findings: DiagnosticList::default(),
        }
    }

    /// Returns whether the agent of this backend has a workspace.
    fn has_workspace(&self, backend: &MappingView<'_>) -> bool {
        let has_cwd = backend.get(&keys::backend::CWD).is_some();
        self.is_pipeline || has_cwd || is_external_agent(backend)
    }

    /// Adds an error with what the user can do.
    fn refuse<'p>(
        &mut self,
        place: impl Into<FindingPlace<'p>>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let FindingPlace { path, span } = place.into();
        let error = Diagnostic::error(path, message).with_span(span);
        self.findings.push(error.with_suggestion(hint));
    }

    /// Adds the error that a string is not `expected`.
    fn refuse_value(&mut self, text: &TextValue<'_>, expected: &str, hint: impl Into<String>) {
        let message = format!("{} is not {expected}", quote(text.value));
        self.refuse(text, message, hint);
    }

    /// Adds an error if `count` exceeds `max`.
    fn limit_count<'p>(
        &mut self,
        place: impl Into<FindingPlace<'p>>,
        (count, max): (usize, usize),
        nouns: &str,
        hint: &str,
    ) {
        if count > max {
            let message = format!("{count} {nouns} are too many: at most {max}");
            self.refuse(place, message, hint);
        }
    }

    /// Adds an error that says by itself what to do.
    fn add_error<'p>(&mut self, place: impl Into<FindingPlace<'p>>, message: impl Into<String>) {
        let FindingPlace { path, span } = place.into();
        self.findings
            .push(Diagnostic::error(path, message).with_span(span));
    }

    /// Adds a warning with what the user can do.
    fn warn<'p>(
        &mut self,
        place: impl Into<FindingPlace<'p>>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let FindingPlace { path, span } = place.into();
        let warning = Diagnostic::warning(path, message).with_span(span);
        self.findings.push(warning.with_suggestion(hint));
    }

    /// Adds a warning that says by itself what to do.
    fn add_warning<'p>(&mut self, place: impl Into<FindingPlace<'p>>, message: impl Into<String>) {
        let FindingPlace { path, span } = place.into();
        self.findings
            .push(Diagnostic::warning(path, message).with_span(span));
    }

    /// Returns the result, if there are no errors, and all findings.
    fn finish<T>(self, config: Option<T>) -> (Option<T>, Vec<Diagnostic>) {
        let has_errors = self.findings.has_errors;
        (config.filter(|_| !has_errors), self.findings.finish())
    }
}
