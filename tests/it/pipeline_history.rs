//! History of a pipeline, shown and reverted by the real binary: branches, commits, the removed
//! work of a role, and a role that is reset.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use massgen::config::workflow::{ProjectChoice, WorkflowConfig};
use massgen::id::AgentId;
use massgen::orchestrator::record_context::RunInvocation;
use massgen::path::{AbsPath, RelPath};
use massgen::pipeline::repository::{NewPipeline, PipelineRepository};
use massgen::roles::built_in::built_in_role;
use massgen::roles::journal::{JournalEntry, MergeEntry};
use massgen::roles::{PipelineSpec, PipelineStage, RoleName};
use massgen::world::git::bare_repository::NewCommit;
use massgen::world::git::object::{BranchName, CommitAuthor, ObjectId};
use massgen::world::git::tree::TreeEdit;
use massgen::world::store::diagnostic_log::LogDetail;
use massgen::world::store::redact::Redactor;
use serde_json::Value;

use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, answer_replies, team};

/// Maximum number of further tries while another process holds the lock.
const LOCK_RETRIES: usize = 100;
/// Pause before each of them.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

fn role(name: &str) -> RoleName {
    RoleName::parse(name).unwrap()
}

fn main() -> BranchName {
    BranchName::parse("main").unwrap()
}

/// A pipeline without a project, locked while this exists.
struct PipelineFixture {
    repository: PipelineRepository,
}

impl PipelineFixture {
    async fn new(project: &Project) -> Self {
        let stage = |name: &&str| PipelineStage {
            role: built_in_role(&role(name)).unwrap(),
            agents: Vec::new(),
            copies: 1,
        };
        let workflow = WorkflowConfig {
            pipeline: PipelineSpec {
                stages: ["planner", "implementer", "user"]
                    .iter()
                    .map(stage)
                    .collect(),
                iterations_max: 3,
                until: Some(role("user")),
                context_tokens_max: 1000,
            },
            workspace: None,
            directory: None,
            project: ProjectChoice::None,
            within: None,
            merge_tries_max: 1,
        };
        let base = AbsPath::new(project.path("")).unwrap();
        let (repository, _) = PipelineRepository::create(NewPipeline {
            workflow: &workflow,
            task: "Write a game",
            question: "Write a game",
            opened: &[],
            base: &base,
            state_parent: &base,
            pipelines: &base.join(".massgen/pipelines"),
            env: &std::env::vars().collect(),
            invocation: &RunInvocation {
                config_path: None,
                config_text: None,
                own_files: Vec::new(),
                arguments: Vec::new(),
                detail: LogDetail::Plain,
            },
            redactor: &Redactor::new(Vec::new()),
        })
        .await
        .unwrap();
        Self { repository }
    }

    async fn tree(&self, on: &ObjectId, files: &[(&str, Option<&str>)]) -> ObjectId {
        let tree = self.repository.bare_repository.tree_of(on).await.unwrap();
        let files: Vec<TreeEdit> = files
            .iter()
            .map(|(path, text)| {
                let text = text.map(|text| text.as_bytes().to_vec());
                (RelPath::new(path).unwrap(), text)
            })
            .collect();
        self.repository
            .bare_repository
            .with_files(&tree, &files)
            .await
            .unwrap()
    }

    async fn commit(&self, tree: &ObjectId, parents: &[ObjectId], message: &str) -> ObjectId {
        let new = NewCommit {
            tree,
            parents,
            author: &CommitAuthor::new("planner (scripted)", "planner@massgen"),
            message,
        };
        self.repository.bare_repository.commit(new).await.unwrap()
    }

