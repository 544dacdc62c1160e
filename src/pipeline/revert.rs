//! Reverts the work of a role, or resets a role, in a pipeline that is not running, on the user's
//! request. Each becomes one commit of the shared branch.

use crate::config::keys::nearest;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::inspect::instance_name;
use crate::pipeline::repository::{
    CUMULATIVE_FILE, PipelineRepository, SHARED_FILE, TASK_FILE, base_commit, shared_branch,
};
use crate::roles::RoleName;
use crate::roles::journal::JournalEntry;
use crate::text::join_with_commas;
use crate::world::git::bare_repository::MergeResult;
use crate::world::git::history::{GitCommit, HistoryTraversal};
use crate::world::git::object::ObjectId;
use crate::world::git::tree::TreeEdit;

/// A merge of a role's work.
#[derive(Debug)]
struct RoleMerge {
    commit: GitCommit,
    /// The edits to exclude from its revert.
    excluded_edits: Vec<TreeEdit>,
}

impl PipelineRepository {
    /// Reverts all merged work of a role on the shared branch; massgen's own documents stay.
    /// Returns the merges, newest first, or none if nothing is left of them: then nothing is
    /// committed.
    ///
    /// # Errors
    /// Later work changed the same files. Nothing is changed then.
    pub async fn revert_role(&self, role: &RoleName) -> Result<Vec<GitCommit>> {
        self.require_role(role)?;
        let merges = self.role_merges(role).await?;
        let tip = self.tip().await?;
        let tree_before = self.bare_repository.tree_of(&tip).await?;
        let mut tree = tree_before.clone();
        for merge in &merges {
            tree = self.tree_without(merge, tree).await?;
        }
        if tree == tree_before {
            return Ok(Vec::new());
        }
        let entry = JournalEntry::Revert { role: role.clone() };
        let subject = format!("[supervisor] revert the work of {role}");
        let message = entry.message(&subject, "");
        self.commit(&tip, &[], &tree, &message).await?;
        Ok(merges.into_iter().map(|merge| merge.commit).collect())
    }

    /// Resets a role: removes its branches, checkouts and sessions, and its directory in the tree.
    /// Its changes elsewhere in the tree stay.
    pub async fn reset_role(&self, role: &RoleName) -> Result<()> {
        self.require_role(role)?;
        let roles = self.record.roles.as_slice();
        let prefix = format!("massgen/{}/", self.dir.short_name());
        for (branch, tip) in self.bare_repository.branches().await? {
            let name = branch.to_string();
            let instance = name.strip_prefix(&prefix);
            if instance.is_some_and(|instance| is_instance_of(role, roles, instance)) {
                self.bare_repository.remove_branch(&branch, &tip).await?;
            }
        }
        let is_of_role = |name: &str| is_instance_of(role, roles, instance_name(name));
        self.dir
            .remove_checkouts(&self.record.workspace, is_of_role)?;
        // This comes last: until the commit exists, the reset can be repeated.
        let tip = self.tip().await?;
        let tree = self.bare_repository.tree_of(&tip).await?;
        let removals = [(self.role_directory(role), None)];
        let tree = self.bare_repository.with_files(&tree, &removals).await?;
        let entry = JournalEntry::Reset { role: role.clone() };
        let subject = format!("[supervisor] reset {role}");
        let message = entry.message(&subject, "");
        self.commit(&tip, &[], &tree, &message).await.map(drop)
    }

