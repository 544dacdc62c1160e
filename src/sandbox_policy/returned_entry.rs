//! Rules about what an engine on another machine sends back after a command. None of it is trusted:
//! it can only propose changes, and each is checked here against the policy of the command. Nothing
//! here touches the machine.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::sandbox_policy::AccessiblePath;
use crate::sandbox_policy::compile::deepest_accessible;

/// The longest name in a directory, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 4095;
/// How many directories deep an entry may be below the directory that was asked for.
const DEPTH_MAX: usize = 128;

/// Why an entry or a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnRefusal {
    /// Its name leads out of the directory that was asked for.
    LeadsOutside,
    /// Its name is not made of plain names.
    MalformedName,
    /// A name or path is too long or too deep.
    OverlongName,
    /// Commands may not write there.
    ReadOnly,
    /// Commands do not see what is there.
    Hidden,
}

impl fmt::Display for ReturnRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReturnRefusal::LeadsOutside => "its name leads out of the directory",
            ReturnRefusal::MalformedName => "its name is malformed",
            ReturnRefusal::OverlongName => "its name is too long",
            ReturnRefusal::ReadOnly => "it is read-only for commands",
            ReturnRefusal::Hidden => "it is hidden from commands",
        })
    }
}

/// The policy of a command, as far as it decides about changes.
#[derive(Clone, Copy, Debug)]
pub struct ReturnRules<'a> {
    /// The accessible paths. The deepest one that covers a path applies.
    pub open: &'a [AccessiblePath],
    /// Paths inside writable ones that stay read-only, except for accessible paths inside them.
    pub masked: &'a [AbsPath],
    /// Paths inside accessible ones that are hidden, except for accessible paths inside them.
    pub hidden: &'a [AbsPath],
}

impl ReturnRules<'_> {
    /// Decides whether a command may have created, changed or deleted what is at `path`.
    ///
    /// # Errors
    /// The change is refused.
    pub fn check_change(&self, path: &AbsPath) -> Result<(), ReturnRefusal> {
        let open_path = deepest_accessible(path, self.open).ok_or(ReturnRefusal::ReadOnly)?;
        // An accessible path inside a masked or hidden one is exempt from it.
        let applies =
            |exception: &AbsPath| path.is_within(exception) && exception.is_within(&open_path.path);
        if self.hidden.iter().any(applies) {
            return Err(ReturnRefusal::Hidden);
        }
        if open_path.permission == Permission::Read || self.masked.iter().any(applies) {
            return Err(ReturnRefusal::ReadOnly);
        }
        Ok(())
    }
}

