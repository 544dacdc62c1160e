//! Delivers what a pipeline made to the user's directory: merges it with what the user has
//! committed meanwhile, writes it out as a delivery, and, if requested, commits it for the user.
//! The files themselves are applied by the delivery, like those of every run.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::pipeline::repository::{PipelineRepository, supervisor_author};
use crate::text::{count_noun, list_first, single_line};
use crate::world::delivery::portable_layer::{layer_created_ns, remove_from_layer};
use crate::world::delivery::store::OpenDelivery;
use crate::world::git::bare_repository::{MergeResult, NewCommit};
use crate::world::git::import::{ImportChanges, LineEndings, WorkingTree};
use crate::world::git::object::ObjectId;
use crate::world::git::project::ProjectRepository;
use crate::world::git::receiver::CommitReceiver;
use crate::world::store::delivery_names::name_for_pipeline;

/// Maximum number of files that an error names.
const NAMED_MAX: usize = 10;
/// Maximum length of a commit's subject, in characters.
const SUBJECT_CHARS_MAX: usize = 60;

/// The branch of a pipeline that points to the commit that was delivered last.
const DELIVERED: &str = "delivered";

/// Form in which the history of a pipeline is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryMode {
    /// Only files are delivered; git is not touched.
    Files,
    /// One commit contains everything.
    Squash,
    /// A merge commit makes all of its commits reachable.
    Merge,
}

/// The current delivery of a pipeline.
#[derive(Debug)]
pub struct PipelineDelivery {
    repository: PipelineRepository,
    /// The tree that results from merging the pipeline's work into the user's commit.
    tree: ObjectId,
    changes: ImportChanges,
    line_endings: LineEndings,
}

impl PipelineDelivery {
    /// Determines what the pipeline of `repository` delivers.
    ///
    /// # Errors
    /// It conflicts with what the user has committed meanwhile; nothing is touched.
    pub async fn prepare(
        repository: PipelineRepository,
        history_mode: HistoryMode,
    ) -> Result<Self> {
        let bare_repository = &repository.bare_repository;
        let mut line_endings = LineEndings::default();
        if let Some(project) = &repository.project {
            let delivered_tip = bare_repository.tip(&repository.branch(DELIVERED)?).await?;
            let receiver = CommitReceiver {
                bare_repository,
                project,
            };
            // An earlier delivery may have been killed while it committed.
            receiver.finish(delivered_tip.as_ref())?;
            if history_mode != HistoryMode::Files {
                receiver.expect_idle().await?;
            }
            line_endings = receiver.line_endings().await?;
        }
        if history_mode != HistoryMode::Files {
            require_branch(repository.project.as_ref())?;
        }
        let head = repository
            .project
            .as_ref()
            .and_then(|project| project.head.as_ref());
        let tip = repository.tip().await?;
        let (before, merged) = match head {
            None => (
                bare_repository.empty_tree().await?,
                bare_repository.tree_of(&tip).await?,
            ),
            Some(head) => match bare_repository.merge(head, &tip).await? {
                MergeResult::Clean(tree) => (bare_repository.tree_of(head).await?, tree),
                MergeResult::Conflict { files, .. } => return Err(conflict_error(&files)),
            },
        };
        // The files of the roles are not delivered.
        let tree = if repository.record.directory.is_root() {
            merged
        } else {
            let role_files = [(repository.record.directory.clone(), None)];
            bare_repository.with_files(&merged, &role_files).await?
        };
        let changes = bare_repository.changes(&before, &tree).await?;
        Ok(Self {
            repository,
            tree,
            changes,
            line_endings,
        })
    }

    /// Returns the files that the pipeline obeys: what a role made does not change them.
    pub fn own_files(&self) -> &[AbsPath] {
        &self.repository.record.own_files
    }

