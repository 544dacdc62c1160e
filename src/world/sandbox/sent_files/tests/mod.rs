//! Archives of engines against trees on the disk.
#![expect(clippy::disallowed_methods, reason = "a test makes its own tree")]

mod hostile_engine;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::result::Result;

use tar::{EntryType, Header};
use tempfile::TempDir;

use super::*;
use crate::sandbox_policy::AccessiblePath;
use crate::world::sandbox::sent_files::outgoing::pack;

/// A project to read, with a workspace to write. In the workspace one directory is read-only and
/// one file is hidden.
struct Trees {
    disk: TempDir,
    reachable: ReachablePaths,
}

impl Trees {
    fn new() -> Self {
        let disk = tempfile::tempdir().unwrap();
        let root = disk.path().canonicalize().unwrap();
        for (name, text) in [
            ("outside", "outside"),
            ("p/read.txt", "read"),
            ("p/.massgen/config", "hidden"),
            ("p/ws/kept", "kept"),
            ("p/ws/old", "old"),
            ("p/ws/dir/in", "in"),
            ("p/ws/.git/config", "masked"),
            ("p/ws/.env", "secret"),
        ] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            let above = Permissions::from_mode(0o755);
            fs::set_permissions(path.parent().unwrap(), above).unwrap();
        }
        symlink("../../outside", root.join("p/ws/link")).unwrap();
        let abs = |name: &str| AbsPath::new(root.join(name)).unwrap();
        let open_path = |name: &str, permission| AccessiblePath {
            path: abs(name),
            permission,
            scope: GrantScope::Tree,
        };
        let reachable = ReachablePaths {
            open: vec![
                open_path("p", Permission::Read),
                open_path("p/ws", Permission::Write),
            ],
            masked: vec![abs("p/ws/.git")],
            hidden: vec![abs("p/.massgen"), abs("p/ws/.env")],
            copies: BTreeMap::new(),
        };
        Self { disk, reachable }
    }

    fn path(&self, name: &str) -> AbsPath {
        AbsPath::new(self.disk.path().canonicalize().unwrap().join(name)).unwrap()
    }

    fn view(&self) -> SentEntries {
        read_view(&self.reachable, &SentEntries::new()).unwrap()
    }

    /// Receives an archive of the workspace after everything was sent.
    fn receive(&self, archive: &[u8]) -> Result<Vec<(AbsPath, String)>, String> {
        self.receive_over(&mut self.view(), archive, (1000, 1 << 20))
    }

    fn receive_over(
        &self,
        sent_entries: &mut SentEntries,
        archive: &[u8],
        (entries_max, bytes_max): (u64, u64),
    ) -> Result<Vec<(AbsPath, String)>, String> {
        let spool = SpoolFile::new_in(&self.path(".")).unwrap();
        let mut incoming = IncomingFiles::with_limits(spool, entries_max, bytes_max);
        let root = self.path("p/ws");
        let read_result = incoming.read(&root, archive, sent_entries);
        read_result.map_err(|error| error.to_string())?;
        let mut refusals = apply_changes(&self.reachable, &[root], sent_entries, &incoming);
        let special = incoming.special_files().iter();
        refusals
            .extend(special.map(|(path, description)| (path.clone(), (*description).to_owned())));
        Ok(refusals)
    }

    /// Lists all names with their contents, without `except`.
    fn listing(&self, except: &str) -> Vec<String> {
        let mut names = Vec::new();
        let root = self.disk.path().canonicalize().unwrap();
        list(&root, &root, &mut names);
        names.retain(|name| except.is_empty() || !name.starts_with(except));
        names
    }
}

