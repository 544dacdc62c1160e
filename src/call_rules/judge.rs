//! Owns what the rules say of a call, as far as its tool and its command are concerned. The strictest
//! rule speaks, for the strictest of a line's commands.

use crate::call_rules::command_pattern::Fit;
use crate::call_rules::{About, CallRule, CallRules, fits};
use crate::commands::line::{Line, SimpleCommand, Starts};
use crate::commands::parse::parse;
use crate::permissions::path_rules::Ruling;
use crate::tools::twins::names;
use crate::wording::one_line;

/// The longest line that a reason repeats, in characters.
const SHOWN_CHARS_MAX: usize = 160;

/// What the rules say of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// No rule speaks of it, or not of all of it.
    Silent,
    /// Rules allow all of it, so that nobody has to be asked.
    Allowed,
    /// A person has to agree.
    Asked(Spoken),
    /// It does not happen.
    Denied(Spoken),
}

/// Which rule speaks, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// The command or the tool that it is about, shortened.
    pub subject: String,
    /// Why, as the end of a sentence.
    pub reason: String,
}

impl CallRules {
    /// What the rules say of a call of `tool`, with what it gives to the shell.
    pub fn judge(&self, tool: &str, command: Option<&str>) -> Judgement {
        let of_tool = self.of_tool(tool);
        let of_line = command.map_or(Judgement::Silent, |line| self.of_line(line));
        match (of_tool, of_line) {
            (denied @ Judgement::Denied(_), _) | (_, denied @ Judgement::Denied(_)) => denied,
            (asked @ Judgement::Asked(_), _) | (_, asked @ Judgement::Asked(_)) => asked,
            (Judgement::Allowed, _) | (_, Judgement::Allowed) => Judgement::Allowed,
            (Judgement::Silent, Judgement::Silent) => Judgement::Silent,
        }
    }

    /// A tool has the names too that other programs have for what does the same.
    fn of_tool(&self, tool: &str) -> Judgement {
        let fitting = self.0.iter().filter(|rule| match &rule.about {
            About::Tool(pattern) => names(tool).any(|name| fits(pattern, name)),
            About::Command(_) | About::Path(..) => false,
        });
        match fitting.max_by_key(|rule| rule.ruling) {
            None => Judgement::Silent,
            Some(rule) => spoken(rule, tool),
        }
    }

    /// What the rules say of a command line.
    pub fn of_line(&self, line: &str) -> Judgement {
        if self.commands().next().is_none() {
            return Judgement::Silent;
        }
        let parsed = parse(line);
        if self.closes_commands()
            && let Some(why) = unknown(&parsed)
        {
            return Judgement::Denied(Spoken {
                subject: one_line(line, SHOWN_CHARS_MAX),
                reason: format!("{why}, and `permissions` has rules about commands"),
            });
        }
        let mut strictest: Option<(&CallRule, &SimpleCommand)> = None;
        for command in &parsed.commands {
            if let Some(rule) = self.closing(command)
                && strictest.is_none_or(|(known, _)| known.ruling < rule.ruling)
            {
                strictest = Some((rule, command));
            }
        }
        match strictest {
            Some((rule, command)) => spoken(rule, &command.to_string()),
            None if self.allows(&parsed) => Judgement::Allowed,
            None => Judgement::Silent,
        }
    }

    /// Whether a rule can keep a command from running.
    fn closes_commands(&self) -> bool {
        self.commands()
            .any(|(rule, _)| rule.ruling != Ruling::Allow)
    }

    /// The strictest rule that keeps this command from running unasked.
    fn closing(&self, command: &SimpleCommand) -> Option<&CallRule> {
        let closing = self.commands().filter(|(rule, pattern)| {
            rule.ruling != Ruling::Allow && pattern.fits(command, Fit::Possible)
        });
        closing.map(|(rule, _)| rule).max_by_key(|rule| rule.ruling)
    }

    /// Whether rules allow all commands of a line that is known as a whole.
    fn allows(&self, line: &Line) -> bool {
        let fits = |command: &SimpleCommand| {
            let mut rules = self.commands();
            rules.any(|(rule, pattern)| {
                rule.ruling == Ruling::Allow && pattern.fits(command, Fit::Certain)
            })
        };
        let is_exempt = |command: &SimpleCommand| {
            command.words.is_empty() || command.starts == Starts::OneInstead
        };
        let is_allowed = |command: &SimpleCommand| is_exempt(command) || fits(command);
        unknown(line).is_none()
            && line.commands.iter().any(fits)
            && line.commands.iter().all(is_allowed)
    }
}

/// Why nobody knows what a line runs, if nobody does.
fn unknown(line: &Line) -> Option<String> {
    if let Some(unread) = line.unread {
        return Some(unread.to_string());
    }
    let is_unknown = |command: &&SimpleCommand| command.starts == Starts::Unknown;
    let unknown = line.commands.iter().find(is_unknown)?;
    Some(format!("what `{unknown}` runs is known only when it runs"))
}

fn spoken(rule: &CallRule, subject: &str) -> Judgement {
    let spoken = |what: &str| Spoken {
        subject: subject.to_owned(),
        reason: format!("`permissions` {what}: `{rule}`"),
    };
    match rule.ruling {
        Ruling::Allow => Judgement::Allowed,
        Ruling::Ask => Judgement::Asked(spoken("has a person asked first")),
        Ruling::Deny => Judgement::Denied(spoken("denies it")),
    }
}