    /// Returns whether nothing is left to deliver.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the directory that it is delivered to.
    pub fn root(&self) -> &AbsPath {
        match &self.repository.project {
            Some(project) => &project.root,
            None => &self.repository.record.cwd,
        }
    }

    /// Creates a delivery of it on disk, below `deliveries`.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create_delivery(&self, deliveries: &AbsPath) -> Result<OpenDelivery> {
        let name = name_for_pipeline(&self.repository.dir.short_name(), deliveries)?;
        OpenDelivery::create(deliveries, &name)
    }

    /// Writes the changes to the first layer of `delivery`. Returns the time of that, by the clock
    /// of file timestamps, in nanoseconds since 1970.
    pub async fn write_files(&self, delivery: &OpenDelivery) -> Result<i64> {
        let upper = delivery.layer(0).join("upper");
        let to = self.working_tree(&upper);
        self.repository
            .bare_repository
            .write_files(&self.tree, &self.changes, to)
            .await?;
        let removed_paths: Vec<RelPath> = self
            .changes
            .iter()
            .filter(|(_, change)| change.after.is_none())
            .map(|(path, _)| path.clone())
            .collect();
        remove_from_layer(&upper, &removed_paths)?;
        layer_created_ns(&upper)
    }

    /// Commits for the user what was delivered. Returns the commit and the branch that it is on.
    ///
    /// # Errors
    /// Not all of it is on disk: then nothing is committed.
    pub async fn commit(&self, history_mode: HistoryMode) -> Result<(ObjectId, &str)> {
        let no_branch = || Error::bug("no branch to commit to");
        let project = self.repository.project.as_ref().ok_or_else(no_branch)?;
        let branch_name = project.branch.as_deref().ok_or_else(no_branch)?;
        let receiver = self.receiver(project);
        let missing_files = self
            .repository
            .bare_repository
            .unwritten_files(self.working_tree(&project.root), &self.changes)
            .await?;
        if !missing_files.is_empty() {
            let names: Vec<String> = missing_files.iter().map(ToString::to_string).collect();
            let message = format!(
                "not everything was applied, so nothing was committed: {}",
                list_first(&names, NAMED_MAX)
            );
            return Err(Error::new(ErrorKind::Denied, message)
                .with_hint("apply the rest, or deliver only files: `--history none`"));
        }
        let bare_repository = &self.repository.bare_repository;
        let tip = self.repository.tip().await?;
        let mut parents: Vec<ObjectId> = project.head.clone().into_iter().collect();
        let is_linked = history_mode == HistoryMode::Merge || parents.is_empty();
        parents.extend(is_linked.then_some(tip));
        let author = receiver.identity().await?.unwrap_or_else(supervisor_author);
        let task = single_line(&self.repository.record.task, SUBJECT_CHARS_MAX);
        let name = self.repository.dir.name();
        let message = format!("{task}\n\nBuilt by the massgen pipeline {name}.\n");
        let new_commit = NewCommit {
            tree: &self.tree,
            parents: &parents,
            author: &author,
            message: &message,
        };
        let commit = bare_repository.commit(new_commit).await?;
        let delivered_branch = self.repository.branch(DELIVERED)?;
        let tip_before = bare_repository.tip(&delivered_branch).await?;
        // Before the user's branch moves: a later process can then finish an interrupted commit.
        bare_repository
            .move_branch(&delivered_branch, &commit, tip_before.as_ref())
            .await?;
        receiver.receive_objects(&commit).await?;
        let log_message = format!("massgen: apply {name}");
        receiver.advance(&commit, &author, &log_message).await?;
        Ok((commit, branch_name))
    }

    /// Pushes the branch that the user has checked out.
    pub fn push(&self, remote: &str) -> Result<()> {
        let Some(project) = &self.repository.project else {
            return Err(Error::bug("no project to push"));
        };
        let branch = project.branch.as_deref().unwrap_or_default();
        self.receiver(project).push(remote, branch)
    }

    fn working_tree<'a>(&'a self, root: &'a AbsPath) -> WorkingTree<'a> {
        WorkingTree {
            root,
            line_endings: &self.line_endings,
        }
    }

    fn receiver<'a>(&'a self, project: &'a ProjectRepository) -> CommitReceiver<'a> {
        CommitReceiver {
            bare_repository: &self.repository.bare_repository,
            project,
        }
    }

    /// Returns whether there is a branch to commit to.
    pub fn has_branch(&self) -> bool {
        let project = self.repository.project.as_ref();
        project.is_some_and(|project| project.branch.is_some())
    }

    /// Returns the end of the name of the pipeline, which its deliveries are named after.
    pub fn short_name(&self) -> String {
        self.repository.dir.short_name()
    }

    /// Fails if the delivery would replace files that the user has changed, or has staged if a
    /// commit follows. `is_exempt` says which files to leave out: those that an earlier part of the
    /// delivery has written, and those that are not delivered now.
    ///
    /// # Errors
    /// It would, or a file or symlink blocks a directory; nothing is touched.
    pub async fn require_unchanged(
        &self,
        history_mode: HistoryMode,
        is_exempt: impl Fn(&RelPath) -> bool,
    ) -> Result<()> {
        let obstacles = self
            .repository
            .bare_repository
            .obstacles(self.root(), &self.changes)?;
        if !obstacles.is_empty() {
            return Err(obstacle_error(&obstacles));
        }
        let working_tree = self.working_tree(self.root());
        let mut user_changes = self
            .repository
            .bare_repository
            .find_user_changes(working_tree, &self.changes)
            .await?;
        user_changes.retain(|path| !is_exempt(path));
        if let Some(project) = self
            .repository
            .project
            .as_ref()
            .filter(|_| history_mode != HistoryMode::Files)
        {
            let staged: BTreeSet<RelPath> = self.receiver(project).staged_files().await?;
            let staged_paths = self.changes.keys().filter(|path| staged.contains(*path));
            user_changes.extend(staged_paths.cloned());
            user_changes.sort();
            user_changes.dedup();
        }
        if user_changes.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = user_changes.iter().map(ToString::to_string).collect();
        let message = format!(
            "{} with your changes would be replaced, so nothing was applied: {}",
            count_noun(names.len(), "file"),
            list_first(&names, NAMED_MAX)
        );
        Err(Error::new(ErrorKind::Denied, message)
            .with_hint("commit or stash your changes, or move the files, and apply again"))
    }
}