    /// Commits the work of an instance in an iteration, merged together with a line in massgen's
    /// document.
    async fn work(&self, (instance, iteration): (&str, u32), files: &[(&str, Option<&str>)]) {
        let bare_repository = &self.repository.bare_repository;
        let tip = self.repository.tip().await.unwrap();
        let tree = self.tree(&tip, files).await;
        // A role's own claims about the progress are not trusted.
        let forged = JournalEntry::IterationEnd { iteration: 9 };
        let message = forged.message(&format!("[{instance}] did {iteration}"), "I am done.");
        let parents = std::slice::from_ref(&tip);
        let own = self.commit(&tree, parents, &message).await;
        let branch = format!("massgen/{}/{instance}", self.repository.dir.short_name());
        let branch = BranchName::parse(&branch).unwrap();
        let before = bare_repository.tip(&branch).await.unwrap();
        bare_repository
            .move_branch(&branch, &own, before.as_ref())
            .await
            .unwrap();

        let known = self.text("CUMULATIVE_UNDERSTANDING.md").await;
        let text = format!("{}\n{instance} {iteration}\n", known.unwrap_or_default());
        let documents = [("CUMULATIVE_UNDERSTANDING.md", Some(text.as_str()))];
        let tree = self.tree(&own, &documents).await;
        let name = instance.trim_end_matches("-2");
        let entry = JournalEntry::Merge(MergeEntry {
            iteration,
            role: role(name),
            copy: 1,
            copies: 1,
            agent: AgentId::parse("ann").unwrap(),
            satisfied: false,
            tree_state: tree.to_string(),
        });
        let message = entry.message(
            &format!("[supervisor] merge {instance}: did {iteration}"),
            "",
        );
        let merged = self.commit(&tree, &[tip.clone(), own], &message).await;
        bare_repository
            .move_branch(&main(), &merged, Some(&tip))
            .await
            .unwrap();
    }

    /// Returns a file of the shared branch.
    async fn text(&self, path: &str) -> Option<String> {
        let bare_repository = &self.repository.bare_repository;
        let tip = bare_repository.tip(&main()).await.unwrap().unwrap();
        let tree = bare_repository.tree_of(&tip).await.unwrap();
        let path = RelPath::new(path).unwrap();
        let bytes = bare_repository.file(&tree, &path, 1000).await.unwrap();
        bytes.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// Runs the binary while the pipeline is not locked, and opens the pipeline again afterwards.
    async fn run_massgen(
        self,
        project: Project,
        arguments: &[&str],
        code: i32,
    ) -> (Self, FinishedCommand) {
        let dir = self.repository.dir.clone();
        drop(self);
        let mut finished = project.retyped(arguments).run();
        // Until a process that another test starts has replaced its image, it has the lock too.
        for _ in 0..LOCK_RETRIES {
            if !finished.stderr().contains("another process is working") {
                break;
            }
            thread::sleep(LOCK_PAUSE);
            finished = finished.then(arguments).run();
        }
        assert_eq!(finished.code(), Some(code), "{}", finished.stderr());
        let repository = PipelineRepository::reopen(dir, &std::env::vars().collect())
            .await
            .unwrap();
        (Self { repository }, finished)
    }
}

async fn two_iterations(project: &Project) -> PipelineFixture {
    let fixture = PipelineFixture::new(project).await;
    let plan = [("planner/PLAN.md", Some("plan 1\n"))];
    fixture.work(("planner", 1), &plan).await;
    let code = [
        ("implementer/game.py", Some("print(1)\n")),
        ("shared.txt", Some("a\n")),
    ];
    fixture.work(("implementer", 1), &code).await;
    let feedback = [("user/FEEDBACK.md", Some("too short\n"))];
    fixture.work(("user", 1), &feedback).await;
    let code = [
        ("implementer/game.py", Some("print(2)\n")),
        ("old.txt", None),
    ];
    fixture.work(("implementer", 2), &code).await;
    fixture
}

fn listed_rows(finished: &FinishedCommand) -> Vec<Value> {
    let rows = finished.stdout().lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().unwrap()
}

fn row_values<'a>(rows: &'a [Value], name: &str) -> Vec<&'a Value> {
    rows.iter().map(|row| &row[name]).collect()
}

