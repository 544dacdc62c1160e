//! Owns what a pipeline stands on: its directory, its repository and the project that it works on, made
//! once at its beginning and found again when it is gone on with.

use std::collections::BTreeMap;

use crate::config::workflow::{ProjectChoice, Workflow};
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::prompt::opened::Opened;
use crate::roles::trail::Entry;
use crate::roles::{Right, RoleName};
use crate::wording::{counted, first_of, one_line};
use crate::world::clock;
use crate::world::git::Git;
use crate::world::git::checkout::Checkout;
use crate::world::git::history::Line;
use crate::world::git::hub::{Hub, NewCommit};
use crate::world::git::object::{Author, Branch, ObjectId};
use crate::world::git::project::Project;
use crate::world::locate::locate;
use crate::world::store::pipelines::{HeldPipeline, Origin, PipelineDir, Record, clear_unbegun};
use crate::world::store::redact::Redactor;

/// What is said of a project whose objects are not all its own.
const BORROWS: &str = "some objects of the project are in another repository, which roles may not read: \
    git fails in their checkouts; `git repack -a -d` and the removal of `.git/objects/info/alternates` end that";
/// The directory of the tree in which the roles have theirs, where a pipeline works on a project.
const IN_PROJECT: &str = ".pipeline";
/// What everybody may read of the task.
pub(super) const TASK: &str = "TASK.md";
/// What is understood of the task.
pub(super) const SHARED: &str = "SHARED_UNDERSTANDING.md";
/// What the roles have thought of their own work.
pub(super) const CUMULATIVE: &str = "CUMULATIVE_UNDERSTANDING.md";
/// The longest subject of a commit, in characters.
const SUBJECT_CHARS_MAX: usize = 72;
/// How many uncommitted files a warning names.
const NAMED_MAX: usize = 3;

/// What a pipeline stands on.
#[derive(Debug)]
pub struct Ground {
    /// Its directory.
    pub dir: PipelineDir,
    /// How it began.
    pub record: Record,
    /// Its repository.
    pub hub: Hub,
    /// Its project as it is now, if it works on one.
    pub(super) project: Option<Project>,
    _held: HeldPipeline,
}

/// A pipeline that begins.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// What the config says of it.
    pub workflow: &'a Workflow,
    /// The task as the user wrote it, and as roles read it, with mentions replaced by paths.
    pub task: (&'a str, &'a str),
    /// What the prompt opened.
    pub opened: &'a [Opened],
    /// The directory that the user stands in.
    pub base: &'a AbsPath,
    /// Where pipelines lie.
    pub pipelines: &'a AbsPath,
    /// The user's environment.
    pub env: &'a BTreeMap<String, String>,
    /// The config file, its text, and the words of the command line.
    pub started_with: (Option<&'a AbsPath>, Option<&'a str>, &'a [String]),
    /// What the record must never hold.
    pub redactor: &'a Redactor,
}

impl Ground {
    /// Makes what a pipeline stands on. Gives it with what the user should know, one sentence each.
    ///
    /// # Errors
    /// There is no git that will do, or the project cannot be worked on.
    pub async fn begin(beginning: Beginning<'_>) -> Result<(Self, Vec<String>)> {
        let Beginning { workflow, base, .. } = beginning;
        let git = Git::find(beginning.env).await?;
        let Setting { project, directory } = Setting::of(workflow, &git, base).await?;
        clear_unbegun(beginning.pipelines)?;
        let dir = PipelineDir::make(beginning.pipelines)?;
        let held = dir.hold()?;
        let hub = Hub::make(git, dir.hub(), project.as_ref()).await?;
        let mut notes = match &project {
            Some(project) => expect_fit(project, &hub, &directory).await?,
            None => Vec::new(),
        };
        let mut stages = workflow.pipeline.stages.iter();
        let runs_git = stages.any(|stage| stage.role.may(Right::Bash));
        if runs_git && project.as_ref().is_some_and(Project::borrows) {
            notes.push(BORROWS.to_owned());
        }
        let (config_path, config, arguments) = beginning.started_with;
        let stages = workflow.pipeline.stages.iter();
        let workspace = match &workflow.workspace {
            None => dir.workspace(),
            Some(place) => place.resolve(base, None).join(dir.name()),
        };
        let record = Record {
            task: beginning.task.0.to_owned(),
            opened: beginning.opened.to_vec(),
            cwd: base.clone(),
            began: clock::now().iso(),
            config_path: config_path.cloned(),
            config: config.map(str::to_owned),
            arguments: arguments.to_vec(),
            roles: stages.map(|stage| stage.role.name.clone()).collect(),
            directory,
            workspace,
            project: project.as_ref().map(|project| Origin {
                root: project.root.clone(),
                branch: project.branch.clone(),
                head: project.head.as_ref().map(ToString::to_string),
            }),
        };
        let begins_at = project.as_ref().and_then(|project| project.head.clone());
        let ground = Self {
            dir,
            hub,
            project,
            record,
            _held: held,
        };
        ground.start(begins_at, beginning.task.1).await?;
        ground.dir.file(&ground.record, beginning.redactor)?;
        Ok((ground, notes))
    }

