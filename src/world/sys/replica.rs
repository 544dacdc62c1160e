//! Owns a copy of a tree that is changed in the place of that tree. What stood in it at first is
//! remembered, so that what was changed since can be written down as a layer over the tree.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::Mode;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::history::Version;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::layer::{open_up, settle, white_out};
use crate::world::sys::meta::{Kind, Meta};
use crate::world::sys::own::clear;
use crate::world::sys::own::dir::{Audience, create_all};
use crate::world::sys::own::tree::{Limits, Method, copy};
use crate::world::sys::slot::set_dir_mode;
use crate::world::sys::staged::{Durability, Over, Staged};
use crate::world::sys::survey::{Keep, Survey, TREE_DEPTH_MAX};

/// How large a tree may be of which a copy is made.
const LIMITS: Limits = Limits {
    entries: 200_000,
    bytes: 4 * 1024 * 1024 * 1024,
    depth: TREE_DEPTH_MAX,
};

/// A copy.
#[derive(Debug)]
pub(crate) struct Replica {
    dir: Dir,
    /// What stood in it at first.
    began: Mutex<BTreeMap<RelPath, Stood>>,
}

/// What stands at a name of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stood {
    Directory(Mode),
    File(Version),
    Link(PathBuf),
    Special,
}

impl Replica {
    /// Copies the directory `tree` to `at`, which is made. Of the directories `except` only the place
    /// is there.
    pub(crate) fn of_tree(tree: &RealPath, at: &AbsPath, except: &[AbsPath]) -> Result<Self> {
        create_all(at, Audience::User)?;
        let tree = tree.to_abs();
        let left_out: Vec<&AbsPath> = except.iter().collect();
        copy(&tree, at, Method::Writable, LIMITS, &left_out)?;
        let dir = Dir::own(at).map_err(|fault| failed(at, fault))?;
        for place in except.iter().filter_map(|path| path.below(&tree)) {
            let made = dir.make_dirs(&place);
            drop(made.map_err(|fault| failed(at, fault))?);
        }
        take_over_modes(&tree, &dir).map_err(|fault| failed(at, fault))?;
        Self::remembered(dir).map_err(|fault| failed(at, fault))
    }

    /// Copies these files of the directory `from` to `at`, which is made, as far as they are there.
    pub(crate) fn of_files(from: &Dir, names: &[&OsStr], at: &AbsPath) -> Result<Self> {
        create_all(at, Audience::User)?;
        let dir = Dir::own(at).map_err(|fault| failed(at, fault))?;
        for name in names {
            match copy_file(from, name, &dir) {
                Ok(()) | Err(Fault::Missing) => {}
                Err(fault) => return Err(failed(at, fault)),
            }
        }
        Self::remembered(dir).map_err(|fault| failed(at, fault))
    }

    fn remembered(dir: Dir) -> std::result::Result<Self, Fault> {
        let began = Mutex::new(names(&dir)?);
        Ok(Self { dir, began })
    }

    /// The copy.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    fn began(&self) -> MutexGuard<'_, BTreeMap<RelPath, Stood>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what was changed since the beginning to `upper`, as a layer over the tree. What was
    /// there goes. Nobody changes the copy meanwhile.
    pub(crate) fn write_layer(&self, upper: &AbsPath) -> Result<()> {
        self.written(upper).map(drop)
    }

    /// As [`Replica::write_layer`]; the next time only what is changed from here on is written. Somebody
    /// may change the copy meanwhile, and that is written the next time.
    pub(crate) fn write_next_layer(&self, upper: &AbsPath) -> Result<()> {
        let now = self.written(upper)?;
        *self.began() = now;
        Ok(())
    }

    fn written(&self, upper: &AbsPath) -> Result<BTreeMap<RelPath, Stood>> {
        clear::remove(upper)?;
        create_all(upper, Audience::User)?;
        let written = Dir::own(upper).and_then(|upper| self.write_changes(&upper));
        written.map_err(|fault| failed(upper, fault))
    }

