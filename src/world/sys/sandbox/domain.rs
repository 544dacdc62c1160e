//! The Landlock domain of the program, made from the same accessible paths as the mounts. At level
//! `landlock` it is the only barrier to the disk, at the others the second one. It restricts the
//! thread that enters it and everything that thread starts, and cannot be left.
//! Rights that the kernel does not know are left out; [`LandlockDomain::enter`] reports whether
//! anything is enforced at all.

use std::os::fd::AsFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};

/// The newest ABI whose rights are requested; an older kernel enforces those that it knows.
const REQUESTED_ABI: ABI = ABI::V9;

/// What is allowed at a path and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathRights {
    /// List names.
    List,
    /// Read, list and execute.
    Read,
    /// Everything that files and directories allow. No device is created or controlled, and no Unix
    /// socket is reached that the program did not create itself.
    Write,
    /// Read, write and control devices.
    Device,
}

/// Which TCP ports can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpPorts {
    /// All that the network has.
    All,
    /// None, and none can be listened on.
    None,
    /// Only connections to this one.
    Only(u16),
}

/// A domain under construction.
#[derive(Debug)]
pub(crate) struct LandlockDomain(RulesetCreated);

impl LandlockDomain {
    /// Creates a domain that allows nothing but `ports`. Signals and abstract sockets cannot leave
    /// it.
    pub(crate) fn deny_all_except_ports(ports: TcpPorts) -> Result<Self, RulesetError> {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(REQUESTED_ABI))?
            .scope(Scope::from_all(REQUESTED_ABI))?;
        let rules = match ports {
            TcpPorts::All => rules.create()?,
            TcpPorts::None => rules
                .handle_access(AccessNet::from_all(REQUESTED_ABI))?
                .create()?,
            TcpPorts::Only(port) => rules
                .handle_access(AccessNet::BindTcp)?
                // A kernel without this right must fail here: otherwise all ports would be open.
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessNet::ConnectTcp)?
                .set_compatibility(CompatLevel::BestEffort)
                .create()?
                .add_rule(NetPort::new(port, AccessNet::ConnectTcp))?,
        };
        Ok(Self(rules))
    }

    /// Allows the directory behind `handle` and everything below it.
    pub(crate) fn allow_tree(
        &mut self,
        handle: impl AsFd,
        rights: PathRights,
    ) -> Result<(), RulesetError> {
        self.add_rule(handle, access_flags(rights))
    }

    /// Allows the file behind `handle`.
    pub(crate) fn allow_file(
        &mut self,
        handle: impl AsFd,
        rights: PathRights,
    ) -> Result<(), RulesetError> {
        self.add_rule(
            handle,
            access_flags(rights) & AccessFs::from_file(REQUESTED_ABI),
        )
    }

    fn add_rule(
        &mut self,
        handle: impl AsFd,
        rights: BitFlags<AccessFs>,
    ) -> Result<(), RulesetError> {
        if rights.is_empty() {
            return Ok(());
        }
        let rules = &mut self.0;
        rules.add_rule(PathBeneath::new(handle, rights)).map(drop)
    }

    /// Confines this thread permanently, and returns the kernel's ABI: none at all, or one that may
    /// lack rights. Also sets `no_new_privs`, without which the kernel confines only privileged
    /// threads.
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

/// Returns whether the kernel offers Landlock at all.
pub(crate) fn is_offered() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.handle_access(AccessFs::Execute);
    rules.and_then(Ruleset::create).is_ok()
}

fn access_flags(rights: PathRights) -> BitFlags<AccessFs> {
    match rights {
        PathRights::List => AccessFs::ReadDir.into(),
        PathRights::Read => AccessFs::from_read(REQUESTED_ABI),
        PathRights::Write => {
            let excluded_rights = AccessFs::MakeChar
                | AccessFs::MakeBlock
                | AccessFs::IoctlDev
                | AccessFs::ResolveUnix;
            AccessFs::from_all(REQUESTED_ABI) & !excluded_rights
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
