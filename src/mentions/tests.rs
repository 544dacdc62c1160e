//! Tests what users write and what it opens.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

use super::{
    LookupResult, MentionLookup, MentionReach, ParsedPrompt, Permission, TaskText, parse_mentions,
    to_json,
};
use crate::path::AbsPath;

/// The files on the disk of these tests; the current directory is `/home/u/p`.
const FILES: &[&str] = &[
    "a.py",
    "b.py",
    "my file.txt",
    "ünï.txt",
    "数据.csv",
    "icon@2x.png",
    ".env",
    "Makefile",
    "c++-v1.2.txt",
    "log-12:30.txt",
    "it's.md",
    "src/main.py",
    "src/one.rs",
    "src/two.rs",
    "my dir/a.txt",
    "app/[id]/page.tsx",
    "node_modules/@types/node/index.d.ts",
    "../x",
    "/etc/hosts",
];

const DIRECTORIES: &[&str] = &[
    "", "src", "src/m", "my dir", "tests", "app", "..", "/home", "/", "../lib",
];

fn abs(path: &str) -> AbsPath {
    AbsPath::new(path).unwrap()
}

fn disk(path: &AbsPath) -> LookupResult {
    let base = abs("/home/u/p");
    let on = |names: &[&str]| names.iter().any(|name| base.join(name) == *path);
    if path.as_path().starts_with("/root") || on(&["locked"]) {
        LookupResult::Unreadable
    } else if on(FILES) {
        LookupResult::File
    } else if on(DIRECTORIES) {
        LookupResult::Directory
    } else {
        LookupResult::Missing
    }
}

/// Returns the lookup of a user in `/home/u/p`, with the files of [`disk`].
pub(super) fn lookup() -> MentionLookup<'static> {
    static PLACES: LazyLock<[AbsPath; 2]> = LazyLock::new(|| [abs("/home/u/p"), abs("/home/u")]);
    let [base, home] = &*PLACES;
    MentionLookup {
        base,
        home: Some(home),
        inspect: &disk,
    }
}

pub(super) fn parse_prompt(prompt: &str) -> ParsedPrompt {
    parse_mentions(&TaskText::from_typed(prompt), lookup())
}

/// `opened` lists the mentions as `r PATH` or `w PATH`, `missing` the missing paths, both separated
/// by `; `. `~` in all three stands for the current directory.
#[track_caller]
fn check(prompt: &str, cleaned: &str, opened: &str, missing: &str) {
    let got = parse_prompt(prompt);
    let list = |mentions: &[super::Mention], named: &dyn Fn(&super::Mention) -> String| {
        mentions.iter().map(named).collect::<Vec<_>>().join("; ")
    };
    let full = |text: &str| text.replace('~', "/home/u/p");
    let opened_got = list(&got.mentions, &|mention| match mention.permission {
        Permission::Read => format!("r {}", mention.path),
        Permission::Write => format!("w {}", mention.path),
    });
    let missing_got = list(&got.missing_mentions, &|mention| mention.path.to_string());
    assert_eq!(got.cleaned_prompt, full(cleaned), "{prompt}");
    assert_eq!(opened_got, full(opened), "{prompt}");
    assert_eq!(missing_got, full(missing), "{prompt}");
    assert_eq!(got.original_prompt, prompt);
}

/// Checks that the prompt stays as it is and opens nothing.
#[track_caller]
fn check_plain(prompt: &str) {
    let got = parse_prompt(prompt);
    assert_eq!(got.cleaned_prompt, prompt);
    assert_eq!(
        (got.mentions, got.missing_mentions),
        (vec![], vec![]),
        "{prompt}"
    );
}

#[test]
fn existing_paths_are_mentions() {
    check("Review @a.py", "Review ~/a.py", "r ~/a.py", "");
    check("Fix @a.py:w", "Fix ~/a.py", "w ~/a.py", "");
    check("@src/", "~/src", "r ~/src", "");
    check("@src/:w", "~/src", "w ~/src", "");
    check("@src:w and more", "~/src and more", "w ~/src", "");
    check("@src/main.py", "~/src/main.py", "r ~/src/main.py", "");
    check("@./a.py", "~/a.py", "r ~/a.py", "");
    check("@src/../a.py", "~/a.py", "r ~/a.py", "");
    check("@/etc/hosts", "/etc/hosts", "r /etc/hosts", "");
    check("@~/x", "/home/u/x", "r /home/u/x", "");
    check("@../lib/:w", "/home/u/lib", "w /home/u/lib", "");
    check("@.", "~", "r ~", "");
    check("@..", "/home/u", "r /home/u", "");
    check("@/", "/", "r /", "");
    check("@~", "/home/u", "r /home/u", "");
    check("@.env", "~/.env", "r ~/.env", "");
    check("@Makefile", "~/Makefile", "r ~/Makefile", "");
    check("@ünï.txt", "~/ünï.txt", "r ~/ünï.txt", "");
    check("@数据.csv", "~/数据.csv", "r ~/数据.csv", "");
}

