//! Owns the way of a role's work into the shared branch: its files are taken up and committed, merged, and
//! checked; then the branch moves, at once and whole. What does not merge goes back to the role.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::agent::emit;
use crate::agent::patience::Patience;
use crate::error::{ExitStatus, Result};
use crate::event::{Event, PipelineStep};
use crate::evidence::{Finding, Need, Verdict};
use crate::id::AgentId;
use crate::layout::{Layout, RunName};
use crate::orchestrator::conduct::expect_checks;
use crate::orchestrator::examiner::{Candidate, Examined, Examiner};
use crate::orchestrator::grants::real;
use crate::orchestrator::shells::{Runner, Runners, Shells};
use crate::orchestrator::team::for_checks;
use crate::orchestrator::wings::Wings;
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::{Grant, GrantKind, Permission};
use crate::pipeline::ground::{CUMULATIVE, SHARED};
use crate::pipeline::part::{Part, Played, Whole, Work};
use crate::pipeline::seat::Reach;
use crate::pipeline::taking_up::ANSWER_CHARS_MAX;
use crate::pipeline::{Halt, Pipeline, Then};
use crate::roles::sections::self_review;
use crate::roles::table::UNDERSTAND;
use crate::roles::trail::{Entry, Merge};
use crate::roles::word::Word;
use crate::wording::{beginning, counted, first_of, one_line};
use crate::world::git::hub::{Changed, Merged};
use crate::world::git::object::ObjectId;

/// The largest file that is looked through for the marks of a conflict, in bytes.
const MARKED_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The most files that a reason names.
const NAMED_MAX: usize = 5;
/// How much of what git says of files is told as a reason, in characters.
const FAULTS_CHARS_MAX: usize = 300;
/// The checkout in which checks run.
const CHECKED: &str = "merge";

/// The merging of a part.
#[derive(Debug)]
pub(super) struct Merging<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) part: &'a Part<'a>,
}

/// Why work cannot be merged, and how it is put right.
struct Refusal {
    /// Why, in one sentence.
    reason: String,
    /// What the role is told.
    task: String,
    /// What it begins with.
    tree: ObjectId,
}

/// What came of a try to merge.
enum Tried {
    Merged,
    Refused(Refusal),
    Halted(Halt),
}

