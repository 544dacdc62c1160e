//! The verdicts of the rules and the lists.

use super::*;
use crate::commands::line::UnparsedReason;
use crate::commands::rules::RULES;
use crate::commands::{CommandRefusal, PrivilegePolicy};

#[test]
fn every_rule_holds_its_examples() {
    for rule in RULES {
        assert!(
            rule.refused_lines.len() > 1 && rule.passed_lines.len() > 2,
            "{}",
            rule.name
        );
        for line in rule.refused_lines {
            check(&rules(rule.policy), line, Some(rule.name));
        }
        for line in rule.passed_lines {
            let found = refusal(&rules(rule.policy), line);
            assert_ne!(found, Some(rule.name), "{line}");
            check(&rules(CommandPolicy::Standard), line, None);
        }
        if rule.policy == CommandPolicy::Strict {
            for line in rule.refused_lines {
                check(&rules(CommandPolicy::Standard), line, None);
            }
        }
    }
}

#[test]
fn a_container_with_sudo_lets_commands_become_root() {
    let sudo = CommandRules {
        policy: CommandPolicy::Strict,
        privileges: PrivilegePolicy::Allowed,
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
fn lines_that_shells_parse_differently_are_unparsed() {
    for (line, reason) in [
        ("echo 'a", UnparsedReason::Syntax),
        ("a ) b", UnparsedReason::Syntax),
        ("r[m] x", UnparsedReason::Syntax),
        ("{rm,-x} y", UnparsedReason::Syntax),
        ("ls\u{0}", UnparsedReason::Syntax),
        ("a\rb", UnparsedReason::Syntax),
        ("echo \\ #x; rm y", UnparsedReason::Ambiguous),
        ("a && \\ rm x", UnparsedReason::Ambiguous),
        ("cat <<E\n  E\nrm x\nE", UnparsedReason::Ambiguous),
    ] {
        let parsed = parse(line);
        assert_eq!(parsed.unparsed_reason, Some(reason), "{line}");
        assert_eq!(parsed.commands, [], "{line}");
        check(&rules(CommandPolicy::Standard), line, None);
        check(&rules(CommandPolicy::Strict), line, Some("unreadable-line"));
        let blocking = CommandRules {
            blocked: patterns(&["git push"]),
            ..CommandRules::default()
        };
        check(&blocking, line, Some("unreadable-line"));
    }
    assert_eq!(parse("a \\\n  b").unparsed_reason, None);
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
fn a_refusal_names_the_command_the_rule_and_an_alternative() {
    let refused = |rules: &CommandRules, line: &str| {
        let CommandRefusal {
            rule,
            command,
            reason,
            suggestion,
        } = judge(rules, line).unwrap_err();
        format!("{rule}: {command}: {reason}; {suggestion}")
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

/// Lines that MassGen judges by searching for words, and the verdicts after parsing: refused in
/// `standard`, refused in `strict`, or neither.
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