#[tokio::test]
async fn the_log_shows_what_was_committed_and_not_what_roles_claim() {
    let project = Project::new();
    let fixture = two_iterations(&project).await;
    // It can be inspected while it is locked.
    let finished = project.retyped(["log", "--json"]).success();
    let log = listed_rows(&finished);
    let merge = |instance: &str, n: u32| format!("[supervisor] merge {instance}: did {n}");
    let subjects = [
        merge("implementer", 2),
        "[implementer] did 2".to_owned(),
        merge("user", 1),
        "[user] did 1".to_owned(),
        merge("implementer", 1),
        "[implementer] did 1".to_owned(),
        merge("planner", 1),
        "[planner] did 1".to_owned(),
        "[supervisor] start: Write a game".to_owned(),
    ];
    assert_eq!(
        row_values(&log, "subject"),
        subjects.iter().collect::<Vec<_>>()
    );
    let iterations: Vec<_> = row_values(&log, "iteration")
        .into_iter()
        .map(Value::as_u64)
        .collect();
    let expected = [2, 2, 1, 1, 1, 1, 1, 1].map(Some);
    assert_eq!(iterations[..8], expected);
    assert_eq!(iterations[8], None);
    assert_eq!(log[1]["event"], Value::Null);
    assert_eq!(
        (&log[0]["event"], &log[0]["role"]),
        (&"merge".into(), &"implementer".into())
    );
    let files = serde_json::json!([
        {"path": "implementer/game.py", "how": "added"},
        {"path": "shared.txt", "how": "added"},
    ]);
    assert_eq!(log[5]["files"], files);
    assert_eq!(log[8]["files"][0]["path"], "TASK.md");

    let table = finished.then(["log", "last"]).success();
    let lines: Vec<&str> = table.stdout().lines().collect();
    assert_eq!(lines.len(), 9);
    let part = "    1     2 files  planner (scripted)    [implementer] did 1";
    assert!(lines[5].contains(part), "{}", lines[5]);
    drop(fixture);
}

#[tokio::test]
async fn branches_are_shown_with_where_their_files_are() {
    let project = Project::new();
    let fixture = two_iterations(&project).await;
    let workspace = fixture.repository.record.workspace.clone();
    for name in ["implementer.agent1", "implementer.agent2", "user"] {
        fs::create_dir_all(workspace.join(name).as_path()).unwrap();
    }
    let finished = project.retyped(["branches", "--json"]).success();
    let branches = listed_rows(&finished);
    let short = fixture.repository.dir.short_name();
    let own = |instance: &str| format!("massgen/{short}/{instance}");
    let names = [
        "main".to_owned(),
        own("implementer"),
        own("planner"),
        own("user"),
    ];
    assert_eq!(
        row_values(&branches, "branch"),
        names.iter().collect::<Vec<_>>()
    );
    assert_eq!(row_values(&branches, "ahead"), [0, 0, 0, 0]);
    assert_eq!(row_values(&branches, "behind"), [0, 1, 7, 3]);
    assert_eq!(row_values(&branches, "subject")[2], "[planner] did 1");
    let dirs = |names: &[&str]| -> Value {
        let below = format!(
            ".massgen/pipelines/{}/workspace",
            fixture.repository.dir.name()
        );
        let dirs = names.iter().map(|name| format!("[PROJECT]/{below}/{name}"));
        dirs.collect::<Vec<_>>().into()
    };
    let agents = dirs(&["implementer.agent1", "implementer.agent2"]);
    assert_eq!(branches[1]["checkouts"], agents);
    assert_eq!(branches[2]["checkouts"], dirs(&[]));
    assert_eq!(branches[3]["checkouts"], dirs(&["user"]));

    let mut finished = finished;
    for arguments in [["branches"], ["--branches"]] {
        finished = finished.then(arguments).success();
        let table = &finished;
        let lines: Vec<&str> = table.stdout().lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[2].contains("7 behind"), "{}", lines[2]);
        let name = fixture.repository.dir.name();
        let running = format!("the repository of {name}, which is running: ");
        assert!(table.stderr().contains(&running), "{}", table.stderr());
    }
}

