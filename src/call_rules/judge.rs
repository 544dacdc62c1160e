//! Evaluates the rules against a call's tool, command line or page. The strictest matching rule
//! wins, for the strictest command of the line.

use crate::call_rules::patterns::PatternFit;
use crate::call_rules::{CallMatcher, CallRule, CallRules, matches_wildcard};
use crate::commands::line::{ParsedCommandLine, SimpleCommand, WrappedKind};
use crate::commands::parse::parse;
use crate::permissions::path_rules::RuleAction;
use crate::text::single_line;
use crate::tools::external_tools::names_of;
use crate::tools::page_url::PageUrl;

/// The longest part of a command line that a reason quotes, in characters.
const SHOWN_CHARS_MAX: usize = 160;

/// The rules' decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallJudgement {
    /// No rule matches the call, or none matches all of it.
    Undecided,
    /// Rules allow all of the call, so that no approval is needed.
    Allowed,
    /// A person must approve the call.
    Asked(MatchedRule),
    /// The call is denied.
    Denied(MatchedRule),
}

/// The rule that decides, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRule {
    /// The command or tool concerned, shortened.
    pub subject: String,
    /// The reason, as the end of a sentence.
    pub reason: String,
}

impl CallJudgement {
    /// Returns the stricter one of two judgements about the same call.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (denied @ Self::Denied(_), _) | (_, denied @ Self::Denied(_)) => denied,
            (asked @ Self::Asked(_), _) | (_, asked @ Self::Asked(_)) => asked,
            // To allow a call, a rule about its tool or one about its command is enough.
            (Self::Allowed, _) | (_, Self::Allowed) => Self::Allowed,
            (Self::Undecided, Self::Undecided) => Self::Undecided,
        }
    }
}

impl CallRules {
    /// Evaluates the rules against a call of `tool` and the command line that it passes to the
    /// shell.
    pub fn judge(&self, tool: &str, command: Option<&str>) -> CallJudgement {
        let tool_judgement = self.judge_tool(tool);
        let command_judgement = command.map_or(CallJudgement::Undecided, |line| {
            self.judge_command_line(line)
        });
        tool_judgement.stricter(command_judgement)
    }

    /// Evaluates the rules about pages against the page that a call reads.
    pub fn judge_page(&self, page: &PageUrl) -> CallJudgement {
        let matching_rules = self.0.iter().filter(|rule| match &rule.matcher {
            CallMatcher::Page(pattern) => pattern.matches(page),
            CallMatcher::Command(_) | CallMatcher::Path(..) | CallMatcher::Tool(_) => false,
        });
        match matching_rules.max_by_key(|rule| rule.action) {
            None => CallJudgement::Undecided,
            Some(rule) => matched_judgement(rule, &single_line(page.as_str(), SHOWN_CHARS_MAX)),
        }
    }

    /// Evaluates the rules about tools. A tool also matches by the names that other programs use
    /// for an equivalent tool.
    fn judge_tool(&self, tool: &str) -> CallJudgement {
        let matching_rules = self.0.iter().filter(|rule| match &rule.matcher {
            CallMatcher::Tool(pattern) => {
                names_of(tool).any(|name| matches_wildcard(pattern, name))
            }
            CallMatcher::Command(_) | CallMatcher::Page(_) | CallMatcher::Path(..) => false,
        });
        match matching_rules.max_by_key(|rule| rule.action) {
            None => CallJudgement::Undecided,
            Some(rule) => matched_judgement(rule, tool),
        }
    }

    /// Evaluates the rules about commands against a command line.
    pub fn judge_command_line(&self, line: &str) -> CallJudgement {
        if self.command_rules().next().is_none() {
            return CallJudgement::Undecided;
        }
        let command_line = parse(line);
        if self.blocks_commands()
            && let Some(reason) = unknown_reason(&command_line)
        {
            return CallJudgement::Denied(MatchedRule {
                subject: single_line(line, SHOWN_CHARS_MAX),
                reason: format!("{reason}, and `permissions` has rules about commands"),
            });
        }
        let mut strictest: Option<(&CallRule, &SimpleCommand)> = None;
        for command in &command_line.commands {
            if let Some(rule) = self.blocking_rule(command)
                && strictest.is_none_or(|(strictest_rule, _)| strictest_rule.action < rule.action)
            {
                strictest = Some((rule, command));
            }
        }
        match strictest {
            Some((rule, command)) => matched_judgement(rule, &command.to_string()),
            None if self.allows(&command_line) => CallJudgement::Allowed,
            None => CallJudgement::Undecided,
        }
    }

    /// Returns whether any rule denies commands or asks about them.
    fn blocks_commands(&self) -> bool {
        self.command_rules()
            .any(|(rule, _)| rule.action != RuleAction::Allow)
    }

    /// Returns the strictest rule that denies this command or asks about it.
    fn blocking_rule(&self, command: &SimpleCommand) -> Option<&CallRule> {
        let blocking_rules = self.command_rules().filter(|(rule, pattern)| {
            rule.action != RuleAction::Allow && pattern.matches(command, PatternFit::Possible)
        });
        blocking_rules
            .map(|(rule, _)| rule)
            .max_by_key(|rule| rule.action)
    }

    /// Returns whether the line could be parsed completely and rules allow every command in it. A
    /// command that only runs another one needs no rule of its own.
    fn allows(&self, line: &ParsedCommandLine) -> bool {
        let is_matched = |command: &SimpleCommand| {
            let mut rules = self.command_rules();
            rules.any(|(rule, pattern)| {
                rule.action == RuleAction::Allow && pattern.matches(command, PatternFit::Certain)
            })
        };
        let is_exempt = |command: &SimpleCommand| {
            command.words.is_empty() || command.wrapped_kind == WrappedKind::OneCommand
        };
        let is_allowed = |command: &SimpleCommand| is_exempt(command) || is_matched(command);
        unknown_reason(line).is_none()
            && line.commands.iter().any(is_matched)
            && line.commands.iter().all(is_allowed)
    }
}

/// Returns the reason why it is unknown what the line runs; `None` if it is known.
fn unknown_reason(line: &ParsedCommandLine) -> Option<String> {
    if let Some(reason) = line.unparsed_reason {
        return Some(reason.to_string());
    }
    let is_unknown = |command: &&SimpleCommand| command.wrapped_kind == WrappedKind::Unknown;
    let unknown_command = line.commands.iter().find(is_unknown)?;
    Some(format!(
        "what `{unknown_command}` runs is known only when it runs"
    ))
}

fn matched_judgement(rule: &CallRule, subject: &str) -> CallJudgement {
    let matched_rule = |effect: &str| MatchedRule {
        subject: subject.to_owned(),
        reason: format!("`permissions` {effect}: `{rule}`"),
    };
    match rule.action {
        RuleAction::Allow => CallJudgement::Allowed,
        RuleAction::Ask => CallJudgement::Asked(matched_rule("has a person asked first")),
        RuleAction::Deny => CallJudgement::Denied(matched_rule("denies it")),
    }
}