    /// Finds what the pipeline in `dir` stands on.
    pub async fn go_on(dir: PipelineDir, env: &BTreeMap<String, String>) -> Result<Self> {
        let held = dir.hold()?;
        // What was not made here is not believed, and nothing in it is touched.
        let record = dir.record()?;
        dir.clear_after_the_dead()?;
        let git = Git::find(env).await?;
        let project = match &record.project {
            None => None,
            Some(origin) => {
                let found = Project::around(&git, &origin.root).await?;
                let gone = || {
                    let message = format!("the project at `{}` is gone", origin.root);
                    Error::new(ErrorKind::Environment, message)
                        .hint("put it back, or begin the task again")
                };
                Some(found.ok_or_else(gone)?)
            }
        };
        Ok(Self {
            hub: Hub::open(git, dir.hub()),
            dir,
            record,
            project,
            _held: held,
        })
    }

    /// Refuses a user who stands elsewhere than where the pipeline was begun.
    pub fn expect_begun_in(&self, cwd: &AbsPath, hint: &str) -> Result<()> {
        let begun = &self.record.cwd;
        if begun == cwd {
            return Ok(());
        }
        let message = format!("the pipeline was begun in `{begun}`, and this is another directory");
        Err(Error::new(ErrorKind::Environment, message).hint(hint))
    }

    /// Whether the shared branch holds other files than it began with, beside those of the roles.
    pub(super) async fn has_something_to_deliver(&self) -> Result<bool> {
        let origin = self.record.project.as_ref();
        let head = origin.and_then(|origin| ObjectId::parse(origin.head.as_deref()?));
        let before = match &head {
            Some(head) => self.hub.tree_of(head).await?,
            None => self.hub.empty_tree().await?,
        };
        let after = self.hub.tree_of(&self.tip().await?).await?;
        let own = &self.record.directory;
        let is_ours = |path: &str| {
            !own.is_root() && RelPath::new(path).is_some_and(|path| path.is_within(own))
        };
        let changed = self.hub.changed(&before, &after).await?;
        Ok(changed.iter().any(|changed| !is_ours(&changed.path)))
    }

    /// The first commit of the shared branch: what is there, and the task.
    async fn start(&self, head: Option<ObjectId>, task: &str) -> Result<()> {
        let tree = match &head {
            Some(head) => self.hub.tree_of(head).await?,
            None => self.hub.empty_tree().await?,
        };
        let task = format!("{}\n", task.trim()).into_bytes();
        let files = [(self.shared_file(TASK), Some(task))];
        let tree = self.hub.with_files(&tree, &files).await?;
        let subject = one_line(&self.record.task, SUBJECT_CHARS_MAX);
        let message = Entry::Start.message(&format!("[supervisor] start: {subject}"), "");
        let parents: Vec<ObjectId> = head.into_iter().collect();
        let commit = NewCommit {
            tree: &tree,
            parents: &parents,
            author: &supervisor(),
            message: &message,
        };
        let commit = self.hub.commit(commit).await?;
        self.hub.move_branch(&main()?, &commit, None).await
    }

    /// The newest commit of the shared branch.
    pub async fn tip(&self) -> Result<ObjectId> {
        let tip = self.hub.tip(&main()?).await?;
        tip.ok_or_else(|| {
            let message = format!(
                "the repository of `{}` has no shared branch",
                self.dir.name()
            );
            Error::new(ErrorKind::Environment, message)
                .hint(format!("if nobody needs it, remove `{}`", self.dir.dir()))
        })
    }

    /// Commits a tree to the shared branch, which still points at `tip`.
    pub(super) async fn commit(
        &self,
        (tip, others, tree): (&ObjectId, &[ObjectId], &ObjectId),
        message: &str,
    ) -> Result<ObjectId> {
        let parents: Vec<ObjectId> = [tip].into_iter().chain(others).cloned().collect();
        let commit = NewCommit {
            tree,
            parents: &parents,
            author: &supervisor(),
            message,
        };
        let commit = self.hub.commit(commit).await?;
        self.hub.move_branch(&main()?, &commit, Some(tip)).await?;
        Ok(commit)
    }

    /// The commits of the shared branch since the pipeline began, and what each says of its course.
    pub(super) async fn trail(&self) -> Result<Vec<(Entry, String)>> {
        let head = head(&self.record);
        let commits = self
            .hub
            .history(&main()?, head.as_ref(), Line::First)
            .await?;
        let entries = commits.iter().filter_map(|commit| {
            let (entry, text) = Entry::read(&commit.message)?;
            Some((entry, text.to_owned()))
        });
        Ok(entries.collect())
    }

