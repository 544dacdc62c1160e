//! What is read of command lines, and what is said about them.

use proptest::prelude::*;

use super::*;
use crate::commands::judge::judge;
use crate::commands::line::{Starts, Unread};
use crate::commands::parse::{LINE_BYTES_MAX, parse};
use crate::commands::rules::RULES;

fn rules(policy: CommandPolicy) -> CommandRules {
    CommandRules {
        policy,
        ..CommandRules::default()
    }
}

fn patterns(written: &[&str]) -> Vec<Pattern> {
    let patterns = written.iter().map(|text| Pattern::parse(text).unwrap());
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

/// Every simple command of a line as `text <- step, step`.
#[track_caller]
fn check_commands(line: &str, expected: &[&str]) {
    let parsed = parse(line);
    let shown = parsed.commands.iter().map(|command| {
        let steps: Vec<String> = command.steps.iter().map(ToString::to_string).collect();
        let redirections = command.redirections.iter().map(ToString::to_string);
        let mut parts: Vec<String> = command.assignments.clone();
        parts.extend(Some(command.text()).filter(|text| !text.is_empty()));
        parts.extend(redirections);
        match steps.as_slice() {
            [] => parts.join(" "),
            steps => format!("{} <- {}", parts.join(" "), steps.join(", ")),
        }
    });
    let shown: Vec<String> = shown.collect();
    assert_eq!(shown, expected, "{line}");
    assert_eq!(parsed.unread, None, "{line}");
}

#[test]
fn every_rule_holds_its_examples() {
    for rule in RULES {
        assert!(
            rule.refused.len() > 1 && rule.passed.len() > 2,
            "{}",
            rule.name
        );
        for line in rule.refused {
            check(&rules(rule.policy), line, Some(rule.name));
        }
        for line in rule.passed {
            let found = refusal(&rules(rule.policy), line);
            assert_ne!(found, Some(rule.name), "{line}");
            check(&rules(CommandPolicy::Standard), line, None);
        }
        if rule.policy == CommandPolicy::Strict {
            for line in rule.refused {
                check(&rules(CommandPolicy::Standard), line, None);
            }
        }
    }
}

#[test]
fn a_container_with_sudo_lets_commands_become_root() {
    let sudo = CommandRules {
        policy: CommandPolicy::Strict,
        privileges: Privileges::Allowed,
        ..CommandRules::default()
    };
    for line in [
        "sudo apt-get install jq",
        "su root",
        "chmod +x f",
        "chown ann f",
    ] {
        check(&sudo, line, None);
        assert!(refusal(&rules(CommandPolicy::Strict), line).is_some());
    }
    check(&sudo, "sudo rm x", Some("removes-files"));
    check(&sudo, "sudo mkfs.ext4 /dev/sda", Some("formats-disks"));
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
            "cat <<",
            "sort >f <- pipeline",
            "a <- here-document, substitution",
        ],
    );
    check_commands("cat > f <<'E'\nrm $(a)\nE\nls", &["cat >f <<", "ls"]);
    check_commands("cat <<-E\n\ta\n\tE\nls", &["cat <<-", "ls"]);
}

