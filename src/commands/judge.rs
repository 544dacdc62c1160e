//! Judges a command line: runs the checks in order and returns the first refusal. The rules are
//! about parsed commands, never about the text of the line.

use crate::commands::line::{ParsedCommandLine, SimpleCommand, WrappedKind};
use crate::commands::parse::parse;
use crate::commands::rules::{CommandRule, RULES};
use crate::commands::{CommandPolicy, CommandRefusal, CommandRules};
use crate::text::single_line;

/// The longest part of a line, or of a list of patterns, that a refusal quotes, in characters.
const QUOTED_CHARS_MAX: usize = 160;

/// The rule that refuses a line that could not be parsed, where every command must be known.
const UNREADABLE: &str = "unreadable-line";
/// The rule that refuses a command that is known only at run time, where every command must be
/// known.
const UNKNOWN: &str = "unknown-command";
/// The rule of `command_line_blocked_commands`.
const BLOCKED: &str = "blocked-commands";
/// The rule of `command_line_allowed_commands`.
const ALLOWED: &str = "allowed-commands";

/// The check of one command, or of the whole line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCheck {
    /// The rule that was checked.
    pub rule: &'static str,
    /// The refusal, if the rule refuses.
    pub refusal: Option<CommandRefusal>,
}

/// Returns an error if the rules refuse a command line.
pub fn judge(rules: &CommandRules, line: &str) -> Result<(), CommandRefusal> {
    let command_line = parse(line);
    let line_check = check_line(rules, line, &command_line);
    let command_checks = command_line
        .commands
        .iter()
        .flat_map(|command| check_command(rules, command));
    let mut refusals = line_check
        .into_iter()
        .chain(command_checks)
        .filter_map(|check| check.refusal);
    match refusals.next() {
        Some(refusal) => Err(refusal),
        None => Ok(()),
    }
}

/// Checks the line as a whole; `None` where not all of it must be understood.
pub fn check_line(
    rules: &CommandRules,
    line: &str,
    command_line: &ParsedCommandLine,
) -> Option<CommandCheck> {
    let completeness_reason = rules.completeness_reason()?;
    let refusal = command_line.unparsed_reason.map(|reason| CommandRefusal {
        rule: UNREADABLE,
        command: single_line(line, QUOTED_CHARS_MAX),
        reason: format!("{reason}, and {completeness_reason}"),
        suggestion: "write simpler commands, one call each, or put them into a script".to_owned(),
    });
    Some(CommandCheck {
        rule: UNREADABLE,
        refusal,
    })
}

/// Checks one of the line's commands against each rule, in order of precedence.
pub fn check_command<'a>(
    rules: &'a CommandRules,
    command: &'a SimpleCommand,
) -> impl Iterator<Item = CommandCheck> + 'a {
    let policy_rules = RULES.iter().filter(|rule| rules.applies(rule));
    let policy_checks = policy_rules.map(|rule| CommandCheck {
        rule: rule.name,
        refusal: (rule.refuses)(command)
            .then(|| refusal(rule.name, command, rule.because.to_owned(), rule.suggestion)),
    });
    let config_checks: [(&'static str, ConfigCheck); 3] = [
        (BLOCKED, check_block_list),
        (UNKNOWN, check_unknown),
        (ALLOWED, check_allow_list),
    ];
    let config_checks = config_checks
        .into_iter()
        .filter(|(rule, _)| rules.needs_config_check(rule))
        .map(|(rule, check)| CommandCheck {
            rule,
            refusal: check(rules, command),
        });
    policy_checks.chain(config_checks)
}

/// A check that the config asks for: whether a command is on one of its lists, or whether that can
/// be known at all.
type ConfigCheck = fn(&CommandRules, &SimpleCommand) -> Option<CommandRefusal>;

fn refusal(
    rule: &'static str,
    command: &SimpleCommand,
    reason: String,
    suggestion: &str,
) -> CommandRefusal {
    CommandRefusal {
        rule,
        command: command.to_string(),
        reason,
        suggestion: suggestion.to_owned(),
    }
}

fn check_block_list(rules: &CommandRules, command: &SimpleCommand) -> Option<CommandRefusal> {
    // A name that is known only at run time is refused by `check_unknown`.
    let (text, program) = (command.text(), command.program()?);
    let arguments = command
        .words
        .iter()
        .skip(1)
        .map(|word| format!(" {}", word.display_text()));
    let text_without_directory = program + &arguments.collect::<String>();
    let mut patterns = rules.blocked.iter();
    let pattern = patterns
        .find(|pattern| pattern.matches(&text) || pattern.matches(&text_without_directory))?;
    let reason = format!("the config blocks `{pattern}`");
    Some(refusal(
        BLOCKED,
        command,
        reason,
        "do without it, or say in the answer why it is needed",
    ))
}

/// Refuses a command that is known only at run time: it cannot be compared with a list.
fn check_unknown(rules: &CommandRules, command: &SimpleCommand) -> Option<CommandRefusal> {
    let completeness_reason = rules.completeness_reason()?;
    let has_no_name = command.program().is_none() && !command.words.is_empty();
    if !has_no_name && command.wrapped_kind != WrappedKind::Unknown {
        return None;
    }
    let reason =
        format!("which command it runs is known only when it runs, and {completeness_reason}");
    Some(refusal(
        UNKNOWN,
        command,
        reason,
        "write the command's name out",
    ))
}

fn check_allow_list(rules: &CommandRules, command: &SimpleCommand) -> Option<CommandRefusal> {
    let allowed_patterns = rules.allowed.as_ref()?;
    let text = command.text();
    // Assignments and redirections alone run nothing. A command that only runs another one is
    // allowed if that one is, which is checked on its own.
    let is_exempt = text.is_empty() || command.wrapped_kind == WrappedKind::OneCommand;
    if is_exempt
        || allowed_patterns
            .iter()
            .any(|pattern| pattern.matches(&text))
    {
        return None;
    }
    let patterns: Vec<String> = allowed_patterns
        .iter()
        .map(|pattern| format!("`{pattern}`"))
        .collect();
    let whole_reason = match patterns.as_slice() {
        [] => "the config allows no command".to_owned(),
        patterns => format!("the config allows only {}", patterns.join(", ")),
    };
    let reason = single_line(&whole_reason, QUOTED_CHARS_MAX);
    Some(refusal(
        ALLOWED,
        command,
        reason,
        "use an allowed command, each line made of nothing else",
    ))
}

impl CommandRules {
    /// Returns whether a rule of the table applies.
    fn applies(&self, rule: &CommandRule) -> bool {
        let is_in_force = rule.policy == CommandPolicy::Standard || rule.policy == self.policy;
        is_in_force && rule.lifted_by != Some(self.privileges)
    }

    /// Returns whether the config has a list or a policy for which commands need this check.
    fn needs_config_check(&self, rule: &str) -> bool {
        match rule {
            BLOCKED => !self.blocked.is_empty(),
            ALLOWED => self.allowed.is_some(),
            _ => self.completeness_reason().is_some(),
        }
    }

    /// Returns why every command of a line must be known; `None` if that is not required.
    fn completeness_reason(&self) -> Option<&'static str> {
        if self.allowed.is_some() || !self.blocked.is_empty() {
            Some("the config lists commands")
        } else if self.policy == CommandPolicy::Strict {
            Some("the policy is `strict`")
        } else {
            None
        }
    }
}
