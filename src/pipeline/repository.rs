//! The directory, the repository and the project of a pipeline: created at its start, and reopened
//! when it is resumed, inspected or delivered.

use std::collections::BTreeMap;

use crate::config::workflow::{ProjectChoice, WorkflowConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::record_context::RunInvocation;
use crate::path::{AbsPath, RelPath};
use crate::roles::journal::JournalEntry;
use crate::roles::{RoleName, RoleRight};
use crate::text::{count_noun, list_first, single_line};
use crate::world::git::GitProgram;
use crate::world::git::bare_repository::{BareRepository, NewCommit};
use crate::world::git::checkout::Checkout;
use crate::world::git::history::HistoryTraversal;
use crate::world::git::object::{BranchName, CommitAuthor, ObjectId};
use crate::world::git::project::ProjectRepository;
use crate::world::io::clock;
use crate::world::io::locate::locate;
use crate::world::store::pipelines::{
    PipelineDir, PipelineLock, PipelineRecord, ProjectOrigin, clear_unstarted,
};
use crate::world::store::redact::Redactor;

/// Warning about a project that borrows objects from another repository.
const BORROWED_OBJECTS_WARNING: &str = "some objects of the project are in another repository that \
                                        roles cannot read, so git fails in their checkouts; to fix \
                                        this, run `git repack -a -d` and remove \
                                        `.git/objects/info/alternates`";
/// The directory in the tree for the roles' directories, if a pipeline works on a project.
const ROLES_DIRECTORY: &str = ".pipeline";
/// The file in which massgen stores the task.
pub(super) const TASK_FILE: &str = "TASK.md";
/// The file in which massgen stores the shared understanding of the task.
pub(super) const SHARED_FILE: &str = "SHARED_UNDERSTANDING.md";
/// The file in which massgen stores the roles' reviews of their own work.
pub(super) const CUMULATIVE_FILE: &str = "CUMULATIVE_UNDERSTANDING.md";
/// Maximum length of a commit's subject, in characters.
const SUBJECT_CHARS_MAX: usize = 72;
/// Maximum number of uncommitted files that a warning names.
const NAMED_MAX: usize = 3;

/// The directory, the repository and the project of a pipeline.
#[derive(Debug)]
pub struct PipelineRepository {
    /// Its directory.
    pub dir: PipelineDir,
    /// The record of its start.
    pub record: PipelineRecord,
    /// The repository in which the roles' work is merged.
    pub bare_repository: BareRepository,
    /// The current state of its project, if it works on one.
    pub(super) project: Option<ProjectRepository>,
    /// Held as long as this process works on the pipeline.
    _lock: PipelineLock,
}

/// Input for a new pipeline.
#[derive(Clone, Copy, Debug)]
pub struct NewPipeline<'a> {
    /// Its config.
    pub workflow: &'a WorkflowConfig,
    /// The task as the user wrote it.
    pub task: &'a str,
    /// The task as roles read it, with mentions replaced by paths.
    pub question: &'a str,
    /// The paths that the prompt opened.
    pub opened: &'a [OpenedPath],
    /// The user's current directory.
    pub base: &'a AbsPath,
    /// The directory that contains massgen's state directory.
    pub state_parent: &'a AbsPath,
    /// The directory of all pipelines.
    pub pipelines: &'a AbsPath,
    /// The user's environment.
    pub env: &'a BTreeMap<String, String>,
    /// How the pipeline was started.
    pub invocation: &'a RunInvocation,
    /// Removes the secrets that the record must never hold.
    pub redactor: &'a Redactor,
}

