//! What is read of command lines, and what is said about them: what is here holds for all of it.

mod properties;
mod reading;
mod verdicts;

use crate::commands::judge::judge;
use crate::commands::parse::parse;
use crate::commands::pattern::CommandRegex;
use crate::commands::{CommandPolicy, CommandRules};

fn rules(policy: CommandPolicy) -> CommandRules {
    CommandRules {
        policy,
        ..CommandRules::default()
    }
}

fn patterns(written: &[&str]) -> Vec<CommandRegex> {
    let patterns = written
        .iter()
        .map(|text| CommandRegex::parse(text).unwrap());
    patterns.collect()
}

/// The rule that refuses a line, or nothing.
fn refusal(rules: &CommandRules, line: &str) -> Option<&'static str> {
    judge(rules, line).err().map(|refused| refused.rule)
}

#[track_caller]
fn check(rules: &CommandRules, line: &str, expected: Option<&str>) {
    assert_eq!(refusal(rules, line), expected, "{line}\n{:#?}", parse(line));
}
