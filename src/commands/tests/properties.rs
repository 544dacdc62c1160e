//! Properties that hold for every line.

use proptest::prelude::*;

use super::*;
use crate::commands::line::UnparsedReason;

/// Words without meaning for a shell in this position, and words that would have one elsewhere.
fn data_word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "rm", "sudo", "a", "mkfs", "-rf", "x.txt", "dd", "su", "chmod", "E",
    ];
    prop::sample::select(WORDS).prop_map(str::to_owned)
}

/// Returns all ways to quote a word.
fn quotings(word: &str) -> [String; 5] {
    let first = word.chars().next().unwrap();
    let rest = word.get(first.len_utf8()..).unwrap_or_default();
    [
        word.to_owned(),
        format!("'{word}'"),
        format!("\"{word}\""),
        format!("$'{word}'"),
        format!("\\{first}'{rest}'"),
    ]
}

/// Pieces of shell syntax that may or may not fit together.
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
        drop(judge(&rules(CommandPolicy::Strict), &text));
    }

    #[test]
    fn any_pieces_of_shell_are_judged_without_a_fault(pieces in prop::collection::vec(fragment(), 0..60)) {
        let text = pieces.concat();
        let parsed = parse(&text);
        let is_misread = matches!(parsed.unparsed_reason, Some(UnparsedReason::Syntax | UnparsedReason::Ambiguous));
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
