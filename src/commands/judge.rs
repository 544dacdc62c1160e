//! Owns the judgement about a command line: each check with its outcome, and the refusal that
//! follows.

use crate::commands::line::{Line, SimpleCommand, Starts};
use crate::commands::parse::parse;
use crate::commands::rules::RULES;
use crate::commands::{CommandPolicy, CommandRules, Refused};
use crate::wording::one_line;

/// The longest line that a refusal repeats, in characters.
const SHOWN_CHARS_MAX: usize = 160;

/// The rule of a line that is not understood where all of it must be.
const UNREADABLE: &str = "unreadable-line";
/// The rule of a command that only the run shows where all must be known.
const UNKNOWN: &str = "unknown-command";
/// The rule of `command_line_blocked_commands`.
const BLOCKED: &str = "blocked-commands";
/// The rule of `command_line_allowed_commands`.
const ALLOWED: &str = "allowed-commands";

/// Whether the rules let a command line through.
pub fn judge(rules: &CommandRules, line: &str) -> Result<(), Refused> {
    let parsed = parse(line);
    match judge_line(rules, line, &parsed) {
        Some(refused) => Err(refused),
        None => {
            let mut commands = parsed.commands.iter();
            match commands.find_map(|command| judge_command(rules, command)) {
                Some(refused) => Err(refused),
                None => Ok(()),
            }
        }
    }
}

/// Why a line is refused as a whole, whatever its commands are.
pub fn judge_line(rules: &CommandRules, line: &str, parsed: &Line) -> Option<Refused> {
    let why = rules.need_all()?;
    let unread = parsed.unread?;
    Some(Refused {
        rule: UNREADABLE,
        command: one_line(line, SHOWN_CHARS_MAX),
        reason: format!("{unread}, and {why}"),
        way_out: "write simpler commands, one call each, or put them into a script".to_owned(),
    })
}

/// Why one of a line's commands is refused.
pub fn judge_command(rules: &CommandRules, command: &SimpleCommand) -> Option<Refused> {
    by_policy(rules, command)
        .or_else(|| by_block_list(rules, command))
        .or_else(|| as_unknown(rules, command))
        .or_else(|| by_allow_list(rules, command))
}

fn refused(rule: &'static str, command: &SimpleCommand, reason: String, way_out: &str) -> Refused {
    Refused {
        rule,
        command: command.to_string(),
        reason,
        way_out: way_out.to_owned(),
    }
}

fn by_policy(rules: &CommandRules, command: &SimpleCommand) -> Option<Refused> {
    let holds = RULES.iter().filter(|rule| {
        let is_lifted = rule.lifted_by == Some(rules.privileges);
        (rule.policy == CommandPolicy::Standard || rules.policy == rule.policy) && !is_lifted
    });
    let mut against = holds.filter(|rule| (rule.refuses)(command));
    let rule = against.next()?;
    Some(refused(
        rule.name,
        command,
        rule.because.to_owned(),
        rule.way_out,
    ))
}

fn by_block_list(rules: &CommandRules, command: &SimpleCommand) -> Option<Refused> {
    let (text, program) = (command.text(), command.program()?);
    let arguments = command
        .words
        .iter()
        .skip(1)
        .map(|word| format!(" {}", word.shown()));
    let short = program + &arguments.collect::<String>();
    let mut patterns = rules.blocked.iter();
    let pattern = patterns.find(|pattern| pattern.matches(&text) || pattern.matches(&short))?;
    let reason = format!("the config blocks `{pattern}`");
    Some(refused(
        BLOCKED,
        command,
        reason,
        "do without it, or say in the answer why it is needed",
    ))
}

/// A command that only the run shows cannot be held against a list.
fn as_unknown(rules: &CommandRules, command: &SimpleCommand) -> Option<Refused> {
    let why = rules.need_all()?;
    let has_no_name = command.program().is_none() && !command.words.is_empty();
    if !has_no_name && command.starts != Starts::Unknown {
        return None;
    }
    let reason = format!("which command it runs is known only when it runs, and {why}");
    Some(refused(
        UNKNOWN,
        command,
        reason,
        "write the command's name out",
    ))
}

fn by_allow_list(rules: &CommandRules, command: &SimpleCommand) -> Option<Refused> {
    let allowed = rules.allowed.as_ref()?;
    let text = command.text();
    let is_exempt = text.is_empty() || command.starts == Starts::OneInstead;
    if is_exempt || allowed.iter().any(|pattern| pattern.matches(&text)) {
        return None;
    }
    let patterns: Vec<String> = allowed
        .iter()
        .map(|pattern| format!("`{pattern}`"))
        .collect();
    let reason = match patterns.as_slice() {
        [] => "the config allows no command".to_owned(),
        patterns => format!("the config allows only {}", patterns.join(", ")),
    };
    let reason = one_line(&reason, SHOWN_CHARS_MAX);
    Some(refused(
        ALLOWED,
        command,
        reason,
        "use an allowed command, each line made of nothing else",
    ))
}

impl CommandRules {
    /// Why every command of a line must be known, if it must.
    fn need_all(&self) -> Option<&'static str> {
        if self.allowed.is_some() || !self.blocked.is_empty() {
            Some("the config lists commands")
        } else if self.policy == CommandPolicy::Strict {
            Some("the policy is `strict`")
        } else {
            None
        }
    }
}