    /// Gives what stood in it then.
    fn write_changes(&self, upper: &Dir) -> std::result::Result<BTreeMap<RelPath, Stood>, Fault> {
        let now = names(&self.dir)?;
        let began = self.began();
        for (rel, stood) in &now {
            let before = began.get(rel);
            if before != Some(stood) {
                self.write_change(rel, (before, stood), upper)?;
            }
        }
        for rel in began.keys().filter(|rel| !now.contains_key(*rel)) {
            let parent = rel.parent().unwrap_or_default();
            if parent.is_root() || matches!(now.get(&parent), Some(Stood::Directory(_))) {
                let (dir, name) = upper.make_parent_of(rel)?;
                white_out(&dir, name)?;
            }
        }
        drop(began);
        Ok(now)
    }

    fn write_change(
        &self,
        rel: &RelPath,
        (before, stood): (Option<&Stood>, &Stood),
        upper: &Dir,
    ) -> std::result::Result<(), Fault> {
        let (dir, name) = upper.make_parent_of(rel)?;
        match stood {
            Stood::Directory(_) => {
                match dir.make_dir(name, &self.dir.meta(rel)?) {
                    Err(Fault::Exists) => {}
                    made => made?,
                }
                match before {
                    // It is the user's directory with other bits.
                    Some(Stood::Directory(_)) => settle(upper, rel),
                    _ => Ok(()),
                }
            }
            Stood::File(_) => {
                let (from, name) = self.dir.parent_of(rel)?;
                from.link(name, &dir, name)
            }
            Stood::Link(target) => dir.symlink(name, target),
            Stood::Special => {
                let meta = self.dir.meta(rel)?;
                if meta.kind == Kind::Fifo {
                    return dir.make_pipe(name, meta.permission_bits().bits());
                }
                Ok(())
            }
        }
    }
}

/// All names in a copy, and what stands there.
fn names(dir: &Dir) -> std::result::Result<BTreeMap<RelPath, Stood>, Fault> {
    let survey = Survey::of(dir, &mut |found| {
        if found.kind == Kind::Directory {
            // If it cannot be read, the survey says so.
            let _opened = open_up(dir, &found.rel);
        }
        Keep::Deep
    });
    if let Some(cut) = survey.cut {
        return Err(Fault::Limit(cut));
    }
    if let Some((_, fault)) = survey.unreadable.into_iter().next() {
        return Err(fault);
    }
    let mut names = BTreeMap::new();
    for found in survey.found {
        let meta = dir.meta(&found.rel)?;
        let stood = match meta.kind {
            Kind::Directory => Stood::Directory(meta.plain_bits()),
            Kind::File => Stood::File(meta.version),
            Kind::Link => Stood::Link(dir.link_target(&found.rel)?),
            Kind::Fifo | Kind::Socket | Kind::Device => Stood::Special,
        };
        names.insert(found.rel, stood);
    }
    Ok(names)
}

/// Gives the directories of a copy the permission bits that they have in the tree `of`; the owner may
/// use all of them.
fn take_over_modes(of: &AbsPath, copy: &Dir) -> std::result::Result<(), Fault> {
    let tree = Dir::own(of)?;
    for (rel, _) in names(copy)? {
        let Ok(theirs) = tree.meta(&rel) else {
            continue;
        };
        if theirs.kind == Kind::Directory {
            let (parent, name) = copy.parent_of(&rel)?;
            set_dir_mode(&parent, name, theirs.plain_bits() | Mode::RWXU)?;
        }
    }
    Ok(())
}

fn copy_file(from: &Dir, name: &OsStr, to: &Dir) -> std::result::Result<(), Fault> {
    let rel = RelPath::default().child(name).ok_or(Fault::Missing)?;
    let (content, meta) = from.open_file(&rel)?;
    let mut staged = Staged::private(to)?;
    staged.copy(&content, meta.version.size_bytes)?;
    staged.set_mode(meta.plain_bits())?;
    staged.set_modified(meta.version.modified_ns)?;
    let _placed: Meta = staged.place(name, Over::Nothing, Durability::Lazy)?;
    Ok(())
}