/// Fails if there is no branch to commit to.
fn require_branch(project: Option<&ProjectRepository>) -> Result<()> {
    let message = match project {
        None => "the pipeline started without a project, so there is nothing to commit to",
        Some(project) if project.branch.is_none() => "no branch is checked out",
        Some(_) => return Ok(()),
    };
    Err(Error::new(ErrorKind::Usage, message).with_hint("deliver only files: `--history none`"))
}

fn obstacle_error(obstacles: &BTreeMap<RelPath, &'static str>) -> Error {
    let named_obstacles: Vec<String> = obstacles
        .iter()
        .map(|(path, obstacle)| format!("`{path}` ({obstacle})"))
        .collect();
    let message = format!(
        "the pipeline created files below a path that is not a directory of this project, so \
         nothing was applied: {}",
        list_first(&named_obstacles, NAMED_MAX)
    );
    Error::new(ErrorKind::Denied, message).with_hint("move it away, and apply again")
}

fn conflict_error(files: &[String]) -> Error {
    let message = format!(
        "the pipeline and your later commits changed the same lines of {}: {}",
        count_noun(files.len(), "file"),
        list_first(files, NAMED_MAX)
    );
    Error::new(ErrorKind::Denied, message)
        .with_hint("nothing was applied; start another pipeline on the current state")
        .with_hint("or fetch `main` from the pipeline's repository, which `massgen pipeline branches` names, and merge it")
}
