//! The user that a command in a container runs as.

use std::fmt::{self, Display, Formatter};

/// The user and the group that a command runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world::sandbox) struct ContainerUser {
    /// The user id.
    pub(in crate::world::sandbox) uid: u32,
    /// The group id.
    pub(in crate::world::sandbox) gid: u32,
}

impl ContainerUser {
    /// The root user.
    pub(in crate::world::sandbox) const ROOT: Self = Self { uid: 0, gid: 0 };
    /// The user that owns what commands may not change. No command runs as that user.
    pub(in crate::world::sandbox) const KEEPER: Self = Self {
        uid: 65_533,
        gid: 65_533,
    };
    /// An ordinary user.
    pub(in crate::world::sandbox) const ORDINARY: Self = Self {
        uid: 1000,
        gid: 1000,
    };

    /// Returns the user; an ordinary one instead of root and of users in the group of root.
    pub(in crate::world::sandbox) fn unless_root(self) -> Self {
        if self.uid == Self::ROOT.uid || self.gid == Self::ROOT.gid {
            Self::ORDINARY
        } else {
            self
        }
    }
}

impl Display for ContainerUser {
    /// Writes it as the engine reads it: `UID:GID`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_on_another_machine_are_never_run_by_root() {
        for (uid, gid, expected) in [
            (0, 0, 1000),
            (0, 100, 1000),
            (1001, 0, 1000),
            (1001, 100, 1001),
        ] {
            assert_eq!(ContainerUser { uid, gid }.unless_root().uid, expected);
        }
    }
}
