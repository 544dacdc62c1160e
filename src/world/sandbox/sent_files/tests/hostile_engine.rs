//! Archives and listings of an engine that lies: it reaches nothing but what commands may change.

use proptest::prelude::*;

use super::*;

/// Returns an extension header with this `KEY=VALUE` and line break.
fn pax(text: &str) -> Vec<u8> {
    let text = format!("{} {text}", text.len() + 3);
    entry(EntryType::XHeader, b"x", text.as_bytes(), b"")
}

/// Returns archives that are refused, with a part of the reason: what they hold after the
/// directories `ws` and `ws/dir`.
fn malformed_archives() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    vec![
        ("leads out", vec![file("/etc/passwd", "x")]),
        ("leads out", vec![file("../ws/a", "x")]),
        ("leads out", vec![file("other", "x")]),
        ("leads out", vec![file("ws/../../outside", "x")]),
        ("malformed", vec![file("ws//a", "x")]),
        ("in no directory", vec![file("ws/none/a", "x")]),
        (
            "in no directory",
            vec![link("ws/l", "dir"), file("ws/l/a", "x")],
        ),
        ("twice", vec![file("ws/kept", "x"), file("ws/kept", "y")]),
        ("twice", vec![dir("ws/")]),
        ("not an earlier file", vec![hard_link("ws/h", "ws/none")]),
        ("not an earlier file", vec![hard_link("ws/h", "ws/dir")]),
        ("not an earlier file", vec![hard_link("ws/h", "ws/.env")]),
        (
            "target of a hard link",
            vec![hard_link("ws/h", "/etc/shadow")],
        ),
        (
            "target of a hard link",
            vec![hard_link("ws/h", "ws/../../outside")],
        ),
        ("symlink is malformed", vec![link("ws/l", "")]),
        (
            "sparse",
            vec![entry(EntryType::GNUSparse, b"ws/s", b"", b"")],
        ),
        ("sparse", vec![pax("GNU.sparse.size=99999\n")]),
        ("too large", vec![pax("size=99999999999\n")]),
        (
            "leads out",
            vec![pax("path=../../outside\n"), file("ws/a", "x")],
        ),
        (
            "leads out",
            vec![
                entry(EntryType::GNULongName, b"l", b"/etc/passwd\0", b""),
                file("ws/a", "x"),
            ],
        ),
        (
            "unknown kind",
            vec![entry(EntryType::new(b'V'), b"ws/v", b"", b"")],
        ),
        (
            "larger than 256 KiB",
            vec![entry(EntryType::XHeader, b"x", &vec![b'x'; 300 << 10], b"")],
        ),
        (
            "more than 1000 entries",
            (0..1001).map(|n| file(&format!("ws/{n:04}"), "")).collect(),
        ),
        (
            "more than 1048576 bytes",
            vec![
                file("ws/a", &"a".repeat(1 << 19)),
                file("ws/b", &"b".repeat((1 << 19) + 1)),
            ],
        ),
        (
            "more than 1048576 bytes",
            vec![entry(
                EntryType::Directory,
                b"ws/d/",
                &vec![b'x'; (1 << 20) + 1],
                b"",
            )],
        ),
        (
            "more than 1048576 bytes",
            vec![
                file("ws/a", &"a".repeat(1 << 19)),
                hard_link("ws/b", "ws/a"),
                hard_link("ws/c", "ws/a"),
            ],
        ),
    ]
}

#[test]
fn malformed_archives_are_refused_as_a_whole() {
    let trees = Trees::new();
    let before = trees.listing("");
    for (reason, entries) in malformed_archives() {
        let mut archive_entries = vec![dir("ws/"), dir("ws/dir/")];
        archive_entries.extend(entries);
        let refusal = trees.receive(&archive(&archive_entries)).unwrap_err();
        assert!(refusal.contains(reason), "expected {reason}: {refusal}");
    }
    for (reason, bytes) in [
        ("not an archive", archive(&[])),
        ("not an archive", Vec::new()),
        ("replaced by something else", archive(&[link("ws", "/etc")])),
        ("replaced by something else", archive(&[file("ws", "x")])),
        ("", archive(&[file("ws/a", "long enough")])[..515].to_vec()),
        ("", vec![b'x'; 2000]),
    ] {
        let refusal = trees.receive(&bytes).unwrap_err();
        assert!(refusal.contains(reason), "expected {reason}: {refusal}");
    }
    assert_eq!(trees.listing(""), before, "nothing was written");
}

