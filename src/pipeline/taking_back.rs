//! Owns what a person takes back of a pipeline that nobody works on: the work of a role, or all that was
//! kept for it. Each becomes one commit of the shared branch.

use crate::config::keys::nearest;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::ground::{CUMULATIVE, Ground, SHARED, TASK, head, main};
use crate::pipeline::looking::seat_of;
use crate::roles::RoleName;
use crate::roles::trail::Entry;
use crate::wording::joined;
use crate::world::git::history::{Commit, Line};
use crate::world::git::hub::Merged;
use crate::world::git::object::ObjectId;
use crate::world::git::tree::Put;

impl Ground {
    /// Takes all merged work of a role out of the shared branch; what massgen wrote down stays. Gives the
    /// merges, newest first, or none if nothing is left of them: then nothing is committed.
    ///
    /// # Errors
    /// Later work changed the same files. Nothing is changed then.
    pub async fn take_out(&self, role: &RoleName) -> Result<Vec<Commit>> {
        self.expect_role(role)?;
        let merges = self.merges_of(role).await?;
        let tip = self.tip().await?;
        let before = self.hub.tree_of(&tip).await?;
        let mut tree = before.clone();
        for merge in &merges {
            tree = self.without(merge, tree).await?;
        }
        if tree == before {
            return Ok(Vec::new());
        }
        let entry = Entry::Revert { role: role.clone() };
        let subject = format!("[supervisor] take out the work of {role}");
        let message = entry.message(&subject, "");
        self.commit((&tip, &[], &tree), &message).await?;
        Ok(merges.into_iter().map(|(merge, _)| merge).collect())
    }

    /// Has a role start afresh: its branches, checkouts and sessions are removed, and its directory of the
    /// tree. What it did elsewhere in the tree stays.
    pub async fn start_afresh(&self, role: &RoleName) -> Result<()> {
        self.expect_role(role)?;
        let roles = self.record.roles.as_slice();
        let prefix = format!("massgen/{}/", self.dir.short());
        for (branch, at) in self.hub.branches().await? {
            let name = branch.to_string();
            let seat = name.strip_prefix(&prefix);
            if seat.is_some_and(|seat| is_seat_of(role, roles, seat)) {
                self.hub.remove_branch(&branch, &at).await?;
            }
        }
        let is_its = |name: &str| is_seat_of(role, roles, seat_of(name));
        self.dir.forget(&self.record.workspace, is_its)?;
        // Last: until it stands there, all of this can be done again.
        let tip = self.tip().await?;
        let tree = self.hub.tree_of(&tip).await?;
        let without = [(self.directory_of(role), None)];
        let tree = self.hub.with_files(&tree, &without).await?;
        let entry = Entry::Reset { role: role.clone() };
        let subject = format!("[supervisor] start {role} afresh");
        let message = entry.message(&subject, "");
        self.commit((&tip, &[], &tree), &message).await.map(drop)
    }

    /// The merges of a role's work since it was taken out last, newest first. With each, what stays as it
    /// is when the merge is taken out.
    async fn merges_of(&self, role: &RoleName) -> Result<Vec<(Commit, Vec<Put>)>> {
        let before = head(&self.record);
        let shared = main()?;
        let commits = self.hub.history(&shared, before.as_ref(), Line::First);
        // Every merge adds to the documents.
        let documents = [TASK, SHARED, CUMULATIVE].map(|name| (self.shared_file(name), None));
        let mut stays = documents.to_vec();
        let mut merges = Vec::new();
        for commit in commits.await?.into_iter().rev() {
            match Entry::read(&commit.message) {
                Some((Entry::Revert { role: of }, _)) if of == *role => break,
                // What was there before is gone already.
                Some((Entry::Reset { role: of }, _)) if of == *role => {
                    stays.push((self.directory_of(role), None));
                }
                Some((Entry::Merge(merge), _)) if merge.role == *role => {
                    merges.push((commit, stays.clone()));
                }
                Some(_) | None => {}
            }
        }
        Ok(merges)
    }

    /// `tree` without what a merge brought into it, but for what stays.
    async fn without(
        &self,
        (merge, stays): &(Commit, Vec<Put>),
        tree: ObjectId,
    ) -> Result<ObjectId> {
        let Some(parent) = merge.parents.first() else {
            return Ok(tree);
        };
        let parent = self.hub.tree_of(parent).await?;
        let theirs = self.hub.with_files(&parent, stays).await?;
        let base = self.hub.with_files(&merge.tree, stays).await?;
        match self.hub.merge_from(&base, &tree, &theirs).await? {
            Merged::Clean(tree) => Ok(tree),
            Merged::Conflict { files, .. } => {
                let subject = merge.subject();
                let files: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
                let files = joined(&files);
                let message =
                    format!("`{subject}` cannot be taken out: later work changed {files}");
                Err(Error::new(ErrorKind::Environment, message)
                    .hint("take out first the work of the role that changed it later")
                    .hint("see who did: massgen log"))
            }
        }
    }

    fn expect_role(&self, role: &RoleName) -> Result<()> {
        let roles = &self.record.roles;
        if roles.contains(role) {
            return Ok(());
        }
        let message = format!("`{}` has no role `{role}`", self.dir.name());
        let error = Error::new(ErrorKind::Usage, message);
        let near = nearest(role.as_str(), roles.iter().map(RoleName::as_str));
        Err(match near {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("its roles are {}", joined(roles))),
        })
    }
}

/// Whether a seat is the role's, or that of one of its copies, in a pipeline of these roles.
fn is_seat_of(role: &RoleName, roles: &[RoleName], seat: &str) -> bool {
    let is_other = |other: &RoleName| other != role && other.as_str() == seat;
    match seat.strip_prefix(role.as_str()) {
        Some("") => true,
        Some(rest) if !roles.iter().any(is_other) => {
            let copy = rest.strip_prefix('-').map(str::parse::<u32>);
            copy.is_some_and(|copy| copy.is_ok())
        }
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_its_seat_and_those_of_its_copies() {
        let role = |name: &&str| RoleName::parse(name).unwrap();
        let roles: Vec<RoleName> = ["tester", "tester-3", "tester-rust"]
            .iter()
            .map(role)
            .collect();
        let check = |checkout: &str, expected| {
            let is_its = is_seat_of(&role(&"tester"), &roles, seat_of(checkout));
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
