//! Owns how the user's hooks take part in a run: that they can be run and are the user's own, how the
//! run hears of them, and what they say of answers, votes and deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc::{Sender, WeakSender};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::commands::line::{Line, SimpleCommand, Word};
use crate::commands::parse::parse;
use crate::config::Config;
use crate::delivery::plan::{Deed, Plan};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{DeliveryOutcome, DeliveryRow, Event};
use crate::hooks::Hook;
use crate::hooks::answer::Failure;
use crate::hooks::request::Subject;
use crate::hooks::verdict::{Outcome, Verdict};
use crate::id::{AgentId, AnswerLabel};
use crate::orchestrator::grants::manager;
use crate::orchestrator::shells::Machine;
use crate::orchestrator::team::Member;
use crate::path::AbsPath;
use crate::permissions::grant::{Permission, Phase};
use crate::prompt::Found;
use crate::wording::{beginning, one_line};
use crate::world::files::look;
use crate::world::hooks::{Hooks, Moment, Ran, Witness};
use crate::world::locate::{Located, locate};
use crate::world::stage::Stage;

/// How much of a command, a reason and an input events carry, in characters.
const SHOWN_CHARS_MAX: usize = 300;
/// What the shell knows itself.
const BUILT_IN: &[&str] = &[
    ".", ":", "[", "[[", "alias", "builtin", "cd", "command", "declare", "echo", "eval", "exec",
    "exit", "export", "false", "getopts", "hash", "kill", "let", "local", "mapfile", "printf",
    "pwd", "read", "readonly", "return", "set", "shift", "shopt", "source", "test", "times",
    "trap", "true", "type", "typeset", "ulimit", "umask", "unset", "wait",
];
/// The most directories that are looked at for the names in one command.
const DIRS_MAX: usize = 16;
/// How commands name the directory that massgen is started in.
const PROJECT: &[&str] = &[
    "${CLAUDE_PROJECT_DIR}",
    "$CLAUDE_PROJECT_DIR",
    "${MASSGEN_PROJECT_DIR}",
    "$MASSGEN_PROJECT_DIR",
    "${PWD}",
    "$PWD",
];

/// Where the hooks of a run are told of.
#[derive(Clone, Debug)]
pub struct HookGround {
    /// The session of the run.
    pub session_id: String,
    events: WeakSender<Event>,
}

impl HookGround {
    /// The hooks of a run of this session; what they say goes to `events`, which it keeps nobody
    /// listening at.
    pub fn new(session_id: String, events: &Sender<Event>) -> Self {
        let events = events.downgrade();
        Self { session_id, events }
    }

    /// Who hears of the hooks of `agent`.
    pub fn witness(&self, agent: &AgentId) -> Arc<dyn Witness> {
        Arc::new(Teller {
            agent: agent.clone(),
            events: self.events.clone(),
        })
    }
}

/// Tells a run of the hooks of one agent.
#[derive(Debug)]
struct Teller {
    agent: AgentId,
    events: WeakSender<Event>,
}

impl Witness for Teller {
    fn told(&self, ran: &Ran<'_>) {
        if let Some(events) = self.events.upgrade() {
            // Whoever does not listen any more does not have to be told.
            events
                .blocking_send(event(&self.agent, ran))
                .unwrap_or_default();
        }
    }
}

/// Hears of hooks outside a run.
#[derive(Debug)]
pub struct Unrecorded;

impl Witness for Unrecorded {
    fn told(&self, ran: &Ran<'_>) {
        let (event, command) = (ran.hook.event, &ran.hook.command);
        if let Err(Failure { cause, stderr }) = ran.outcome {
            tracing::warn!("the hook `{command}` of `{event}` failed: {cause}: {stderr}");
        }
    }
}

fn event(agent: &AgentId, ran: &Ran<'_>) -> Event {
    let call = ran.subject.call();
    let (decision, reason, updated_input) = told(ran.outcome);
    Event::HookRan {
        agent: agent.clone(),
        event: ran.hook.event.to_string(),
        tool: call.map(|call| call.tool.to_owned()),
        call_id: call.and_then(|call| call.id).map(str::to_owned),
        command: one_line(&ran.hook.command, SHOWN_CHARS_MAX),
        decision: decision.to_owned(),
        reason,
        updated_input,
        elapsed_ms: ran.elapsed_ms,
    }
}

