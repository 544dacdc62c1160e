//! Owns what a command leaves to be done about the user's trees. A command that may write there works
//! on a stage of its own, and what it changed is carried to the trees when it has ended. One that
//! nothing holds writes there itself, and what it changed is found out.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Permission};
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::access::policy::GatePolicy;
use crate::world::exec::command::cannot_run;
use crate::world::exec::command_changes::CommandChanges;
use crate::world::exec::commit::commit;
use crate::world::exec::inventory::{NAMES_AFTER_MAX, NAMES_BEFORE_MAX, TreeInventory};
use crate::world::exec::tool_result::ToolError;
use crate::world::sandbox::exec_environment::{ExecBackend, ExecEnvironment, UserTreeState};
use crate::world::sandbox::overlay::{OverlayAudience, OverlayMethod, OverlaySpec, WriteOverlay};
use crate::world::sys::state_files::clear;

/// Said beside the output of a command in a container that shares its stage with another one.
const SHARED_STAGE: &str = "a background command goes on, so this one saw your write paths as they \
                            were when that began, with what commands have changed since";

/// What is to be done when a command has ended.
#[derive(Debug)]
pub(super) enum PostCommandSync {
    /// It works on a stage.
    Overlay(OverlayCommand),
    /// It writes to the user's trees, in which this stood before.
    Direct(Gate, TreeInventory),
}

/// A command that works on a stage.
#[derive(Debug)]
pub(super) struct OverlayCommand {
    stage: WriteOverlay,
    /// What the command finds is seen through this.
    gate: Gate,
    /// Where the stage lies.
    place: AbsPath,
    lasting: OverlayRetention,
    audience: OverlayAudience,
    /// Whether another command works on it too.
    is_shared: bool,
}

/// How long what stays private on a stage is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverlayRetention {
    /// The next command that is waited for finds it.
    UntilAgentEnds,
    /// It goes with the command.
    UntilCommandEnds,
}

/// The roots of the user's trees that may be written to.
pub(super) fn user_trees(gate: &Gate) -> Vec<ResolvedPath> {
    let is_users = |grant: &&Grant| matches!(grant.kind, GrantKind::Context | GrantKind::BuiltIn);
    let users = gate.manager().grants().iter().filter(is_users);
    users
        .filter_map(|grant| gate.writable_tree(&grant.root.to_abs()))
        .collect()
}

/// Whether what commands change in the user's trees is to be carried there or found out. In tier C,
/// and where the whole agent works on a stage, it is not.
pub(super) fn writes_user_trees(gate: &Gate, commands: &ExecEnvironment) -> bool {
    let is_staged = gate.overlay().is_some();
    commands.sandbox_level() != SandboxLevel::C && !is_staged && !user_trees(gate).is_empty()
}

impl PostCommandSync {
    /// Prepares for a command. The error says why it may not be run.
    pub(super) fn open(
        gate: &Gate,
        commands: &ExecEnvironment,
        lasting: OverlayRetention,
        trees: &mut UserTreeState,
    ) -> Result<Self, ToolError> {
        if commands.sandbox_level() == SandboxLevel::Off {
            let before = TreeInventory::scan(gate, NAMES_BEFORE_MAX);
            return Ok(Self::Direct(gate.clone(), before));
        }
        let audience = match commands.backend() {
            ExecBackend::Sandbox(_) => OverlayAudience::Sandbox,
            ExecBackend::Container(_) => OverlayAudience::Container,
        };
        let room = commands.directories();
        let place = match (lasting, audience) {
            (OverlayRetention::UntilCommandEnds, OverlayAudience::Sandbox) => {
                room.new_overlay_directory()
            }
            (OverlayRetention::UntilAgentEnds, _) | (_, OverlayAudience::Container) => {
                let roots = user_trees(gate);
                room.overlay_directory(roots.iter().map(|root| root.real().clone()).collect())
            }
        };
        // A container shows one stage at a time.
        let shown = trees.visible_overlay.upgrade();
        let is_shared = shown.is_some();
        let stage = match shown {
            Some(stage) => stage,
            None => open_overlay(gate, commands, &place, audience)?,
        };
        if audience == OverlayAudience::Container {
            trees.visible_overlay = stage.downgrade();
        }
        Ok(Self::Overlay(OverlayCommand {
            gate: gate_on_overlay(&stage, gate)?,
            stage,
            place,
            lasting,
            audience,
            is_shared,
        }))
    }