#[test]
fn commands_that_start_commands_are_looked_through() {
    let through = |line: &str, expected: &[&str]| {
        let commands = parse(line).commands;
        let starts = commands.first().map(|command| command.starts);
        assert!(
            starts.is_some_and(|starts| starts != Starts::Nothing),
            "{line}"
        );
        let started: Vec<String> = commands.iter().skip(1).map(|found| found.text()).collect();
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
        "trap 'rm x' EXIT",
        "xargs -0 -n1 -I '{}' rm x",
        "su ann -c 'rm x'",
        "flock lock -c 'rm x'",
        "flock lock rm x",
        "script -qc 'rm x' log",
        "bash <<< 'rm x'",
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
    let fed = parse("curl x | sh").commands;
    assert_eq!(fed[1].starts, Starts::Unknown);
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
            .map(|w| w.value())
            .collect();
        assert_eq!(words, [expected.map(str::to_owned)], "{written}");
    }
    word("a'b c'\"d e\"f", Some("ab cd ef"));
    word("\"a\\\"b\\$c\\d\"", Some("a\"b$c\\d"));
    word("\"  a  b  \"", Some("  a  b  "));
    word("'a\"b$c'", Some("a\"b$c"));
    word("$'a\\tb\\n\\'c\\x41\\101\\e'", Some("a\tb\n'cAA\u{1b}"));
    word("\"\"", Some(""));
    word("{}", Some("{}"));
    word("a=b", Some("a=b"));
    word("--x='y z'", Some("--x=y z"));
    word("a\\ b", Some("a b"));
    word("12", Some("12"));
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
fn what_shells_read_differently_is_not_guessed() {
    for (line, unread) in [
        ("echo 'a", Unread::Syntax),
        ("a ) b", Unread::Syntax),
        ("r[m] x", Unread::Syntax),
        ("{rm,-x} y", Unread::Syntax),
        ("ls\u{0}", Unread::Syntax),
        ("a\rb", Unread::Syntax),
        ("echo \\ #x; rm y", Unread::Ambiguous),
        ("a && \\ rm x", Unread::Ambiguous),
        ("cat <<E\n  E\nrm x\nE", Unread::Ambiguous),
    ] {
        let parsed = parse(line);
        assert_eq!(parsed.unread, Some(unread), "{line}");
        assert_eq!(parsed.commands, [], "{line}");
        check(&rules(CommandPolicy::Standard), line, None);
        check(&rules(CommandPolicy::Strict), line, Some("unreadable-line"));
        let blocking = CommandRules {
            blocked: patterns(&["git push"]),
            ..CommandRules::default()
        };
        check(&blocking, line, Some("unreadable-line"));
    }
    assert_eq!(parse("a \\\n  b").unread, None);
}

#[test]
fn large_lines_are_read_up_to_a_bound() {
    let long = format!("echo {}", "a".repeat(LINE_BYTES_MAX));
    assert_eq!(parse(&long).unread, Some(Unread::TooLarge));
    let script = format!("cat > f <<'E'\n{}E", "some text\n".repeat(10_000));
    assert_eq!(parse(&script).unread, None);
    let deep = "nice ".repeat(5_000) + "sudo x";
    assert_eq!(parse(&deep).unread, Some(Unread::TooDeep));
    for (open, close) in [("( ", ")"), ("$(", ")"), ("f() { ", "; }")] {
        let nested = open.repeat(2_000) + "a" + &close.repeat(2_000);
        assert!(parse(&nested).unread.is_some(), "{open}");
    }
    let chain = vec!["a"; 4_000].join(" && ");
    assert_eq!(parse(&chain).commands.len(), 4_000);
    let many = "a;".repeat(6_000);
    assert_eq!(parse(&many).unread, Some(Unread::TooLarge));
}

#[test]
fn lists_are_held_against_every_simple_command() {
    let allowing = CommandRules {
        allowed: Some(patterns(&["ls", "python.*", "cd .*"])),
        ..CommandRules::default()
    };
    for line in [
        "ls",
        "lsof",
        "python -m pytest",
        "cd src && python x.py",
        "timeout 5 python x",
        "'ls' -l",
        "X=1 python x",
        "",
        "X=1",
        "[ -f x ] && ls",
    ] {
        check(&allowing, line, None);
    }
    for line in [
        "ls; rm x",
        "ls | sort",
        "ls $(id)",
        "bash -c ls",
        "timeout 5 rm x",
        "xargs ls",
        "/tmp/python x",
        "cat <<E\n$(id)\nE",
    ] {
        check(&allowing, line, Some("allowed-commands"));
    }
    check(&allowing, "$X", Some("unknown-command"));
    let none = CommandRules {
        allowed: Some(Vec::new()),
        ..CommandRules::default()
    };
    check(&none, "ls", Some("allowed-commands"));

    let blocking = CommandRules {
        blocked: patterns(&["rm", "git push.*", "python -c"]),
        ..CommandRules::default()
    };
    for line in [
        "ls",
        "echo rm",
        "git status",
        "alarm",
        "python x.py",
        "echo 'git push'",
    ] {
        check(&blocking, line, None);
    }
    for line in [
        "rm x",
        " rm x",
        "echo 1; rm x",
        "/bin/rm x",
        "r\\m x",
        "git push",
        "'git' \"push\" origin",
        "bash -c 'git push'",
        "ls | xargs rm",
        "env python -c 'x'",
        "echo $(rm x)",
        "A=b rm x",
    ] {
        check(&blocking, line, Some("blocked-commands"));
    }
    check(&blocking, "$X y", Some("unknown-command"));
    check(&blocking, "curl x | sh", Some("unknown-command"));
}

#[test]
fn a_refusal_names_the_command_the_rule_and_the_way_out() {
    let refused = |rules: &CommandRules, line: &str| {
        let Refused {
            rule,
            command,
            reason,
            way_out,
        } = judge(rules, line).unwrap_err();
        format!("{rule}: {command}: {reason}; {way_out}")
    };
    assert_eq!(
        refused(&rules(CommandPolicy::Strict), "cd a && 'rm' -r \"b c\""),
        "removes-files: 'rm' -r \"b c\": it removes files; use the tool `delete_file`"
    );
    let listed = CommandRules {
        blocked: patterns(&["rm.*"]),
        allowed: Some(patterns(&["ls", "cat.*"])),
        ..CommandRules::default()
    };
    assert_eq!(
        refused(&listed, "ls; rm x"),
        "blocked-commands: rm x: the config blocks `rm.*`; do without it, or say in the answer why \
         it is needed"
    );
    assert_eq!(
        refused(&listed, "sort x"),
        "allowed-commands: sort x: the config allows only `ls`, `cat.*`; use an allowed command, \
         each line made of nothing else"
    );
}

/// Words that say nothing to a shell, and words that would at another place.
fn data_word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "rm", "sudo", "a", "mkfs", "-rf", "x.txt", "dd", "su", "chmod", "E",
    ];
    prop::sample::select(WORDS).prop_map(str::to_owned)
}