/// The decision of a hook, why it took it, and what it had the tool given instead.
fn told(outcome: &Outcome) -> (&'static str, Option<String>, Option<String>) {
    match outcome {
        Err(Failure { cause, stderr }) if stderr.is_empty() => {
            ("failed", Some(cause.clone()), None)
        }
        Err(Failure { cause, stderr }) => ("failed", Some(format!("{cause}: {stderr}")), None),
        Ok(answer) => {
            let decision = answer
                .decision
                .map_or("nothing", |decision| decision.name());
            let reason = answer.reason.as_ref();
            let input = answer.updated_input.as_ref();
            let input = input.and_then(|input| serde_json::to_string(input).ok());
            (
                decision,
                reason.map(|reason| beginning(reason, SHOWN_CHARS_MAX)),
                input.map(|input| beginning(&input, SHOWN_CHARS_MAX)),
            )
        }
    }
}

/// Refuses hooks that could not be run or are not the user's own, before any model is paid.
pub fn expect(members: &[Member], base: &AbsPath, machine: &Machine) -> Result<()> {
    let hooks = || members.iter().flat_map(|member| member.config.hooks.iter());
    let Some(first) = hooks().next() else {
        return Ok(());
    };
    let is_broad = machine
        .home
        .as_ref()
        .is_some_and(|home| home.is_within(base));
    if is_broad || *base == AbsPath::top() {
        let message = format!(
            "the hook `{}` would be shown all of `{base}`",
            one_line(&first.command, SHOWN_CHARS_MAX)
        );
        return Err(Error::new(ErrorKind::Config, message)
            .hint("start massgen in the directory of a project"));
    }
    for hook in hooks() {
        expect_program(hook, base, &machine.env)?;
        expect_own(hook, base, members)?;
    }
    Ok(())
}

/// Refuses a config with a hook whose program is known and not there.
pub fn expect_programs(
    config: &Config,
    base: &AbsPath,
    env: &BTreeMap<String, String>,
) -> Result<()> {
    let mut hooks = config.agents.iter().flat_map(|agent| agent.hooks.iter());
    hooks.try_for_each(|hook| expect_program(hook, base, env))
}

fn expect_program(hook: &Hook, base: &AbsPath, env: &BTreeMap<String, String>) -> Result<()> {
    let line = parse(&in_project(&hook.command, base));
    let first = line.commands.first();
    let name = first.and_then(|first| first.words.first()?.value());
    let Some(name) =
        name.filter(|name| line.unread.is_none() && !BUILT_IN.contains(&name.as_str()))
    else {
        return Ok(());
    };
    let is_there = |path: &AbsPath| matches!(look(path), Found::File | Found::Unreadable);
    let found = if name.contains('/') {
        is_there(&AbsPath::resolve(base, &name))
    } else {
        let dirs = env.get("PATH").map(String::as_str).unwrap_or_default();
        let mut dirs = dirs.split(':').filter_map(AbsPath::new);
        dirs.any(|dir| is_there(&dir.join(&name)))
    };
    if found {
        return Ok(());
    }
    let command = one_line(&hook.command, SHOWN_CHARS_MAX);
    let message = format!("the program `{name}` of the hook `{command}` is not there");
    Err(Error::new(ErrorKind::Config, message)
        .hint("install it, or correct `hooks`; a relative path begins where massgen is started"))
}

/// A hook that an agent could rewrite would say what the agent wants. Only names that stand in the
/// command are looked at, and not what the shell makes of patterns and variables.
fn expect_own(hook: &Hook, base: &AbsPath, members: &[Member]) -> Result<()> {
    let line = parse(&in_project(&hook.command, base));
    let begins_in = begins_in(&line, base);
    let names = line.commands.iter().flat_map(named);
    let places = names.flat_map(|name| {
        let dirs = begins_in.iter();
        dirs.map(|dir| AbsPath::resolve(dir, &name))
            .collect::<Vec<_>>()
    });
    for place in places {
        let Ok(Located::File(real)) = locate(&place) else {
            continue;
        };
        let may_write = |member: &&Member| {
            manager(&member.grants, Phase::Final).allows(&real, Permission::Write)
        };
        if let Some(member) = members.iter().find(may_write) {
            let message = format!(
                "`{}` may write to `{real}`, which a hook is made of",
                member.id
            );
            return Err(Error::new(ErrorKind::Config, message)
                .hint("put it into `.massgen/hooks` or `.claude/hooks`, where no agent writes")
                .hint("or list it in `protected_paths` of the context path"));
        }
    }
    Ok(())
}

