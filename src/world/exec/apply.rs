//! Owns the carrying of a whole stage into the user's trees, under the rules of a gate that is on no
//! stage.

use std::collections::BTreeSet;

use crate::path::RealPath;
use crate::world::change::{Change, ChangeKind};
use crate::world::exec::answer::Stop;
use crate::world::exec::commit;
use crate::world::gate::Gate;
use crate::world::stage::{Stage, Staged};

/// Carries what was changed on `stage` into the user's trees, and says what became of each file. What
/// the user changed since the run began stays. It blocks, and nobody changes the stage meanwhile; it
/// can be done again when more was changed. What is in `told` was refused before and is not told again.
pub fn apply(gate: &Gate, stage: &Stage, told: &mut BTreeSet<RealPath>) -> Vec<Change> {
    if let Err(error) = stage.write_down() {
        let failed = |tree: Staged<'_>| Change {
            path: tree.root.clone(),
            kind: ChangeKind::Failed {
                reason: error.to_string(),
            },
        };
        return stage.trees().map(failed).collect();
    }
    let mut changes = Vec::new();
    for (tree, layer) in stage.trees().zip(stage.layers()) {
        for root in gate.written_at(tree.root) {
            match commit::apply(gate, &root, layer, told) {
                Ok(aftermath) => changes.extend(aftermath.changes),
                Err(Stop {
                    message,
                    changes: done,
                    ..
                }) => {
                    changes.extend(done);
                    changes.push(Change {
                        path: tree.root.clone(),
                        kind: ChangeKind::Failed { reason: message },
                    });
                }
            }
        }
    }
    changes
}