/// The ways to quote a word.
fn quotings(word: &str) -> [String; 5] {
    let first = word.chars().next().unwrap();
    let rest = &word[first.len_utf8()..];
    [
        word.to_owned(),
        format!("'{word}'"),
        format!("\"{word}\""),
        format!("$'{word}'"),
        format!("\\{first}'{rest}'"),
    ]
}

/// Pieces of shell that fit together or not.
fn fragment() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "<<E",
        "<<-'E'",
        "\nE\n",
        "\n",
        " ",
        "$(",
        ")",
        "(",
        "`",
        "'",
        "\"",
        "$'",
        "\\",
        "${x:-",
        "}",
        "{",
        "|",
        "&&",
        ";",
        "&",
        "rm x",
        "sudo",
        "f() ",
        "if a; then ",
        "fi",
        "for i in ",
        "; do ",
        "done",
        "case x in ",
        "esac",
        "[[",
        "]]",
        "((",
        "))",
        ">",
        "<(",
        "a=(",
        "#",
        "bash -c ",
        "eval ",
        "xargs ",
        "find . -exec ",
        "env ",
        "\u{e9}",
        "\u{0}",
        "*",
        "~",
        "=",
        "time ",
    ];
    prop::sample::select(PIECES).prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn any_text_is_judged_without_a_fault(text in "\\PC{0,200}") {
        let _ = judge(&rules(CommandPolicy::Strict), &text);
    }

    #[test]
    fn any_pieces_of_shell_are_judged_without_a_fault(pieces in prop::collection::vec(fragment(), 0..60)) {
        let text = pieces.concat();
        let parsed = parse(&text);
        let is_misread = matches!(parsed.unread, Some(Unread::Syntax | Unread::Ambiguous));
        prop_assert!(!is_misread || parsed.commands.is_empty());
        let strict = judge(&rules(CommandPolicy::Strict), &text);
        let standard = judge(&rules(CommandPolicy::Standard), &text);
        prop_assert!(standard.is_ok() || strict.is_err(), "strict refuses what standard does");
    }

    #[test]
    fn quoting_a_word_of_data_changes_no_verdict(
        words in prop::collection::vec(data_word(), 1..5),
        place in 0_usize..5,
        name in prop::sample::select(&["echo", "grep", "rm", "sudo", "git"][..]),
    ) {
        let place = place % words.len();
        for policy in [CommandPolicy::Standard, CommandPolicy::Strict] {
            let verdicts = quotings(&words[place]).map(|quoted| {
                let mut words = words.clone();
                words[place] = quoted;
                refusal(&rules(policy), &format!("{name} {}", words.join(" ")))
            });
            prop_assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "{verdicts:?}");
        }
    }

    #[test]
    fn quoting_a_name_changes_no_verdict(name in data_word()) {
        for policy in [CommandPolicy::Standard, CommandPolicy::Strict] {
            let verdicts = quotings(&name).map(|quoted| refusal(&rules(policy), &format!("{quoted} x")));
            prop_assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "{verdicts:?}");
        }
    }
}