impl PipelineRepository {
    /// Creates the directory and the repository of a pipeline. Returns them with notes for the
    /// user, one sentence each.
    ///
    /// # Errors
    /// There is no usable git, or the project cannot be worked on.
    pub async fn create(new: NewPipeline<'_>) -> Result<(Self, Vec<String>)> {
        let NewPipeline { workflow, base, .. } = new;
        let git = GitProgram::find(new.env).await?;
        let PipelinePreview { project, directory } =
            PipelinePreview::inspect(workflow, &git, base).await?;
        clear_unstarted(new.pipelines)?;
        let dir = PipelineDir::create(new.pipelines)?;
        let lock = dir.lock()?;
        let bare_repository =
            BareRepository::create(git, dir.bare_repository(), project.as_ref()).await?;
        let mut notes = match &project {
            Some(project) => validate_project(project, &bare_repository, &directory).await?,
            None => Vec::new(),
        };
        let mut stages = workflow.pipeline.stages.iter();
        let runs_git = stages.any(|stage| stage.role.has_right(RoleRight::Bash));
        if runs_git
            && let Some(project) = &project
            && project.has_alternates()?
        {
            notes.push(BORROWED_OBJECTS_WARNING.to_owned());
        }
        let invocation = new.invocation;
        let stages = workflow.pipeline.stages.iter();
        let workspace = match &workflow.workspace {
            None => dir.workspace(),
            Some(storage) => storage.resolve(new.state_parent, None).join(dir.name()),
        };
        let record = PipelineRecord {
            task: new.task.to_owned(),
            opened: new.opened.to_vec(),
            cwd: base.clone(),
            began: clock::now().iso_format(),
            config_path: invocation.config_path.clone(),
            own_files: invocation.own_files.clone(),
            config: invocation.config_text.clone(),
            arguments: invocation.arguments.clone(),
            roles: stages.map(|stage| stage.role.name.clone()).collect(),
            directory,
            workspace,
            project: project.as_ref().map(|project| ProjectOrigin {
                root: project.root.clone(),
                branch: project.branch.clone(),
                head: project.head.as_ref().map(ToString::to_string),
            }),
        };
        let head = project.as_ref().and_then(|project| project.head.clone());
        let repository = Self {
            dir,
            bare_repository,
            project,
            record,
            _lock: lock,
        };
        repository.commit_start(head, new.question).await?;
        repository
            .dir
            .write_record(&repository.record, new.redactor)?;
        Ok((repository, notes))
    }

    /// Reopens the pipeline in `dir`.
    pub async fn reopen(dir: PipelineDir, env: &BTreeMap<String, String>) -> Result<Self> {
        let lock = dir.lock()?;
        // A record that massgen did not create in this directory is rejected, and nothing in it is
        // touched.
        let record = dir.record()?;
        dir.clear_stale()?;
        let git = GitProgram::find(env).await?;
        let project = match &record.project {
            None => None,
            Some(origin) => {
                let repository = ProjectRepository::discover(&git, &origin.root).await?;
                let missing_project = || {
                    let message = format!("the project at `{}` no longer exists", origin.root);
                    Error::new(ErrorKind::Environment, message)
                        .with_hint("restore it, or start the task again")
                };
                Some(repository.ok_or_else(missing_project)?)
            }
        };
        Ok(Self {
            bare_repository: BareRepository::open(git, dir.bare_repository()),
            dir,
            record,
            project,
            _lock: lock,
        })
    }

    /// Fails if the user is in another directory than the one in which the pipeline began.
    pub fn require_start_directory(&self, cwd: &AbsPath, hint: &str) -> Result<()> {
        let start_directory = &self.record.cwd;
        if start_directory == cwd {
            return Ok(());
        }
        let message =
            format!("the pipeline was started in `{start_directory}`, not in this directory");
        Err(Error::new(ErrorKind::Environment, message).with_hint(hint))
    }

    /// Returns whether the shared branch has changed files since the start, other than those of the
    /// roles.
    pub(super) async fn has_deliverable_changes(&self) -> Result<bool> {
        let origin = self.record.project.as_ref();
        let head = origin.and_then(|origin| ObjectId::parse(origin.head.as_deref()?));
        let tree_before = match &head {
            Some(head) => self.bare_repository.tree_of(head).await?,
            None => self.bare_repository.empty_tree().await?,
        };
        let tree_after = self.bare_repository.tree_of(&self.tip().await?).await?;
        let roles_directory = &self.record.directory;
        let is_role_file = |path: &str| {
            !roles_directory.is_root()
                && RelPath::new(path).is_some_and(|path| path.is_within(roles_directory))
        };
        let changed_files = self
            .bare_repository
            .changed_files(&tree_before, &tree_after)
            .await?;
        Ok(changed_files
            .iter()
            .any(|changed| !is_role_file(&changed.path)))
    }