fn list(root: &Path, dir: &Path, names: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            names.push(format!(
                "{name} -> {}",
                fs::read_link(&path).unwrap().display()
            ));
        } else if kind.is_dir() {
            names.push(format!("{name}/"));
            list(root, &path, names);
        } else {
            names.push(format!("{name}={}", fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns one entry of an archive, whatever its name is.
fn entry(kind: EntryType, name: &[u8], content: &[u8], target: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    old.linkname[..target.len()].copy_from_slice(target);
    header.set_entry_type(kind);
    let is_directory = kind == EntryType::Directory;
    header.set_mode(if is_directory { 0o6755 } else { 0o6644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_700_000_000);
    header.set_size(content.len().try_into().unwrap());
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn dir(name: &str) -> Vec<u8> {
    entry(EntryType::Directory, name.as_bytes(), b"", b"")
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(EntryType::Regular, name.as_bytes(), content.as_bytes(), b"")
}

fn link(name: &str, target: &str) -> Vec<u8> {
    entry(EntryType::Symlink, name.as_bytes(), b"", target.as_bytes())
}

fn hard_link(name: &str, target: &str) -> Vec<u8> {
    entry(EntryType::Link, name.as_bytes(), b"", target.as_bytes())
}

/// The workspace as it was sent.
fn unchanged() -> Vec<Vec<u8>> {
    vec![
        dir("ws/"),
        dir("ws/.git/"),
        file("ws/.git/config", "masked"),
        dir("ws/dir/"),
        file("ws/dir/in", "in"),
        file("ws/kept", "kept"),
        link("ws/link", "../../outside"),
        file("ws/old", "old"),
    ]
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

#[test]
fn what_commands_may_not_read_is_not_sent() {
    let trees = Trees::new();
    let view = trees.view();
    let names: Vec<String> = view.keys().map(ToString::to_string).collect();
    let expected = [
        "p",
        "p/read.txt",
        "p/ws",
        "p/ws/.git",
        "p/ws/.git/config",
        "p/ws/dir",
        "p/ws/dir/in",
        "p/ws/kept",
        "p/ws/link",
        "p/ws/old",
    ];
    let expected = expected.map(|name| trees.path(name).to_string());
    let mut sorted: Vec<String> = expected.to_vec();
    sorted.sort_by_key(|name| Path::new(name).to_owned());
    assert_eq!(names, sorted);
    let permission = |name: &str| view[&trees.path(name)].permission;
    assert_eq!(permission("p/ws/kept"), Permission::Write);
    for name in ["p", "p/read.txt", "p/ws/.git", "p/ws/.git/config"] {
        assert_eq!(permission(name), Permission::Read, "{name}");
    }
    let owners = EntryOwners::for_user(ContainerUser {
        uid: 1000,
        gid: 1000,
    });
    let paths: Vec<&AbsPath> = view.keys().collect();
    let mut packed = Vec::new();
    pack(&mut packed, &trees.reachable, &view, &paths, &owners).unwrap();
    let text = String::from_utf8_lossy(&packed);
    assert!(text.contains("masked") && text.contains("kept"));
    assert!(
        !text.contains("secret") && !text.contains("hidden"),
        "{text}"
    );
    let mut packed = tar::Archive::new(packed.as_slice());
    let owned = packed.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        (
            name,
            entry.header().uid().unwrap(),
            entry.header().mode().unwrap(),
        )
    });
    for (name, owner, mode) in owned {
        let is_written = name.contains("/ws") && !name.contains(".git");
        assert_eq!(owner == 1000, is_written, "{name}");
        assert!(is_written || mode & 0o022 == 0, "{name} {mode:o}");
    }
}

#[test]
fn only_what_changed_is_sent_again() {
    let trees = Trees::new();
    let first = trees.view();
    let plan = SendPlan::compare(&first, &first);
    assert_eq!(
        plan,
        SendPlan {
            removed_paths: vec![],
            added_paths: vec![]
        }
    );
    fs::write(trees.path("p/ws/old").as_path(), "new").unwrap();
    fs::remove_dir_all(trees.path("p/ws/dir").as_path()).unwrap();
    fs::write(trees.path("p/ws/dir").as_path(), "a file now").unwrap();
    fs::remove_file(trees.path("p/ws/link").as_path()).unwrap();
    // The same content in a new file is not sent again.
    fs::remove_file(trees.path("p/ws/kept").as_path()).unwrap();
    fs::write(trees.path("p/ws/kept").as_path(), "kept").unwrap();
    let second = read_view(&trees.reachable, &first).unwrap();
    let plan = SendPlan::compare(&first, &second);
    let paths =
        |names: &[&str]| -> Vec<AbsPath> { names.iter().map(|name| trees.path(name)).collect() };
    let owned = |paths: &[&AbsPath]| -> Vec<AbsPath> { paths.iter().copied().cloned().collect() };
    assert_eq!(
        owned(&plan.removed_paths),
        paths(&["p/ws/dir", "p/ws/link"])
    );
    assert_eq!(owned(&plan.added_paths), paths(&["p/ws/dir", "p/ws/old"]));
    let mut removed_there = second.clone();
    removed_there
        .get_mut(&trees.path("p/ws/kept"))
        .unwrap()
        .remote_entry = RemoteEntry::Refused;
    let plan = SendPlan::compare(&removed_there, &second);
    assert_eq!(owned(&plan.removed_paths), paths(&["p/ws/kept"]));
    assert_eq!(owned(&plan.added_paths), paths(&["p/ws/kept"]));
}

#[test]
fn copies_and_small_files_need_room_here() {
    let trees = Trees::new();
    let sent_entries = trees.view();
    let mut changed_entries = unchanged();
    changed_entries.push(hard_link("ws/copy", "ws/kept"));
    changed_entries.push(file("ws/small", "x"));
    let needed = |entries: &[Vec<u8>]| {
        let spool = SpoolFile::new_in(&trees.path(".")).unwrap();
        let mut incoming = IncomingFiles::with_limits(spool, 1000, 1 << 20);
        let archive = archive(entries);
        incoming
            .read(&trees.path("p/ws"), archive.as_slice(), &sent_entries)
            .unwrap();
        (
            incoming.new_names(&sent_entries),
            incoming.new_bytes(&sent_entries),
        )
    };
    assert_eq!(needed(&unchanged()), (0, 0));
    assert_eq!(needed(&changed_entries), (2, 8192));
}

#[test]
fn ordinary_changes_are_written_here() {
    let trees = Trees::new();
    let mut sent_entries = trees.view();
    let mut changed_entries = unchanged();
    changed_entries[4] = file("ws/dir/in", "changed");
    changed_entries[7] = dir("ws/new/");
    changed_entries.extend([
        file("ws/new/a", "new"),
        hard_link("ws/new/b", "ws/new/a"),
        hard_link("ws/new/c", "ws/kept"),
        link("ws/new/l", "/etc/passwd"),
        entry(EntryType::Fifo, b"ws/pipe", b"", b""),
    ]);
    let changed_archive = archive(&changed_entries);
    let refusals = trees
        .receive_over(&mut sent_entries, &changed_archive, (1000, 1 << 20))
        .unwrap();
    let pipe = (trees.path("p/ws/pipe"), "it is a named pipe".to_owned());
    assert_eq!(refusals, [pipe]);
    let expected = [
        "p/ws/.env=secret",
        "p/ws/.git/",
        "p/ws/.git/config=masked",
        "p/ws/dir/",
        "p/ws/dir/in=changed",
        "p/ws/kept=kept",
        "p/ws/link -> ../../outside",
        "p/ws/new/",
        "p/ws/new/a=new",
        "p/ws/new/b=new",
        "p/ws/new/c=kept",
        "p/ws/new/l -> /etc/passwd",
    ];
    let listing = trees.listing("");
    let names = listing.iter().map(String::as_str);
    let of_workspace: Vec<&str> = names
        .filter(|name| name.starts_with("p/ws/"))
        .skip(1)
        .collect();
    assert_eq!(of_workspace, expected);
    let mode = fs::metadata(trees.path("p/ws/new/a").as_path())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o644, "setuid and setgid are dropped");
    // What was fetched is not sent again, and receiving it again changes nothing.
    let again = read_view(&trees.reachable, &sent_entries).unwrap();
    let plan = SendPlan::compare(&sent_entries, &again);
    assert_eq!((plan.added_paths, plan.removed_paths), (vec![], vec![]));
    let refusals = trees
        .receive_over(&mut sent_entries, &changed_archive, (1000, 1 << 20))
        .unwrap();
    assert_eq!((refusals.len(), trees.listing("")), (1, listing));
}

#[test]
fn what_commands_may_not_change_stays_and_is_named() {
    let trees = Trees::new();
    let before = trees.listing("");
    let mut sent_entries = trees.view();
    let mut hostile = unchanged();
    hostile[2] = file("ws/.git/config", "[core] fsmonitor = evil");
    hostile.extend([
        file("ws/.env", "planted"),
        dir("ws/.git/hooks/"),
        file("ws/.git/hooks/pre-commit", "evil"),
    ]);
    let refusals = trees
        .receive_over(&mut sent_entries, &archive(&hostile), (1000, 1 << 20))
        .unwrap();
    assert_eq!(refusals.len(), 4, "{refusals:?}");
    assert_eq!(trees.listing(""), before);
    // Before the next command that is undone there.
    let view = read_view(&trees.reachable, &sent_entries).unwrap();
    let plan = SendPlan::compare(&sent_entries, &view);
    let expected = ["p/ws/.env", "p/ws/.git/config", "p/ws/.git/hooks"];
    let expected = expected.map(|name| trees.path(name));
    assert_eq!(plan.removed_paths, expected.each_ref());
    assert_eq!(plan.added_paths, [&trees.path("p/ws/.git/config")]);
    // A directory that was moved away leaves what was read-only in it.
    let entries: Vec<Vec<u8>> = unchanged()
        .into_iter()
        .enumerate()
        .filter(|(index, _)| ![1, 2].contains(index))
        .map(|(_, entry)| entry)
        .collect();
    let refusals = trees.receive(&archive(&entries)).unwrap();
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert_eq!(trees.listing(""), before);
}

#[test]
fn what_was_changed_here_meanwhile_is_kept() {
    let trees = Trees::new();
    let mut sent_entries = trees.view();
    let ours = trees.path("p/ws/old");
    fs::write(ours.as_path(), "ours, later").unwrap();
    let mut changed_entries = unchanged();
    changed_entries[7] = file("ws/old", "theirs");
    let refusals = trees
        .receive_over(
            &mut sent_entries,
            &archive(&changed_entries),
            (1000, 1 << 20),
        )
        .unwrap();
    assert_eq!(refusals[0].0, ours);
    assert_eq!(fs::read_to_string(ours.as_path()).unwrap(), "ours, later");
    changed_entries.truncate(7);
    let mut sent_entries = trees.view();
    fs::write(ours.as_path(), "ours, last").unwrap();
    let refusals = trees
        .receive_over(
            &mut sent_entries,
            &archive(&changed_entries),
            (1000, 1 << 20),
        )
        .unwrap();
    assert!(refusals[0].1.starts_with("not deleted"), "{refusals:?}");
    assert_eq!(fs::read_to_string(ours.as_path()).unwrap(), "ours, last");
}

#[test]
fn what_replaced_a_link_here_is_kept() {
    for (is_file, target) in [(true, None), (true, Some("/there")), (false, None)] {
        let trees = Trees::new();
        let mut sent_entries = trees.view();
        let ours = trees.path("p/ws/link");
        fs::remove_file(ours.as_path()).unwrap();
        if is_file {
            fs::write(ours.as_path(), "ours").unwrap();
        } else {
            symlink("/ours", ours.as_path()).unwrap();
        }
        let before = trees.listing("");
        let mut changed_entries = unchanged();
        changed_entries.remove(6);
        changed_entries.extend(target.map(|target| link("ws/link", target)));
        let refusals = trees
            .receive_over(
                &mut sent_entries,
                &archive(&changed_entries),
                (1000, 1 << 20),
            )
            .unwrap();
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        assert!(refusals[0].1.contains("it was changed"), "{refusals:?}");
        assert_eq!(trees.listing(""), before);
    }
}

#[test]
fn what_could_not_be_written_is_kept_there_and_fetched_again() {
    let trees = Trees::new();
    let mut sent_entries = trees.view();
    let before = sent_entries.clone();
    let (place, away) = (trees.path("p/ws/dir"), trees.path("away"));
    fs::rename(place.as_path(), away.as_path()).unwrap();
    let mut changed_entries = unchanged();
    changed_entries[4] = file("ws/dir/in", "changed");
    changed_entries.insert(5, file("ws/dir/made", "made"));
    let changed_archive = archive(&changed_entries);
    let refusals = trees
        .receive_over(&mut sent_entries, &changed_archive, (1000, 1 << 20))
        .unwrap();
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert_eq!(sent_entries, before, "nothing is removed there");
    fs::rename(away.as_path(), place.as_path()).unwrap();
    let refusals = trees
        .receive_over(&mut sent_entries, &changed_archive, (1000, 1 << 20))
        .unwrap();
    assert_eq!(refusals, []);
    let text = |name: &str| fs::read_to_string(place.join(name).as_path()).unwrap();
    assert_eq!(text("in"), "changed");
    assert_eq!(text("made"), "made");
}

#[test]
fn a_link_here_is_never_followed() {
    let trees = Trees::new();
    let mut sent_entries = trees.view();
    // A directory is replaced by a link here, and a file below it comes back.
    fs::rename(
        trees.path("p/ws/dir").as_path(),
        trees.path("p/ws/moved").as_path(),
    )
    .unwrap();
    symlink(trees.path("p").as_path(), trees.path("p/ws/dir").as_path()).unwrap();
    let mut changed_entries = unchanged();
    changed_entries[4] = file("ws/dir/in", "changed");
    changed_entries.push(file("ws/dir/read.txt", "overwritten"));
    let refusals = trees
        .receive_over(
            &mut sent_entries,
            &archive(&changed_entries),
            (1000, 1 << 20),
        )
        .unwrap();
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert_eq!(
        fs::read_to_string(trees.path("p/read.txt").as_path()).unwrap(),
        "read"
    );
}

#[test]
fn a_copy_is_written_in_the_place_of_its_tree() {
    let mut trees = Trees::new();
    let copy = trees.path("copy");
    fs::create_dir_all(copy.join("dir").as_path()).unwrap();
    fs::write(copy.join("dir/in").as_path(), "in the copy").unwrap();
    trees
        .reachable
        .copies
        .insert(trees.path("p/ws"), copy.clone());
    let mut sent_entries = trees.view();
    let entries = [dir("ws/"), dir("ws/dir/"), file("ws/dir/in", "changed")];
    let refusals = trees
        .receive_over(&mut sent_entries, &archive(&entries), (1000, 1 << 20))
        .unwrap();
    assert_eq!(refusals, []);
    let text = |path: &AbsPath| fs::read_to_string(path.as_path()).unwrap();
    assert_eq!(text(&copy.join("dir/in")), "changed");
    assert_eq!(text(&trees.path("p/ws/dir/in")), "in");
}

#[test]
fn what_an_archive_leaves_out_must_be_gone_there() {
    let trees = Trees::new();
    let sent_entries = trees.view();
    // A file became a directory, and a directory a file: that is in the archive.
    let entries = [
        dir("ws/"),
        file("ws/dir", "a file now"),
        dir("ws/old/"),
        link("ws/link", "../../outside"),
    ];
    let spool = SpoolFile::new_in(&trees.path(".")).unwrap();
    let mut incoming = IncomingFiles::with_limits(spool, 1000, 1 << 20);
    let root = trees.path("p/ws");
    incoming
        .read(&root, archive(&entries).as_slice(), &sent_entries)
        .unwrap();
    let missing = missing_paths(&[root], &sent_entries, &incoming);
    assert_eq!(
        missing,
        [&trees.path("p/ws/.git"), &trees.path("p/ws/kept")]
    );
    assert!(check_gone(&missing, b"gone\ngone\n").is_ok());
    for (output, reason) in [
        ("gone\nthere\n", "and still exists there"),
        ("there\nthere\n", "and still exists there"),
        ("gone\nunknown\n", "and may still exist there"),
        ("gone\n", "and may still exist there"),
        ("", "and may still exist there"),
        ("sh: not found\n", "and may still exist there"),
    ] {
        let error = check_gone(&missing, output.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(reason), "{output}: {error}");
    }
    // Without the mark of its end, an archive may have been cut between two entries.
    let before = trees.listing("");
    let refusals = trees.receive(&[dir("ws/"), file("ws/kept", "kept")].concat());
    assert!(refusals.unwrap_err().contains("no mark of its end"));
    assert_eq!(trees.listing(""), before);
}

#[test]
fn an_interrupted_transfer_loses_nothing_there() {
    let trees = Trees::new();
    let mut sent_entries = trees.view();
    let (ours, removed_dir) = (trees.path("p/ws/old"), trees.path("p/ws/dir"));
    fs::write(ours.as_path(), "ours").unwrap();
    fs::remove_dir_all(removed_dir.as_path()).unwrap();
    fs::create_dir(trees.path("p/ws/empty").as_path()).unwrap();
    let view = read_view(&trees.reachable, &sent_entries).unwrap();
    let plan = SendPlan::compare(&sent_entries, &view);
    let affected = plan.affected_paths(&view);
    mark_unsent(&mut sent_entries, &affected);
    // A command in the background ends: its work is fetched, but not what was in transfer.
    let mut work = unchanged();
    work[5] = file("ws/kept", "changed there");
    work[7] = file("ws/old", "o");
    work.extend([file("ws/made", "there"), file("ws/dir/made", "there")]);
    let refusals = trees
        .receive_over(&mut sent_entries, &archive(&work), (1000, 1 << 20))
        .unwrap();
    let refused_paths: Vec<&AbsPath> = refusals.iter().map(|(path, _)| path).collect();
    assert_eq!(refused_paths, [&removed_dir, &ours]);
    assert_eq!(fs::read_to_string(ours.as_path()).unwrap(), "ours");
    assert!(!removed_dir.as_path().exists());
    let text = |name: &str| fs::read_to_string(trees.path(name).as_path()).unwrap();
    assert_eq!(text("p/ws/kept"), "changed there");
    assert_eq!(text("p/ws/made"), "there");
    // The next command begins with the rest of the transfer, and nothing else is removed there.
    let view = read_view(&trees.reachable, &sent_entries).unwrap();
    let plan = SendPlan::compare(&sent_entries, &view);
    assert_eq!(plan.removed_paths, [&removed_dir, &ours]);
    assert_eq!(plan.added_paths, [&trees.path("p/ws/empty"), &ours]);
}

#[test]
fn paths_are_passed_to_scripts_byte_by_byte() {
    for (path, expected) in [
        (b"/ws/a b\n\xc3\xa4".as_slice(), "/ws/a b\n\u{e4}"),
        (b"/ws/\xff 1".as_slice(), "/ws/\\0377\\00401"),
        (b"/ws/a\\n".as_slice(), "/ws/a\\0134n"),
    ] {
        let path = AbsPath::new(OsStr::from_bytes(path)).unwrap();
        assert_eq!(path_argument(&path), expected);
    }
}

#[test]
fn files_may_be_larger_than_a_chunk() {
    let trees = Trees::new();
    let long = "0123456789".repeat(20_000);
    let mut changed_entries = unchanged();
    changed_entries[7] = file("ws/old", &long);
    assert_eq!(trees.receive(&archive(&changed_entries)), Ok(vec![]));
    assert_eq!(
        fs::read_to_string(trees.path("p/ws/old").as_path()).unwrap(),
        long
    );
    let run = trees.path("p/ws/run");
    fs::write(run.as_path(), "#!/bin/sh\n").unwrap();
    fs::set_permissions(run.as_path(), Permissions::from_mode(0o751)).unwrap();
    assert!(matches!(
        trees.view()[&run].remote_entry,
        RemoteEntry::File { bits: 0o751, .. }
    ));
}
