//! The directories of an agent, as grants of a run open them, and `true` in them: in the sandbox of
//! a level, by `bwrap`, and as it is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use massgen::path::{AbsPath, RealPath};
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::sandbox_policy::NetworkAccess;
use massgen::sandbox_policy::ResourceLimits;
use massgen::sandbox_policy::compile::{CommandContext, WriteTarget, compile};
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use massgen::sandbox_policy::{FileIdentity, OverlayLayer, SandboxPolicy};
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::{CommandWaitLimits, ExitReason, Sandbox};
use rustix::fs::{major, minor};
use tempfile::TempDir;

const TRUE: &str = "/usr/bin/true";
const PATH: &str = "/usr/bin:/bin";
/// What is kept of each output of a command, in bytes.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
const TIME_MAX: Duration = Duration::from_mins(1);

/// A workspace, a directory to read, one to deliver into, and what commands have for themselves.
pub(crate) struct Room {
    dir: TempDir,
}

impl Room {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ws", "read", "project/.git", "home", "tmp", "state"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> AbsPath {
        AbsPath::new(self.dir.path().canonicalize().unwrap().join(name)).unwrap()
    }

    /// What an agent that delivers may do.
    pub(crate) fn manager(&self) -> PathPermissionManager {
        let grant = |name: &str, kind, permission| {
            let root = RealPath::vouch(self.path(name).as_path());
            Grant::tree(root, kind, permission)
        };
        let grants = vec![
            grant("ws", GrantKind::Workspace, Permission::Write),
            grant("read", GrantKind::Context, Permission::Read),
            grant("project", GrantKind::Context, Permission::Write),
        ];
        PathPermissionManager::new(grants, Phase::Final)
    }

    /// The sandbox of a level, if this machine has it.
    pub(crate) fn sandbox(&self, level: SandboxLevel) -> Option<Sandbox> {
        let executable = AbsPath::new(env!("CARGO_BIN_EXE_massgen")).unwrap();
        Sandbox::open(
            SandboxLevelChoice::Only(level),
            &executable,
            &self.path("state"),
        )
        .ok()
    }

    /// What `true` is held to in a level. Commands that run at the same time have layers of their own.
    pub(crate) fn policy(&self, level: SandboxLevel, number: usize) -> SandboxPolicy {
        let layer = self.path(&format!("layer_{number}"));
        let layer = OverlayLayer {
            root: self.path("project"),
            upper: layer.join("upper"),
            work: layer.join("work"),
            between: None,
        };
        for path in [&layer.upper, &layer.work] {
            fs::create_dir_all(path.as_path()).unwrap();
        }
        let env = [
            ("HOME", self.path("home").to_string()),
            ("PATH", PATH.to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value));
        let facts = CommandContext {
            dir: self.path("ws"),
            home: self.path("home"),
            scratch: self.path("tmp"),
            toolchains: Vec::new(),
            env: BTreeMap::from(env),
            limits: ResourceLimits::default(),
            network: NetworkAccess::None,
            write_target: WriteTarget::Layers(vec![layer]),
            masked: vec![self.path("project/.git")],
            hidden: Vec::new(),
            identities: ["ws", "read", "project"]
                .map(|name| self.identity(name))
                .into(),
            program: vec![TRUE.to_owned()],
        };
        compile(&self.manager(), level, facts).unwrap()
    }

    fn identity(&self, name: &str) -> (AbsPath, FileIdentity) {
        let path = self.path(name);
        let found = fs::metadata(path.as_path()).unwrap();
        let device = (u64::from(major(found.dev())) << 32) | u64::from(minor(found.dev()));
        let inode = found.ino();
        (path, FileIdentity { device, inode })
    }

    /// `true` as it is.
    pub(crate) fn plain(&self) {
        self.expect_well(Command::new(TRUE));
    }

    /// `true` by `bwrap`, with the same namespaces and a root of its own that shows the same.
    pub(crate) fn bwrap(&self) {
        let path = |name: &str| self.path(name).to_string();
        let mut words: Vec<String> = "bwrap --ro-bind /usr /usr --ro-bind /etc /etc \
            --ro-bind /opt /opt --symlink usr/bin /bin --symlink usr/sbin /sbin \
            --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
            --dev /dev --proc /proc --tmpfs /tmp \
            --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts \
            --die-with-parent --new-session"
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        for (option, name) in [
            ("--bind", "ws"),
            ("--ro-bind", "read"),
            ("--bind", "project"),
            ("--ro-bind", "project/.git"),
            ("--bind", "home"),
        ] {
            words.extend([option.to_owned(), path(name), path(name)]);
        }
        words.extend(["--chdir".to_owned(), path("ws"), "--".to_owned()]);
        let mut command = Command::new("/usr/bin/bwrap");
        command.args(&words[1..]).arg(TRUE);
        self.expect_well(command);
    }

    /// Writes the grants of a single call: what an agent that delivers may do.
    pub(crate) fn write_grants(&self) {
        let grants = serde_json::json!({
            "workspace": self.path("ws"),
            "context_paths": [
                {"path": self.path("read"), "permission": "read"},
                {"path": self.path("project"), "permission": "write"},
            ],
        });
        fs::write(self.path("grants.json").as_path(), grants.to_string()).unwrap();
    }

    /// Runs a single call of massgen's (the first words, and what comes behind its grants) with these
    /// grants and the temporary directory `temporary`.
    pub(crate) fn single_call(&self, (call, rest): (&[&str], &[&str]), temporary: &str) {
        let grants = self.path("grants.json").to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_massgen"));
        command.args(call);
        command.args(["--phase", "final", "--grants", &grants]);
        command.args(rest);
        self.expect_well_in(command, temporary);
    }

    fn expect_well(&self, command: Command) {
        self.expect_well_in(command, "tmp");
    }

    /// Runs a command as `execute_command` does: its output is read.
    fn expect_well_in(&self, mut command: Command, temporary: &str) {
        let output = command
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.path("home").as_path())
            .env("TMPDIR", self.path(temporary).as_path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// Whether this machine has `bwrap`.
pub(crate) fn has_bwrap() -> bool {
    Path::new("/usr/bin/bwrap").exists()
}

/// Runs a command that is to end well.
pub(crate) fn run(sandbox: &Sandbox, policy: &SandboxPolicy, interrupt: &CommandInterrupt) {
    let finished = sandbox.run(policy, wait(interrupt)).unwrap();
    assert_eq!(finished.exit_reason, ExitReason::Exited(0));
}

/// As `execute_command` waits for a command.
pub(crate) fn wait(interrupt: &CommandInterrupt) -> CommandWaitLimits<'_> {
    CommandWaitLimits {
        time_max: TIME_MAX,
        output_bytes_max: OUTPUT_BYTES_MAX,
        interrupt: Some(interrupt),
        network: None,
    }
}