    /// Creates the first commit of the shared branch: the project's files, and the task.
    async fn commit_start(&self, head: Option<ObjectId>, task: &str) -> Result<()> {
        let tree = match &head {
            Some(head) => self.bare_repository.tree_of(head).await?,
            None => self.bare_repository.empty_tree().await?,
        };
        let task = format!("{}\n", task.trim()).into_bytes();
        let files = [(self.shared_file(TASK_FILE), Some(task))];
        let tree = self.bare_repository.with_files(&tree, &files).await?;
        let subject = single_line(&self.record.task, SUBJECT_CHARS_MAX);
        let message =
            JournalEntry::PipelineStart.message(&format!("[supervisor] start: {subject}"), "");
        let parents: Vec<ObjectId> = head.into_iter().collect();
        let new_commit = NewCommit {
            tree: &tree,
            parents: &parents,
            author: &supervisor_author(),
            message: &message,
        };
        let commit = self.bare_repository.commit(new_commit).await?;
        self.bare_repository
            .move_branch(&shared_branch()?, &commit, None)
            .await
    }

    /// Returns the newest commit of the shared branch.
    pub async fn tip(&self) -> Result<ObjectId> {
        let tip = self.bare_repository.tip(&shared_branch()?).await?;
        tip.ok_or_else(|| no_shared_branch_error(&self.dir))
    }

    /// Commits a tree to the shared branch. Fails if the branch no longer points to `tip`.
    pub(super) async fn commit(
        &self,
        tip: &ObjectId,
        other_parents: &[ObjectId],
        tree: &ObjectId,
        message: &str,
    ) -> Result<ObjectId> {
        let parents: Vec<ObjectId> = [tip].into_iter().chain(other_parents).cloned().collect();
        let new_commit = NewCommit {
            tree,
            parents: &parents,
            author: &supervisor_author(),
            message,
        };
        let commit = self.bare_repository.commit(new_commit).await?;
        self.bare_repository
            .move_branch(&shared_branch()?, &commit, Some(tip))
            .await?;
        Ok(commit)
    }

    /// Returns the journal entries in the commits of the shared branch since the pipeline began,
    /// each with its text.
    pub(super) async fn journal(&self) -> Result<Vec<(JournalEntry, String)>> {
        let head = base_commit(&self.record);
        let commits = self
            .bare_repository
            .history(
                &shared_branch()?,
                head.as_ref(),
                HistoryTraversal::FirstParents,
            )
            .await?;
        let entries = commits.iter().filter_map(|commit| {
            let (entry, text) = JournalEntry::parse(&commit.message)?;
            Some((entry, text.to_owned()))
        });
        Ok(entries.collect())
    }

    /// Returns the path in the tree of a file that only massgen writes.
    pub(super) fn shared_file(&self, name: &str) -> RelPath {
        self.record
            .directory
            .join(&RelPath::new(name).unwrap_or_default())
    }

    /// Returns the directory of a role in the tree.
    pub(super) fn role_directory(&self, role: &RoleName) -> RelPath {
        self.shared_file(role.as_str())
    }

    /// Returns the branch of a role instance.
    pub(super) fn branch(&self, instance: &str) -> Result<BranchName> {
        let name = format!("massgen/{}/{instance}", self.dir.short_name());
        BranchName::parse(&name).ok_or_else(|| Error::bug(format!("`{name}` is not a branch")))
    }

    /// Returns the checkout in which checks run on what would be merged.
    pub(super) fn checks_checkout(&self) -> Checkout {
        let (dir, index) = (self.dir.merge_checkout(), self.dir.index("merge"));
        Checkout::new(self.bare_repository.clone(), dir, index)
    }

    /// Returns the checkout with this name.
    pub(super) fn checkout(&self, name: &str) -> Checkout {
        let dir = self.record.workspace.join(name);
        Checkout::new(self.bare_repository.clone(), dir, self.dir.index(name))
    }
}

/// Returns the commit of the project on which the shared branch began, if there was one.
pub(super) fn base_commit(record: &PipelineRecord) -> Option<ObjectId> {
    let project = record.project.as_ref()?;
    ObjectId::parse(project.head.as_ref()?)
}

