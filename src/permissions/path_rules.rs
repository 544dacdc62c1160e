//! The path rules of `permissions:`: a glob, its anchor, and what they leave of a grant where the
//! glob matches. A rule never opens anything. Names are compared like protected names, so that no
//! other spelling evades a rule.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path};

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::protected::{fold_name, take_folded};

/// The longest glob, in bytes.
pub const GLOB_BYTES_MAX: usize = 1024;
/// The wildcard for any number of directories.
const ANY_DEPTH: &str = "**";

/// The action of a rule of `permissions:`, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// Allow without asking. That is also the default for paths that no rule matches.
    Allow,
    /// Ask a person for approval.
    Ask,
    /// Deny.
    Deny,
}

impl fmt::Display for RuleAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleAction::Allow => "allow",
            RuleAction::Ask => "ask",
            RuleAction::Deny => "deny",
        })
    }
}

/// Whether a person approved the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallApproval {
    /// No approval was given.
    #[default]
    Missing,
    /// A person approved this call.
    Given,
}

/// A glob as in the config. It matches a path and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathGlob {
    /// The text of the glob.
    text: String,
    /// The literal components that an absolute glob starts with; `None` for a glob relative to the
    /// open trees.
    prefix: Option<AbsPath>,
    /// The rest, matched from there on; an empty string matches everything below.
    rest: String,
}

impl PathGlob {
    /// Parses a glob; `~/` expands to `home`. Relative globs without `/` match at any depth.
    ///
    /// # Errors
    /// It is not a glob; the cause is given as the end of a sentence.
    pub fn parse(text: &str, home: Option<&AbsPath>) -> Result<Self, String> {
        if text.is_empty() || text.contains('\0') || text.len() > GLOB_BYTES_MAX {
            return Err(format!("expected 1 to {GLOB_BYTES_MAX} bytes without NUL"));
        }
        let below_home = text.strip_prefix("~/");
        let expanded_text = match (below_home, home) {
            (Some(rest), Some(home)) => format!("{home}/{rest}"),
            (Some(_), None) => return Err("no home directory is known".to_owned()),
            (None, _) => text.to_owned(),
        };
        let is_absolute = expanded_text.starts_with('/');
        let mut names: Vec<&str> = expanded_text.split('/').collect();
        names.retain(|name| !name.is_empty() && *name != ".");
        if names.contains(&"..") {
            return Err("write it without `..`".to_owned());
        }
        let matches_at_any_depth =
            !expanded_text.trim_end_matches('/').contains('/') && expanded_text != ANY_DEPTH;
        while names.last() == Some(&ANY_DEPTH) {
            names.pop();
        }
        let literal_count = if is_absolute {
            names.iter().take_while(|name| !has_wildcards(name)).count()
        } else {
            0
        };
        let (prefix, rest) = names.split_at_checked(literal_count).unwrap_or_default();
        if rest.is_empty() && !is_absolute && !expanded_text.ends_with(ANY_DEPTH) {
            return Err("expected a name".to_owned());
        }
        let glob = Self {
            text: text.to_owned(),
            prefix: is_absolute.then(|| AbsPath::root().join(prefix.join("/"))),
            rest: if matches_at_any_depth {
                format!("{ANY_DEPTH}/{}", rest.join("/"))
            } else {
                rest.join("/")
            },
        };
        folded_matcher(&glob.rest).map(|_| glob)
    }

    /// Returns the literal components that an absolute glob starts with.
    pub fn prefix(&self) -> Option<&AbsPath> {
        self.prefix.as_ref()
    }

    /// Splits a relative glob into the literal names that it starts with, and the glob below them;
    /// `None` if it starts with a pattern.
    pub fn split_literal(&self) -> Option<(RelPath, Self)> {
        let (literal, rest) = split_literal(&self.rest)?;
        let rest = Self {
            rest,
            ..self.clone()
        };
        Some((literal, rest))
    }