impl Merging<'_> {
    /// Merges what a part made, and lets its role put right what does not merge. Gives why the pipeline
    /// ends there, if it does.
    pub(super) async fn carry_out(&self, first: Whole) -> Result<Option<Halt>> {
        let begun = self.pipeline.tried_before(&self.part.seat)?;
        let tries_max = self.pipeline.workflow.merge_tries_max;
        let mut bound = begun.saturating_add(tries_max);
        // What was tried before is committed; its files have made way for the newest try.
        let mut tried = begun.saturating_sub(1);
        let mut commit = match begun {
            0 => self.commit(&first, 0).await?,
            _ => self.newest_commit().await?,
        };
        let mut whole = first;
        loop {
            let refusal = match self.try_to_merge((&commit, tried), &whole).await? {
                Tried::Merged => {
                    // Whoever looks around there with git shall meet nothing that an agent made.
                    whole.checkout.remove_private()?;
                    return Ok(None);
                }
                Tried::Halted(halt) => return Ok(Some(halt)),
                Tried::Refused(refusal) => refusal,
            };
            let mut task = refusal.task.clone();
            if tried >= bound {
                let role = &self.part.stage.role.name;
                match self.pipeline.advice(role, &refusal.reason).await {
                    Some(advice) => {
                        task = format!("{task}\n\nThe user says: {advice}");
                        bound = bound.saturating_add(1);
                    }
                    None => return Ok(Some(self.given_up(tried, &refusal.reason))),
                }
            }
            tried = tried.saturating_add(1);
            self.tell_of(&refusal.reason, (tried, bound)).await;
            match Box::pin(self.mend(refusal.tree, task, tried)).await? {
                Played::Not(halt) => return Ok(Some(halt)),
                Played::Whole(mended) => whole = *mended,
            }
            commit = self.commit(&whole, tried).await?;
        }
    }

    async fn mend(&self, tree: ObjectId, task: String, tried: u32) -> Result<Played> {
        let before = match &self.part.work {
            Work::New { question } | Work::Mend { question, .. } => question,
        };
        let part = Part {
            stage: self.part.stage,
            seat: self.part.seat.clone(),
            work: Work::Mend {
                question: format!("{before}\n\n{task}"),
                tried,
                tree,
            },
        };
        let tip = self.pipeline.ground.tip().await?;
        Box::pin(self.pipeline.begin_part(&part, &tip)).await
    }

    async fn try_to_merge(
        &self,
        (commit, tried): (&ObjectId, u32),
        whole: &Whole,
    ) -> Result<Tried> {
        let ground = &self.pipeline.ground;
        if let Some(faults) = self.left_out(commit).await? {
            let tree = ground.hub.tree_of(commit).await?;
            return Ok(Tried::Refused(left_out(&faults, tree)));
        }
        let main = ground.tip().await?;
        let tree = match ground.hub.merge(&main, commit).await? {
            Merged::Clean(tree) => tree,
            Merged::Conflict { tree, files } => {
                return Ok(Tried::Refused(in_conflict(&files, tree)));
            }
        };
        let changed = ground.hub.changed(&main, &tree).await?;
        if let Some(halt) = self.out_of_reach(&changed) {
            return Ok(Tried::Halted(halt));
        }
        let names: Vec<String> = changed.into_iter().map(|changed| changed.path).collect();
        if tried > 0 {
            let marked = self.marked(&tree, &names).await?;
            if !marked.is_empty() {
                return Ok(Tried::Refused(in_conflict(&marked, tree)));
            }
        }
        if let Some(refusal) = self.red(&tree, whole).await? {
            return Ok(Tried::Refused(refusal));
        }
        let (tree, work) = self.with_documents(&tree, &main, whole).await?;
        let seat = &self.part.seat;
        let entry = Entry::Merge(Merge {
            iteration: seat.iteration,
            role: self.part.stage.role.name.clone(),
            copy: seat.copy,
            copies: seat.copies,
            satisfied: Word::of(&whole.answer) == Word::Satisfied,
            work: work.to_string(),
        });
        let subject = self.subject(whole);
        let subject = subject
            .split_once("] ")
            .map_or("work", |(_, subject)| subject);
        let subject = format!("[supervisor] merge {}: {subject}", seat.name);
        let message = entry.message(&subject, &beginning(&whole.answer, ANSWER_CHARS_MAX));
        let others = std::slice::from_ref(commit);
        let merged = ground.commit((&main, others, &tree), &message).await?;
        let step = PipelineStep::Merged {
            iteration: seat.iteration,
            role: seat.name.clone(),
            commit: merged.to_string(),
            files: names.len(),
        };
        emit(&self.pipeline.events, Event::Pipeline { step }).await;
        Ok(Tried::Merged)
    }

    /// Why the pipeline ends, if a role has changed what is not its own.
    fn out_of_reach(&self, changed: &[Changed]) -> Option<Halt> {
        let role = &self.part.stage.role;
        let reach = Reach::of(role, &self.pipeline.ground.record.directory);
        let is_foreign = |path: &str| RelPath::new(path).is_none_or(|path| !reach.allows(&path));
        let paths = changed.iter().map(|changed| changed.path.as_str());
        let foreign: Vec<&str> = paths.filter(|path| is_foreign(path)).collect();
        let moved = changed.iter().find(|changed| changed.is_submodule);
        let why = match (foreign.as_slice(), moved) {
            ([], None) => return None,
            ([], Some(moved)) => format!("{} moved the submodule `{}`", role.name, moved.path),
            (foreign, _) => {
                let foreign = first_of(foreign, NAMED_MAX);
                format!("{} changed what is not its own: {foreign}", role.name)
            }
        };
        Some(Halt {
            status: ExitStatus::Denied,
            why,
            then: Then::Over,
        })
    }

    /// The files that still hold marks of a conflict.
    async fn marked(&self, tree: &ObjectId, names: &[String]) -> Result<Vec<String>> {
        let mut marked = Vec::new();
        for name in names {
            let Some(path) = RelPath::new(name) else {
                continue;
            };
            let hub = &self.pipeline.ground.hub;
            let bytes = hub.file(tree, &path, MARKED_BYTES_MAX).await?;
            let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let text = text.unwrap_or_default();
            let has = |mark: &str| text.lines().any(|line| line.starts_with(mark));
            if has("<<<<<<< ") && has(">>>>>>> ") {
                marked.push(name.clone());
            }
        }
        Ok(marked)
    }

    /// The tree with what massgen writes into it; and the name of the tree without what roles leave to each
    /// other, by which progress is known.
    async fn with_documents(
        &self,
        tree: &ObjectId,
        main: &ObjectId,
        whole: &Whole,
    ) -> Result<(ObjectId, ObjectId)> {
        let ground = &self.pipeline.ground;
        let (role, seat) = (&self.part.stage.role, &self.part.seat);
        let mut files = Vec::new();
        if role.name.as_str() == UNDERSTAND {
            let text = self.pipeline.shared_understanding(&whole.answer).await;
            files.push((ground.shared_file(SHARED), Some(text.into_bytes())));
        }
        let path = ground.shared_file(CUMULATIVE);
        let before = ground.hub.tree_of(main).await?;
        let known = ground.hub.file(&before, &path, MARKED_BYTES_MAX).await?;
        let known = known.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let known = known.unwrap_or_else(|| "# Cumulative understanding\n".to_owned());
        let said = self_review(&whole.answer).unwrap_or("It says nothing of its own work.");
        let (name, iteration) = (&seat.name, seat.iteration);
        let text = format!("{known}\n## {name}, iteration {iteration}\n\n{said}\n");
        files.push((path, Some(text.into_bytes())));
        let with = ground.hub.with_files(tree, &files).await?;
        let stages = self.pipeline.course().stages.iter();
        let outputs = stages.filter_map(|stage| {
            let output = RelPath::new(stage.role.output.as_ref()?)?;
            Some(ground.directory_of(&stage.role.name).join(&output))
        });
        let massgens = [SHARED, CUMULATIVE].map(|name| ground.shared_file(name));
        let gone: Vec<_> = outputs.chain(massgens).map(|path| (path, None)).collect();
        let work = ground.hub.with_files(&with, &gone).await?;
        Ok((with, work))
    }

    /// Why the checks of the config do not let this tree be merged, if they do not.
    async fn red(&self, tree: &ObjectId, whole: &Whole) -> Result<Option<Refusal>> {
        let pipeline = self.pipeline;
        if pipeline.config.checks.list.is_empty() {
            return Ok(None);
        }
        let checkout = pipeline.ground.checkout_of_checks();
        checkout.show(tree).await?;
        // The place of the checks stays as long as they run.
        let (examiner, _shells) = pipeline.examiner(&whole.agent, checkout.dir())?;
        let patience = Patience {
            deadline: far_away(),
            stop: pipeline.stop.soon.clone(),
        };
        let here = Examined::Delivery;
        let evidence = examiner
            .examine(&whole.agent, here, &patience, &pipeline.events)
            .await;
        let has_failed = |finding: &&Finding| {
            finding.need == Need::Required && finding.verdict != Verdict::Passed
        };
        let failed: Vec<&Finding> = evidence.checks.iter().filter(has_failed).collect();
        if failed.is_empty() {
            return Ok(None);
        }
        let told: Vec<String> = failed
            .iter()
            .map(|finding| {
                let Finding {
                    check,
                    verdict,
                    tail,
                    ..
                } = finding;
                format!("`{check}` {verdict}\n{tail}")
            })
            .collect();
        let names: Vec<&str> = failed
            .iter()
            .map(|finding| finding.check.as_str())
            .collect();
        Ok(Some(Refusal {
            reason: format!("required checks do not pass: {}", names.join(", ")),
            task: format!(
                "Your work was not merged: on the tree with it these checks do not pass. The checkout \
                 holds that tree; put it right.\n\n{}",
                told.join("\n\n")
            ),
            tree: tree.clone(),
        }))
    }

    async fn tell_of(&self, reason: &str, (tried, tries_max): (u32, u32)) {
        let step = PipelineStep::Refused {
            role: self.part.seat.name.clone(),
            reason: reason.to_owned(),
            tried,
            tries_max,
        };
        emit(&self.pipeline.events, Event::Pipeline { step }).await;
    }

    fn given_up(&self, tried: u32, reason: &str) -> Halt {
        let role = &self.part.stage.role.name;
        Halt {
            status: ExitStatus::NoAnswer,
            then: Then::GoOn,
            why: format!(
                "the work of {role} is not merged after {}: {reason}",
                match tried {
                    1 => "1 try to put it right".to_owned(),
                    _ => format!("{tried} tries to put it right"),
                }
            ),
        }
    }
}