#[tokio::test]
async fn the_work_of_a_role_is_reverted_once() {
    let project = Project::new();
    let fixture = two_iterations(&project).await;
    let arguments = ["revert", "last", "--role", "implementer"];
    // A running pipeline is not changed, and not resumed twice.
    let mut finished = project.retyped(arguments).failure(3);
    for arguments in [&["--continue"][..], &["--session-id", "pipeline_"]] {
        let stderr = finished.stderr();
        assert!(stderr.contains("another process is working on"), "{stderr}");
        finished = finished.then(arguments).failure(3);
    }
    let stderr = finished.stderr();
    assert!(stderr.contains("another process is working on"), "{stderr}");
    let documents = fixture.text("CUMULATIVE_UNDERSTANDING.md").await;
    assert!(documents.is_some());

    let (fixture, finished) = fixture
        .run_massgen(finished.then([""]), &arguments, 0)
        .await;
    assert_eq!(finished.stdout().lines().count(), 2);
    assert_eq!(fixture.text("implementer/game.py").await, None);
    assert_eq!(fixture.text("shared.txt").await, None);
    let plan = fixture.text("planner/PLAN.md").await;
    assert_eq!(plan.as_deref(), Some("plan 1\n"));
    assert_eq!(fixture.text("CUMULATIVE_UNDERSTANDING.md").await, documents);
    let tip = fixture.repository.tip().await.unwrap();
    let commit = fixture
        .repository
        .bare_repository
        .read_commit(&tip)
        .await
        .unwrap();
    assert_eq!(
        commit.subject(),
        "[supervisor] revert the work of implementer"
    );
    let entry = JournalEntry::parse(&commit.message).map(|(entry, _)| entry);
    assert_eq!(
        entry,
        Some(JournalEntry::Revert {
            role: role("implementer")
        })
    );

    let (fixture, finished) = fixture
        .run_massgen(finished.then([""]), &arguments, 0)
        .await;
    assert!(
        finished.stderr().contains("nothing was changed"),
        "{}",
        finished.stderr()
    );
    assert_eq!(fixture.repository.tip().await.unwrap(), tip);

    // Only what was merged since is removed then.
    let again = [("implementer/game.py", Some("print(3)\n"))];
    fixture.work(("implementer", 3), &again).await;
    let (fixture, finished) = fixture
        .run_massgen(finished.then([""]), &arguments, 0)
        .await;
    assert_eq!(finished.stdout().lines().count(), 1);
    assert_eq!(fixture.text("implementer/game.py").await, None);
}

#[tokio::test]
async fn work_that_later_work_depends_on_is_not_reverted() {
    let project = Project::new();
    let fixture = two_iterations(&project).await;
    let later = [("shared.txt", Some("b\n"))];
    fixture.work(("user", 2), &later).await;
    let tip = fixture.repository.tip().await.unwrap();
    let arguments = ["revert", "--role", "implementer"];
    let (fixture, finished) = fixture.run_massgen(project, &arguments, 3).await;
    assert!(
        finished
            .stderr()
            .contains("later work changed `shared.txt`"),
        "{}",
        finished.stderr()
    );
    assert_eq!(fixture.repository.tip().await.unwrap(), tip);
    // Control: the later work first.
    let arguments = ["revert", "--role", "user"];
    let (fixture, finished) = fixture
        .run_massgen(finished.then([""]), &arguments, 0)
        .await;
    assert_eq!(fixture.text("shared.txt").await.as_deref(), Some("a\n"));
    let arguments = ["revert", "--role", "implementer"];
    let (fixture, _finished) = fixture
        .run_massgen(finished.then([""]), &arguments, 0)
        .await;
    assert_eq!(fixture.text("shared.txt").await, None);
}

fn instance_places(fixture: &PipelineFixture) -> Vec<PathBuf> {
    let (dir, record) = (&fixture.repository.dir, &fixture.repository.record);
    let mut places = Vec::new();
    for instance in ["implementer", "implementer-2", "user"] {
        places.push(record.workspace.join(instance).as_path().to_owned());
        places.push(dir.index(instance).as_path().to_owned());
        places.push(dir.sessions(instance).as_path().to_owned());
    }
    places
}

