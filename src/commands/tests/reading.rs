//! The parser: which commands it finds, how each is reached, and what its words are.

use crate::commands::line::{
    ExtraArguments, ShellWord, SimpleCommand, UnparsedReason, WrappedKind,
};
use crate::commands::parse::{LINE_BYTES_MAX, parse};

/// Lists every simple command of a line as `text <- step, step`.
#[track_caller]
fn check_commands(line: &str, expected: &[&str]) {
    let parsed = parse(line);
    let shown = parsed.commands.iter().map(|command| {
        let steps: Vec<String> = command.steps.iter().map(ToString::to_string).collect();
        let redirections = command.redirections.iter().map(ToString::to_string);
        let assignments = command.assignments.iter().map(|word| word.raw.clone());
        let mut parts: Vec<String> = assignments.collect();
        parts.extend(Some(command.text()).filter(|text| !text.is_empty()));
        parts.extend(redirections);
        match steps.as_slice() {
            [] => parts.join(" "),
            steps => format!("{} <- {}", parts.join(" "), steps.join(", ")),
        }
    });
    let shown: Vec<String> = shown.collect();
    assert_eq!(shown, expected, "{line}");
    assert_eq!(parsed.unparsed_reason, None, "{line}");
}

#[test]
fn every_simple_command_is_found() {
    check_commands("ls -la", &["ls -la"]);
    check_commands("", &[]);
    check_commands("# rm x", &[]);
    check_commands(
        "a && b || c; d & e",
        &["a", "b", "c", "d <- background", "e"],
    );
    check_commands(
        "a | b |& c",
        &["a <- pipeline", "b <- pipeline", "c <- pipeline"],
    );
    check_commands("(a; { b; })", &["a <- subshell", "b <- subshell"]);
    check_commands(
        "echo $(a `b`) \"$(c)\" ${x:-$(d)}",
        &[
            "echo $(a `b`) $(c) ${x:-$(d)}",
            "a `b` <- substitution",
            "b <- substitution, substitution",
            "c <- substitution",
            "d <- substitution",
        ],
    );
    check_commands(
        "diff <(a) >(b)",
        &[
            "diff <(a) >(b)",
            "a <- process substitution",
            "b <- process substitution",
        ],
    );
    check_commands(
        "for f in $(a); do b $f; done; while c; do d; done; if e; then f; else g; fi",
        &[
            "a <- loop, substitution",
            "b $f <- loop",
            "c <- loop",
            "d <- loop",
            "e <- branch",
            "f <- branch",
            "g <- branch",
        ],
    );
    check_commands(
        "case $(a) in x|y) b;; *) c;; esac",
        &["a <- branch, substitution", "b <- branch", "c <- branch"],
    );
    check_commands(
        "f() { a; }; function g { b; }",
        &["a <- function `f`", "b <- function `g`"],
    );
    check_commands(
        "X=$(a) Y=1 b; Z=$(c)",
        &["X=$(a) Y=1 b", "a <- substitution", "c <- substitution"],
    );
    check_commands(
        "arr=(1 $(a)); export P=$(b); [[ -f $(c) ]] && ((x=$(d)))",
        &[
            "a <- substitution",
            "export P=$(b)",
            "b <- substitution",
            "c <- substitution",
            "d <- substitution",
        ],
    );
}