    /// The gate that the command is run by: what it finds is seen through that.
    pub(super) fn gate(&self) -> &Gate {
        match self {
            Self::Overlay(command) => &command.gate,
            Self::Direct(gate, _) => gate,
        }
    }

    /// Does what is to be done now that the command has ended, through `gate`, which leads to the
    /// user's trees.
    pub(super) fn finish(
        self,
        gate: &Gate,
        trees: &mut UserTreeState,
    ) -> Result<CommandChanges, ToolError> {
        match self {
            Self::Overlay(command) => command.finish(gate, trees),
            Self::Direct(_, before) => {
                let now = TreeInventory::scan(gate, NAMES_AFTER_MAX);
                Ok(CommandChanges {
                    changes: before.changes(&now, &mut gate.history()),
                    ..CommandChanges::default()
                })
            }
        }
    }
}

/// Stages the user's trees for a command.
fn open_overlay(
    gate: &Gate,
    commands: &ExecEnvironment,
    place: &AbsPath,
    audience: OverlayAudience,
) -> Result<WriteOverlay, ToolError> {
    let stage = WriteOverlay::open(OverlaySpec {
        executable: commands.executable(),
        place,
        grants: &overlay_grants(gate),
        state: commands.directories().root(),
        audience,
    });
    let stage = stage.map_err(|error| cannot_run(&error))?;
    let stage = stage.ok_or_else(|| cannot_run(&"there is nothing to stage"))?;
    if !stage.is_fully_visible() {
        return Err(cannot_run(&stage.notes(audience).join("; ")));
    }
    Ok(stage)
}

/// The same gate as `gate`, on a stage.
fn gate_on_overlay(stage: &WriteOverlay, gate: &Gate) -> Result<Gate, ToolError> {
    let policy = GatePolicy {
        // They last as long as somebody holds them.
        commands: None,
        servers: None,
        overlay: Some(stage.clone()),
        ..gate.policy().clone()
    };
    let manager = gate.manager().in_phase(gate.phase());
    Gate::open(manager, policy).map_err(|error| cannot_run(&error))
}

impl OverlayCommand {
    /// Carries what was changed on the stage to the user's trees. Where something cannot be carried,
    /// all else is.
    fn finish(self, gate: &Gate, trees: &mut UserTreeState) -> Result<CommandChanges, ToolError> {
        let Self {
            stage,
            gate: on_stage,
            place,
            lasting,
            audience,
            is_shared,
        } = self;
        stage
            .sync_next_layers()
            .map_err(|error| sync_failed(&error))?;
        let layers = stage.layers();
        // Nobody sees the layers of overlays while they are carried.
        drop((on_stage, stage));
        let mut aftermath = CommandChanges::default();
        let mut broken = None;
        for (layer, kind) in &layers {
            // What stays private on a copy goes with it each time, and is told each time.
            let mut told_now = BTreeSet::new();
            let told = match kind {
                OverlayMethod::Overlay => &mut trees.reported,
                OverlayMethod::Copy => &mut told_now,
            };
            match commit(gate, layer, told) {
                Ok(carried) => aftermath.add(carried),
                Err(mut stop) => {
                    aftermath.changes.append(&mut stop.changes);
                    broken.get_or_insert(stop);
                }
            }
        }
        if is_shared {
            aftermath.notes.push(SHARED_STAGE.to_owned());
        }
        if (lasting, audience) == (OverlayRetention::UntilCommandEnds, OverlayAudience::Sandbox) {
            // What cannot be removed now goes with the agent's other directories.
            let _removed = clear::remove(&place);
        }
        match broken {
            None => Ok(aftermath),
            Some(stop) => Err(stop.with_changes(aftermath.changes)),
        }
    }
}

fn sync_failed(why: &Error) -> ToolError {
    ToolError::failed(format!(
        "what the command changed in your paths was not carried there: {why}"
    ))
}

/// The grants as a stage for commands takes them: the trees that commands may write to, and all other
/// trees as what stays as it is.
fn overlay_grants(gate: &Gate) -> Vec<Grant> {
    let written: BTreeSet<RealPath> = user_trees(gate)
        .iter()
        .map(|tree| tree.real().clone())
        .collect();
    let trees = gate.manager().grants().iter();
    let trees = trees.filter(|grant| grant.scope == GrantScope::Tree);
    let taken = trees.map(|grant| {
        let (kind, permission) = if written.contains(&grant.root) {
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
    taken.collect()
}
