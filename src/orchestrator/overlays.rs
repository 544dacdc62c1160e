//! Creates the overlays of a run, outside the user's trees: one per final phase and one per check.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::layout::RunLayout;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Grant;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::{
    self, OverlayAudience, OverlayCleanup, OverlayOrigin, OverlaySpec, WriteOverlay,
};
use crate::world::store::workspace::make_new;

/// If an overlay takes longer than this to open, a note says so.
const SLOW_MIN: Duration = Duration::from_secs(1);

/// Prefixes of overlay directory names; a number follows.
const FINAL_PREFIX: &str = "stage";
const CHECK_PREFIX: &str = "check";

/// Purpose of an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayPurpose {
    /// The final phase of this attempt.
    Final(u32),
    /// A check; its changes are discarded.
    Check(usize),
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
}

impl OverlayFactory {
    /// Creates the factory for the run of this name and layout; `executable` is massgen itself.
    pub fn new(layout: &RunLayout, run: &str, executable: &AbsPath) -> Self {
        Self {
            executable: executable.clone(),
            directory: layout.deliveries.join(run),
            state: layout.state.clone(),
        }
    }

    /// Removes overlays that are no longer needed: everything if all was delivered, and in any case
    /// what only running processes needed.
    pub fn clear(&self, pending: PendingDelivery) -> Result<()> {
        let cleanup = match pending {
            PendingDelivery::Nothing => OverlayCleanup::All,
            PendingDelivery::Undelivered => OverlayCleanup::WorkDirectories,
        };
        overlay::clear_overlays(&self.directory, FINAL_PREFIX, cleanup)?;
        self.clear_checks()
    }

    /// Removes the overlays of checks; none of them runs any more.
    pub fn clear_checks(&self) -> Result<()> {
        overlay::clear_overlays(&self.directory, CHECK_PREFIX, OverlayCleanup::All)
    }

    /// Opens the overlay for `purpose`, for an agent with these grants and commands, and returns
    /// notes for the user. With the sandbox off there is none: commands write to the user's paths,
    /// and so do the file tools, or they would not see each other's files.
    pub async fn open(
        &self,
        purpose: OverlayPurpose,
        grants: &[Grant],
        commands: Option<&ExecEnvironment>,
    ) -> Result<(Option<WriteOverlay>, Vec<String>)> {
        if commands.map(ExecEnvironment::sandbox_level) == Some(SandboxLevel::Off) {
            return Ok((None, Vec::new()));
        }
        let command_audience = commands.map(ExecEnvironment::overlay_audience);
        let audience = command_audience.unwrap_or(OverlayAudience::Sandbox);
        let has_commands = commands.is_some();
        let commands = commands.cloned();
        let factory = self.clone();
        let grants = grants.to_vec();
        let directory = self.overlay_directory(purpose);
        let start = Instant::now();
        let open_overlay = move || {
            let origin = commands.as_ref().map(ExecEnvironment::overlay_origin);
            WriteOverlay::open(OverlaySpec {
                origin: origin.unwrap_or(OverlayOrigin::Executable(&factory.executable)),
                directory: &directory,
                grants: &grants,
                state: &factory.state,
                audience,
            })
        };
        let open_result = tokio::task::spawn_blocking(open_overlay).await;
        let overlay = open_result.map_err(|_| Error::bug("cannot open the overlay"))??;
        let is_slow = start.elapsed() > SLOW_MIN;
        let mut notes = Vec::new();
        if let Some(overlay) = &overlay
            && (has_commands || is_slow)
        {
            notes = overlay.notes(audience);
        }
        if is_slow {
            let seconds = start.elapsed().as_secs_f64();
            notes.push(format!(
                "preparing the write paths took {seconds:.1} seconds"
            ));
        }
        Ok((overlay, notes))
    }

    /// Creates an empty directory in place of an overlay.
    pub fn create_directory(&self, purpose: OverlayPurpose) -> Result<RealPath> {
        let path = self.overlay_directory(purpose);
        make_new(&path)?;
        locate(&path).map(LocatedPath::into_real)
    }

    fn overlay_directory(&self, purpose: OverlayPurpose) -> AbsPath {
        self.directory.join(match purpose {
            OverlayPurpose::Final(attempt) => format!("{FINAL_PREFIX}{attempt}"),
            OverlayPurpose::Check(number) => format!("{CHECK_PREFIX}{number}"),
        })
    }
}
