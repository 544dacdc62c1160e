//! Owns the way of what a pipeline made into the user's directory: what is merged with what the user has
//! committed meanwhile, laid out as a delivery, and, where it is wanted, committed for the user. The files
//! themselves are applied by the delivery, as those of every run are.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::pipeline::ground::{Ground, supervisor};
use crate::wording::{counted, first_of, one_line};
use crate::world::delivery::store::{Delivery, name_for_pipeline};
use crate::world::delivery::tree::{made_ns, remove_from_layer};
use crate::world::git::hub::{Merged, NewCommit};
use crate::world::git::import::{Changes, LineEnds, OnDisk};
use crate::world::git::object::ObjectId;
use crate::world::git::project::Project;
use crate::world::git::receiver::Receiver;

/// How many files an error names.
const NAMED_MAX: usize = 10;
/// The longest subject of a commit, in characters.
const SUBJECT_CHARS_MAX: usize = 60;

/// The branch of a pipeline that holds what was last delivered of it.
const DELIVERED: &str = "delivered";

/// What becomes of the history of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Only files are delivered; nothing of git is touched.
    Files,
    /// One commit holds all of it.
    Squash,
    /// A merge leads to all of its commits.
    Merge,
}

/// What a pipeline delivers now.
#[derive(Debug)]
pub struct Delivering {
    ground: Ground,
    /// The tree of the user's commit and the merged one.
    tree: ObjectId,
    changes: Changes,
    line_ends: LineEnds,
}

impl Delivering {
    /// Finds out what the pipeline on `ground` delivers.
    ///
    /// # Errors
    /// It does not go together with what the user has committed meanwhile; nothing is touched.
    pub async fn of(ground: Ground, shape: Shape) -> Result<Self> {
        let hub = &ground.hub;
        let mut line_ends = LineEnds::default();
        if let Some(project) = &ground.project {
            let delivered = hub.tip(&ground.branch(DELIVERED)?).await?;
            let receiver = Receiver { hub, project };
            receiver.finish(delivered.as_ref())?;
            if shape != Shape::Files {
                receiver.expect_idle().await?;
            }
            line_ends = receiver.line_ends().await?;
        }
        if shape != Shape::Files {
            expect_branch(ground.project.as_ref())?;
        }
        let head = ground
            .project
            .as_ref()
            .and_then(|project| project.head.as_ref());
        let tip = ground.tip().await?;
        let (before, merged) = match head {
            None => (hub.empty_tree().await?, hub.tree_of(&tip).await?),
            Some(head) => match hub.merge(head, &tip).await? {
                Merged::Clean(tree) => (hub.tree_of(head).await?, tree),
                Merged::Conflict { files, .. } => return Err(in_conflict(&files)),
            },
        };
        let tree = if ground.record.directory.is_root() {
            merged
        } else {
            let own = [(ground.record.directory.clone(), None)];
            hub.with_files(&merged, &own).await?
        };
        let changes = hub.changes(&before, &tree).await?;
        Ok(Self {
            ground,
            tree,
            changes,
            line_ends,
        })
    }

    /// Whether nothing is left to deliver.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Where it is delivered to.
    pub fn root(&self) -> &AbsPath {
        match &self.ground.project {
            Some(project) => &project.root,
            None => &self.ground.record.cwd,
        }
    }

    /// The name of a delivery of it, at this moment.
    pub fn delivery(&self) -> String {
        name_for_pipeline(&self.ground.dir.short())
    }

    /// Lays what changes out as the first layer of `delivery`. Gives when that was, by the clock that stamps
    /// files, in nanoseconds since 1970.
    pub async fn lay_out(&self, delivery: &Delivery) -> Result<i64> {
        let upper = delivery.layer(0).join("upper");
        let to = self.on_disk(&upper);
        let changes = (&self.tree, &self.changes);
        self.ground.hub.lay_out(changes, to).await?;
        let gone = self
            .changes
            .iter()
            .filter(|(_, change)| change.after.is_none());
        let gone: Vec<RelPath> = gone.map(|(path, _)| path.clone()).collect();
        remove_from_layer(&upper, &gone)?;
        made_ns(&upper)
    }