/// Returns the path of an entry in an archive of `root`, whose entries are named after the last
/// name of `root`: `ws/` and `ws/src/main.rs` in an archive of `/home/u/ws`.
///
/// # Errors
/// The name is not one that an archive of `root` can contain.
pub fn returned_path(root: &AbsPath, name: &[u8]) -> Result<AbsPath, ReturnRefusal> {
    if name.starts_with(b"/") {
        return Err(ReturnRefusal::LeadsOutside);
    }
    let name = name.strip_suffix(b"/").unwrap_or(name);
    let mut parts = name.split(|byte| *byte == b'/');
    let first_part = parts.next().map(OsStr::from_bytes);
    if first_part.is_none() || first_part != root.as_path().file_name() {
        return Err(ReturnRefusal::LeadsOutside);
    }
    let mut path = root.as_path().to_owned();
    for (depth, part) in parts.enumerate() {
        match part {
            b".." => return Err(ReturnRefusal::LeadsOutside),
            b"" | b"." => return Err(ReturnRefusal::MalformedName),
            part if part.contains(&0) => return Err(ReturnRefusal::MalformedName),
            part if part.len() > NAME_BYTES_MAX || depth >= DEPTH_MAX => {
                return Err(ReturnRefusal::OverlongName);
            }
            part => path.push(OsStr::from_bytes(part)),
        }
    }
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(ReturnRefusal::OverlongName);
    }
    AbsPath::new(path).ok_or(ReturnRefusal::MalformedName)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::permissions::grant::GrantScope;

    fn abs(path: &str) -> AbsPath {
        AbsPath::new(path).unwrap()
    }

    fn accessible_path(path: &str, permission: Permission, scope: GrantScope) -> AccessiblePath {
        AccessiblePath {
            path: abs(path),
            permission,
            scope,
        }
    }

    /// Checks what is decided about a change at `path`. The policy opens a readable project with a
    /// workspace, and a writable file and tree in it.
    #[track_caller]
    fn check(path: &str, expected: Result<(), ReturnRefusal>) {
        let open = [
            accessible_path("/p", Permission::Read, GrantScope::Tree),
            accessible_path("/p/.massgen/ws", Permission::Write, GrantScope::Tree),
            accessible_path("/p/out", Permission::Write, GrantScope::Tree),
            accessible_path("/p/out/lib/.git/open", Permission::Write, GrantScope::Tree),
            accessible_path("/p/one.txt", Permission::Write, GrantScope::File),
        ];
        let masked = [abs("/p/out/lib/.git")];
        let hidden = [abs("/p/.massgen"), abs("/p/out/.env")];
        let rules = ReturnRules {
            open: &open,
            masked: &masked,
            hidden: &hidden,
        };
        assert_eq!(rules.check_change(&abs(path)), expected, "{path}");
    }

    #[test]
    fn only_what_a_command_may_write_can_change() {
        let denied = |path| check(path, Err(ReturnRefusal::ReadOnly));
        let hidden = |path| check(path, Err(ReturnRefusal::Hidden));
        for path in [
            "/p/.massgen/ws/a",
            "/p/.massgen/ws/.env",
            "/p/out/a",
            "/p/out/.envrc",
            "/p/out/lib/.gitignore",
            "/p/out/lib/.git/open/x",
            "/p/one.txt",
        ] {
            check(path, Ok(()));
        }
        for path in [
            "/p/a",
            "/p/one.txt/a",
            "/etc/passwd",
            "/",
            "/pp/out",
            "/p/outer",
        ] {
            denied(path);
        }
        denied("/p/out/lib/.git");
        denied("/p/out/lib/.git/config");
        hidden("/p/.massgen/config.yaml");
        hidden("/p/.massgen");
        hidden("/p/out/.env");
        hidden("/p/out/.env/deep");
    }

    #[test]
    fn names_stay_below_the_directory_that_was_asked_for() {
        let root = abs("/p/ws");
        let check_name = |name: &[u8], expected: Result<&str, ReturnRefusal>| {
            let path = returned_path(&root, name);
            let expected = expected.map(abs);
            assert_eq!(path, expected, "{}", String::from_utf8_lossy(name));
        };
        check_name(b"ws", Ok("/p/ws"));
        check_name(b"ws/", Ok("/p/ws"));
        check_name(b"ws/a/b", Ok("/p/ws/a/b"));
        check_name(b"ws/a\nb", Ok("/p/ws/a\nb"));
        for name in [
            b"".as_slice(),
            b"/",
            b"/p/ws/a",
            b"/ws/a",
            b"other/a",
            b"wsx",
            b"..",
            b"../ws/a",
            b"./ws/a",
            b"ws/../a",
            b"ws/a/..",
            b"ws/a/../../../etc/passwd",
        ] {
            check_name(name, Err(ReturnRefusal::LeadsOutside));
        }
        for name in [
            b"ws//a".as_slice(),
            b"ws/./a",
            b"ws/a//",
            b"ws/a\0b",
            b"ws/.",
        ] {
            check_name(name, Err(ReturnRefusal::MalformedName));
        }
        let long_name = ["ws/", &"n".repeat(256)].concat();
        check_name(long_name.as_bytes(), Err(ReturnRefusal::OverlongName));
        let deep_name = ["ws", &"/d".repeat(129)].concat();
        check_name(deep_name.as_bytes(), Err(ReturnRefusal::OverlongName));
        let long_path = ["ws", &format!("/{}", "d".repeat(250)).repeat(17)].concat();
        check_name(long_path.as_bytes(), Err(ReturnRefusal::OverlongName));
    }

    proptest! {
        #[test]
        fn no_name_leads_out_of_the_directory(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(b"ws".to_vec()), Just(b"..".to_vec()), Just(b".".to_vec()),
                    Just(Vec::new()), Just(b"/".to_vec()), Just(b"\0".to_vec()),
                    prop::collection::vec(any::<u8>(), 0..4),
                ],
                0..8,
            )
        ) {
            let root = abs("/p/ws");
            let name = parts.join(b"/".as_slice());
            if let Ok(path) = returned_path(&root, &name) {
                prop_assert!(path.is_within(&root));
                let below = path.below(&root).unwrap();
                prop_assert!(below.names().all(|part| part != ".." && part != "."));
                let name = name.strip_suffix(b"/").unwrap_or(&name);
                prop_assert!(name == b"ws" || name.starts_with(b"ws/"));
            }
        }
    }
}
