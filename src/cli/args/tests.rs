//! Tests of the command line's arguments.

use super::*;

/// Checks that the two command lines mean the same.
#[track_caller]
fn check(former: &str, current: &str) {
    let parse = |line: &str| {
        let words = std::iter::once("massgen").chain(line.split(' '));
        format!("{:?}", CliArguments::try_parse_from(words).unwrap())
    };
    assert_eq!(parse(former), parse(current), "{former}");
}

#[test]
fn former_names_of_flags_and_values_still_work() {
    check("--ask-file s task", "--approval-socket s task");
    check("--answers f task", "--clarifications f task");
    check("--sandbox A task", "--sandbox overlay task");
    check("--sandbox B task", "--sandbox namespaces task");
    check("--sandbox C task", "--sandbox landlock task");
    check("apply last --as files", "apply last --history none");
    check("apply last --as squash", "apply last --history squash");
    check(
        "mcp serve --http --reached-as n",
        "mcp serve --http --allowed-host n",
    );
    check(
        "mcp orchestrate --config f --ask-file s",
        "mcp orchestrate --config f --approval-socket s",
    );
}