#[test]
fn redirections_belong_to_their_command() {
    check_commands("a > f 2>&1 < g", &["a >f >&1 <g"]);
    check_commands("> f", &[">f"]);
    check_commands("{ a; b; } >> f", &[">>f", "a", "b"]);
    check_commands("a <<< 'b c'", &["a <<<'b c'"]);
    check_commands(
        "cat <<E | sort > f\n$(a) b\nE",
        &[
            "cat <<…",
            "sort >f <- pipeline",
            "a <- here-document, substitution",
        ],
    );
    check_commands("cat > f <<'E'\nrm $(a)\nE\nls", &["cat >f <<…", "ls"]);
    check_commands("cat <<-E\n\ta\n\tE\nls", &["cat <<-…", "ls"]);
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one row for each command that starts others"
)]
fn commands_that_start_commands_are_looked_through() {
    let through = |line: &str, expected: &[&str]| {
        let commands = parse(line).commands;
        let starts = commands.first().map(|command| command.wrapped_kind);
        assert!(
            starts != Some(WrappedKind::Nothing) && starts.is_some(),
            "{line}"
        );
        let started: Vec<String> = commands.iter().skip(1).map(SimpleCommand::text).collect();
        assert_eq!(started, expected, "{line}");
    };
    for line in [
        "bash -c 'rm x'",
        "sh -ec \"rm x\"",
        "bash -o pipefail -c 'rm x' name",
        "env -u C -i A=b rm x",
        "env -S 'rm x'",
        "timeout -k 5 --signal=KILL 10 rm x",
        "timeout --signal KILL 10 rm x",
        "nohup rm x",
        "nice -n 5 rm x",
        "nice -5 rm x",
        "stdbuf -oL rm x",
        "setsid -w rm x",
        "time -p rm x",
        "command -p rm x",
        "builtin rm x",
        "exec -a name rm x",
        "sudo -u ann -n rm x",
        "eval rm x",
        "eval 'rm' \"x\"",
        "watch -n 1 rm x",
        "busybox rm x",
        "coproc rm x",
        "prlimit --nproc=9 -o NOFILE rm x",
        "unbuffer -p rm x",
        "readarray -d : -C 'rm x' lines",
        "trap 'rm x' EXIT",
        "xargs -0 -n1 -I '{}' rm x",
        "su ann -c 'rm x'",
        "flock lock -c 'rm x'",
        "flock lock rm x",
        "script -qc 'rm x' log",
        "bash <<< 'rm x'",
        "bash - <<< 'rm x'",
        "bash /dev/stdin <<< 'rm x'",
        "fish -c 'rm x'",
        "linux64 -R rm x",
        "setarch x86_64 -R rm x",
        "compgen -C 'rm x'",
        "entr -n rm x",
        "bash <<E\nrm x\nE",
        "bash -s a <<'E'\nrm x\nE",
        "parallel -j 4 rm x ::: a b",
    ] {
        through(line, &["rm x"]);
    }
    through("find . -exec rm {} + -exec ls x \\;", &["rm {}", "ls x"]);
    through(
        "bash -c 'a; timeout 5 b | c'",
        &["a", "timeout 5 b", "b", "c"],
    );
    through("env env env rm x", &["env env rm x", "env rm x", "rm x"]);
    through("sh -c \"$X\"", &[]);
    through("eval $X", &[]);
    through("sh -c \"cd $X && rm x\"", &["cd $X", "rm x"]);
    through("sh < f", &[]);
    through("sh -c 'a ('", &[]);
    for line in [
        "bash script.sh",
        "command -v rm",
        "find . -name rm",
        "trap - EXIT x",
        "env",
        "bash",
    ] {
        let commands = parse(line).commands;
        let others = commands.iter().skip(1).filter(|found| found.text() != "-");
        assert_eq!(others.count(), 0, "{line}");
    }
    through("env -i bash <<< 'rm x'", &["bash", "rm x"]);
    for line in [
        "curl x | sh",
        "curl x | env bash",
        "curl x | sudo -u ann sh",
        "bash <(curl x)",
        "curl x | sh /dev/stdin",
        "curl x | sh -c sh",
        "curl x | sh -c 'echo a; bash'",
        "curl x | eval sh",
        "sh -c sh < file",
        "sh -c bash <<< 'rm x'",
    ] {
        let mut commands = parse(line).commands.into_iter();
        assert!(
            commands.any(|found| found.wrapped_kind == WrappedKind::Unknown),
            "{line}"
        );
    }
    for line in [
        "curl x | sh -c 'cat > file; sh script.sh'",
        "curl x | xargs sh -c 'echo $0'",
        "sh -c 'sh -c true' < file",
    ] {
        let mut commands = parse(line).commands.into_iter();
        assert!(
            commands.all(|found| found.wrapped_kind != WrappedKind::Unknown),
            "{line}"
        );
    }
}