    /// Where a file that massgen alone writes stands in the tree.
    pub(super) fn shared_file(&self, name: &str) -> RelPath {
        self.record
            .directory
            .join(&RelPath::new(name).unwrap_or_default())
    }

    /// The directory of a role in the tree.
    pub(super) fn directory_of(&self, role: &RoleName) -> RelPath {
        self.shared_file(role.as_str())
    }

    /// The branch of a seat.
    pub(super) fn branch(&self, seat: &str) -> Result<Branch> {
        let name = format!("massgen/{}/{seat}", self.dir.short());
        Branch::parse(&name).ok_or_else(|| Error::bug(format!("`{name}` is no branch")))
    }

    /// The checkout in which checks run on what would be merged.
    pub(super) fn checkout_of_checks(&self) -> Checkout {
        let (dir, index) = (self.dir.merge(), self.dir.index("merge"));
        Checkout::at(self.hub.clone(), dir, index)
    }

    /// The checkout of this name.
    pub(super) fn checkout(&self, name: &str) -> Checkout {
        let dir = self.record.workspace.join(name);
        Checkout::at(self.hub.clone(), dir, self.dir.index(name))
    }
}

/// The commit of the project on which the shared branch began, if there was one.
pub(super) fn head(record: &Record) -> Option<ObjectId> {
    let project = record.project.as_ref()?;
    ObjectId::parse(project.head.as_ref()?)
}

/// The shared branch.
pub(super) fn main() -> Result<Branch> {
    Branch::parse("main").ok_or_else(|| Error::bug("`main` is no branch"))
}

/// Who massgen's own commits are by.
pub(super) fn supervisor() -> Author {
    Author::new("supervisor (massgen)", "supervisor@massgen.invalid")
}

/// What a pipeline would be set in.
#[derive(Debug)]
pub struct Setting {
    /// The project that it works on, if it works on one.
    pub project: Option<Project>,
    /// The directory of the tree in which the roles have theirs.
    pub directory: RelPath,
}

impl Setting {
    /// That of `workflow`, for somebody who stands in `base`.
    ///
    /// # Errors
    /// The project cannot be worked on.
    pub async fn of(workflow: &Workflow, git: &Git, base: &AbsPath) -> Result<Self> {
        let project = project(git, &workflow.project, base).await?;
        expect_within(project.as_ref(), workflow.within.as_ref())?;
        let directory = match (&workflow.directory, &project) {
            (Some(directory), _) => directory.clone(),
            (None, Some(_)) => RelPath::new(IN_PROJECT).unwrap_or_default(),
            (None, None) => RelPath::default(),
        };
        Ok(Self { project, directory })
    }
}

/// Refuses a project that lies outside of the directory that it has to lie in.
fn expect_within(project: Option<&Project>, within: Option<&AbsPath>) -> Result<()> {
    let (Some(project), Some(within)) = (project, within) else {
        return Ok(());
    };
    let root = locate(&project.root)?.into_real();
    if root.is_within(&locate(within)?.into_real()) {
        return Ok(());
    }
    let message = format!(
        "the config was found, not named, and the repository `{root}` is not in this directory"
    );
    Err(Error::new(ErrorKind::Config, message)
        .hint("if you trust this project's config: massgen --config NAME …")
        .hint("or begin in the root of the repository"))
}

/// What is to be worked on.
async fn project(git: &Git, choice: &ProjectChoice, base: &AbsPath) -> Result<Option<Project>> {
    match choice {
        ProjectChoice::None => Ok(None),
        ProjectChoice::Auto => Project::around(git, base).await,
        ProjectChoice::At(dir) => {
            let found = Project::around(git, dir).await?;
            let none = || {
                let message = format!("there is no repository around `{dir}`");
                Error::new(ErrorKind::Config, message)
                    .hint("make one: git init, or write `project: none` under `workflow`")
            };
            found.map(Some).ok_or_else(none)
        }
    }
}

/// Says what the user should know of a project before anybody works on it.
async fn expect_fit(project: &Project, hub: &Hub, directory: &RelPath) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    if let Some(head) = &project.head {
        let tree = hub.tree_of(head).await?;
        let taken = hub.files_below(&tree, directory).await?;
        if !directory.is_root() && !taken.is_empty() {
            let message = format!(
                "`{directory}`, in which the roles would have their directories, is part of the project"
            );
            return Err(Error::new(ErrorKind::Config, message)
                .hint("name another one: `directory` under `workflow`"));
        }
    }
    let uncommitted = project.uncommitted(hub).await?;
    if !uncommitted.is_empty() {
        notes.push(format!(
            "{} not committed, and the roles do not see that: {}",
            match uncommitted.len() {
                1 => "the changes of 1 file are".to_owned(),
                count => format!("the changes of {} are", counted(count, "file")),
            },
            first_of(&uncommitted, NAMED_MAX)
        ));
    }
    Ok(notes)
}
