//! Commits the work of a stage run: its files go to the branch of its role instance. Files that git
//! cannot store stay on disk, and the commit's message explains why: such a commit is never merged.

use crate::error::{Error, Result};
use crate::path::RelPath;
use crate::pipeline::merge::StageMerger;
use crate::pipeline::stage_run::StageResult;
use crate::text::{single_line, truncate};
use crate::world::git::bare_repository::NewCommit;
use crate::world::git::checkout::{CapturedTree, ForcedDirectory};
use crate::world::git::object::ObjectId;

/// Maximum length of a commit's subject, in characters.
const SUBJECT_CHARS_MAX: usize = 72;
/// Maximum length of the answer in a commit, in characters.
pub(super) const ANSWER_CHARS_MAX: usize = 64 * 1024;
/// The subject of a commit from which files are excluded. No other commit of a role can have it,
/// because its subject begins with the role's name.
const EXCLUDED_FILES_SUBJECT: &str = "[supervisor] files are left out";
/// Maximum number of excluded files that a commit explains.
const EXPLANATIONS_MAX: usize = 20;
/// Maximum length of the explanation of one file, in characters.
const EXPLANATION_CHARS_MAX: usize = 300;

impl StageMerger<'_> {
    /// Commits the files of a stage run to its branch, unless the branch already has them.
    pub(super) async fn commit_work(
        &self,
        stage_result: &StageResult,
        attempt: u32,
    ) -> Result<ObjectId> {
        let repository = &self.pipeline.repository;
        let branch = repository.branch(&self.stage_run.instance.name)?;
        let CapturedTree { tree, left_out } = self.capture_tree(stage_result).await?;
        let (tip, main) = (self.newest_commit().await?, repository.tip().await?);
        let is_merged = repository
            .bare_repository
            .is_descendant_of(&main, &tip)
            .await?;
        let is_unchanged = repository.bare_repository.tree_of(&tip).await? == tree;
        let is_complete = left_out.is_empty() && self.explain_excluded_files(&tip).await?.is_none();
        // What is merged already cannot be merged again: work without changes gets a commit too.
        if !is_merged && is_unchanged && is_complete {
            return Ok(tip);
        }
        // A tree in which a conflict was repaired includes the shared branch.
        let mut parents = vec![tip.clone()];
        if attempt > 0
            && !repository
                .bare_repository
                .is_descendant_of(&tip, &main)
                .await?
        {
            parents.push(main);
        }
        let answer = truncate(&stage_result.answer, ANSWER_CHARS_MAX);
        let text = match left_out.as_slice() {
            [] => format!(
                "{}\n\n{}\n",
                self.commit_subject(stage_result),
                answer.trim()
            ),
            explanations => {
                let lines: Vec<String> = explanations
                    .iter()
                    .take(EXPLANATIONS_MAX)
                    .map(|explanation| single_line(explanation, EXPLANATION_CHARS_MAX))
                    .collect();
                let explanation = lines.join("\n");
                let answer = answer.trim();
                format!("{EXCLUDED_FILES_SUBJECT}\n\n{explanation}\n\n{answer}\n")
            }
        };
        let new_commit = NewCommit {
            tree: &tree,
            parents: &parents,
            author: &stage_result.author,
            message: &text,
        };
        let commit = repository.bare_repository.commit(new_commit).await?;
        repository
            .bare_repository
            .move_branch(&branch, &commit, Some(&tip))
            .await?;
        Ok(commit)
    }

    async fn capture_tree(&self, stage_result: &StageResult) -> Result<CapturedTree> {
        let (role, instance) = (&self.stage_run.stage.role, &self.stage_run.instance);
        let dir = self.pipeline.repository.role_directory(&role.name);
        let output = instance
            .output_path(role)
            .and_then(RelPath::new)
            .map(|output| dir.join(&output));
        let forced = ForcedDirectory {
            dir: &dir,
            output: output.as_ref(),
        };
        stage_result.checkout.capture(Some(forced)).await
    }

    /// Returns why files are excluded from a commit of the branch, one line for each; `None` if no
    /// file is.
    pub(super) async fn explain_excluded_files(&self, commit: &ObjectId) -> Result<Option<String>> {
        let commit = self
            .pipeline
            .repository
            .bare_repository
            .read_commit(commit)
            .await?;
        if commit.subject() != EXCLUDED_FILES_SUBJECT {
            return Ok(None);
        }
        let explanation = commit.message.split("\n\n").nth(1);
        Ok(Some(explanation.unwrap_or_default().to_owned()))
    }

    /// Returns the subject of a commit of the role, which contains the beginning of its answer.
    pub(super) fn commit_subject(&self, stage_result: &StageResult) -> String {
        let role = &self.stage_run.stage.role.name;
        let mut lines = stage_result
            .answer
            .lines()
            .map(|line| line.trim_matches(['#', '*', ' ']))
            .filter(|line| !line.is_empty());
        let first_line = lines.next().unwrap_or("work");
        format!("[{role}] {}", single_line(first_line, SUBJECT_CHARS_MAX))
    }

    pub(super) async fn newest_commit(&self) -> Result<ObjectId> {
        let repository = &self.pipeline.repository;
        let branch = repository.branch(&self.stage_run.instance.name)?;
        let tip = repository.bare_repository.tip(&branch).await?;
        tip.ok_or_else(|| Error::bug(format!("branch `{branch}` no longer exists")))
    }
}
