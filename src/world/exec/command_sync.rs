//! Synchronizes the user's trees around a command. A command that may write to them runs on a
//! private overlay, and what it changed there is applied to the trees when it has ended. That holds
//! for runs and for single calls (`massgen tool`, `massgen sandbox`, `massgen mcp serve`), so that
//! no command writes to the trees, and nothing in them has to be searched or moved away afterwards.
//!
//! What differs between the sandbox levels has to stay, because not all have overlays:
//!
//! - `overlay` mounts an overlay, and so does `namespaces` where the kernel allows it. Otherwise
//!   `namespaces`, and containers always, get a copy of each tree, whose changes are recorded in
//!   the format of an overlay's layer.
//! - `landlock` has no mount namespace, so commands of single calls only read the trees there; those
//!   of a run find a copy at another path (`relocated_trees`). Nothing is applied.
//! - Without a sandbox (`off`) a command writes to the trees itself, and its changes are detected
//!   by [`TreeInventory`], which serves nothing else.

use std::collections::BTreeSet;

use crate::answer_changes::ChangeLayers;
use crate::error::Error;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::exec::command_changes::CommandChanges;
use crate::world::exec::commit::commit;
use crate::world::exec::inventory::{NAMES_AFTER_MAX, NAMES_BEFORE_MAX, TreeInventory, user_trees};
use crate::world::exec::tool_result::{ToolError, cannot_run};
use crate::world::sandbox::exec_environment::{ExecEnvironment, UserTreeState};
use crate::world::sandbox::overlay::setup::SetupUse;
use crate::world::sandbox::overlay::{OverlayAudience, OverlayMethod, OverlaySpec, WriteOverlay};
use crate::world::sys::state_files::clear;

/// The note for a command in a container that shares its overlay with another command.
const SHARED_OVERLAY: &str = "a background command is still running, so this one saw your write \
                              paths as they were when that began, with what commands have \
                              changed since";

/// What must be done when a command has ended.
#[derive(Debug)]
pub(super) enum PostCommandSync {
    /// It runs on an overlay, whose changes must be applied.
    Overlay(OverlayCommand),
    /// It writes to the user's trees directly; the inventory is their state before the command.
    Direct(Gate, TreeInventory),
}

/// A command that runs on an overlay.
#[derive(Debug)]
pub(super) struct OverlayCommand {
    overlay: WriteOverlay,
    /// The gate that sees what the command sees.
    gate: Gate,
    /// The directory of the overlay.
    directory: AbsPath,
    retention: OverlayRetention,
    audience: OverlayAudience,
    /// Whether another command uses the overlay too.
    is_shared: bool,
}

/// How long private changes, which are not applied, are kept on an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverlayRetention {
    /// The agent's next foreground command sees them.
    UntilAgentEnds,
    /// They are removed when the command ends.
    UntilCommandEnds,
}

/// Returns whether changes of commands in the user's trees must be applied or detected. That is not
/// so at sandbox level `landlock` and when the whole agent works on an overlay.
pub(super) fn writes_user_trees(gate: &Gate, commands: &ExecEnvironment) -> bool {
    let has_overlay = gate.overlay().is_some();
    commands.sandbox_level() != SandboxLevel::Landlock
        && !has_overlay
        && !user_trees(gate).is_empty()
}

impl PostCommandSync {
    /// Prepares for a command. The error says why the command may not be run.
    pub(super) fn open(
        gate: &Gate,
        commands: &ExecEnvironment,
        retention: OverlayRetention,
        trees: &mut UserTreeState,
    ) -> Result<Self, ToolError> {
        if commands.sandbox_level() == SandboxLevel::Off {
            let inventory = TreeInventory::scan(gate, NAMES_BEFORE_MAX);
            return Ok(Self::Direct(gate.clone(), inventory));
        }
        let audience = commands.overlay_audience();
        let directories = commands.directories();
        let directory = match (retention, audience) {
            (
                OverlayRetention::UntilCommandEnds,
                OverlayAudience::Sandbox | OverlayAudience::Landlock,
            ) => directories.new_overlay_directory(),
            (OverlayRetention::UntilAgentEnds, _) | (_, OverlayAudience::Container) => {
                let roots = user_trees(gate);
                directories
                    .overlay_directory(roots.iter().map(|root| root.real().clone()).collect())
            }
        };
        // A container shows one overlay at a time.
        let visible_overlay = trees.visible_overlay.upgrade();
        let is_shared = visible_overlay.is_some();
        let overlay = match visible_overlay {
            Some(overlay) => overlay,
            None => open_overlay(gate, commands, &directory, &ChangeLayers::default())?,
        };
        if audience == OverlayAudience::Container {
            trees.visible_overlay = overlay.downgrade();
        }
        Ok(Self::Overlay(OverlayCommand {
            gate: reopen_gate(gate, Some(&overlay)).map_err(|error| cannot_run(&error))?,
            overlay,
            directory,
            retention,
            audience,
            is_shared,
        }))
    }