    /// Commits for the user what was delivered. Gives the commit and the branch that it is on.
    ///
    /// # Errors
    /// Not all of it stands on the disk: then nothing is committed.
    pub async fn commit(&self, shape: Shape) -> Result<(ObjectId, &str)> {
        let no_branch = || Error::bug("there is no branch to commit to");
        let project = self.ground.project.as_ref().ok_or_else(no_branch)?;
        let users = project.branch.as_deref().ok_or_else(no_branch)?;
        let receiver = self.receiver(project);
        let missing = self
            .ground
            .hub
            .missing(self.on_disk(&project.root), &self.changes)
            .await?;
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let message = format!(
                "not all was applied, so nothing is committed: {}",
                first_of(&names, NAMED_MAX)
            );
            return Err(Error::new(ErrorKind::Denied, message)
                .hint("apply the rest, or deliver the files alone: `--as files`"));
        }
        let hub = &self.ground.hub;
        let tip = self.ground.tip().await?;
        let mut parents: Vec<ObjectId> = project.head.clone().into_iter().collect();
        let is_linked = shape == Shape::Merge || parents.is_empty();
        parents.extend(is_linked.then_some(tip));
        let author = receiver.identity().await?.unwrap_or_else(supervisor);
        let task = one_line(&self.ground.record.task, SUBJECT_CHARS_MAX);
        let name = self.ground.dir.name();
        let message = format!("{task}\n\nBuilt by the massgen pipeline {name}.\n");
        let commit = NewCommit {
            tree: &self.tree,
            parents: &parents,
            author: &author,
            message: &message,
        };
        let commit = hub.commit(commit).await?;
        let branch = self.ground.branch(DELIVERED)?;
        let before = hub.tip(&branch).await?;
        hub.move_branch(&branch, &commit, before.as_ref()).await?;
        receiver.take_objects(&commit).await?;
        let why = format!("massgen: apply {name}");
        receiver.advance(&commit, (&author, &why)).await?;
        Ok((commit, users))
    }

    /// Pushes the branch that the user has checked out.
    pub fn push(&self, remote: &str) -> Result<()> {
        let Some(project) = &self.ground.project else {
            return Err(Error::bug("there is no project to push"));
        };
        let branch = project.branch.as_deref().unwrap_or_default();
        self.receiver(project).push((remote, branch))
    }

    fn on_disk<'a>(&'a self, root: &'a AbsPath) -> OnDisk<'a> {
        OnDisk {
            root,
            line_ends: &self.line_ends,
        }
    }

    fn receiver<'a>(&'a self, project: &'a Project) -> Receiver<'a> {
        Receiver {
            hub: &self.ground.hub,
            project,
        }
    }

    /// Refuses what would replace files that the user has changed, or staged where a commit follows.
    ///
    /// # Errors
    /// It would, or something stands in the way; nothing is touched.
    pub async fn expect_untouched(&self, shape: Shape) -> Result<()> {
        let obstacles = self.ground.hub.obstacles(self.root(), &self.changes);
        if !obstacles.is_empty() {
            return Err(in_the_way(&obstacles));
        }
        let disk = self.on_disk(self.root());
        let mut foreign = self.ground.hub.foreign(disk, &self.changes).await?;
        if let Some(project) = self
            .ground
            .project
            .as_ref()
            .filter(|_| shape != Shape::Files)
        {
            let staged: BTreeSet<RelPath> = self.receiver(project).staged().await?;
            let changed = self.changes.keys().filter(|path| staged.contains(*path));
            foreign.extend(changed.cloned());
            foreign.sort();
            foreign.dedup();
        }
        if foreign.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = foreign.iter().map(ToString::to_string).collect();
        let message = format!(
            "{} would be replaced that you have changed, so nothing is applied: {}",
            counted(names.len(), "file"),
            first_of(&names, NAMED_MAX)
        );
        Err(Error::new(ErrorKind::Denied, message)
            .hint("commit or stash your changes, or move the files, and apply again"))
    }
}

/// A commit needs a branch to be on.
fn expect_branch(project: Option<&Project>) -> Result<()> {
    let message = match project {
        None => "the pipeline began without a project, so there is nothing to commit to",
        Some(project) if project.branch.is_none() => "no branch is checked out to commit to",
        Some(_) => return Ok(()),
    };
    Err(Error::new(ErrorKind::Usage, message).hint("deliver the files alone: `--as files`"))
}

fn in_the_way(obstacles: &BTreeMap<RelPath, &'static str>) -> Error {
    let named: Vec<String> = obstacles
        .iter()
        .map(|(path, what)| format!("`{path}` ({what})"))
        .collect();
    let message = format!(
        "the pipeline made files below what is no directory of the project here, so nothing is applied: {}",
        first_of(&named, NAMED_MAX)
    );
    Error::new(ErrorKind::Denied, message).hint("move it away, and apply again")
}

fn in_conflict(files: &[String]) -> Error {
    let message = format!(
        "what the pipeline made and what you have committed since change the same lines of {}: {}",
        counted(files.len(), "file"),
        first_of(files, NAMED_MAX)
    );
    Error::new(ErrorKind::Denied, message)
        .hint("nothing is applied; begin another pipeline on what there is now")
        .hint("or fetch `main` from the pipeline's repository, which `massgen branches` names, and merge it")
}
