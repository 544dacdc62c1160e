//! Tables over rules and calls: each denial has a control next to it.

use super::rule_syntax::parse_rule;
use super::*;
use crate::path::AbsPath;

fn rules(written: &[(RuleAction, &str)]) -> CallRules {
    let home = AbsPath::new("/home/u").unwrap();
    let one = |(ruling, text): &(RuleAction, &str)| parse_rule(*ruling, text, Some(&home)).unwrap();
    CallRules::new(written.iter().map(one).collect())
}

/// Judges a call with a single rule that denies.
#[track_caller]
fn check(denied: &str, call: &str, expected: RuleAction) {
    let rules = rules(&[(RuleAction::Deny, denied)]);
    assert_eq!(
        rules.action_for_example(call),
        Ok(expected),
        "{denied}: {call}"
    );
}

use RuleAction::{Allow, Ask, Deny};

#[test]
fn rules_about_files_are_enforced_where_no_command_runs() {
    let count = |written: &[(RuleAction, &str)]| rules(written).unenforced_for_commands().count();
    assert_eq!(count(&[(Deny, "write_file")]), 1);
    assert_eq!(count(&[(Deny, "write_file"), (Deny, "command(git *)")]), 1);
    assert_eq!(count(&[(Deny, "write_file"), (Ask, "command")]), 1);
    assert_eq!(count(&[(Deny, "write_file"), (Deny, "command")]), 0);
}

#[test]
fn commands_are_matched_word_by_word() {
    check("command(git push *)", "command(git push)", Deny);
    check("command(git push *)", "command(git push origin main)", Deny);
    check("command(git push *)", "command(git pushy)", Allow);
    check("command(git push *)", "command(git log push)", Allow);
    check("command(git push *)", "command(echo git push)", Allow);
    check("command(git push *)", "command(git commit -m push)", Allow);
    check("command(git push)", "command(git push origin)", Allow);
    check("command(git push)", "command(git push)", Deny);
    check("command(git * main)", "command(git push origin main)", Deny);
    check(
        "command(npm run deploy*)",
        "command(npm run deploy:prod)",
        Deny,
    );
    check("command(npm run deploy*)", "command(npm run build)", Allow);
    check("command(*)", "command(ls)", Deny);
    check("command", "command(ls)", Deny);
    check("command(rm *)", "command(X=1)", Allow);
}

#[test]
fn commands_are_found_wherever_they_stand() {
    for line in [
        "bash -c 'git push'",
        "env A=1 git push",
        "ls | xargs git push",
        "true && git push",
        "echo $(git push)",
        "/usr/bin/git push",
        "'git' \"push\"",
        "g\\it push",
        "git -C /tmp push",
        "git -c a=b --no-pager push -f",
        "if true; then git push; fi",
        "f() { git push; }; f",
        "sudo git push",
        "timeout 5 git push",
        "git $\"push\"",
    ] {
        check("command(git push *)", &format!("command({line})"), Deny);
        check("command(git pull *)", &format!("command({line})"), Allow);
    }
}

#[test]
fn words_known_only_at_run_time_match_any_denied_pattern() {
    check("command(git push *)", "command(git $VERB origin)", Deny);
    check("command(git push *)", "command($PROGRAM)", Deny);
    check("command(git push *)", "command(ls $DIR)", Allow);
    check("command(git push *)", "command(eval \"$X\")", Deny);
    check("command(git push *)", "command(curl x | sh)", Deny);
    check("command(git push *)", "command(echo 'unclosed)", Deny);
    check("write_file(x)", "command(echo 'unclosed)", Allow);
}

#[test]
fn arguments_added_by_wrappers_match_denials_and_no_allowance() {
    for line in [
        "echo push | xargs git",
        "xargs -I{} git {} origin",
        "xargs -I % git % origin",
        "xargs --replace git {}",
        "find . -exec git {} \\;",
        "xargs git -C sub",
        "echo push | parallel git",
    ] {
        check("command(git push *)", &format!("command({line})"), Deny);
    }
    for line in [
        "ls | xargs git log",
        "ls | xargs wc -l",
        "xargs -I{} git log {}",
        "find . -exec grep push {} +",
        "git log {}",
    ] {
        check("command(git push *)", &format!("command({line})"), Allow);
    }
    let exactly = rules(&[(Allow, "command(git log)"), (Allow, "command(xargs *)")]);
    let allowed = |line: &str| exactly.judge_command_line(line) == judge::CallJudgement::Allowed;
    assert!(allowed("git log"));
    assert!(!allowed("xargs git log"));
    assert!(!allowed("xargs -I{} git {}"));
}

