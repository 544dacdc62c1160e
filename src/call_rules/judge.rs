//! Owns what the rules say of a call, as far as its tool and its command are concerned. The strictest
//! rule speaks, for the strictest of a line's commands.

use crate::call_rules::command_pattern::PatternFit;
use crate::call_rules::{CallMatcher, CallRule, CallRules, matches_wildcard};
use crate::commands::line::{ParsedCommandLine, SimpleCommand, WrappedKind};
use crate::commands::parse::parse;
use crate::permissions::path_rules::RuleAction;
use crate::text::single_line;
use crate::tools::aliases::names_of;

/// The longest line that a reason repeats, in characters.
const SHOWN_CHARS_MAX: usize = 160;

/// What the rules say of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallJudgement {
    /// No rule speaks of it, or not of all of it.
    Silent,
    /// Rules allow all of it, so that nobody has to be asked.
    Allowed,
    /// A person has to agree.
    Asked(MatchedRule),
    /// It does not happen.
    Denied(MatchedRule),
}

/// Which rule speaks, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRule {
    /// The command or the tool that it is about, shortened.
    pub subject: String,
    /// Why, as the end of a sentence.
    pub reason: String,
}

impl CallRules {
    /// What the rules say of a call of `tool`, with what it gives to the shell.
    pub fn judge(&self, tool: &str, command: Option<&str>) -> CallJudgement {
        let of_tool = self.judge_tool(tool);
        let of_line = command.map_or(CallJudgement::Silent, |line| self.judge_command_line(line));
        match (of_tool, of_line) {
            (denied @ CallJudgement::Denied(_), _) | (_, denied @ CallJudgement::Denied(_)) => {
                denied
            }
            (asked @ CallJudgement::Asked(_), _) | (_, asked @ CallJudgement::Asked(_)) => asked,
            (CallJudgement::Allowed, _) | (_, CallJudgement::Allowed) => CallJudgement::Allowed,
            (CallJudgement::Silent, CallJudgement::Silent) => CallJudgement::Silent,
        }
    }

    /// A tool has the names too that other programs have for what does the same.
    fn judge_tool(&self, tool: &str) -> CallJudgement {
        let fitting = self.0.iter().filter(|rule| match &rule.matcher {
            CallMatcher::Tool(pattern) => {
                names_of(tool).any(|name| matches_wildcard(pattern, name))
            }
            CallMatcher::Command(_) | CallMatcher::Path(..) => false,
        });
        match fitting.max_by_key(|rule| rule.action) {
            None => CallJudgement::Silent,
            Some(rule) => matched_judgement(rule, tool),
        }
    }

    /// What the rules say of a command line.
    pub fn judge_command_line(&self, line: &str) -> CallJudgement {
        if self.commands().next().is_none() {
            return CallJudgement::Silent;
        }
        let parsed = parse(line);
        if self.blocks_commands()
            && let Some(why) = unknown_reason(&parsed)
        {
            return CallJudgement::Denied(MatchedRule {
                subject: single_line(line, SHOWN_CHARS_MAX),
                reason: format!("{why}, and `permissions` has rules about commands"),
            });
        }
        let mut strictest: Option<(&CallRule, &SimpleCommand)> = None;
        for command in &parsed.commands {
            if let Some(rule) = self.blocking_rule(command)
                && strictest.is_none_or(|(known, _)| known.action < rule.action)
            {
                strictest = Some((rule, command));
            }
        }
        match strictest {
            Some((rule, command)) => matched_judgement(rule, &command.to_string()),
            None if self.allows(&parsed) => CallJudgement::Allowed,
            None => CallJudgement::Silent,
        }
    }

    /// Whether a rule can keep a command from running.
    fn blocks_commands(&self) -> bool {
        self.commands()
            .any(|(rule, _)| rule.action != RuleAction::Allow)
    }

    /// The strictest rule that keeps this command from running unasked.
    fn blocking_rule(&self, command: &SimpleCommand) -> Option<&CallRule> {
        let closing = self.commands().filter(|(rule, pattern)| {
            rule.action != RuleAction::Allow && pattern.matches(command, PatternFit::Possible)
        });
        closing.map(|(rule, _)| rule).max_by_key(|rule| rule.action)
    }

    /// Whether rules allow all commands of a line that is known as a whole.
    fn allows(&self, line: &ParsedCommandLine) -> bool {
        let fits = |command: &SimpleCommand| {
            let mut rules = self.commands();
            rules.any(|(rule, pattern)| {
                rule.action == RuleAction::Allow && pattern.matches(command, PatternFit::Certain)
            })
        };
        let is_exempt = |command: &SimpleCommand| {
            command.words.is_empty() || command.wraps == WrappedKind::Only
        };
        let is_allowed = |command: &SimpleCommand| is_exempt(command) || fits(command);
        unknown_reason(line).is_none()
            && line.commands.iter().any(fits)
            && line.commands.iter().all(is_allowed)
    }
}

/// Why nobody knows what a line runs, if nobody does.
fn unknown_reason(line: &ParsedCommandLine) -> Option<String> {
    if let Some(unread) = line.unread {
        return Some(unread.to_string());
    }
    let is_unknown = |command: &&SimpleCommand| command.wraps == WrappedKind::Unknown;
    let unknown = line.commands.iter().find(is_unknown)?;
    Some(format!("what `{unknown}` runs is known only when it runs"))
}

fn matched_judgement(rule: &CallRule, subject: &str) -> CallJudgement {
    let spoken = |what: &str| MatchedRule {
        subject: subject.to_owned(),
        reason: format!("`permissions` {what}: `{rule}`"),
    };
    match rule.action {
        RuleAction::Allow => CallJudgement::Allowed,
        RuleAction::Ask => CallJudgement::Asked(spoken("has a person asked first")),
        RuleAction::Deny => CallJudgement::Denied(spoken("denies it")),
    }
}