/// Returns the error for a pipeline whose repository has lost its shared branch.
pub(super) fn no_shared_branch_error(dir: &PipelineDir) -> Error {
    let message = format!("the repository of `{}` has no shared branch", dir.name());
    Error::new(ErrorKind::Environment, message)
        .with_hint(format!("if it is not needed, remove `{}`", dir.dir()))
}

/// Returns the name of the shared branch.
pub(super) fn shared_branch() -> Result<BranchName> {
    BranchName::parse("main").ok_or_else(|| Error::bug("`main` is not a branch"))
}

/// Returns the author of massgen's own commits.
pub(super) fn supervisor_author() -> CommitAuthor {
    CommitAuthor::new("supervisor (massgen)", "supervisor@massgen.invalid")
}

/// The project and the directory that a pipeline would use.
#[derive(Debug)]
pub struct PipelinePreview {
    /// The project that it works on, if it works on one.
    pub project: Option<ProjectRepository>,
    /// The directory in the tree for the roles' directories.
    pub directory: RelPath,
}

impl PipelinePreview {
    /// Returns the preview of `workflow`, for a user in the directory `base`.
    ///
    /// # Errors
    /// The project cannot be worked on.
    pub async fn inspect(
        workflow: &WorkflowConfig,
        git: &GitProgram,
        base: &AbsPath,
    ) -> Result<Self> {
        let project = find_project(git, &workflow.project, base).await?;
        require_within(project.as_ref(), workflow.within.as_ref())?;
        let directory = match (&workflow.directory, &project) {
            (Some(directory), _) => directory.clone(),
            (None, Some(_)) => RelPath::new(ROLES_DIRECTORY).unwrap_or_default(),
            (None, None) => RelPath::default(),
        };
        Ok(Self { project, directory })
    }
}

/// Rejects a project outside the directory `within`, if there is one.
fn require_within(project: Option<&ProjectRepository>, within: Option<&AbsPath>) -> Result<()> {
    let (Some(project), Some(within)) = (project, within) else {
        return Ok(());
    };
    let root = locate(&project.root)?.into_real();
    if root.is_within(&locate(within)?.into_real()) {
        return Ok(());
    }
    let message = format!(
        "the config was found in the project rather than named, and the repository `{root}` is not \
         in this directory"
    );
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("if you trust this config, add `--config NAME` to the command")
        .with_hint("or start in the root of the repository"))
}

/// Finds the project to work on.
async fn find_project(
    git: &GitProgram,
    choice: &ProjectChoice,
    base: &AbsPath,
) -> Result<Option<ProjectRepository>> {
    match choice {
        ProjectChoice::None => Ok(None),
        ProjectChoice::Auto => ProjectRepository::discover(git, base).await,
        ProjectChoice::At(dir) => {
            let project = ProjectRepository::discover(git, dir).await?;
            let no_repository_error = || {
                let message = format!("`{dir}` is not in a git repository");
                Error::new(ErrorKind::Config, message).with_hint(
                    "create one with `git init`, or set `project: none` under \
                                `workflow`",
                )
            };
            project.map(Some).ok_or_else(no_repository_error)
        }
    }
}

/// Checks a project before any role works on it. Returns notes for the user.
async fn validate_project(
    project: &ProjectRepository,
    bare_repository: &BareRepository,
    directory: &RelPath,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    if let Some(head) = &project.head {
        let tree = bare_repository.tree_of(head).await?;
        let files = bare_repository.files_below(&tree, directory).await?;
        if !directory.is_root() && !files.is_empty() {
            let message =
                format!("the directory of the roles, `{directory}`, exists in the project");
            return Err(Error::new(ErrorKind::Config, message)
                .with_hint("choose another one with `directory` under `workflow`"));
        }
    }
    let uncommitted = project.list_uncommitted(bare_repository).await?;
    if !uncommitted.is_empty() {
        notes.push(format!(
            "{} not committed, so the roles do not see them: {}",
            match uncommitted.len() {
                1 => "the changes of 1 file are".to_owned(),
                count => format!("the changes of {} are", count_noun(count, "file")),
            },
            list_first(&uncommitted, NAMED_MAX)
        ));
    }
    Ok(notes)
}