    /// Returns the gate that the command runs with; it sees what the command sees.
    pub(super) fn gate(&self) -> &Gate {
        match self {
            Self::Overlay(command) => &command.gate,
            Self::Direct(gate, _) => gate,
        }
    }

    /// Applies or detects the changes of the finished command through `gate`, which accesses the
    /// user's trees directly.
    pub(super) fn finish(
        self,
        gate: &Gate,
        trees: &mut UserTreeState,
    ) -> Result<CommandChanges, ToolError> {
        match self {
            Self::Overlay(command) => command.finish(gate, trees),
            Self::Direct(_, old_inventory) => {
                let new_inventory = TreeInventory::scan(gate, NAMES_AFTER_MAX);
                Ok(CommandChanges {
                    changes: old_inventory.changes(&new_inventory, &mut gate.history()),
                    ..CommandChanges::default()
                })
            }
        }
    }
}

/// Creates an overlay on the user's trees for a command, which begins with `changes`.
pub(super) fn open_overlay(
    gate: &Gate,
    commands: &ExecEnvironment,
    directory: &AbsPath,
    changes: &ChangeLayers,
) -> Result<WriteOverlay, ToolError> {
    let audience = commands.overlay_audience();
    let overlay = WriteOverlay::open(OverlaySpec {
        origin: commands.overlay_origin(),
        directory,
        grants: &overlay_grants(gate),
        state: commands.directories().root(),
        audience,
        copies: 1,
        quota: None,
        setup: SetupUse::None,
    })
    .map_err(|error| cannot_run(&error))?
    .ok_or_else(|| cannot_run(&"no path is open for writing"))?;
    if !overlay.is_fully_visible() {
        return Err(cannot_run(&overlay.notes(audience, "the agent").join("; ")));
    }
    overlay.apply(changes).map_err(|error| cannot_run(&error))?;
    Ok(overlay)
}

/// Returns a gate like `gate` that works on `overlay`. Commands and servers are left out, because
/// they live as long as any clone of them.
pub(super) fn reopen_gate(gate: &Gate, overlay: Option<&WriteOverlay>) -> Result<Gate, Error> {
    let policy = GatePolicy {
        commands: None,
        servers: None,
        overlay: overlay.cloned(),
        ..gate.policy().clone()
    };
    Gate::open(gate.manager().in_phase(gate.phase()), policy)
}

impl OverlayCommand {
    /// Applies the changes on the overlay to the user's trees. If one change cannot be applied, all
    /// others still are.
    fn finish(self, gate: &Gate, trees: &mut UserTreeState) -> Result<CommandChanges, ToolError> {
        let Self {
            overlay,
            gate: overlay_gate,
            directory,
            retention,
            audience,
            is_shared,
        } = self;
        overlay
            .sync_next_layers()
            .map_err(|error| sync_error(&error))?;
        let layers = overlay.layers();
        // Dropped first, so that no process sees the layers of overlays while they are applied.
        drop((overlay_gate, overlay));
        let mut all_changes = CommandChanges::default();
        let mut failure = None;
        for (layer, kind) in &layers {
            // Private changes on a copy are dropped each time, so they are reported each time.
            let mut private_reports = BTreeSet::new();
            let reported_paths = match kind {
                OverlayMethod::Overlay => &mut trees.reported_files,
                OverlayMethod::Copy => &mut private_reports,
            };
            match commit(gate, layer, reported_paths) {
                Ok(command_changes) => all_changes.add(command_changes),
                Err(mut tool_error) => {
                    all_changes.changes.append(&mut tool_error.changes);
                    failure.get_or_insert(tool_error);
                }
            }
        }
        if is_shared {
            all_changes.notes.push(SHARED_OVERLAY.to_owned());
        }
        if (retention, audience) == (OverlayRetention::UntilCommandEnds, OverlayAudience::Sandbox) {
            // A failed removal is left to the cleanup of the agent's directories.
            let _removed = clear::remove(&directory);
        }
        match failure {
            None => Ok(all_changes),
            Some(tool_error) => Err(tool_error.with_changes(all_changes.changes)),
        }
    }
}

fn sync_error(error: &Error) -> ToolError {
    ToolError::failed(format!(
        "what the command changed in your paths was not applied there: {error}"
    ))
}

/// Returns the grants for a command's overlay: trees that commands may write to are writable
/// context paths, and all other trees are read-only.
fn overlay_grants(gate: &Gate) -> Vec<Grant> {
    let writable_roots: BTreeSet<RealPath> = user_trees(gate)
        .iter()
        .map(|tree| tree.real().clone())
        .collect();
    let trees = gate
        .manager()
        .grants()
        .iter()
        .filter(|grant| grant.scope == GrantScope::Tree);
    let grants = trees.map(|grant| {
        let (kind, permission) = if writable_roots.contains(&grant.root) {
            (GrantKind::Context, Permission::Write)
        } else {
            (grant.kind, Permission::Read)
        };
        Grant {
            kind,
            permission,
            ..grant.clone()
        }
    });
    grants.collect()
}