    /// Returns whether the glob matches the path of an example: both relative, or both absolute.
    pub fn matches_example(&self, path: &str) -> bool {
        let is_absolute = path.starts_with('/');
        let anchor = match &self.prefix {
            Some(prefix) if is_absolute => prefix.clone(),
            None if !is_absolute => AbsPath::root(),
            Some(_) | None => return false,
        };
        let path = AbsPath::root().join(path);
        PathRule::new(RuleAction::Deny, Permission::Read, self, anchor).matches_at(path.as_path())
    }
}

impl fmt::Display for PathGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits a relative glob into the literal names that it starts with, and the rest; `None` if it
/// starts with a pattern.
pub(crate) fn split_literal(glob: &str) -> Option<(RelPath, String)> {
    let names: Vec<&str> = glob.split('/').collect();
    let count = names.iter().take_while(|name| !has_wildcards(name)).count();
    let (literal, rest) = names.split_at_checked(count)?;
    let literal = RelPath::new(literal.join("/")).filter(|literal| !literal.is_root())?;
    Some((literal, rest.join("/")))
}

/// Returns whether a part of a glob can match several names.
fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

/// Compiles a glob with folded names, to match against folded names. Returns `None` for an empty
/// one.
pub(crate) fn folded_matcher(glob: &str) -> Result<Option<GlobMatcher>, String> {
    if glob.is_empty() {
        return Ok(None);
    }
    let folded_names: Vec<String> = glob
        .split('/')
        .map(|name| match name {
            ANY_DEPTH => name.to_owned(),
            name => fold_name(OsStr::new(name)).into_owned(),
        })
        .collect();
    let build_result = GlobBuilder::new(&folded_names.join("/"))
        .literal_separator(true)
        .build();
    match build_result {
        Ok(glob) => Ok(Some(glob.compile_matcher())),
        Err(error) => Err(error.kind().to_string()),
    }
}

/// A rule anchored at the directory where it applies to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "StoredPathRule", into = "StoredPathRule")]
pub struct PathRule {
    stored: StoredPathRule,
    /// `None` matches the anchor and everything below it.
    glob: Option<GlobMatcher>,
}

/// A rule as stored with a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPathRule {
    action: RuleAction,
    /// The kind of access that it is about.
    access: Permission,
    /// The glob as in the config.
    text: String,
    /// The directory that `rest` is relative to.
    anchor: AbsPath,
    /// The part of the glob to match below `anchor`; an empty string matches everything.
    rest: String,
    /// The paths that a person approved, for an `ask` rule.
    approved_paths: Vec<AbsPath>,
}

impl PartialEq for PathRule {
    fn eq(&self, other: &Self) -> bool {
        self.stored == other.stored
    }
}

impl Eq for PathRule {}

impl From<StoredPathRule> for PathRule {
    /// Compiles the stored glob. One that no longer compiles matches everything; it was valid when
    /// it was stored.
    fn from(stored: StoredPathRule) -> Self {
        let glob = folded_matcher(&stored.rest).unwrap_or_default();
        Self { stored, glob }
    }
}

impl From<PathRule> for StoredPathRule {
    fn from(rule: PathRule) -> Self {
        rule.stored
    }
}

impl PathRule {
    /// Creates the rule for accesses of kind `access` that match `glob` below `anchor`.
    pub fn new(action: RuleAction, access: Permission, glob: &PathGlob, anchor: AbsPath) -> Self {
        Self::from(StoredPathRule {
            action,
            access,
            text: glob.text.clone(),
            anchor,
            rest: glob.rest.clone(),
            approved_paths: Vec::new(),
        })
    }

    /// Returns the same rule; an `ask` rule no longer applies to the approved paths.
    #[must_use]
    pub fn with_approvals(&self, approved_paths: &[AbsPath]) -> Self {
        let mut rule = self.clone();
        if rule.action() == RuleAction::Ask {
            rule.stored.approved_paths = approved_paths.to_vec();
        }
        rule
    }

    /// Returns its action.
    pub fn action(&self) -> RuleAction {
        self.stored.action
    }

    /// Returns what it leaves of a grant where it matches: a path that cannot be read cannot be
    /// written either.
    pub fn ceiling(&self) -> Option<Permission> {
        match self.stored.access {
            Permission::Read => None,
            Permission::Write => Some(Permission::Read),
        }
    }

