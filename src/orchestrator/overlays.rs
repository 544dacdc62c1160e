//! Creates the overlays of a run, outside the user's trees: one for each attempt, final phase and
//! check.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use crate::answer_changes::ChangeLayers;
use crate::error::{Error, ErrorKind, Result};
use crate::id::AgentNumber;
use crate::layout::RunLayout;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Grant;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::git::GitProgram;
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::io::run_blocking;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::quota::LayerQuota;
use crate::world::sandbox::overlay::setup::{SetupLayers, SetupUse};
use crate::world::sandbox::overlay::{
    self, LayerOrigin, OverlayAudience, OverlayCleanup, OverlayMethod, OverlayOrigin, OverlaySpec,
    WriteOverlay,
};
use crate::world::store::sandboxes::SandboxDirs;
use crate::world::store::workspace::make_new;

/// If an overlay takes longer than this to open, a note says so.
const SLOW_MIN: Duration = Duration::from_secs(1);

/// Prefixes of overlay directory names; a number follows.
const FINAL_PREFIX: &str = "stage";
const CHECK_PREFIX: &str = "check";
const VIEW_PREFIX: &str = "view";
const ATTEMPT_PREFIX: &str = "attempt";
/// Prefix of the names of the directories of answers; the number of restarts follows.
const ANSWERS_PREFIX: &str = "answers";

/// Purpose of an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayPurpose {
    /// The final phase after this number of restarts.
    Final(u32),
    /// A check; its changes are discarded.
    Check(usize),
    /// What hooks see of the delivery after this number of restarts.
    View(u32),
    /// The attempt of an agent after this many restarts.
    Attempt(u32, AgentNumber),
}

impl OverlayPurpose {
    /// Returns who makes the changes, for notes.
    fn author(self) -> &'static str {
        match self {
            OverlayPurpose::Attempt(..) => "each agent",
            OverlayPurpose::Final(_) | OverlayPurpose::Check(_) | OverlayPurpose::View(_) => {
                "the final agent"
            }
        }
    }
}

/// Undelivered changes in a run's deliveries that can still be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingDelivery {
    /// There are none.
    Nothing,
    /// There are some.
    Undelivered,
}

/// Creates all overlays of a run.
#[derive(Clone, Debug)]
pub struct OverlayFactory {
    executable: AbsPath,
    directory: AbsPath,
    state: AbsPath,
    /// The most attempts at the same time.
    attempts_max: u64,
    setup: Option<Arc<TreeSetup>>,
    git: Arc<GitSearch>,
}

/// The search for git, which happens once and only if an answer has changes.
#[derive(Debug, Default)]
struct GitSearch {
    env: BTreeMap<String, String>,
    program: OnceCell<Option<GitProgram>>,
}

