//! Owns the examination of what agents made: the checks of the config are run in the user's trees as
//! an answer would leave them, or as the delivery has left them. They run on a stage of their own,
//! held as the agent's commands are, and nothing that they write stays. It judges nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::mpsc::Sender;

use crate::agent::emit;
use crate::agent::patience::Patience;
use crate::config::checks::Check;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, Subject};
use crate::evidence::{Changes, Evidence, Finding, Verdict};
use crate::id::AgentId;
use crate::orchestrator::deliver::copy_all;
use crate::orchestrator::grants::{manager, write_roots};
use crate::orchestrator::wings::{Performance, Wings};
use crate::path::RealPath;
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase, Scope};
use crate::tools::call::{ToolCall, UserPath};
use crate::wording::one_line;
use crate::world::change::Change;
use crate::world::clock::milliseconds;
use crate::world::commands::Commands;
use crate::world::exec::diffstat::diffstat;
use crate::world::exec::trial::{Ending, try_out};
use crate::world::exec::{self, Outcome};
use crate::world::gate::Gate;
use crate::world::policy::GatePolicy;
use crate::world::sandbox::interrupt::Interrupt;

/// How much of what a check wrote is kept, in lines and in characters of each.
const TAIL_LINES_MAX: usize = 20;
const TAIL_CHARS_MAX: usize = 400;

/// Why a path cannot be named to a tool.
const NO_TEXT: &str = "its path is no text";

/// The examiner of a run. A clone is the same.
#[derive(Clone, Debug)]
pub struct Examiner(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    checks: Vec<Check>,
    candidates: BTreeMap<AgentId, Candidate>,
    wings: Wings,
    stages: AtomicUsize,
}

/// An agent whose work is examined.
#[derive(Debug)]
pub struct Candidate {
    /// All that is opened for it.
    pub grants: Vec<Grant>,
    /// What holds the checks; nothing where nothing on this machine can.
    pub commands: Option<Commands>,
}

/// What is examined.
#[derive(Clone, Debug)]
pub enum Examined {
    /// The trees as an answer would leave them, with the files that belong to it.
    Answer(Option<RealPath>),
    /// The trees as they are.
    Delivery,
}

/// A place in which checks run.
struct Bench {
    gate: Gate,
    dir: UserPath,
    /// The user's own trees, and what the answer puts there; nothing where nothing is delivered.
    beside: Option<(Gate, Vec<Change>)>,
}

impl Examiner {
    /// Examines the work of `candidates` by `checks`.
    pub fn new(checks: Vec<Check>, candidates: BTreeMap<AgentId, Candidate>, wings: Wings) -> Self {
        Self(Arc::new(Inner {
            checks,
            candidates,
            wings,
            stages: AtomicUsize::new(0),
        }))
    }

    /// Runs all checks on the work of `agent`, one after the other, and tells of each.
    pub async fn examine(
        &self,
        agent: &AgentId,
        examined: Examined,
        patience: &Patience,
        events: &Sender<Event>,
    ) -> Evidence {
        let subject = match examined {
            Examined::Answer(_) => Subject::Answer,
            Examined::Delivery => Subject::Delivery,
        };
        let mut findings = Vec::new();
        let mut changes = None;
        for check in &self.0.checks {
            let begins = Event::Checking {
                agent: agent.clone(),
                check: check.name.clone(),
            };
            emit(events, begins).await;
            let begun = Instant::now();
            // Each on a stage of its own: what one runs must not put right what another looks at.
            let bench = self.bench(agent, examined.clone()).await;
            if let (None, Ok(bench)) = (&changes, &bench) {
                changes = bench.changes().await;
            }
            let (verdict, tail) = match &bench {
                Ok(bench) => bench.verdict(check, patience).await,
                Err(error) => {
                    let why = one_line(&format!("{error:#}"), TAIL_CHARS_MAX);
                    (Verdict::NotRun { why }, String::new())
                }
            };
            drop(bench);
            self.clear().await;
            let finding = Finding {
                check: check.name.clone(),
                need: check.need,
                verdict,
                tail,
                elapsed_ms: milliseconds(begun.elapsed()),
            };
            let ended = Event::Checked {
                agent: agent.clone(),
                subject,
                finding: finding.clone(),
            };
            emit(events, ended).await;
            findings.push(finding);
        }
        Evidence {
            checks: findings,
            changes,
        }
    }

    /// Throws away what the checks wrote. What cannot go now goes at the end of the run.
    async fn clear(&self) {
        let wings = self.0.wings.clone();
        let cleared = tokio::task::spawn_blocking(move || wings.clear_checks()).await;
        if let Ok(Err(error)) = cleared {
            tracing::warn!("what checks wrote could not be removed: {error:#}");
        }
    }