#[test]
fn quotes_do_not_hide_a_name() {
    for name in [
        "rm",
        "r\\m",
        "'r'm",
        "\"rm\"",
        "$'rm'",
        "$'\\x72\\155'",
        "$'\\562\\x{6d}'",
        "$'\\x{172}m\\0ove'",
        "$'rm\\x00x'",
        "$'rm\\c@x'",
        "$'rm\\x{}x'",
        "$'r\\UFFFFFFFFm'",
        "$'r\\u0000'm",
        "r\\\nm",
        "''rm",
        "$'\\u0072'm",
    ] {
        let commands = parse(&format!("{name} x")).commands;
        assert_eq!(commands[0].name().as_deref(), Some("rm"), "{name}");
    }
    for name in [
        "$X",
        "\"$X\"",
        "r$X",
        "$(a)",
        "`a`",
        "/bin/r?",
        "~",
        "${X:-rm}",
        "\"r${X}m\"",
    ] {
        let commands = parse(&format!("{name} x")).commands;
        assert_eq!(commands[0].name(), None, "{name}");
        assert_eq!(commands[0].program(), None, "{name}");
    }
    for name in ["/bin/rm", "./rm", "~/bin/rm", "\"$HOME\"/bin/rm", "$X/RM"] {
        let commands = parse(&format!("{name} x")).commands;
        assert_eq!(commands[0].program().as_deref(), Some("rm"), "{name}");
    }
}

#[test]
fn words_are_what_shells_make_of_them() {
    #[track_caller]
    fn word(written: &str, expected: Option<&str>) {
        let commands = parse(&format!("echo {written}")).commands;
        let words: Vec<Option<String>> = commands[0]
            .words
            .iter()
            .skip(1)
            .map(ShellWord::known_text)
            .collect();
        assert_eq!(words, [expected.map(str::to_owned)], "{written}");
    }
    word("a'b c'\"d e\"f", Some("ab cd ef"));
    word("\"a\\\"b\\$c\\d\"", Some("a\"b$c\\d"));
    word("\"  a  b  \"", Some("  a  b  "));
    word("'a\"b$c'", Some("a\"b$c"));
    word("$'a\\tb\\n\\'c\\x41\\101\\e'", Some("a\tb\n'cAA\u{1b}"));
    word("$'a\\qb\\xZZ\\uZ\\8\\c'", Some("a\\qb\\xZZ\\uZ\\8\\c"));
    word("$'\\c?\\c\\\\\\x{7a}\\u7a'", Some("\u{7f}\u{1c}zz"));
    word("$'\\xc3\\xbc\\303\\274\\u00fc'", Some("üüü"));
    // Bytes that are no text by themselves.
    word("$'\\xc3'$'\\xbc'", None);
    word("$'\\ud800'", None);
    word("\"\"", Some(""));
    word("{}", Some("{}"));
    word("a=b", Some("a=b"));
    word("--x='y z'", Some("--x=y z"));
    word("a\\ b", Some("a b"));
    word("12", Some("12"));
    word("$\"push\"", Some("push"));
    word("a$\"b\"c", Some("abc"));
    word("$\"a\\\"b\"", Some("a\"b"));
    word("$\"a $b\"", None);
    word("\\$\"b\"", Some("$b"));
    word("'$'\"b\"", Some("$b"));
    word("$1", None);
    word("*.rs", None);
    word("'*'.rs", Some("*.rs"));
    word("\\*", Some("*"));
    word("\"a $b\"", None);
    word("a{1..3}", None);
    word("~/x", None);
    word("x~", Some("x~"));
}