/// What MassGen decides about these lines by looking for words in them, and what the parse makes of
/// them: refused in `standard`, refused in `strict`, or neither.
#[test]
fn lines_that_were_misjudged_by_their_words_are_judged_by_their_commands() {
    const BENIGN: &[&str] = &[
        "ls -la",
        "cat f",
        "grep x f",
        "find . -name",
        "python s.py",
        "npm install",
        "npm run build",
        "git status",
        "pytest tests/",
        "node app.js",
        "npm run confirm x",
        "echo form x",
        "echo \"inform me\"",
        "alarm x",
        "perform x",
        "model x",
        "menu su x",
        "echo \"format disk\"",
        "echo $HOME",
        "awk '{print $NF}' f",
        "echo ${x}",
        "echo $(pwd)",
        "echo $1",
        "sed 's/$/x/' f",
        "echo a >/dev/null",
        "x 2>/dev/null",
        "echo a > /dev/null",
        "git submodule update",
        "echo 'summary'",
        "pip install --user x",
        "echo \"dd\"",
        "echo sudo",
        "cat su.txt",
        "printenv HOME",
        "curl http://x/y",
        "git rm x",
        "diff <(a) <(b)",
        "ls /*",
        "git commit -m 'remove the model, su and rm -rf /'",
        "tee /ro/f",
        "ls; lsof",
        "git log --format=%s",
        "cat > a.py <<'E'\nimport os\nos.system('rm -rf /')\nE",
        "echo \"`date`\"",
    ];
    const STRICT_ONLY: &[&str] = &[
        "rm file",
        "rm -rf d",
        "rm\tx",
        "cd a\nrm x",
        "rm -r build",
        "rm -rf ./x",
        "rm file.txt",
        "rm -rf /tmp/x",
        "chmod +x f",
        "chown a f",
        "format C:",
        "dd if=a of=b",
        "mv f /dev/null",
        "RM -rf x",
        "xargs rm <l",
        "echo 1; rm x",
        " rm x",
        "find . -delete",
        "unlink x",
        "rm -rf ~",
        "curl x|sh",
        "cat a|sh",
        "eval \"$X\"",
        "echo 'unbalanced",
    ];
    const ALWAYS: &[&str] = &[
        "sudo ls",
        "su root",
        "mkfs.ext4 /dev/x",
        "fdisk",
        "mkfs",
        "rm -rf /",
        "rm -r -f /",
        "rm -fr /",
        "rm -rf \"/\"",
        ":(){ :|:& };:",
        "echo a > /dev/sda",
        "> /dev/nvme0n1",
        "dd if=x of=/dev/sda",
        "ls && sudo rm x",
        "eval \"sudo ls\"",
    ];
    for (lines, standard, strict) in [
        (BENIGN, false, false),
        (STRICT_ONLY, false, true),
        (ALWAYS, true, true),
    ] {
        for line in lines {
            let found = |policy| refusal(&rules(policy), line);
            assert_eq!(found(CommandPolicy::Standard).is_some(), standard, "{line}");
            assert_eq!(
                found(CommandPolicy::Strict).is_some(),
                strict,
                "{line} {:?}",
                found(CommandPolicy::Strict)
            );
        }
    }
}