#[test]
fn punctuation_stays_with_the_sentence() {
    for (prompt, cleaned) in [
        ("@a.py.", "~/a.py."),
        ("(@a.py)", "(~/a.py)"),
        ("[@a.py]", "[~/a.py]"),
        ("<@a.py>", "<~/a.py>"),
        ("@a.py, x", "~/a.py, x"),
        ("@a.py;", "~/a.py;"),
        ("@a.py!", "~/a.py!"),
        ("@a.py?", "~/a.py?"),
        ("@a.py?!", "~/a.py?!"),
        ("@a.py: x", "~/a.py: x"),
        ("@a.py...", "~/a.py..."),
        ("(see @a.py).", "(see ~/a.py)."),
        ("@a.py…", "~/a.py…"),
        ("@a.py-", "~/a.py-"),
        ("@a.py\u{2014}then", "~/a.py\u{2014}then"),
        ("@a.py's", "~/a.py's"),
        ("@a.py’s", "~/a.py’s"),
        ("@a.py|x", "~/a.py|x"),
        ("'@a.py'", "'~/a.py'"),
        ("`@a.py`", "`~/a.py`"),
        ("\"@a.py\"", "\"~/a.py\""),
        ("**@a.py**", "**~/a.py**"),
        ("@a.py:10", "~/a.py:10"),
        ("@a.py:10-20", "~/a.py:10-20"),
        ("@a.py#L10", "~/a.py#L10"),
        ("@a.py:W", "~/a.py:W"),
        ("@a.py:ww", "~/a.py:ww"),
        ("@a.py:w/", "~/a.py:w/"),
        ("@a.py:w_", "~/a.py:w_"),
        ("@a.py\\n", "~/a.py\\n"),
        ("@@a.py", "@~/a.py"),
        ("看@a.py，然后", "看~/a.py，然后"),
        ("修复@a.py中的错误", "修复~/a.py中的错误"),
        ("key=@a.py", "key=~/a.py"),
    ] {
        check(prompt, cleaned, "r ~/a.py", "");
    }
    for (prompt, cleaned) in [
        ("@a.py:w,x", "~/a.py,x"),
        ("@a.py:w.", "~/a.py."),
        ("(@a.py:w)", "(~/a.py)"),
        ("'@a.py:w'", "'~/a.py'"),
        ("@\"a.py\":w!", "~/a.py!"),
        ("@a.py:w:10", "~/a.py:10"),
    ] {
        check(prompt, cleaned, "w ~/a.py", "");
    }
    check("@src/:w/", "~/src:w/", "r ~/src", "");
    check("(@..)", "(/home/u)", "r /home/u", "");
    check("@src.", "~/src.", "r ~/src", "");
}

#[test]
fn the_longest_name_that_exists_is_taken() {
    check("@icon@2x.png", "~/icon@2x.png", "r ~/icon@2x.png", "");
    check("@c++-v1.2.txt.", "~/c++-v1.2.txt.", "r ~/c++-v1.2.txt", "");
    check(
        "@log-12:30.txt:w",
        "~/log-12:30.txt",
        "w ~/log-12:30.txt",
        "",
    );
    check("@it's.md's", "~/it's.md's", "r ~/it's.md", "");
    check(
        "@app/[id]/page.tsx",
        "~/app/[id]/page.tsx",
        "r ~/app/[id]/page.tsx",
        "",
    );
    check(
        "@node_modules/@types/node/index.d.ts",
        "~/node_modules/@types/node/index.d.ts",
        "r ~/node_modules/@types/node/index.d.ts",
        "",
    );
    // a mistyped file never opens the directory above or next to it
    check("@src/missing.py", "@src/missing.py", "", "~/src/missing.py");
    check("@src.py", "@src.py", "", "~/src.py");
    check("@src-new.py", "@src-new.py", "", "~/src-new.py");
    check("@tests_new.py", "@tests_new.py", "", "~/tests_new.py");
}