fn failed(at: &AbsPath, fault: Fault) -> Error {
    let message = format!("the copy `{at}` of what is to be written cannot be made: {fault}");
    Error::new(ErrorKind::Io, message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test makes its own tree")]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::world::sys::layer::{Trace, trace};

    #[test]
    fn directories_keep_their_permission_bits_and_take_others() {
        let disk = tempfile::tempdir().unwrap();
        let at = disk.path().canonicalize().unwrap();
        let path = |name: &str| AbsPath::new(at.join(name)).unwrap();
        let bits = |name: &str, mode: u32| {
            fs::set_permissions(at.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let mode = |name: &str| fs::metadata(at.join(name)).unwrap().permissions().mode() & 0o7777;
        for (name, mode) in [("tree", 0o755), ("tree/a", 0o750), ("tree/b", 0o755)] {
            fs::create_dir(at.join(name)).unwrap();
            bits(name, mode);
        }
        fs::write(at.join("tree/b/file"), "old").unwrap();
        let tree = RealPath::vouch(at.join("tree"));
        let replica = Replica::of_tree(&tree, &path("copy"), &[]).unwrap();
        assert_eq!((mode("copy/a"), mode("copy/b")), (0o750, 0o755));
        bits("copy/a", 0o777);
        fs::write(at.join("copy/b/file"), "new").unwrap();
        fs::create_dir(at.join("copy/c")).unwrap();
        bits("copy/c", 0o777);
        replica.write_layer(&path("upper")).unwrap();
        let upper = Dir::own(&path("upper")).unwrap();
        let traced = |name: &str| trace(&upper, &RelPath::new(name).unwrap()).unwrap();
        assert!(matches!(traced("a"), Trace::Merged(_)), "its bits changed");
        assert!(
            matches!(traced("b"), Trace::Made(_)),
            "only a file in it changed"
        );
        assert!(matches!(traced("c"), Trace::Made(_)), "it is new");
        assert_eq!((mode("upper/a"), mode("upper/c")), (0o777, 0o777));
    }

    #[test]
    fn what_was_changed_in_a_copy_is_a_layer_over_the_tree() {
        let disk = tempfile::tempdir().unwrap();
        let at = disk.path().canonicalize().unwrap();
        let path = |name: &str| AbsPath::new(at.join(name)).unwrap();
        fs::create_dir_all(at.join("tree/kept/inner")).unwrap();
        fs::create_dir_all(at.join("tree/gone/inner")).unwrap();
        for name in [
            "same",
            "old",
            "removed",
            "kept/inner/a",
            "gone/inner/b",
            "turned",
        ] {
            fs::write(at.join("tree").join(name), name).unwrap();
        }
        symlink("same", at.join("tree/link")).unwrap();
        let tree = RealPath::vouch(at.join("tree"));
        let replica = Replica::of_tree(&tree, &path("copy"), &[path("tree/kept")]).unwrap();
        assert!(at.join("copy/kept").is_dir());
        assert!(!at.join("copy/kept/inner").exists());
        replica.write_layer(&path("upper")).unwrap();
        assert_eq!(fs::read_dir(at.join("upper")).unwrap().count(), 0);
        fs::write(at.join("copy/old"), "changed").unwrap();
        fs::write(at.join("copy/new"), "new").unwrap();
        fs::remove_file(at.join("copy/removed")).unwrap();
        fs::remove_dir_all(at.join("copy/gone")).unwrap();
        fs::remove_file(at.join("copy/turned")).unwrap();
        fs::create_dir(at.join("copy/turned")).unwrap();
        fs::remove_file(at.join("copy/link")).unwrap();
        symlink("new", at.join("copy/link")).unwrap();
        // What is written is the state of now, however often it was written before.
        for _ in 0..2 {
            replica.write_layer(&path("upper")).unwrap();
        }
        let upper = Dir::own(&path("upper")).unwrap();
        let told = |name: &str| match trace(&upper, &RelPath::new(name).unwrap()) {
            Ok(Trace::Removed) => "removed",
            Ok(Trace::Made(_)) => "made",
            Ok(Trace::File(_)) => "file",
            Ok(Trace::Link) => "link",
            Ok(Trace::Merged(_) | Trace::Replaced(_) | Trace::Special(_)) => "other",
            Err(Fault::Missing) => "-",
            Err(_) => "fault",
        };
        let expected = [
            ("gone", "removed"),
            ("kept", "-"),
            ("link", "link"),
            ("new", "file"),
            ("old", "file"),
            ("removed", "removed"),
            ("same", "-"),
            ("turned", "made"),
        ];
        for (name, expected) in expected {
            assert_eq!(told(name), expected, "{name}");
        }
    }
}