    async fn bench(&self, agent: &AgentId, examined: Examined) -> Result<Bench> {
        let candidate = self.0.candidates.get(agent);
        let candidate = candidate.ok_or_else(|| Error::bug(format!("nobody is `{agent}`")))?;
        let commands = candidate.commands.clone();
        let commands = commands.ok_or_else(|| cannot("nothing on this machine can hold checks"))?;
        // What a check writes into the agent's workspace would stay there.
        let is_kept =
            |grant: &&Grant| !matches!(grant.kind, GrantKind::Workspace | GrantKind::BuiltIn);
        let mut grants: Vec<Grant> = candidate.grants.iter().filter(is_kept).cloned().collect();
        let number = self.0.stages.fetch_add(1, Ordering::Relaxed);
        let performance = Performance::Check(number);
        let (stage, _) = (self.0.wings)
            .open(performance, &grants, Some(&commands))
            .await?;
        let roots = write_roots(&grants);
        let tree = roots.iter().find(|grant| grant.scope == Scope::Tree);
        let target = match (tree, &stage) {
            (Some(tree), Some(stage)) if stage.is_shown() => tree.root.clone(),
            (Some(_), _) => return Err(cannot("commands cannot be shown what would be delivered")),
            (None, _) => {
                let root = self.0.wings.room(performance)?;
                let own = Grant::tree(root.clone(), GrantKind::Workspace, Permission::Write);
                grants.push(own);
                root
            }
        };
        let policy = GatePolicy {
            commands: Some(commands),
            stage,
            ..GatePolicy::single_call(target.clone())
        };
        let dir = text(&target)?;
        let work = move || {
            let manager = manager(&grants, Phase::Final);
            let users = GatePolicy::single_call(target.clone());
            let users = policy.stage.is_some().then_some(users);
            let gate = Gate::open(manager.clone(), policy)?;
            let mut beside = None;
            if let Examined::Answer(Some(snapshot)) = examined {
                let carried = carry(&gate, &snapshot, &target)?;
                let users = users.map(|users| Gate::open(manager, users)).transpose()?;
                beside = users.map(|users| (users, carried));
            }
            Ok(Bench { gate, dir, beside })
        };
        let made = tokio::task::spawn_blocking(work).await;
        made.map_err(|_| Error::bug("the checks could not be prepared"))?
    }
}

impl Bench {
    /// How much the answer would change in the user's trees.
    async fn changes(&self) -> Option<Changes> {
        let (users, carried) = self.beside.clone()?;
        let stage = self.gate.clone();
        let counting = move || {
            let paths = carried.iter().map(|change| &change.path);
            diffstat(&users, &stage, paths)
        };
        tokio::task::spawn_blocking(counting).await.ok()
    }

    async fn verdict(&self, check: &Check, patience: &Patience) -> (Verdict, String) {
        let not_run = |why: String| (Verdict::NotRun { why }, String::new());
        let call = ToolCall::ExecuteCommand {
            command: check.command.clone(),
            timeout_seconds: Some(check.timeout_seconds),
            dir: self.dir.clone(),
        };
        let interrupt = match Interrupt::new() {
            Ok(interrupt) => interrupt,
            Err(error) => return not_run(error.to_string()),
        };
        let _ends = interrupt.on_drop();
        let (gate, ending) = (self.gate.clone(), interrupt.clone());
        let work = move || match gate.check(call) {
            Ok(permitted) => try_out(permitted, &interrupt),
            Err(denial) => Err(denial.reason),
        };
        let mut working = tokio::task::spawn_blocking(work);
        let done = tokio::select! {
            done = &mut working => done,
            _ = patience.over() => {
                ending.raise();
                working.await
            }
        };
        match done {
            Ok(Ok(Ending::Well)) => (Verdict::Passed, String::new()),
            Ok(Ok(Ending::Badly { how, output })) => (Verdict::Failed { how }, tail(&output)),
            Ok(Err(why)) => not_run(one_line(&why, TAIL_CHARS_MAX)),
            Err(_) => not_run("it broke off inside massgen".to_owned()),
        }
    }
}

/// Lays the files of an answer over the tree that they would be delivered to.
fn carry(gate: &Gate, snapshot: &RealPath, target: &RealPath) -> Result<Vec<Change>> {
    let call = copy_all(&snapshot.to_abs(), target).ok_or_else(|| cannot(NO_TEXT))?;
    let permitted = gate.check(call).map_err(|denial| cannot(&denial.reason))?;
    let observation = exec::run(permitted);
    match observation.outcome {
        Outcome::Done => Ok(observation.changes),
        Outcome::Failed | Outcome::Denied => Err(cannot(&observation.content)),
    }
}

fn text(path: &RealPath) -> Result<UserPath> {
    let text = path.as_path().to_str();
    text.and_then(|text| UserPath::parse(text).ok())
        .ok_or_else(|| cannot(NO_TEXT))
}

fn cannot(why: &str) -> Error {
    Error::new(ErrorKind::Environment, why)
}

/// The end of `output`.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let skipped = lines.len().saturating_sub(TAIL_LINES_MAX);
    let shown = lines.iter().skip(skipped);
    let shown: Vec<String> = shown.map(|line| one_line(line, TAIL_CHARS_MAX)).collect();
    shown.join("\n")
}