    /// Returns the merges of a role's work since it was last reverted, newest first.
    async fn role_merges(&self, role: &RoleName) -> Result<Vec<RoleMerge>> {
        let start = base_commit(&self.record);
        let shared_branch = shared_branch()?;
        let commits = self.bare_repository.history(
            &shared_branch,
            start.as_ref(),
            HistoryTraversal::FirstParents,
        );
        // Every merge adds to massgen's documents, and a revert must not undo that.
        let documents =
            [TASK_FILE, SHARED_FILE, CUMULATIVE_FILE].map(|name| (self.shared_file(name), None));
        let mut excluded_edits = documents.to_vec();
        let mut merges = Vec::new();
        for commit in commits.await?.into_iter().rev() {
            match JournalEntry::parse(&commit.message) {
                Some((JournalEntry::Revert { role: reverted }, _)) if reverted == *role => break,
                // The reset has already removed what was there before.
                Some((JournalEntry::Reset { role: reset }, _)) if reset == *role => {
                    excluded_edits.push((self.role_directory(role), None));
                }
                Some((JournalEntry::Merge(merge), _)) if merge.role == *role => {
                    let excluded_edits = excluded_edits.clone();
                    merges.push(RoleMerge {
                        commit,
                        excluded_edits,
                    });
                }
                Some(_) | None => {}
            }
        }
        Ok(merges)
    }

    /// Returns `tree` without the changes of a merge, except for those that are excluded from the
    /// revert.
    async fn tree_without(&self, role_merge: &RoleMerge, tree: ObjectId) -> Result<ObjectId> {
        let RoleMerge {
            commit: merge,
            excluded_edits,
        } = role_merge;
        let Some(parent) = merge.parents.first() else {
            return Ok(tree);
        };
        let parent = self.bare_repository.tree_of(parent).await?;
        let reverted_tree = self
            .bare_repository
            .with_files(&parent, excluded_edits)
            .await?;
        let base = self
            .bare_repository
            .with_files(&merge.tree, excluded_edits)
            .await?;
        // A revert is a merge of the change from the merged tree back to the one before it.
        match self
            .bare_repository
            .merge_from(&base, &tree, &reverted_tree)
            .await?
        {
            MergeResult::Clean(tree) => Ok(tree),
            MergeResult::Conflict { files, .. } => {
                let subject = merge.subject();
                let file_names: Vec<String> =
                    files.iter().map(|file| format!("`{file}`")).collect();
                let files = join_with_commas(&file_names);
                let message = format!("`{subject}` cannot be reverted: later work changed {files}");
                Err(Error::new(ErrorKind::Environment, message)
                    .with_hint("first revert the work of the role that changed it later")
                    .with_hint("to see who did: massgen pipeline log"))
            }
        }
    }

    fn require_role(&self, role: &RoleName) -> Result<()> {
        let roles = &self.record.roles;
        if roles.contains(role) {
            return Ok(());
        }
        let message = format!("`{}` has no role `{role}`", self.dir.name());
        let error = Error::new(ErrorKind::Usage, message);
        let nearest_role = nearest(role.as_str(), roles.iter().map(RoleName::as_str));
        Err(match nearest_role {
            Some(nearest_role) => error.with_hint(format!("did you mean `{nearest_role}`?")),
            None => error.with_hint(format!("its roles are {}", join_with_commas(roles))),
        })
    }
}

/// Returns whether `instance` is the role or one of its copies, in a pipeline of these roles.
fn is_instance_of(role: &RoleName, roles: &[RoleName], instance: &str) -> bool {
    let is_other = |other: &RoleName| other != role && other.as_str() == instance;
    match instance.strip_prefix(role.as_str()) {
        Some("") => true,
        Some(suffix) if !roles.iter().any(is_other) => {
            let copy = suffix.strip_prefix('-').map(str::parse::<u32>);
            copy.is_some_and(|copy| copy.is_ok())
        }
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_its_instances_and_no_other_role_s() {
        let role = |name: &&str| RoleName::parse(name).unwrap();
        let roles: Vec<RoleName> = ["tester", "tester-3", "tester-rust"]
            .iter()
            .map(role)
            .collect();
        let check = |checkout: &str, expected| {
            let is_its = is_instance_of(&role(&"tester"), &roles, instance_name(checkout));
            assert_eq!(is_its, expected, "{checkout}");
        };
        for its in [
            "tester",
            "tester-2",
            "tester.agent2",
            "tester-2.agent1",
            "tester.lock",
        ] {
            check(its, true);
        }
        for of_another in ["tester-3", "tester-rust", "testers", "main", "", "user"] {
            check(of_another, false);
        }
    }
}
