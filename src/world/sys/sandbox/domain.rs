//! Owns the Landlock domain of the program: a second wall, made from the same openings. It holds
//! the thread that enters it and all that this one starts, and cannot be left. What the kernel does
//! not know of it is left out; [`Domain::enter`] says whether anything is held at all.

use std::os::fd::AsFd;

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// The newest interface whose rights are asked for; an older kernel gives those that it knows.
const ABI_WANTED: ABI = ABI::V9;

/// What may be done at a path and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Read, list and start programs.
    Read,
    /// All that files and directories are good for. No device is made or controlled, and no socket
    /// is reached that the program did not make itself.
    Write,
    /// Read, write and control devices.
    Device,
}

/// Whether the domain holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// At least by the rights that the kernel knows.
    Yes,
    /// The kernel has no Landlock.
    No,
}

/// A domain that is being put together.
#[derive(Debug)]
pub(crate) struct Domain(RulesetCreated);

impl Domain {
    /// One that opens nothing. Signals and abstract sockets stay within it.
    pub(crate) fn closed() -> Result<Self, RulesetError> {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(ABI_WANTED))?
            .scope(Scope::from_all(ABI_WANTED))?;
        Ok(Self(rules.create()?))
    }

    /// Opens the directory `place` and all below it.
    pub(crate) fn open_tree(self, place: impl AsFd, rights: Rights) -> Result<Self, RulesetError> {
        self.open(place, of(rights))
    }

    /// Opens the file `place`.
    pub(crate) fn open_file(self, place: impl AsFd, rights: Rights) -> Result<Self, RulesetError> {
        self.open(place, of(rights) & AccessFs::from_file(ABI_WANTED))
    }

    fn open(self, place: impl AsFd, rights: BitFlags<AccessFs>) -> Result<Self, RulesetError> {
        Ok(Self(self.0.add_rule(PathBeneath::new(place, rights))?))
    }

    /// Confines this thread for good. Nobody who has not given up new privileges may do it.
    pub(crate) fn enter(self) -> Result<Held, RulesetError> {
        let status = self.0.restrict_self()?.ruleset;
        Ok(match status {
            RulesetStatus::NotEnforced => Held::No,
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Held::Yes,
        })
    }
}

fn of(rights: Rights) -> BitFlags<AccessFs> {
    match rights {
        Rights::Read => AccessFs::from_read(ABI_WANTED),
        Rights::Write => {
            let never = AccessFs::MakeChar
                | AccessFs::MakeBlock
                | AccessFs::IoctlDev
                | AccessFs::ResolveUnix;
            AccessFs::from_all(ABI_WANTED) & !never
        }
        Rights::Device => {
            AccessFs::ReadFile
                | AccessFs::ReadDir
                | AccessFs::WriteFile
                | AccessFs::Truncate
                | AccessFs::IoctlDev
        }
    }
}