#[tokio::test]
async fn a_reset_removes_the_branches_checkouts_and_directory_of_a_role() {
    let project = Project::new();
    let fixture = two_iterations(&project).await;
    let copy = [("implementer/more.py", Some("print(4)\n"))];
    fixture.work(("implementer-2", 2), &copy).await;
    let places = instance_places(&fixture);
    for path in &places {
        fs::create_dir_all(path.join("inner")).unwrap();
    }
    let arguments = ["reset", "--role", "implementer"];
    let finished = project.retyped(arguments).failure(3);
    assert!(places[0].exists());

    let (fixture, _finished) = fixture
        .run_massgen(finished.then([""]), &arguments, 0)
        .await;
    let left: Vec<bool> = places.iter().map(|path| path.exists()).collect();
    let expected = [[false; 3], [false; 3], [true; 3]];
    assert_eq!(left, expected.concat());
    let branches = fixture.repository.bare_repository.branches().await.unwrap();
    let names: Vec<String> = branches.iter().map(|(name, _)| name.to_string()).collect();
    let short = fixture.repository.dir.short_name();
    let own = |instance: &str| format!("massgen/{short}/{instance}");
    assert_eq!(names, ["main".to_owned(), own("planner"), own("user")]);
    assert_eq!(fixture.text("implementer/game.py").await, None);
    // Outside its own directory, its work stays.
    assert_eq!(fixture.text("shared.txt").await.as_deref(), Some("a\n"));
    let tip = fixture.repository.tip().await.unwrap();
    let commit = fixture
        .repository
        .bare_repository
        .read_commit(&tip)
        .await
        .unwrap();
    assert_eq!(commit.subject(), "[supervisor] reset implementer");
    let entry = JournalEntry::parse(&commit.message).map(|(entry, _)| entry);
    assert_eq!(
        entry,
        Some(JournalEntry::Reset {
            role: role("implementer")
        })
    );
}

#[tokio::test]
async fn a_revert_after_a_reset_removes_later_work_outside_the_roles_directory() {
    let project = Project::new();
    let fixture = two_iterations(&project).await;
    let arguments = ["reset", "--role", "implementer"];
    let (fixture, finished) = fixture.run_massgen(project, &arguments, 0).await;
    let again = [
        ("implementer/game.py", Some("print(5)\n")),
        ("new.txt", Some("n\n")),
    ];
    fixture.work(("implementer", 2), &again).await;
    let arguments = ["revert", "--role", "implementer"];
    let (fixture, finished) = fixture
        .run_massgen(finished.then([""]), &arguments, 0)
        .await;
    assert_eq!(finished.stdout().lines().count(), 3);
    for path in ["shared.txt", "new.txt", "implementer/game.py"] {
        assert_eq!(fixture.text(path).await, None, "{path}");
    }
    let plan = fixture.text("planner/PLAN.md").await;
    assert_eq!(plan.as_deref(), Some("plan 1\n"));
}

#[tokio::test]
async fn missing_pipelines_and_roles_are_named() {
    let project = Project::new();
    let finished = project.args(["log"]).failure(2);
    assert!(
        finished.stderr().contains("no pipelines in")
            && finished.stderr().contains("hint: a run makes one"),
        "{}",
        finished.stderr()
    );

    let project = finished.then([""]);
    let fixture = two_iterations(&project).await;
    let arguments = ["reset", "--role", "implementor"];
    let (fixture, finished) = fixture.run_massgen(project, &arguments, 2).await;
    assert!(
        finished.stderr().contains("did you mean `implementer`?"),
        "{}",
        finished.stderr()
    );
    let arguments = ["revert", "--role", "Planner!"];
    let (_fixture, finished) = fixture
        .run_massgen(finished.then([""]), &arguments, 2)
        .await;
    assert!(
        finished.stderr().contains("not a role name"),
        "{}",
        finished.stderr()
    );
    let finished = finished.then(["log", "pipeline_1999"]).failure(2);
    assert!(finished.stderr().contains("no pipeline `pipeline_1999`"));
}

#[test]
fn a_run_without_roles_is_shown_elsewhere() {
    let agents = [agent("a", "", &answer_replies("red", "agent1", 0))];
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["go"])
        .success();
    let finished = finished.then(["log", "log_"]).failure(2);
    assert!(
        finished.stderr().contains("massgen logs show log_"),
        "{}",
        finished.stderr()
    );
}
