//! Owns what a log directory holds of a run, read so that it can be played again. Damage is said and
//! passed over as far as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::backend::scripted::script::{ReplyList, Wholeness};
use crate::config::{Config, Context, Origin, load};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::permissions::guard::FolderGuard;
use crate::prompt::Found;
use crate::prompt::opened::Opened;
use crate::replay::plan::Plan;
use crate::world::files::look;
use crate::world::store::records::outset::Outset;
use crate::world::store::runs::{RunDir, State};

/// A recorded run.
#[derive(Debug)]
pub struct Record {
    /// What it came to and how, without what streamed.
    pub events: Vec<Event>,
    /// How to play it again.
    pub plan: Plan,
    /// The team.
    pub config: Config,
    /// The task as the user wrote it.
    pub task: String,
    /// The directory that the user stood in.
    pub cwd: AbsPath,
    /// The workspace of each agent that had one, by every path that leads there.
    pub workspaces: BTreeMap<AgentId, Vec<AbsPath>>,
    /// Where the agents saw each other's snapshots, by every path that leads there.
    pub temp_workspaces: Vec<AbsPath>,
    /// What the prompts of the session opened.
    pub opened: Vec<Opened>,
    /// The recorded replies of each agent.
    pub(crate) replies: BTreeMap<AgentId, ReplyList>,
    /// What is missing or damaged, one sentence each.
    pub notes: Vec<String>,
}

impl Record {
    /// Reads the records of `run`. `home` is the user's home directory.
    pub fn read(run: &RunDir, home: Option<&AbsPath>) -> Result<Self> {
        let outset = run.outset()?;
        let mut notes = Vec::new();
        if run.state(run.status().as_ref()) == State::Running {
            notes.push("the run still goes on; it is played as far as it is by now".to_owned());
        }
        let events = events(run, &mut notes)?;
        let cwd = absolute(&outset.cwd)?;
        let mut config = team(&outset, &cwd, home)?;
        forget_missing(&mut config, &mut notes);
        let (opened, gone): (Vec<Opened>, Vec<Opened>) = outset
            .opened
            .into_iter()
            .partition(|opened| matches!(look(&opened.path), Found::File | Found::Directory));
        notes.extend(gone.iter().map(|gone| forgotten(&gone.path)));
        let mut replies = BTreeMap::new();
        for agent in &config.agents {
            replies.insert(agent.id.clone(), replies_of(run, &agent.id, &mut notes)?);
        }
        let plan = Plan::of(&events);
        if !plan.is_complete {
            notes.push("the record breaks off; what comes after it is not compared".to_owned());
        }
        let spelled = |paths: &[String]| paths.iter().filter_map(AbsPath::new).collect();
        let workspaces = outset.workspaces.iter();
        Ok(Self {
            plan,
            workspaces: workspaces
                .map(|(agent, paths)| (agent.clone(), spelled(paths)))
                .collect(),
            temp_workspaces: spelled(&outset.temp_workspaces),
            events,
            config,
            task: outset.task,
            opened,
            cwd,
            replies,
            notes,
        })
    }

    /// The task as the agents read it.
    pub fn question(&self) -> Arc<str> {
        let question = self.events.iter().find_map(|event| {
            if let Event::RunStarted { question, .. } = event {
                Some(Arc::clone(question))
            } else {
                None
            }
        });
        question.unwrap_or_else(|| self.task.as_str().into())
    }
}

/// All events but those that stream.
fn events(run: &RunDir, notes: &mut Vec<String>) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for entry in run.events()? {
        match entry.map(|entry| (entry.seq, entry.event())) {
            Ok((_, Some(Event::Text { .. } | Event::Reasoning { .. }))) => {}
            Ok((_, Some(event))) => events.push(event),
            Ok((line, None)) => notes.push(format!(
                "line {line} of the event log tells of something that this version does not know"
            )),
            Err(fault) => notes.push(format!("{fault} in the event log")),
        }
    }
    Ok(events)
}

fn replies_of(run: &RunDir, agent: &AgentId, notes: &mut Vec<String>) -> Result<ReplyList> {
    let Some(text) = run.replies(agent)? else {
        return Ok(ReplyList::default());
    };
    let name = run.replies_file(agent).to_string();
    let (list, wholeness) = ReplyList::recorded(&text, &name)?;
    if wholeness == Wholeness::Cut {
        notes.push(format!("the last recorded reply of {agent} was cut short"));
    }
    Ok(list)
}

/// The team as it was, with recorded replies.
fn team(outset: &Outset, cwd: &AbsPath, home: Option<&AbsPath>) -> Result<Config> {
    let origin = Origin {
        name: "replay.yaml".to_owned(),
        directory: None,
    };
    let context = Context {
        base: cwd,
        home,
        env: &ConfigVariables::default(),
    };
    let loaded = load(outset.team.to_string().as_bytes(), &origin, &context);
    loaded.map(|loaded| loaded.config).map_err(|invalid| {
        let message = "the recorded team cannot be used by this version";
        Error::new(ErrorKind::Config, message).hint(invalid.render())
    })
}

/// Leaves out what the config opens and is no directory any more.
fn forget_missing(config: &mut Config, notes: &mut Vec<String>) {
    let opened = config.opened_paths().cloned();
    let gone: BTreeSet<AbsPath> = opened
        .filter(|path| look(path) != Found::Directory)
        .collect();
    for path in &gone {
        notes.push(forgotten(path));
    }
    let paths = &mut config.orchestrator.context_paths;
    paths.retain(|context| !gone.contains(&context.path));
    for agent in &mut config.agents {
        let paths = &mut agent.context_paths;
        paths.retain(|context| !gone.contains(&context.path));
        if let FolderGuard::On { read, write, .. } = &mut agent.folder_guard {
            read.retain(|path| !gone.contains(path));
            write.retain(|path| !gone.contains(path));
        }
    }
}

fn forgotten(path: &AbsPath) -> String {
    format!("`{path}` is gone; the agents do not see it")
}

fn absolute(text: &str) -> Result<AbsPath> {
    AbsPath::new(text).ok_or_else(|| {
        let message = format!("`{text}` in `replay.yaml` is no absolute path");
        Error::new(ErrorKind::Environment, message).hint("the record was damaged")
    })
}
