//! Decides which names of an attempt stay private to its agent: those that git ignores, by the
//! user's rules or by those of the answer, and without git those that tools generate.

use std::collections::BTreeSet;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::config::checks::FileGlobs;
use crate::delivery::path_state::PathState;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::error::Result;
use crate::path::RelPath;
use crate::permissions::history::is_generated;
use crate::world::delivery::contents::{DiffSide, uncomposed_difference};
use crate::world::git::GitProgram;

/// The file with the names that git ignores in a directory.
const GITIGNORE: &str = ".gitignore";

/// What is private below one root.
struct PrivacyRules {
    /// The names that git ignores by the user's rules; `None` without a repository.
    ignored: Option<BTreeSet<RelPath>>,
    /// The rules of the answer.
    matchers: Vec<(RelPath, Gitignore)>,
}

/// Removes the private names from `plan`, except those that `opened` names. Returns how many files
/// it removed.
///
/// # Errors
/// Git cannot say what it ignores.
pub(super) async fn remove_private_names(
    plan: &mut DeliveryPlan,
    git: Option<&GitProgram>,
    opened: &FileGlobs,
) -> Result<usize> {
    let mut rules = Vec::new();
    for (number, root) in plan.roots.iter().enumerate() {
        let entries = plan.entries.iter().filter(|entry| entry.root == number);
        let names: Vec<RelPath> = entries.map(|entry| entry.rel.clone()).collect();
        let ignored = match git {
            Some(git) if !names.is_empty() => git.ignored_names(root, &names).await?,
            Some(_) | None => None,
        };
        let matchers = answer_matchers(plan, number);
        rules.push(PrivacyRules { ignored, matchers });
    }
    let is_opened = opened.matcher();
    let is_kept = |entry: &DeliveryEntry| {
        let rules = rules.get(entry.root);
        is_opened(&entry.rel) || !rules.is_some_and(|rules| rules.is_private(entry))
    };
    let count_files =
        |plan: &DeliveryPlan| plan.entries.iter().filter(|entry| entry.is_file()).count();
    let files = count_files(plan);
    plan.entries.retain(is_kept);
    Ok(files.saturating_sub(count_files(plan)))
}

impl PrivacyRules {
    fn is_private(&self, entry: &DeliveryEntry) -> bool {
        let by_user = match &self.ignored {
            Some(ignored) => ignored.contains(&entry.rel),
            None => is_generated(&entry.rel),
        };
        // A tracked name exists in the user's tree.
        by_user || (entry.theirs.is_absent() && is_ignored(&self.matchers, entry))
    }
}

/// Returns the rules of the `.gitignore` files that the answer writes below the root with this
/// number, the deepest first.
fn answer_matchers(plan: &DeliveryPlan, root: usize) -> Vec<(RelPath, Gitignore)> {
    let is_rules = |entry: &&DeliveryEntry| {
        entry.root == root
            && entry.rel.name().is_some_and(|name| name == GITIGNORE)
            && matches!(entry.ours, PathState::File(_))
    };
    let matcher = |entry: &DeliveryEntry| {
        let difference = uncomposed_difference(plan, entry).ok()?;
        let DiffSide::Text(rules) = difference.after else {
            return None;
        };
        let mut builder = GitignoreBuilder::new("/");
        for line in rules.lines() {
            // A line that git cannot parse has no effect.
            let _parsed = builder.add_line(None, line);
        }
        Some((
            entry.rel.parent().unwrap_or_default(),
            builder.build().ok()?,
        ))
    };
    let entries = plan.entries.iter().filter(is_rules);
    let mut matchers: Vec<_> = entries.filter_map(matcher).collect();
    matchers.sort_by_key(|(directory, _)| std::cmp::Reverse(directory.names().count()));
    matchers
}

/// Returns whether `matchers` ignore the name of `entry`, or a directory that contains it.
fn is_ignored(matchers: &[(RelPath, Gitignore)], entry: &DeliveryEntry) -> bool {
    let decision = matchers.iter().find_map(|(directory, matcher)| {
        let path = entry.rel.as_path();
        let below = path.strip_prefix(directory.as_path()).ok()?;
        let decision = matcher.matched_path_or_any_parents(below, entry.ours.is_directory());
        (!decision.is_none()).then(|| decision.is_ignore())
    });
    decision.unwrap_or_default()
}