#[test]
fn quotes_hold_names_with_spaces() {
    check(
        "@\"my file.txt\"",
        "\"~/my file.txt\"",
        "r ~/my file.txt",
        "",
    );
    check(
        "@\"my file.txt\":w.",
        "\"~/my file.txt\".",
        "w ~/my file.txt",
        "",
    );
    check("@\"my dir\":w", "\"~/my dir\"", "w ~/my dir", "");
    check(
        "@\"my dir/a.txt\", x",
        "\"~/my dir/a.txt\", x",
        "r ~/my dir/a.txt",
        "",
    );
    check("'@\"my dir\"'", "'~/my dir'", "r ~/my dir", "");
    check("@\"my new.txt\" x", "@\"my new.txt\" x", "", "~/my new.txt");
    for plain in [
        "@\"\"",
        "@\"",
        "@\"my file.txt",
        "@\"no such\" x",
        "@\"a\nb.txt\"",
    ] {
        check_plain(plain);
    }
}

#[test]
fn several_mentions_are_each_read() {
    let both = "r ~/a.py; r ~/b.py";
    check("@a.py @b.py", "~/a.py ~/b.py", both, "");
    check("@a.py,@b.py", "~/a.py,~/b.py", both, "");
    check("@a.py@b.py", "~/a.py~/b.py", both, "");
    check("@a.py|@b.py", "~/a.py|~/b.py", both, "");
    check("@src/m@src/m", "~/src/m~/src/m", "r ~/src/m", "");
    check("@a.py then @a.py:w", "~/a.py then ~/a.py", "w ~/a.py", "");
    check("@a.py:w then @./a.py", "~/a.py then ~/a.py", "w ~/a.py", "");
    check("@b.py:w @a.py", "~/b.py ~/a.py", "w ~/b.py; r ~/a.py", "");
}

#[test]
fn text_that_is_no_path_stays() {
    for plain in [
        "",
        "@",
        "@ a.py",
        "a @ b",
        "ask @alice, @bob.",
        "@alice's idea",
        "npm i @types/node @angular/core",
        "@property",
        "@app.route(\"/x\")\n@pytest.fixture\n@x.setter\ndef f(): pass",
        "@media (min-width: 1px) {}",
        "@Override public",
        "mail a@b.com or first.last+tag@mail.example.org",
        "user@host",
        "git@github.com:x/y.git",
        "ssh u@host:/etc/hosts",
        "x@a.py",
        "npm i lodash@4.17.21",
        "uses: actions/checkout@v4",
        "https://medium.com/@alice/post.html",
        "see node/@a.py",
        "@...",
        "@)",
        "@:w",
        "@1.2",
        "@*",
        "@https://example.com/a.py",
        "for x in \"$@\"; do\n  echo \"$x\"\ndone",
    ] {
        check_plain(plain);
    }
    check("see@src/main.py", "see~/src/main.py", "r ~/src/main.py", "");
}

#[test]
fn a_missing_path_is_reported_and_stays_as_written() {
    for (prompt, missing) in [
        ("@missing.py", "~/missing.py"),
        ("see @missing.py.", "~/missing.py"),
        ("(@missing.rs), x", "~/missing.rs"),
        ("@missing.py:10", "~/missing.py"),
        ("'@missing.toml'", "~/missing.toml"),
        ("@./missing", "~/missing"),
        ("@../missing", "/home/u/missing"),
        ("@~/missing", "/home/u/missing"),
        ("@~root", "~/~root"),
        ("@/missing", "/missing"),
        ("@missing:w", "~/missing"),
        ("@missing/", "~/missing"),
        ("@.missing", "~/.missing"),
        ("@src/build.gradle", "~/src/build.gradle"),
        ("@*.py", "~/*.py"),
        ("@/root/secret", "/root/secret"),
        ("@locked by @alice", "~/locked"),
        ("@x.py @y.py @x.py", "~/x.py; ~/y.py"),
    ] {
        let missing = missing.replace("~/", "/home/u/p/");
        let got = parse_prompt(prompt);
        let paths: Vec<String> = got
            .missing_mentions
            .iter()
            .map(|one| one.path.to_string())
            .collect();
        assert_eq!(paths.join("; "), missing, "{prompt}");
        assert_eq!(got.cleaned_prompt, prompt);
        assert_eq!(got.mentions, [], "{prompt}");
    }
}