#[test]
fn an_option_may_have_a_value_or_none() {
    check("command(python -c *)", "command(python -B -c x)", Deny);
    check("command(python -c *)", "command(python -u -c x)", Deny);
    check("command(python -c *)", "command(python -W x -c x)", Deny);
    check("command(python -c *)", "command(python x.py -c x)", Allow);
    check("command(python -c *)", "command(python -B x.py)", Allow);
    check("command(rm -r *)", "command(rm -f -r x)", Deny);
    check("command(rm -r *)", "command(rm -f x)", Allow);
}

#[test]
fn paths_are_matched_by_globs() {
    check("write_file(src/*.lock)", "write_file(src/x.lock)", Deny);
    check("write_file(src/*.lock)", "read_file(src/x.lock)", Allow);
    check("read_file(secrets/**)", "write_file(secrets/a)", Deny);
    check("read_file(secrets/**)", "read_file(secrets/a)", Deny);
    check("read_file(secrets/**)", "read_file(public/a)", Allow);
    check("read_file(~/.ssh)", "read_file(/home/u/.ssh/id)", Deny);
    check("read_file", "read_file(any/thing)", Deny);
}

#[test]
fn tools_and_servers_are_matched_by_name() {
    check("tool(delete_*)", "tool(delete_file)", Deny);
    check("tool(delete_*)", "tool(move_file)", Allow);
    check("tool(read_file)", "tool(read_text_file)", Deny);
    check("tool(execute_command)", "tool(Bash)", Deny);
    check("tool(Bash)", "tool(execute_command)", Deny);
    check("tool(execute_command)", "tool(Write)", Allow);
    check("mcp(github/create_*)", "mcp(github/create_issue)", Deny);
    check("mcp(github/create_*)", "mcp(github/list_issues)", Allow);
    check("mcp(github)", "mcp(github/list_issues)", Deny);
    check("mcp(*/delete_file)", "mcp(files/delete_file)", Deny);
    check("mcp", "mcp(a/b)", Deny);
    check("mcp", "tool(delete_file)", Allow);
    check("*", "tool(delete_file)", Deny);
}

#[test]
fn the_strictest_rule_applies_in_any_order() {
    let all = rules(&[
        (Allow, "command(git *)"),
        (Ask, "command(git push *)"),
        (Deny, "command(git push --force *)"),
    ]);
    let check = |line: &str, expected| {
        assert_eq!(
            all.action_for_example(&format!("command({line})")),
            Ok(expected),
            "{line}"
        );
    };
    check("git status", Allow);
    check("git push", Ask);
    check("git push --force origin", Deny);
    check("git status; git push", Ask);
    check("git push && git push --force", Deny);
}

#[test]
fn an_allowance_covers_a_line_only_as_a_whole() {
    let all = rules(&[(Allow, "command(git log *)"), (Allow, "command(head *)")]);
    let check = |line: &str, expected: bool| {
        let allowed = all.judge_command_line(line) == judge::CallJudgement::Allowed;
        assert_eq!(allowed, expected, "{line}");
    };
    check("git log --oneline", true);
    check("git log | head -3", true);
    check("env git log", true);
    check("git log; rm x", false);
    check("git log $(rm x)", false);
    check("./git log", false);
    check("$GIT log", false);
    check("git -C x log", false);
    check("eval \"$X\"; git log", false);
    check("A=1", false);
}

#[test]
fn a_reason_names_the_rule_and_the_command() {
    let all = rules(&[(Deny, "command(git push *)")]);
    let judge::CallJudgement::Denied(matched) =
        all.judge("execute_command", Some("ls; git push x"))
    else {
        panic!("it is not denied");
    };
    assert_eq!(matched.subject, "git push x");
    let expected = "`permissions` denies it: `deny: command(git push *)`";
    assert_eq!(matched.reason, expected);
}

#[test]
fn an_invalid_rule_is_an_error_with_a_reason() {
    let check = |text: &str, expected: &str| {
        let error = parse_rule(Deny, text, None).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check("git push", "expected `command(git push *)`");
    check("command(git push", "expected `command(git push *)`");
    check("command()", "expected a command");
    check("mcp(a/b/c)", "expected `server/tool`");
    check("tool()", "expected the name of a tool");
    check("write_file(../x)", "without `..`");
}

#[test]
fn a_star_stands_for_any_text() {
    let check = |pattern: &str, text: &str, expected: bool| {
        assert_eq!(
            matches_wildcard(pattern, text),
            expected,
            "{pattern} {text}"
        );
    };
    check("abc", "abc", true);
    check("abc", "abcd", false);
    check("a*", "a", true);
    check("*c", "abc", true);
    check("a*b*c", "aXbYc", true);
    check("a*b*c", "aXc", false);
    check("a*a", "a", false);
    check("*", "", true);
}