impl Pipeline {
    /// What runs the checks on the checkout in `dir`, for the work of `agent`.
    fn examiner(&self, agent: &AgentId, dir: &AbsPath) -> Result<(Examiner, Shells)> {
        let (shells, grants, layout) = self.check_place(agent, dir)?;
        let commands = shells.checking(agent).cloned();
        let candidate = Candidate { grants, commands };
        let candidates = BTreeMap::from([(agent.clone(), candidate)]);
        let executable = &self.company.machine.executable;
        let wings = Wings::new((&layout, CHECKED), executable);
        let checks = self.config.checks.list.clone();
        Ok((Examiner::new(checks, candidates, wings), shells))
    }

    fn check_place(&self, agent: &AgentId, dir: &AbsPath) -> Result<(Shells, Vec<Grant>, Layout)> {
        let mut layout = Layout::plan(&self.config, &self.base, RunName::new(0));
        layout.deliveries = self.ground.dir.dir().join("checks");
        let agents = self.config.agents.iter();
        let commands = agents.into_iter().find_map(|known| known.commands.as_ref());
        let held = for_checks(commands, self.config.checks.sandbox);
        let grants = vec![Grant::tree(
            real(dir)?,
            GrantKind::Context,
            Permission::Write,
        )];
        let runner = Runner {
            id: agent,
            config: &held,
            grants: &grants,
            workspace: dir,
        };
        let runners = Runners {
            checked: vec![runner],
            ..Runners::default()
        };
        let shells = Shells::prepare(runners, &layout, &self.company.machine)?;
        Ok((shells, grants, layout))
    }

