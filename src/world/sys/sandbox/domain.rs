//! Owns the Landlock domain of the program: a second wall, made from the same openings. It holds
//! the thread that enters it and all that this one starts, and cannot be left. What the kernel does
//! not know of it is left out; [`LandlockDomain::enter`] says whether anything is held at all.

use std::os::fd::AsFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};

/// The newest interface whose rights are asked for; an older kernel gives those that it knows.
const ABI_WANTED: ABI = ABI::V9;

/// What may be done at a path and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathRights {
    /// List names.
    List,
    /// Read, list and start programs.
    Read,
    /// All that files and directories are good for. No device is made or controlled, and no socket
    /// is reached that the program did not make itself.
    Write,
    /// Read, write and control devices.
    Device,
}

/// Which ports of TCP can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpPorts {
    /// All that the network has.
    All,
    /// None, and none can be listened on.
    None,
    /// Connections to this one.
    Only(u16),
}

/// A domain that is being put together.
#[derive(Debug)]
pub(crate) struct LandlockDomain(RulesetCreated);

impl LandlockDomain {
    /// One that opens nothing but `ports`. Signals and abstract sockets stay within it.
    pub(crate) fn deny_all_except_ports(ports: TcpPorts) -> Result<Self, RulesetError> {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(ABI_WANTED))?
            .scope(Scope::from_all(ABI_WANTED))?;
        let rules = match ports {
            TcpPorts::All => rules.create()?,
            TcpPorts::None => rules
                .handle_access(AccessNet::from_all(ABI_WANTED))?
                .create()?,
            TcpPorts::Only(port) => rules
                .handle_access(AccessNet::BindTcp)?
                // Without this right there would be no difference between this port and others.
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessNet::ConnectTcp)?
                .set_compatibility(CompatLevel::BestEffort)
                .create()?
                .add_rule(NetPort::new(port, AccessNet::ConnectTcp))?,
        };
        Ok(Self(rules))
    }

    /// Opens the directory `place` and all below it.
    pub(crate) fn open_tree(
        &mut self,
        place: impl AsFd,
        rights: PathRights,
    ) -> Result<(), RulesetError> {
        self.open(place, access_flags(rights))
    }

    /// Opens the file `place`.
    pub(crate) fn open_file(
        &mut self,
        place: impl AsFd,
        rights: PathRights,
    ) -> Result<(), RulesetError> {
        self.open(
            place,
            access_flags(rights) & AccessFs::from_file(ABI_WANTED),
        )
    }

    fn open(&mut self, place: impl AsFd, rights: BitFlags<AccessFs>) -> Result<(), RulesetError> {
        if rights.is_empty() {
            return Ok(());
        }
        let rules = &mut self.0;
        rules.add_rule(PathBeneath::new(place, rights)).map(drop)
    }

    /// Confines this thread for good, and says which interface the kernel has for it: none at all,
    /// or one that may lack rights. Nobody who has not given up new privileges may do it.
    pub(crate) fn enter(self) -> Result<ABI, RulesetError> {
        let status = self.0.restrict_self()?;
        match (status.landlock, status.ruleset) {
            (_, RulesetStatus::NotEnforced)
            | (LandlockStatus::NotEnabled | LandlockStatus::NotImplemented, _) => {
                Ok(ABI::Unsupported)
            }
            (LandlockStatus::Available { effective_abi, .. }, _) => Ok(effective_abi),
        }
    }
}

/// Whether the kernel offers it at all.
pub(crate) fn is_offered() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.handle_access(AccessFs::Execute);
    rules.and_then(Ruleset::create).is_ok()
}

fn access_flags(rights: PathRights) -> BitFlags<AccessFs> {
    match rights {
        PathRights::List => AccessFs::ReadDir.into(),
        PathRights::Read => AccessFs::from_read(ABI_WANTED),
        PathRights::Write => {
            let never = AccessFs::MakeChar
                | AccessFs::MakeBlock
                | AccessFs::IoctlDev
                | AccessFs::ResolveUnix;
            AccessFs::from_all(ABI_WANTED) & !never
        }
        PathRights::Device => {
            AccessFs::ReadFile
                | AccessFs::ReadDir
                | AccessFs::WriteFile
                | AccessFs::Truncate
                | AccessFs::IoctlDev
        }
    }
}