/// The directories in which the commands of a line may begin: the project, and where it changes to.
fn begins_in(line: &Line, base: &AbsPath) -> Vec<AbsPath> {
    let mut dirs = vec![base.clone()];
    for command in &line.commands {
        let mut words = command.words.iter().filter_map(Word::value);
        let changes = words
            .next()
            .is_some_and(|name| ["cd", "pushd"].contains(&name.as_str()));
        if let Some(to) = words.next_back().filter(|_| changes) {
            let reached = dirs.iter().map(|dir| AbsPath::resolve(dir, &to));
            let reached: Vec<AbsPath> = reached.collect();
            dirs.extend(
                reached
                    .into_iter()
                    .take(DIRS_MAX.saturating_sub(dirs.len())),
            );
        }
    }
    dirs
}

/// The files that a command may name: its words, what options and variables are set to, and what it
/// reads from.
fn named(command: &SimpleCommand) -> Vec<String> {
    let words = command.words.iter().chain(&command.assignments);
    let words: Vec<String> = words.filter_map(Word::value).collect();
    let set = words.iter().filter_map(|word| word.split_once('='));
    let set: Vec<String> = set.map(|(_, value)| value.to_owned()).collect();
    let inputs = command
        .redirections
        .iter()
        .filter(|input| input.operator.ends_with('<'));
    let inputs = inputs.filter_map(|input| input.target.value());
    words.into_iter().chain(set).chain(inputs).collect()
}

/// The command with the project's directory in the place of the variables that name it.
fn in_project(command: &str, base: &AbsPath) -> String {
    let base = base.to_string();
    let put_in = |text: String, name: &&str| text.replace(name, &base);
    PROJECT.iter().fold(command.to_owned(), put_in)
}

/// What hooks are asked about beside calls.
#[derive(Clone, Debug)]
pub enum Asked {
    /// An answer, with the name that it would have.
    Answer(AnswerLabel, String),
    /// A vote for an answer of this agent, and why.
    Vote(AgentId, AnswerLabel, String),
    /// What a delivery would change.
    Delivery(Arc<Plan>),
    /// What became of a delivery.
    Delivered(Vec<DeliveryRow>),
}

impl Asked {
    fn put(&self, hooks: &Hooks, moment: Moment<'_>) -> Verdict {
        match self {
            Self::Answer(label, text) => hooks.ask(&Subject::Answer(*label, text), moment),
            Self::Vote(candidate, label, reason) => {
                let label = *label;
                let vote = Subject::Vote {
                    candidate,
                    label,
                    reason,
                };
                hooks.ask(&vote, moment)
            }
            Self::Delivery(plan) => {
                let files = plan.entries.iter().filter_map(|entry| {
                    let path = plan.roots.get(entry.root)?.join(entry.rel.as_path());
                    Some((path.to_string(), deed(entry.deed()).to_owned()))
                });
                hooks.ask(&Subject::Delivery(&files.collect::<Vec<_>>()), moment)
            }
            Self::Delivered(rows) => {
                let rows = rows.iter();
                let files = rows.map(|row| (row.path.clone(), status(&row.outcome).to_owned()));
                hooks.ask(&Subject::Delivered(&files.collect::<Vec<_>>()), moment)
            }
        }
    }
}

/// Asks hooks in `phase`, until `stop` says that the user wants the run to end. Gives why it must not
/// happen, if so.
pub async fn refusal(
    hooks: &Hooks,
    asked: Asked,
    (phase, stage): (Phase, Option<Stage>),
    stop: &CancellationToken,
) -> Option<String> {
    let (hooks, ended) = (hooks.clone(), stop.clone());
    let asking = move || {
        let moment = Moment {
            phase,
            stage: stage.as_ref(),
            ended: &ended,
        };
        asked.put(&hooks, moment)
    };
    match spawn_blocking(asking).await {
        Ok(verdict) => verdict.refusal().map(str::to_owned),
        Err(_) => Some("a hook of the user's failed: it broke off inside massgen".to_owned()),
    }
}

fn deed(deed: Deed) -> &'static str {
    match deed {
        Deed::Create => "created",
        Deed::Change => "changed",
        Deed::Delete => "deleted",
    }
}

fn status(outcome: &DeliveryOutcome) -> &'static str {
    match outcome {
        DeliveryOutcome::Created => "created",
        DeliveryOutcome::Changed => "changed",
        DeliveryOutcome::Deleted => "deleted",
        DeliveryOutcome::Mode { .. } => "mode",
        DeliveryOutcome::Declined => "declined",
        DeliveryOutcome::Denied { .. } => "denied",
        DeliveryOutcome::Conflict { .. } => "conflict",
        DeliveryOutcome::Failed { .. } => "failed",
        DeliveryOutcome::TakenBack { .. } => "taken_back",
    }
}