fn any_entry() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        Just("ws/"),
        Just("ws/dir/"),
        Just("ws/dir"),
        Just("ws/dir/in"),
        Just("ws/kept"),
        Just("ws/link"),
        Just("ws/link/x"),
        Just("ws/.git"),
        Just("ws/.git/config"),
        Just("ws/.env"),
        Just("ws/new"),
        Just("ws/new/x"),
        Just("../outside"),
        Just("/tmp/x"),
        Just("ws/../read.txt"),
        Just("p/read.txt"),
        Just("ws"),
    ];
    let kind = prop_oneof![
        Just(EntryType::Directory),
        Just(EntryType::Regular),
        Just(EntryType::Symlink),
        Just(EntryType::Link),
        Just(EntryType::Fifo),
        Just(EntryType::Char),
        Just(EntryType::XHeader),
        Just(EntryType::GNULongName),
        Just(EntryType::GNULongLink),
        Just(EntryType::GNUSparse),
    ];
    let target = prop_oneof![
        Just(".."),
        Just("/"),
        Just("../.."),
        Just("ws/kept"),
        Just("ws/dir/in"),
        Just("../outside"),
    ];
    let content = prop_oneof![
        Just("x"),
        Just(""),
        Just("ws/link/x"),
        Just("../outside"),
        Just("25 path=ws/../../outside\n"),
    ];
    (name, kind, target, content).prop_map(|(name, kind, target, content)| {
        entry(kind, name.as_bytes(), content.as_bytes(), target.as_bytes())
    })
}

/// The directory of the trees, as generated lines of a listing name it.
const TOP: &str = "/TOP";

/// Returns a line of a listing, with any kind of file at any path.
fn any_line() -> impl Strategy<Value = String> {
    let mode = prop_oneof![
        Just("41ed"),
        Just("81a4"),
        Just("a1ff"),
        Just("11a4"),
        Just("61a4"),
        Just("0"),
    ];
    let name = prop_oneof![
        Just("p/ws/dir"),
        Just("p/ws/dir/in"),
        Just("p/ws/kept"),
        Just("p/ws/link"),
        Just("p/ws/link/x"),
        Just("p/ws/.git"),
        Just("p/ws/.git/config"),
        Just("p/ws/.env"),
        Just("p/ws/new"),
        Just("p/ws/../read.txt"),
        Just("p/read.txt"),
        Just("outside"),
    ];
    (mode, 0_u64..4, name)
        .prop_map(|(mode, changed, name)| format!("{mode} 1 1 1 {changed} {TOP}/{name}\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_lying_engine_changes_nothing_but_the_workspace(
        extra in prop::collection::vec(any_entry(), 0..6),
        start in 0_usize..=8,
    ) {
        let trees = Trees::new();
        let workspace = "p/ws/";
        let before = trees.listing(workspace);
        let mut entries: Vec<Vec<u8>> = unchanged().into_iter().take(start).collect();
        entries.extend(extra);
        let received = trees.receive(&archive(&entries));
        prop_assert_eq!(trees.listing(workspace), before);
        let listing = trees.listing("");
        prop_assert!(listing.contains(&"p/ws/.git/config=masked".to_owned()));
        prop_assert!(listing.contains(&"p/ws/.env=secret".to_owned()), "{:?}", received);
    }

    #[test]
    fn a_lying_listing_changes_nothing_but_the_workspace(
        lines in prop::collection::vec(any_line(), 0..8),
        extra in prop::collection::vec(any_entry(), 0..4),
    ) {
        let trees = Trees::new();
        let workspace = "p/ws/";
        let before = trees.listing(workspace);
        let (top, root) = (trees.path("p").parent().unwrap(), trees.path("p/ws"));
        let text = format!("2\n41ed 1 1 1 1 {root}\n{}", lines.concat());
        let text = text.replace(TOP, &top.to_string());
        let roots = [root.clone()];
        if let Some(listing) = RemoteListing::parse(text.as_bytes(), &roots) {
            let mut sent_entries = trees.view();
            let spool = SpoolFile::new_in(&top).unwrap();
            let mut incoming = IncomingFiles::with_limits(spool, 1000, 1 << 20);
            let changed_paths = incoming.add_listed(&listing, &listing, &sent_entries);
            prop_assert!(changed_paths.iter().all(|path| path.is_within(&root)));
            if incoming.read(&root, archive(&extra).as_slice(), &sent_entries).is_ok() {
                drop(apply_changes(&trees.reachable, &roots, &mut sent_entries, &incoming));
            }
        }
        prop_assert_eq!(trees.listing(workspace), before);
        let listing = trees.listing("");
        prop_assert!(listing.contains(&"p/ws/.git/config=masked".to_owned()));
        prop_assert!(listing.contains(&"p/ws/.env=secret".to_owned()), "{:?}", text);
    }
}
