//! Owns the rules of `permissions:` about calls: what each form means, and what all of them together
//! say of a call. They lower what grants give and never raise it. Rules about paths become part of the
//! grants; here is what they are before that, and what is said of commands and tools.

pub mod command_pattern;
pub mod examples;
pub mod judge;
pub mod rule_syntax;

use std::fmt;

use crate::call_rules::command_pattern::CommandPattern;
use crate::call_rules::rule_syntax::full_name;
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::{PathGlob, RuleAction};

/// What is said of calls of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRule {
    /// What it says.
    pub action: RuleAction,
    /// Of which calls.
    pub matcher: CallMatcher,
    /// As it is written.
    pub written: String,
}

/// Which calls a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallMatcher {
    /// Command lines with a command that fits.
    Command(CommandPattern),
    /// Calls that do this to a path that the glob matches.
    Path(Permission, PathGlob),
    /// Calls of tools whose full name fits; `*` stands for any text.
    Tool(String),
}

/// The rule as the config writes it.
impl fmt::Display for CallRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.written)
    }
}

/// All rules that hold for an agent. Those for all agents and its own add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallRules(Vec<CallRule>);

impl CallRules {
    /// These rules. Their order says nothing: a denial counts before a question, and a question
    /// before an allowance.
    pub fn new(rules: Vec<CallRule>) -> Self {
        Self(rules)
    }

    /// These rules and `others`.
    #[must_use]
    pub fn extended_by(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = &CallRule> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is said about paths.
    pub fn paths(&self) -> impl Iterator<Item = (RuleAction, Permission, &PathGlob)> {
        self.0.iter().filter_map(|rule| match &rule.matcher {
            CallMatcher::Path(wanted, glob) => Some((rule.action, *wanted, glob)),
            CallMatcher::Command(_) | CallMatcher::Tool(_) => None,
        })
    }

    /// The rules that commands are not held to everywhere: in a workspace, nothing keeps new names from
    /// appearing.
    pub fn unenforced_for_commands(&self) -> impl Iterator<Item = &CallRule> {
        self.0.iter().filter(|rule| {
            let closes = rule.action != RuleAction::Allow;
            closes && matches!(rule.matcher, CallMatcher::Path(Permission::Write, _))
        })
    }

    /// The rules about tools of `server` that fit none of these full names of tools.
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
            CallMatcher::Command(_) | CallMatcher::Path(..) => false,
        })
    }

    /// The rules about command lines.
    fn commands(&self) -> impl Iterator<Item = (&CallRule, &CommandPattern)> {
        self.0.iter().filter_map(|rule| match &rule.matcher {
            CallMatcher::Command(pattern) => Some((rule, pattern)),
            CallMatcher::Path(..) | CallMatcher::Tool(_) => None,
        })
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any text.
pub fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
