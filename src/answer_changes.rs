//! What an answer would change in the user's trees, apart from its text: where its files are kept,
//! and how it reads as a diff.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check_results::ChangeCounts;
use crate::path::AbsPath;

/// The changes of an answer that was made in an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerChanges {
    /// The layers with its files.
    pub layers: ChangeLayers,
    /// The layers for the checks that take some of the files from the user's trees, by the names of
    /// these checks.
    pub fixed_layers: BTreeMap<String, ChangeLayers>,
    /// The beginning of the unified diff, as other agents read it.
    pub diff: String,
    /// How much would change.
    pub counts: ChangeCounts,
    /// How many names the agent changed that stay private, because git ignores them.
    pub private: usize,
}

/// Layers over the user's trees that hold what a delivery would change, and nothing else. Nothing
/// writes to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ChangeLayers(pub Vec<ChangeLayer>);

/// The changes to one tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeLayer {
    /// The tree.
    #[schemars(with = "String")]
    pub root: AbsPath,
    /// The layer over it, in the format of an overlay's upper directory.
    #[schemars(with = "String")]
    pub path: AbsPath,
}

impl ChangeLayers {
    /// Returns the layer over the tree `root`; `None` if nothing changes there.
    pub fn over(&self, root: &AbsPath) -> Option<&AbsPath> {
        let layer = self.0.iter().find(|layer| layer.root == *root);
        layer.map(|layer| &layer.path)
    }

    /// Returns whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the layers after their directory was moved from `old` to `new`.
    #[must_use]
    pub fn moved(mut self, old: &AbsPath, new: &AbsPath) -> Self {
        for layer in &mut self.0 {
            if let Some(rel) = layer.path.below(old) {
                layer.path = new.join(rel.as_path());
            }
        }
        self
    }
}