    /// Returns whether it blocks `requested` without an approval.
    pub fn blocks(&self, requested: Permission) -> bool {
        self.action() != RuleAction::Allow && self.ceiling() < Some(requested)
    }

    /// Returns whether the rule applies to `path`: it matches the path or one of its parents.
    pub fn matches(&self, path: &RealPath) -> bool {
        self.matches_at(path.as_path())
    }

    /// Returns the single path that the rule applies to, along with everything below it; `None` if
    /// the glob could match several.
    pub fn single_path(&self) -> Option<AbsPath> {
        let is_literal = !has_wildcards(&self.stored.rest);
        is_literal.then(|| self.stored.anchor.join(&self.stored.rest))
    }

    fn matches_at(&self, path: &Path) -> bool {
        let mut approved_paths = self.stored.approved_paths.iter();
        if approved_paths.any(|approved_path| path.starts_with(approved_path.as_path())) {
            return false;
        }
        let mut names = path.components().filter_map(plain_component);
        let anchor_components = self.stored.anchor.as_path().components();
        if !take_folded(&mut names, anchor_components.filter_map(plain_component)) {
            return false;
        }
        let Some(glob) = &self.glob else {
            return true;
        };
        let mut prefix = String::new();
        names.any(|name| {
            if !prefix.is_empty() {
                prefix.push('/');
            }
            prefix.push_str(&fold_name(name));
            glob.is_match(&prefix)
        })
    }
}

fn plain_component(component: Component<'_>) -> Option<&OsStr> {
    match component {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    }
}

/// Writes the rule as in the config.
impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoredPathRule {
            action,
            access,
            text,
            ..
        } = &self.stored;
        write!(f, "{action}: {access}_file({text})")
    }
}

/// Returns the highest permission that rules with this action leave for `path`.
pub fn remaining_permission(
    rules: &[PathRule],
    action: RuleAction,
    path: &RealPath,
) -> Option<Permission> {
    let matching_rules = rules
        .iter()
        .filter(|rule| rule.action() == action && rule.matches(path));
    matching_rules
        .map(PathRule::ceiling)
        .min()
        .unwrap_or(Some(Permission::Write))
}

