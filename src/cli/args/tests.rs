//! Tests of the command line's arguments.

use super::*;
use crate::error::ErrorKind;

/// Checks that the two command lines mean the same.
#[track_caller]
fn check(line: &str, same: &str) {
    let parse = |line: &str| {
        let words = std::iter::once("massgen").chain(line.split(' '));
        format!("{:?}", CliArguments::try_parse_from(words).unwrap())
    };
    assert_eq!(parse(line), parse(same), "{line}");
}

#[test]
fn a_flag_of_the_python_massgen_means_the_same() {
    check("--no-display task", "--plain task");
}

/// Checks that each command below `group` describes itself as the list of its group does.
fn check_descriptions(mut group: clap::Command) {
    // Builds the group, and the names and descriptions of its commands.
    let _help = group.render_help();
    for listed in group.get_subcommands() {
        let mut command = listed.clone();
        let _help = command.render_help();
        let name = command.get_name().to_owned();
        let text = |command: &clap::Command| command.get_about().map(ToString::to_string);
        let long = |command: &clap::Command| command.get_long_about().map(ToString::to_string);
        assert_eq!(text(listed), text(&command), "{name}");
        assert_eq!(long(listed), long(&command), "{name}");
        check_descriptions(command);
    }
}

#[test]
fn commands_describe_themselves_as_in_the_list_of_their_group() {
    check_descriptions(CliArguments::command());
}

/// Parses the words after the program's name as a run.
fn run_arguments(words: &[String]) -> Result<RunArguments, clap::Error> {
    let words = std::iter::once("massgen").chain(words.iter().map(String::as_str));
    CliArguments::try_parse_from(words).map(|parsed| parsed.run)
}

#[test]
fn limits_are_written_as_the_flags_that_set_them() {
    let line = "--max-cost-usd 0.5 --max-tokens-total 9 --max-tool-calls 0 --max-iterations 2 \
                --orchestrator-timeout 60";
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    assert_eq!(run_arguments(&words).unwrap().limit_words(), words);
    assert_eq!(RunArguments::default().limit_words(), Vec::<String>::new());
    for count in ["0", "1001", "-1", "x"] {
        let words = ["--max-iterations".to_owned(), count.to_owned()];
        assert!(run_arguments(&words).is_err(), "{count}");
    }
}

#[test]
fn a_recorded_command_line_that_cannot_be_parsed_is_not_taken_for_an_empty_one() {
    let recorded = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        RunArguments::default().with_recorded(&words)
    };
    assert!(recorded(&["--review", "task"]).unwrap().delivery.review);
    let error = recorded(&["--review", "--flag-of-tomorrow", "task"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(
        error.to_string().contains("`--flag-of-tomorrow`"),
        "{error}"
    );
}