impl OverlayFactory {
    /// Creates the factory for the run of this name and layout, with `attempts_max` attempts at the
    /// same time; `executable` is massgen itself, and git is found through `env`.
    pub fn new(
        layout: &RunLayout,
        run: &str,
        attempts_max: usize,
        executable: &AbsPath,
        env: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            executable: executable.clone(),
            directory: layout.deliveries.join(run),
            state: layout.state.clone(),
            attempts_max: u64::try_from(attempts_max).unwrap_or(u64::MAX),
            setup: None,
            git: Arc::new(GitSearch {
                env: env.clone(),
                program: OnceCell::new(),
            }),
        }
    }

    /// Returns the factory of a run with this setup command; what it leaves is kept in `directory`
    /// until the run ends.
    #[must_use]
    pub fn with_setup(self, line: &str, directory: AbsPath) -> Self {
        let setup = TreeSetup::new(line.to_owned(), directory, self.state.clone());
        Self {
            setup: Some(Arc::new(setup)),
            ..self
        }
    }

    /// Returns the setup command of the run, if there is one.
    pub(super) fn setup(&self) -> Option<&Arc<TreeSetup>> {
        self.setup.as_ref()
    }

    /// Returns the git program of this machine, if there is one that can be used.
    pub async fn git(&self) -> Option<&GitProgram> {
        let find = || async { GitProgram::find(&self.git.env).await.ok() };
        self.git.program.get_or_init(find).await.as_ref()
    }

    /// Returns the directory of the answers after `restart` restarts.
    pub fn answers_directory(&self, restart: u32) -> AbsPath {
        self.directory.join(format!("{ANSWERS_PREFIX}{restart}"))
    }

    /// Removes overlays that are no longer needed: everything if all was delivered, and in any case
    /// what only running processes needed.
    pub fn clear(&self, pending: PendingDelivery) -> Result<()> {
        let cleanup = match pending {
            PendingDelivery::Nothing => OverlayCleanup::All,
            PendingDelivery::Undelivered => OverlayCleanup::WorkDirectories,
        };
        overlay::clear_overlays(&self.directory, FINAL_PREFIX, cleanup)?;
        for prefix in [ATTEMPT_PREFIX, CHECK_PREFIX, VIEW_PREFIX] {
            overlay::clear_overlays(&self.directory, prefix, OverlayCleanup::All)?;
        }
        Ok(())
    }

    /// Removes the overlay for `purpose`, which nothing uses any more.
    pub fn remove(&self, purpose: OverlayPurpose) -> Result<()> {
        overlay::remove_layers(&self.overlay_directory(purpose))
    }

    /// Opens the overlay for `purpose`, for an agent with these grants and commands, and returns
    /// notes for the user. It begins with `changes`. With the sandbox off there is none:
    /// commands write to the user's paths, and so do the file tools, or they would not see each
    /// other's files.
    pub async fn open(
        &self,
        purpose: OverlayPurpose,
        grants: &[Grant],
        commands: Option<&ExecEnvironment>,
        changes: &ChangeLayers,
    ) -> Result<(Option<WriteOverlay>, Vec<String>)> {
        if commands.map(ExecEnvironment::sandbox_level) == Some(SandboxLevel::Off) {
            return Ok((None, Vec::new()));
        }
        let command_audience = commands.map(ExecEnvironment::overlay_audience);
        let audience = command_audience.unwrap_or(OverlayAudience::Sandbox);
        let has_commands = commands.is_some();
        let (environment, factory) = (commands.cloned(), self.clone());
        let all_grants = grants.to_vec();
        let directory = self.overlay_directory(purpose);
        let start = Instant::now();
        let open_overlay = move || {
            let (layers, is_limited) = match purpose {
                OverlayPurpose::Attempt(..) => (factory.attempts_max, true),
                OverlayPurpose::Final(_) => (1, true),
                OverlayPurpose::Check(_) | OverlayPurpose::View(_) => (1, false),
            };
            let quota = is_limited.then(|| LayerQuota::share_of(&factory.state, layers));
            let origin = environment.as_ref().map(ExecEnvironment::overlay_origin);
            let home = environment.as_ref().map(ExecEnvironment::home);
            let setup = factory.setup();
            WriteOverlay::open(OverlaySpec {
                origin: origin.unwrap_or(OverlayOrigin::Executable(&factory.executable)),
                directory: &directory,
                grants: &all_grants,
                state: &factory.state,
                audience,
                copies: layers,
                quota: quota.transpose()?,
                setup: setup.map_or(SetupUse::None, |setup| setup.overlay_use(home.as_ref())),
            })
        };
        let overlay = run_blocking(open_overlay).await?;
        if let Some(overlay) = &overlay {
            if let Some(environment) = commands {
                self.set_up_copies(overlay, grants, environment).await?;
            }
            let (overlay, changes) = (overlay.clone(), changes.clone());
            run_blocking(move || overlay.apply(&changes)).await?;
        }
        let is_slow = start.elapsed() > SLOW_MIN;
        let mut notes = Vec::new();
        if let Some(overlay) = &overlay
            && (has_commands || is_slow)
        {
            notes = overlay.notes(audience, purpose.author());
        }
        if is_slow {
            let seconds = start.elapsed().as_secs_f64();
            notes.push(format!(
                "preparing the write paths took {seconds:.1} seconds"
            ));
        }
        Ok((overlay, notes))
    }

    /// Opens the layer of the attempt of `agent` after `restart` restarts. If an earlier process of
    /// the run has worked on it, its changes are still there, unless they are lost: after a restart
    /// of the machine, and where a copy takes the place of a layer. An attempt that fails to begin
    /// leaves nothing.
    pub async fn open_attempt(
        &self,
        (restart, agent): (u32, AgentNumber),
        grants: &[Grant],
        commands: Option<&ExecEnvironment>,
    ) -> Result<(Option<WriteOverlay>, Vec<String>, LayerOrigin)> {
        let purpose = OverlayPurpose::Attempt(restart, agent);
        let directory = self.overlay_directory(purpose);
        let claimed_directory = directory.clone();
        let claim = move || overlay::claim_layers(&claimed_directory);
        let origin = run_blocking(claim).await?;
        let opened = self
            .open(purpose, grants, commands, &ChangeLayers::default())
            .await;
        if opened.is_err() {
            let _removed = run_blocking(move || overlay::remove_layers(&directory)).await;
        }
        let (overlay, notes) = opened?;
        let has_copy = overlay.as_ref().is_some_and(|overlay| {
            let mut trees = overlay.trees();
            trees.any(|tree| tree.kind == OverlayMethod::Copy)
        });
        let origin = match origin {
            LayerOrigin::Earlier if has_copy => LayerOrigin::Lost,
            LayerOrigin::New | LayerOrigin::Earlier | LayerOrigin::Lost => origin,
        };
        Ok((overlay, notes, origin))
    }

    /// Creates an empty directory in place of an overlay.
    pub fn create_directory(&self, purpose: OverlayPurpose) -> Result<RealPath> {
        let path = self.overlay_directory(purpose);
        make_new(&path)?;
        locate(&path).map(LocatedPath::into_real)
    }

    fn overlay_directory(&self, purpose: OverlayPurpose) -> AbsPath {
        self.directory.join(match purpose {
            OverlayPurpose::Final(restart) => format!("{FINAL_PREFIX}{restart}"),
            OverlayPurpose::Check(number) => format!("{CHECK_PREFIX}{number}"),
            OverlayPurpose::View(restart) => format!("{VIEW_PREFIX}{restart}"),
            OverlayPurpose::Attempt(restart, agent) => {
                format!("{ATTEMPT_PREFIX}{restart}-{agent}")
            }
        })
    }
}