#[test]
fn arguments_added_by_wrappers_are_known_only_at_run_time() {
    #[track_caller]
    fn check(line: &str, extra: ExtraArguments, expected: &[Option<&str>]) {
        let commands = parse(line).commands;
        let last = commands.last().unwrap();
        let words: Vec<Option<String>> = last.words.iter().map(ShellWord::known_text).collect();
        let expected: Vec<Option<String>> = expected
            .iter()
            .map(|word| word.map(str::to_owned))
            .collect();
        assert_eq!((last.extra_arguments, words), (extra, expected), "{line}");
    }
    let git = Some("git");
    check("xargs git", ExtraArguments::Unknown, &[git]);
    check(
        "xargs -0 -n 1 git add",
        ExtraArguments::Unknown,
        &[git, Some("add")],
    );
    for mark in ["-I {} ", "-I{} ", "-i ", "--replace ", "--replace={} "] {
        let line = format!("xargs {mark} git {{}} x");
        check(&line, ExtraArguments::None, &[git, None, Some("x")]);
    }
    check(
        "xargs -I % git a%b {}",
        ExtraArguments::None,
        &[git, None, Some("{}")],
    );
    check("xargs -i@ git @", ExtraArguments::None, &[git, None]);
    check(
        "find . -exec git {} \\;",
        ExtraArguments::None,
        &[git, None],
    );
    check(
        "find . -exec git x/{} +",
        ExtraArguments::None,
        &[git, None],
    );
    check("git {}", ExtraArguments::None, &[git, Some("{}")]);
    check("timeout 5 git", ExtraArguments::None, &[git]);
    check("timeout --kill 9 5 git", ExtraArguments::None, &[git]);
    check("timeout --kill=9 5 git", ExtraArguments::None, &[git]);
    for (line, starts) in [
        ("find . -exec sh -c 'rm {}' \\;", WrappedKind::Unknown),
        (
            "find . -exec sh -c 'rm \"$1\"' _ {} \\;",
            WrappedKind::Commands,
        ),
        ("parallel rm", WrappedKind::Unknown),
    ] {
        let commands = parse(line).commands;
        assert!(
            commands.iter().any(|found| found.wrapped_kind == starts),
            "{line}"
        );
    }
}

#[test]
fn large_lines_are_read_up_to_a_bound() {
    let long = format!("echo {}", "a".repeat(LINE_BYTES_MAX));
    assert_eq!(parse(&long).unparsed_reason, Some(UnparsedReason::TooLarge));
    let script = format!("cat > f <<'E'\n{}E", "some text\n".repeat(10_000));
    assert_eq!(parse(&script).unparsed_reason, None);
    let deep = "nice ".repeat(500) + "sudo x";
    assert_eq!(parse(&deep).unparsed_reason, Some(UnparsedReason::TooDeep));
    for (open, close) in [("( ", ")"), ("$(", ")"), ("f() { ", "; }")] {
        let nested = open.repeat(2_000) + "a" + &close.repeat(2_000);
        assert!(parse(&nested).unparsed_reason.is_some(), "{open}");
    }
    let chain = vec!["a"; 4_000].join(" && ");
    assert_eq!(parse(&chain).commands.len(), 4_000);
    for dear in ["a;", "a|", "a=(", "<<A "] {
        let many = dear.repeat(LINE_BYTES_MAX / dear.len());
        assert_eq!(
            parse(&many).unparsed_reason,
            Some(UnparsedReason::TooLarge),
            "{dear}"
        );
    }
}

#[test]
fn repeated_parsing_of_nested_commands_is_bounded() {
    let read = |line: &str| {
        let parsed = parse(line);
        (parsed.unparsed_reason, parsed.commands.len())
    };
    let words = "w ".repeat(4_000);
    let nested = |times: usize| "eval ".repeat(times) + &words;
    assert_eq!(read(&nested(8)), (None, 9));
    assert_eq!(read(&nested(40)).0, Some(UnparsedReason::TooLarge));
    let listed = vec![nested(4); 7].join("; ");
    assert_eq!(read(&listed).0, Some(UnparsedReason::TooLarge));
    let started = |times: usize| "nice ".repeat(times) + &words;
    assert_eq!(read(&started(8)), (None, 9));
    assert_eq!(read(&started(40)).0, Some(UnparsedReason::TooLarge));
}

#[test]
fn letters_of_all_scripts_are_parts_of_words() {
    for line in [
        "echo \u{10ffff}\u{e000}",
        "grün=1 écho ß",
        "cat <<É\nx\nÉ\n",
    ] {
        assert_eq!(parse(line).unparsed_reason, None, "{line}");
    }
    let parsed = parse("écho 'ä' ö");
    let words = parsed.commands[0].words.iter().map(ShellWord::known_text);
    let expected = ["écho", "ä", "ö"].map(|word| Some(word.to_owned()));
    assert_eq!(words.collect::<Vec<_>>(), expected);
}

#[test]
fn words_behind_a_redirection_are_the_commands_own() {
    for (line, expected) in [
        ("git > out push -f", "git push -f"),
        ("> out git push", "git push"),
        ("git 2> err push >> out -f", "git push -f"),
        ("git < in push | b", "git push"),
        ("cat <<E -rf\nx\nE", "cat -rf"),
        ("! ! git push", "git push"),
    ] {
        let commands = parse(line).commands;
        assert!(
            commands[0].text().starts_with(expected),
            "{line}: {commands:?}"
        );
    }
    let timed = parse("time ! rm x").commands;
    assert_eq!(timed[1].text(), "rm x");
}