/// Returns the first rule with this action that applies to `requested` access to `path`.
pub fn matching_rule<'r>(
    rules: &'r [PathRule],
    action: RuleAction,
    path: &RealPath,
    requested: Permission,
) -> Option<&'r PathRule> {
    rules.iter().find(|rule| {
        rule.action() == action && rule.ceiling() < Some(requested) && rule.matches(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "paths in tests need not exist")]
    fn real(path: &str) -> RealPath {
        RealPath::vouch(path)
    }

    fn rule(glob: &str) -> PathRule {
        let home = AbsPath::new("/home/u").unwrap();
        let glob = PathGlob::parse(glob, Some(&home)).unwrap();
        let anchor = glob
            .prefix()
            .cloned()
            .unwrap_or_else(|| AbsPath::new("/p").unwrap());
        PathRule::new(RuleAction::Deny, Permission::Write, &glob, anchor)
    }

    #[track_caller]
    fn check(glob: &str, path: &str, expected: bool) {
        assert_eq!(rule(glob).matches(&real(path)), expected, "{glob} {path}");
    }

    #[test]
    fn globs_match_paths_and_all_that_is_below() {
        check("src/x.lock", "/p/src/x.lock", true);
        check("src/x.lock", "/p/src/x.lock/deep", true);
        check("src/x.lock", "/p/src/y.lock", false);
        check("src/x.lock", "/p/a/src/x.lock", false);
        check("./x.lock", "/p/x.lock", true);
        check("./x.lock", "/p/a/x.lock", false);
        check("*.lock", "/p/Cargo.lock", true);
        check("*.lock", "/p/a/b/c.lock", true);
        check("*.lock", "/p/a.lock.txt", false);
        check("*.lock", "/q/a.lock", false);
        check("src/*", "/p/src/a", true);
        check("src/*/b", "/p/src/a/c/b", false);
        check("src/**/b", "/p/src/a/c/b", true);
        check("secrets/**", "/p/secrets/key", true);
        check("secrets/**", "/p/secrets", true);
        check("secrets/", "/p/a/secrets/k", true);
        check("**", "/p", true);
        check("**", "/p/a/b", true);
        check("**", "/q", false);
        check("*", "/p", false);
        check("*", "/p/a", true);
        check("{a,b}/c", "/p/b/c", true);
        check("[ab]/c", "/p/c/c", false);
        check(r"a\*/c", "/p/a*/c", true);
        check(r"a\*/c", "/p/ab/c", false);
    }

    #[test]
    fn absolute_globs_begin_at_the_top() {
        check("/etc/**", "/etc/passwd", true);
        check("/etc/**", "/p/etc/passwd", false);
        check("/etc/*.conf", "/etc/a.conf", true);
        check("/etc/*.conf", "/etc/a/a.conf", false);
        check("~/.ssh", "/home/u/.ssh/id", true);
        check("~/.ssh", "/p/.ssh/id", false);
        check("/", "/anything", true);
    }

    #[test]
    fn no_spelling_of_a_name_leads_past_a_rule() {
        check("secrets/key", "/p/SECRETS/Key", true);
        check("Secrets/KEY", "/p/secrets/key", true);
        check("key", "/p/k\u{200d}ey", true);
        check("key", "/p/key. ", true);
        check("key", "/p/key::$DATA", true);
        check("key", "/p/keys", false);
    }

    #[track_caller]
    fn check_refused(glob: &str, expected: &str) {
        assert_eq!(PathGlob::parse(glob, None).unwrap_err(), expected);
    }

    #[test]
    fn an_invalid_glob_is_rejected_with_a_reason() {
        check_refused("", "expected 1 to 1024 bytes without NUL");
        check_refused("a/../b", "write it without `..`");
        check_refused("a[", "unclosed character class; missing ']'");
        check_refused("~/x", "no home directory is known");
        check_refused(".", "expected a name");
    }

    #[test]
    fn a_rule_is_stored_and_read_again() {
        let rule = rule("src/*.lock");
        let json = serde_json::to_string(&rule).unwrap();
        let read_rule: PathRule = serde_json::from_str(&json).unwrap();
        assert_eq!(read_rule, rule);
        assert!(read_rule.matches(&real("/p/src/a.lock")));
        assert_eq!(read_rule.to_string(), "deny: write_file(src/*.lock)");
    }

    #[test]
    fn examples_are_relative_or_absolute_as_the_glob_is() {
        let check = |glob: &str, path: &str, expected: bool| {
            let glob = PathGlob::parse(glob, None).unwrap();
            assert_eq!(glob.matches_example(path), expected, "{glob} {path}");
        };
        check("src/x.lock", "src/x.lock", true);
        check("src/x.lock", "src/y.lock", false);
        check("*.lock", "a/x.lock", true);
        check("*.lock", "/a/x.lock", false);
        check("/a/**", "/a/x", true);
        check("/a/**", "a/x", false);
    }

    #[test]
    fn an_approved_path_is_not_asked_about_again() {
        let glob = PathGlob::parse("*.txt", None).unwrap();
        let anchor = || AbsPath::new("/p").unwrap();
        let approved_paths = [AbsPath::new("/p/a.txt").unwrap()];
        let check = |action, path: &str, expected: bool| {
            let rule = PathRule::new(action, Permission::Write, &glob, anchor());
            let rule = rule.with_approvals(&approved_paths);
            assert_eq!(rule.matches(&real(path)), expected, "{action} {path}");
        };
        check(RuleAction::Ask, "/p/a.txt", false);
        check(RuleAction::Ask, "/p/b.txt", true);
        check(RuleAction::Deny, "/p/a.txt", true);
    }

    #[test]
    fn rules_that_name_a_path_say_which() {
        let check = |glob: &str, expected: Option<&str>| {
            let path = rule(glob).single_path().map(|path| path.to_string());
            assert_eq!(path.as_deref(), expected, "{glob}");
        };
        check("src/x.lock", Some("/p/src/x.lock"));
        check("secrets/**", Some("/p/secrets"));
        check("/etc/passwd", Some("/etc/passwd"));
        check("*.lock", None);
        check("key", None);
    }
}