/// The directory for the home of the command, and that for its overlay.
const PRIVATE_DIRECTORY: &str = "private";

const OVERLAY_DIRECTORY: &str = "overlay";

/// The setup command of a run.
#[derive(Debug)]
pub(super) struct TreeSetup {
    pub(super) line: String,
    /// Where directories for what it leaves are created. The kernel accepts no layer inside the tree
    /// that it lies on, so it is apart from the state directory, which may be in there.
    parent: AbsPath,
    /// massgen's state directory.
    state: AbsPath,
    /// What it has left, once it has run; `None` if nothing can lie below an overlay. It is removed
    /// with this.
    pub(super) left: OnceLock<Option<(SetupLayers, SandboxDirs)>>,
}

impl TreeSetup {
    /// Creates the setup with this command line, which has not run.
    pub(super) fn new(line: String, parent: AbsPath, state: AbsPath) -> Self {
        Self {
            line,
            parent,
            state,
            left: OnceLock::new(),
        }
    }

    /// Returns what an overlay has to do with it, whose commands have this home directory.
    pub(super) fn overlay_use<'a>(&'a self, home: Option<&'a AbsPath>) -> SetupUse<'a> {
        match self.left.get() {
            Some(Some((layers, _))) => SetupUse::Below(layers, home),
            Some(None) => SetupUse::RunsInCopy,
            // The run was stopped before.
            None => SetupUse::None,
        }
    }

    /// Creates the directories for the command and an overlay in `environment`, on which it sees the
    /// trees that `grants` open for writing.
    pub(super) fn prepare(
        &self,
        grants: &[Grant],
        environment: &ExecEnvironment,
    ) -> Result<(SandboxDirs, ExecEnvironment, WriteOverlay)> {
        if environment.sandbox_level() == SandboxLevel::Off {
            return Err(setup_error(
                "it would change your own files, because the sandbox is off",
            ));
        }
        let directories = SandboxDirs::make(&self.parent)?;
        let directory = directories.setup()?;
        let environment = environment.for_setup(Some(&directory.join(PRIVATE_DIRECTORY)))?;
        let overlay = WriteOverlay::open(OverlaySpec {
            origin: environment.overlay_origin(),
            directory: &directory.join(OVERLAY_DIRECTORY),
            grants,
            state: &self.state,
            audience: environment.overlay_audience(),
            copies: 1,
            quota: None,
            setup: SetupUse::Runs,
        })?;
        let overlay = overlay.filter(WriteOverlay::is_fully_visible);
        let overlay = overlay.ok_or_else(|| setup_error("commands see no private layer here"))?;
        Ok((directories, environment, overlay))
    }
}

pub(super) fn setup_error(reason: &str) -> Error {
    let message = format!("the setup command cannot run: {reason}");
    Error::new(ErrorKind::Environment, message)
}
