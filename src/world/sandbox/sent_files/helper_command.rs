//! The helper commands in a container that massgen runs to list, pack and remove files there.

use std::iter::once;

use crate::world::sandbox::container_user::ContainerUser;

/// Script that removes files.
const REMOVAL: &str = include_str!("removal.sh");
/// Script that checks which files exist.
const PRESENCE: &str = include_str!("presence.sh");
/// Script that lists trees.
const LISTING: &str = include_str!("listing.sh");
/// Script that finds directories in which a user may move what belongs to others.
const MOVABLE: &str = include_str!("movable.sh");
/// Script that sets the permission bits of files: pairs of bits and a path.
const SET_BITS: &str = "while [ $# -gt 1 ]; do chmod \"$1\" \"$2\" || exit 1; shift 2; done";
/// Script that packs files.
const PACKING: &str = "cd \"$1\" || exit 1; shift; exec tar -cf - -- \"$@\"";

/// A command that handles files in a container.
#[derive(Clone, Debug)]
pub(in crate::world::sandbox) struct HelperCommand {
    /// The user that it runs as.
    pub(in crate::world::sandbox) user: ContainerUser,
    /// The program and its arguments.
    pub(in crate::world::sandbox) program: Vec<String>,
}

impl HelperCommand {
    /// Creates a command that lists everything below these paths.
    pub(super) fn list(user: ContainerUser, paths: impl Iterator<Item = String>) -> Self {
        Self::from_script(user, LISTING, paths)
    }

    /// Creates a command that writes an archive of `names`, which are relative to `dir`.
    pub(super) fn pack(
        user: ContainerUser,
        dir: String,
        names: impl Iterator<Item = String>,
    ) -> Self {
        Self::from_script(user, PACKING, once(dir).chain(names))
    }

    /// Creates a command that removes what these paths name; it fails if anything but an empty
    /// directory is left.
    pub(super) fn remove(user: ContainerUser, paths: impl Iterator<Item = String>) -> Self {
        Self::from_script(user, REMOVAL, paths)
    }

    /// Creates a command that sets permission bits, which fails if it cannot.
    pub(super) fn set_bits(user: ContainerUser, bits: &[(u32, String)]) -> Self {
        let pairs = bits.iter();
        let arguments = pairs.flat_map(|(bits, path)| [format!("{bits:o}"), path.clone()]);
        Self::from_script(user, SET_BITS, arguments)
    }

    /// Creates a command that prints for each of these paths whether it exists.
    pub(super) fn check_presence(user: ContainerUser, paths: impl Iterator<Item = String>) -> Self {
        Self::from_script(user, PRESENCE, paths)
    }

    /// Creates a command that prints the first directory above these paths in which its user may
    /// rename what belongs to others.
    pub(super) fn find_movable(user: ContainerUser, paths: impl Iterator<Item = String>) -> Self {
        Self::from_script(user, MOVABLE, paths)
    }

    fn from_script(
        user: ContainerUser,
        text: &str,
        arguments: impl Iterator<Item = String>,
    ) -> Self {
        Self {
            user,
            program: shell_script(text, arguments),
        }
    }
}

/// Returns the arguments of a shell that runs `text` with these arguments.
pub(in crate::world::sandbox) fn shell_script(
    text: &str,
    arguments: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let shell = ["/bin/sh", "-c", text, "massgen"].map(str::to_owned);
    shell.into_iter().chain(arguments).collect()
}