#[test]
fn a_backslash_makes_an_at_sign_plain() {
    check(r"\@a.py", "@a.py", "", "");
    check(r"\@a.py @a.py", "@a.py ~/a.py", "r ~/a.py", "");
    check(r"\@\@x", "@@x", "", "");
    check(r"a\@b.com", "a@b.com", "", "");
    check(r"a\b\", r"a\b\", "", "");
}

#[test]
fn space_around_mentions_is_kept() {
    check(
        "  fix:\n\tif x:\n\t    run(@a.py)  \r\n\n",
        "  fix:\n\tif x:\n\t    run(~/a.py)  \r\n\n",
        "r ~/a.py",
        "",
    );
    check(
        "@a.py\u{a0}x  @b.py ",
        "~/a.py\u{a0}x  ~/b.py ",
        "r ~/a.py; r ~/b.py",
        "",
    );
}

#[test]
fn broad_mentions_are_recognized() {
    for (prompt, reach) in [
        ("@/", MentionReach::Broad),
        ("@/home", MentionReach::Broad),
        ("@~", MentionReach::Broad),
        ("@..", MentionReach::Broad),
        ("@../..", MentionReach::Broad),
        ("@.", MentionReach::Inside),
        ("@src", MentionReach::Inside),
        ("@a.py", MentionReach::Inside),
        ("@../lib", MentionReach::Outside),
        ("@/etc/hosts", MentionReach::Outside),
    ] {
        let got = parse_prompt(prompt);
        assert_eq!(got.mentions[0].reach, reach, "{prompt}");
        assert_eq!(
            got.broad_mentions().count(),
            usize::from(reach == MentionReach::Broad),
            "{prompt}"
        );
    }
    // a user in the home directory mentions it as `@.`
    let home = abs("/home/u");
    let lookup = MentionLookup {
        base: &home,
        home: Some(&home),
        inspect: &|_| LookupResult::Directory,
    };
    let got = parse_mentions(&TaskText::from_typed("@."), lookup);
    assert_eq!(got.mentions[0].reach, MentionReach::Broad);
}

#[test]
fn many_files_of_a_directory_suggest_the_directory() {
    let suggestion = "3 files of one directory are mentioned: use `@src/` for the whole directory";
    let three = "@src/main.py @src/one.rs @src/two.rs @a.py @b.py @tests";
    assert_eq!(parse_prompt(three).suggestions, [suggestion]);
    let two = "@src/main.py @src/one.rs @src/main.py @src/m @src/missing.rs";
    assert_eq!(parse_prompt(two).suggestions, [""; 0]);
    let here = "@a.py @b.py @Makefile";
    let suggestion = "3 files of one directory are mentioned: use `@.` for the whole directory";
    assert_eq!(parse_prompt(here).suggestions, [suggestion]);
}

#[test]
fn other_programs_read_json() {
    let prompt = parse_prompt("Review @src/main.py and fix @tests/:w, not @missing.py");
    let expected = r#"{"original_prompt":"Review @src/main.py and fix @tests/:w, not @missing.py","cleaned_prompt":"Review /home/u/p/src/main.py and fix /home/u/p/tests, not @missing.py","context_paths":[{"path":"/home/u/p/src/main.py","permission":"read"},{"path":"/home/u/p/tests","permission":"write"}],"missing_paths":["/home/u/p/missing.py"],"suggestions":[]}"#;
    assert_eq!(to_json(&prompt).to_string(), expected);
}

/// Checks that each `@` costs only a few lookups, however long the prompt is.
#[track_caller]
fn check_linear(piece: &str, found: LookupResult) {
    let looks = |bytes: usize| {
        let looks = Cell::new(0_usize);
        let inspect = |_: &AbsPath| {
            looks.set(looks.get() + 1);
            found
        };
        let prompt = piece.repeat(bytes / piece.len());
        let lookup = MentionLookup {
            base: &abs("/p"),
            home: None,
            inspect: &inspect,
        };
        let got = parse_mentions(&TaskText::from_typed(prompt.clone()), lookup);
        assert_eq!(got.original_prompt, prompt);
        looks.get()
    };
    let (once, twice) = (looks(6_000), looks(12_000));
    assert!(twice <= 12_000 * 7, "{piece}: {twice}");
    assert!(twice <= 2 * once + 100, "{piece}: {once}, {twice}");
}

#[test]
fn hostile_prompts_are_read_in_linear_time() {
    for piece in [
        "@", "@\"", "@a", "@a,", "@a/@", "@.", "@a:w", "@数", "@a b\"",
    ] {
        check_linear(piece, LookupResult::Missing);
    }
    for piece in ["@a@", ",@a;", "@/a"] {
        check_linear(piece, LookupResult::File);
    }
    for (begin, end) in [
        ("", "@"),
        ("", "@\""),
        ("", "\\@"),
        ("@\"", "x"),
        ("@@@@@@@@", "."),
        ("@a", ","),
        ("@x", "y"),
    ] {
        let prompt = begin.to_owned() + &end.repeat(100_000);
        let lookup = MentionLookup {
            base: &abs("/p"),
            home: None,
            inspect: &|_| LookupResult::Missing,
        };
        let got = parse_mentions(&TaskText::from_typed(prompt.clone()), lookup);
        assert_eq!(got.cleaned_prompt, prompt.replace("\\@", "@"));
    }
}

/// Returns text that can precede or follow a mention and contains none.
fn filler() -> impl Strategy<Value = String> {
    "[ \t\r\n]([a-zA-Zäß数(){}'\"`.,;:!?*#<>|\\\\-]{0,12}[ \t\r\n])?"
}

fn mention() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        Just("a.py"),
        Just("src"),
        Just("src/main.py"),
        Just("ünï.txt"),
        Just("数据.csv"),
    ]
    .prop_flat_map(|name| {
        let path = format!("/home/u/p/{name}");
        prop_oneof![
            Just((format!("@{name}"), path.clone())),
            Just((format!("@{name}:w"), path.clone())),
            Just((format!("@\"{name}\""), path)),
            Just((format!("\\@{name}"), format!("@{name}"))),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read(prompt in any::<String>(), pieces in prop::collection::vec("[@a.\"':/w~\\\\ ]{0,4}", 0..40)) {
        for prompt in [prompt, pieces.concat()] {
            for found in [LookupResult::File, LookupResult::Directory, LookupResult::Missing, LookupResult::Unreadable] {
                let lookup = MentionLookup {
                    base: &abs("/p"),
                    home: Some(&abs("/p/h")),
                    inspect: &|_| found,
                };
                let got = parse_mentions(&TaskText::from_typed(prompt.clone()), lookup);
                if matches!(found, LookupResult::Missing | LookupResult::Unreadable) {
                    assert_eq!(got.cleaned_prompt, prompt.replace("\\@", "@"));
                    assert_eq!(got.mentions, []);
                } else {
                    assert_eq!(got.missing_mentions, []);
                }
                let paths: BTreeSet<_> = got.mentions.iter().map(|one| &one.path).collect();
                assert_eq!(paths.len(), got.mentions.len());
            }
        }
    }

    #[test]
    fn what_is_no_mention_is_kept(pieces in prop::collection::vec((filler(), mention()), 0..10)) {
        let mut prompt = String::new();
        let mut cleaned = String::new();
        for (text, (written, path)) in pieces {
            prompt.push_str(&text);
            prompt.push_str(&written);
            cleaned.push_str(&text);
            cleaned.push_str(&path);
        }
        assert_eq!(parse_prompt(&prompt).cleaned_prompt, cleaned);
    }
}

#[test]
fn piped_text_opens_nothing_and_stays_as_it_is() {
    let task = TaskText {
        typed_text: "see @a.py".to_owned(),
        piped_text: Some("fix @b.py and @src/main.py:w, \\@x @nothing.py".to_owned()),
    };
    let got = parse_mentions(&task, lookup());
    let opened: Vec<String> = got.mentions.iter().map(|m| m.path.to_string()).collect();
    assert_eq!(opened, ["/home/u/p/a.py"]);
    let named: Vec<String> = got
        .piped_mentions
        .iter()
        .map(|m| m.path.to_string())
        .collect();
    assert_eq!(named, ["/home/u/p/b.py", "/home/u/p/src/main.py"]);
    assert_eq!(
        got.cleaned_prompt,
        "see /home/u/p/a.py\n\nfix @b.py and @src/main.py:w, \\@x @nothing.py"
    );
    assert_eq!(got.original_prompt, task.full_text());
    assert_eq!(got.missing_mentions, []);
    // A mention does not extend from typed into piped text.
    let task = TaskText {
        typed_text: "see @".to_owned(),
        piped_text: Some("a.py".to_owned()),
    };
    assert_eq!(parse_mentions(&task, lookup()).mentions, []);
}

#[test]
fn mentions_in_piped_text_cause_a_limited_number_of_lookups() {
    let lookups = Cell::new(0_usize);
    let inspect = |_: &AbsPath| {
        lookups.set(lookups.get() + 1);
        LookupResult::Missing
    };
    let lookup = MentionLookup {
        base: &abs("/p"),
        home: None,
        inspect: &inspect,
    };
    let task = TaskText {
        typed_text: String::new(),
        piped_text: Some("@a.py ".repeat(100_000)),
    };
    let got = parse_mentions(&task, lookup);
    assert_eq!(got.mentions, []);
    assert!((1..5000).contains(&lookups.get()), "{}", lookups.get());
}
