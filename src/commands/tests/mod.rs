//! Helpers for the tests of parsing and judging command lines.

mod properties;
mod reading;
mod verdicts;

use crate::commands::judge::judge;
use crate::commands::parse::parse;
use crate::commands::rules::CommandRegex;
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

/// Returns the rule that refuses a line, if any.
fn refusal(rules: &CommandRules, line: &str) -> Option<&'static str> {
    judge(rules, line).err().map(|refused| refused.rule)
}

#[track_caller]
fn check(rules: &CommandRules, line: &str, expected: Option<&str>) {
    assert_eq!(refusal(rules, line), expected, "{line}\n{:#?}", parse(line));
}