    /// Refuses required checks that could not be run, before any model is paid; of others it is said.
    pub(super) async fn expect_checks(&self) -> Result<()> {
        let checks = &self.config.checks;
        let agent = self.config.agents.first().map(|agent| &agent.id);
        let Some(agent) = agent.filter(|_| !checks.list.is_empty()) else {
            return Ok(());
        };
        let checkout = self.ground.checkout_of_checks();
        checkout.show(&self.ground.tip().await?).await?;
        let (shells, ..) = self.check_place(agent, checkout.dir())?;
        if let Some(message) = expect_checks(&shells, checks)? {
            emit(&self.events, Event::Warning { message }).await;
        }
        Ok(())
    }
}

/// A moment that no pipeline waits for: a check has a limit of its own.
fn far_away() -> Instant {
    const DAYS: u64 = 365;
    let now = Instant::now();
    let far = std::time::Duration::from_hours(DAYS * 24);
    now.checked_add(far).unwrap_or(now)
}

fn left_out(faults: &str, tree: ObjectId) -> Refusal {
    Refusal {
        reason: format!(
            "git cannot hold all of it: {}",
            one_line(faults, FAULTS_CHARS_MAX)
        ),
        task: format!(
            "Your work was not merged: git cannot hold these files. Remove them, or give them other names;              all else that you made is there.\n\n{faults}"
        ),
        tree,
    }
}

fn in_conflict(files: &[String], tree: ObjectId) -> Refusal {
    let many = counted(files.len(), "file");
    Refusal {
        reason: format!("conflict in {many}: {}", first_of(files, NAMED_MAX)),
        task: format!(
            "Your work was not merged: others have changed the same lines meanwhile. The checkout holds \
             both sides: in the files below, what is shared stands after `<<<<<<<`, what both began with \
             after `|||||||`, and your own after `=======`, up to `>>>>>>>`. Put it right so that the \
             sense of both is kept and nothing is lost, and take out the marks.\n\n{}",
            files.join("\n")
        ),
        tree,
    }
}
