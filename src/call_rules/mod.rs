//! The rules of `permissions:` about calls: what each form means, and how they combine into a
//! decision about a call. They restrict what the grants allow, and never extend it. Rules about
//! paths become part of the grants; this module holds them until then, and evaluates the rules
//! about commands, pages and tools.

pub mod patterns;
pub mod examples;
pub mod judge;
pub mod rule_syntax;

use std::fmt;

use crate::call_rules::patterns::{CommandPattern, PagePattern};
use crate::call_rules::rule_syntax::full_name;
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::{PathGlob, RuleAction};

/// A rule about one kind of call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRule {
    /// Its action.
    pub action: RuleAction,
    /// The calls it applies to.
    pub matcher: CallMatcher,
    /// The rule as written in the config.
    pub written: String,
}

/// The calls that a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallMatcher {
    /// Command lines with a command that matches.
    Command(CommandPattern),
    /// Calls that access a path that the glob matches in this way.
    Path(Permission, PathGlob),
    /// Pages of the Web.
    Page(PagePattern),
    /// Calls of tools whose full name matches; `*` matches any string.
    Tool(String),
}

/// Writes the rule as in the config.
impl fmt::Display for CallRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.written)
    }
}

/// All rules that apply to an agent: those for all agents and its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallRules(Vec<CallRule>);

impl CallRules {
    /// Creates a set of these rules. Their order does not matter: `deny` wins over `ask`, and `ask`
    /// over `allow`.
    pub fn new(rules: Vec<CallRule>) -> Self {
        Self(rules)
    }

    /// Returns these rules and `others`.
    #[must_use]
    pub fn extended_by(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    /// Iterates over the rules.
    pub fn iter(&self) -> impl Iterator<Item = &CallRule> {
        self.0.iter()
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the rules about paths.
    pub fn path_rules(&self) -> impl Iterator<Item = (RuleAction, Permission, &PathGlob)> {
        self.0.iter().filter_map(|rule| match &rule.matcher {
            CallMatcher::Path(permission, glob) => Some((rule.action, *permission, glob)),
            CallMatcher::Command(_) | CallMatcher::Page(_) | CallMatcher::Tool(_) => None,
        })
    }

    /// Iterates over the rules that are not enforced everywhere for commands: those about writing,
    /// because a command can always create new names in a workspace. There are none if all commands
    /// are denied.
    pub fn unenforced_for_commands(&self) -> impl Iterator<Item = &CallRule> {
        let all_are_denied = self
            .command_rules()
            .any(|(rule, pattern)| rule.action == RuleAction::Deny && pattern.matches_all());
        self.0.iter().filter(move |rule| {
            let restricts = rule.action != RuleAction::Allow && !all_are_denied;
            restricts && matches!(rule.matcher, CallMatcher::Path(Permission::Write, _))
        })
    }

    /// Returns the rules about tools of `server` that match none of the `offered` tools' full
    /// names.
    pub fn unmatched_at_server<'r>(
        &'r self,
        server: &str,
        offered: &'r [&'r str],
    ) -> impl Iterator<Item = &'r CallRule> {
        let prefix = full_name(server, "");
        self.0.iter().filter(move |rule| match &rule.matcher {
            CallMatcher::Tool(pattern) => {
                pattern.starts_with(&prefix)
                    && !offered.iter().any(|name| matches_wildcard(pattern, name))
            }
            CallMatcher::Command(_) | CallMatcher::Page(_) | CallMatcher::Path(..) => false,
        })
    }

    /// Iterates over the rules about command lines.
    fn command_rules(&self) -> impl Iterator<Item = (&CallRule, &CommandPattern)> {
        self.0.iter().filter_map(|rule| match &rule.matcher {
            CallMatcher::Command(pattern) => Some((rule, pattern)),
            CallMatcher::Page(_) | CallMatcher::Path(..) | CallMatcher::Tool(_) => None,
        })
    }
}

/// Returns whether `text` matches `pattern`, in which `*` matches any string.
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first_part = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first_part) else {
        return false;
    };
    let Some(last_part) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last_part)
}

#[cfg(test)]
mod tests;