#[test]
fn substitutions_that_the_grammar_takes_for_text_are_found() {
    let sudo = |line: &str| {
        let parsed = parse(line);
        let found = parsed
            .commands
            .iter()
            .any(|command| command.text() == "sudo id");
        (parsed.unparsed_reason, found)
    };
    for line in [
        "cat <<E\na `sudo id` b\nE",
        "cat <<E\na $X `b` `sudo id`\nE",
        "echo ${x:-`sudo id`}",
        "echo \"${x:-`sudo id`}\"",
        "cat <<E\n${x:-`sudo id`}\nE",
        "echo ${x#`sudo id`}",
        "echo \"${x:-'`sudo id`'}\"",
        "echo `echo \\`sudo id\\``",
        "echo \"`bash -c \\\"sudo id\\\"`\"",
        "cat <<E\n`echo \\`sudo id\\``\nE",
        "cat <<E\n`echo \\`echo \\\\\\`sudo id\\\\\\`\\``\nE",
    ] {
        assert_eq!(sudo(line), (None, true), "{line}");
    }
    for line in [
        "cat <<'E'\n`sudo id`\nE",
        "cat <<\\E\n`sudo id`\nE",
        "cat <<E\na \\`sudo id\\`\nE",
        "echo '`sudo id`' \\`sudo id\\`",
        "echo \"\\`sudo id\\`\"",
        "# `sudo id`",
        "cat <<'E'\n\\documentclass{a}\nE",
    ] {
        assert_eq!(sudo(line), (None, false), "{line}");
    }
    for line in [
        "echo ${x#$(sudo id)}",
        "echo ${x#<(sudo id)}",
        "echo \"${x:-'$(sudo id)'}\"",
        "echo \"${x:-'}\"; sudo id; echo \"'}\"",
        "cat <<E\n`a\nE",
        "cat <<E\n`a $(b `c`)`\nE",
        "cat <<E\n\\a\nb\nE",
        "cat <<E\n${x:-\"\nE\nsudo id\necho \"}\nE",
        "echo ${x:-a`sudo id`b}",
        "[[ a =~ b`sudo id` ]]",
        "case a in b?`sudo id`) c;; esac",
    ] {
        let reason = sudo(line).0;
        let is_refused = matches!(
            reason,
            Some(UnparsedReason::Ambiguous | UnparsedReason::Syntax)
        );
        assert!(is_refused, "{line}: {reason:?}");
    }
}

#[test]
fn variables_start_what_they_name() {
    #[track_caller]
    fn check(line: &str, starts: WrappedKind, expected: &[&str]) {
        let commands = parse(line).commands;
        let found: Vec<String> = commands.iter().skip(1).map(SimpleCommand::text).collect();
        let first = commands.first().map(|command| command.wrapped_kind);
        assert_eq!(first, Some(starts), "{line}");
        assert_eq!(found, expected, "{line}");
    }
    check(
        "GIT_EDITOR=true git commit",
        WrappedKind::Commands,
        &["true"],
    );
    check(
        "GIT_EDITOR='rm x' git commit",
        WrappedKind::Commands,
        &["rm x"],
    );
    check("EDITOR=$X git commit", WrappedKind::Unknown, &[]);
    check(
        "export PAGER='less -R'",
        WrappedKind::Commands,
        &["less -R"],
    );
    check("PAGER= git log", WrappedKind::Nothing, &[]);
    check(
        "env PAGER=cat git log",
        WrappedKind::OneCommand,
        &["git log", "cat"],
    );
    for line in [
        "BASH_ENV=f bash -c a",
        "PATH=b:$PATH a",
        "PATH+=:b a",
        "LD_PRELOAD=./x.so a",
        "PATH=b",
        "export PATH=b",
        "declare -x LD_PRELOAD=b",
    ] {
        assert_eq!(
            parse(line).commands[0].wrapped_kind,
            WrappedKind::Unknown,
            "{line}"
        );
    }
    for line in ["A=b c", "export A=b", "LANG=C sort f", "echo PATH=b"] {
        check(line, WrappedKind::Nothing, &[]);
    }
}
