//! Reads the records of a run in its log directory, so that it can be replayed. Damage is reported
//! and skipped as far as possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::backend::scripted::script::{RecordingEnd, ScriptedReplies};
use crate::config::machine_policy::MachinePolicy;
use crate::config::recorded::recorded_config;
use crate::config::{Config, ConfigContext, ConfigOrigin, OrchestratorConfig, load};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CRITERIA_SUBAGENT, Event, ModelEvent, RunEvent, SeparateCall, SubagentEvent};
use crate::id::AgentId;
use crate::mentions::LookupResult;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::{AbsPath, RealPath};
use crate::permissions::guard::FolderGuard;
use crate::prompts::preparation::parse_criteria;
use crate::replay::plan::ReplayPlan;
use crate::world::io::files::inspect;
use crate::world::io::locate::locate;
use crate::world::store::records::metadata::ReplayManifest;
use crate::world::store::runs::{RunDir, RunStatus};

/// A recorded run.
#[derive(Debug)]
pub struct RecordedRun {
    /// Its events, except for streamed text.
    pub events: Vec<Event>,
    /// How to replay it.
    pub plan: ReplayPlan,
    /// The team.
    pub config: Config,
    /// The task as the user wrote it.
    pub task: String,
    /// The user's current directory at that time.
    pub cwd: AbsPath,
    /// The workspace of each agent that had one, with every path that leads to it.
    pub workspaces: BTreeMap<AgentId, Vec<AbsPath>>,
    /// The directory of the snapshots that the agents saw, with every path that leads to it.
    pub temp_workspaces: Vec<AbsPath>,
    /// The paths that the prompts of the session opened.
    pub opened: Vec<OpenedPath>,
    /// The recorded replies of each agent.
    pub(crate) replies: BTreeMap<AgentId, ScriptedReplies>,
    /// What is missing or damaged, one sentence each.
    pub notes: Vec<String>,
}

impl RecordedRun {
    /// Reads the records of `run`. `home` is the user's home directory. Records that were created
    /// elsewhere open nothing outside of `current_dir`.
    pub fn read(
        run: &RunDir,
        home: Option<&AbsPath>,
        current_dir: &AbsPath,
        policy: &MachinePolicy,
    ) -> Result<Self> {
        let manifest = run.manifest()?;
        let mut notes = Vec::new();
        if run.state()?.status == RunStatus::Running {
            notes.push("the run is still active; replaying what is recorded so far".to_owned());
        }
        let events = read_events(run, &mut notes)?;
        let cwd = parse_absolute(&manifest.cwd)?;
        let mut config = load_recorded_config(&manifest, &cwd, home, policy)?;
        use_recorded_criteria(&mut config.orchestrator, &events);
        let scope = if run.is_own()? {
            RecordPathScope::Everywhere
        } else {
            RecordPathScope::Within(locate(current_dir)?.into_real())
        };
        close_paths(&mut config, &scope, &mut notes);
        let mut opened_paths = manifest.opened;
        opened_paths.retain(|opened| {
            let exists = matches!(
                inspect(&opened.path),
                LookupResult::File | LookupResult::Directory
            );
            scope.keeps(&opened.path, exists, &mut notes)
        });
        let mut replies = BTreeMap::new();
        for agent in &config.agents {
            replies.insert(agent.id.clone(), read_replies(run, &agent.id, &mut notes)?);
        }
        let plan = ReplayPlan::from_events(&events);
        if !plan.is_complete {
            notes.push("the record is incomplete; later events are not compared".to_owned());
        }
        let parse_paths = |paths: &[String]| paths.iter().filter_map(AbsPath::new).collect();
        let workspaces = manifest.workspaces.iter();
        Ok(Self {
            plan,
            workspaces: workspaces
                .map(|(agent, paths)| (agent.clone(), parse_paths(paths)))
                .collect(),
            temp_workspaces: parse_paths(&manifest.temp_workspaces),
            events,
            config,
            task: manifest.task,
            opened: opened_paths,
            cwd,
            replies,
            notes,
        })
    }

    /// Returns the task as the agents read it.
    pub fn question(&self) -> Arc<str> {
        let question = self.events.iter().find_map(|event| {
            if let Event::Run(RunEvent::RunStarted { question, .. }) = event {
                Some(Arc::clone(question))
            } else {
                None
            }
        });
        question.unwrap_or_else(|| self.task.as_str().into())
    }
}

/// Returns all events except for streamed text.
fn read_events(run: &RunDir, notes: &mut Vec<String>) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for entry in run.events()? {
        match entry.map(|entry| (entry.seq, entry.event)) {
            Ok((_, Some(event))) if event.is_streamed() => {}
            Ok((_, Some(event))) => events.push(event),
            Ok((line, None)) => notes.push(format!(
                "line {line} of the event log has an event that this version does not know"
            )),
            Err(error) => notes.push(format!("{error} in the event log")),
        }
    }
    Ok(events)
}

/// Returns the recorded replies of an agent.
fn read_replies(run: &RunDir, agent: &AgentId, notes: &mut Vec<String>) -> Result<ScriptedReplies> {
    let Some(text) = run.replies(agent)? else {
        return Ok(ScriptedReplies::default());
    };
    let name = run.replies_file(agent).to_string();
    let (replies, end) = ScriptedReplies::parse_recording(&text, &name)?;
    if end == RecordingEnd::Truncated {
        notes.push(format!("the last recorded reply of {agent} is incomplete"));
    }
    Ok(replies)
}

/// The paths that a record may open.
#[derive(Clone, Debug)]
enum RecordPathScope {
    /// All paths of the run, which was recorded here.
    Everywhere,
    /// Only paths in this directory.
    Within(RealPath),
}

impl RecordPathScope {
    /// Returns whether `path` is opened; if it is not, adds a note that says why.
    fn keeps(&self, path: &AbsPath, exists: bool, notes: &mut Vec<String>) -> bool {
        if !exists {
            notes.push(format!(
                "`{path}` no longer exists; the agents do not see it"
            ));
            return false;
        }
        let is_inside = match self {
            RecordPathScope::Everywhere => true,
            RecordPathScope::Within(root) => {
                locate(path).is_ok_and(|location| location.into_real().is_within(root))
            }
        };
        if !is_inside {
            notes.push(format!(
                "`{path}` is outside the current directory, and the record was not created here; \
                 the agents do not see it"
            ));
        }
        is_inside
    }
}

/// Returns the recorded team. It contains only what massgen writes into a record, and nothing else:
/// a manipulated record might add commands, servers or hooks.
fn load_recorded_config(
    manifest: &ReplayManifest,
    cwd: &AbsPath,
    home: Option<&AbsPath>,
    policy: &MachinePolicy,
) -> Result<Config> {
    let origin = ConfigOrigin {
        name: "replay.yaml".to_owned(),
        directory: None,
    };
    let context = ConfigContext {
        base: cwd,
        state_parent: cwd,
        home,
        env: &ConfigVariables::default(),
        packages: &BTreeSet::new(),
        policy,
    };
    let team = &manifest.team;
    let load_result = load(team.to_string().as_bytes(), &origin, &context);
    let config = load_result.map(|loaded| loaded.config).map_err(|invalid| {
        let message = "the recorded team cannot be used by this version";
        let error = Error::new(ErrorKind::Config, message);
        let findings = invalid.diagnostics.iter();
        let hints = findings.map(|finding| format!("`{}`: {}", finding.key, finding.message));
        hints.fold(error, Error::with_hint)
    })?;
    if recorded_config(&config) == *team {
        return Ok(config);
    }
    let message = "the team in `replay.yaml` contains settings that massgen never writes";
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("it may have been written by another version, or changed since"))
}

/// Gives the checklist the criteria that a model wrote in the recorded run, so that they are not
/// written again.
fn use_recorded_criteria(rules: &mut OrchestratorConfig, events: &[Event]) {
    let generation = rules.preparation.criteria.take();
    let (Some(generation), Some(checklist)) = (generation, &mut rules.checklist) else {
        return;
    };
    let mut replies = events.iter().filter_map(|event| {
        if let Event::Subagent(SubagentEvent::SubagentModel {
            call_id,
            subagent,
            event: ModelEvent::Replied { text, .. },
            ..
        }) = event
            && call_id == SeparateCall::Preparation.id()
            && subagent.as_str() == CRITERIA_SUBAGENT
        {
            Some(text)
        } else {
            None
        }
    });
    if let Some(criteria) = replies.find_map(|reply| parse_criteria(reply, generation).ok()) {
        checklist.criteria = criteria;
    }
}

/// Removes paths that the config opens and that are no longer directories (or, for uploads, no
/// files), or are outside of `scope`.
fn close_paths(config: &mut Config, scope: &RecordPathScope, notes: &mut Vec<String>) {
    let opened_paths: BTreeSet<AbsPath> = config.opened_paths().cloned().collect();
    let is_closed =
        |path: &AbsPath| !scope.keeps(path, inspect(path) == LookupResult::Directory, notes);
    let closed_paths: BTreeSet<AbsPath> = opened_paths.into_iter().filter(is_closed).collect();
    let paths = &mut config.orchestrator.context_paths;
    paths.retain(|context| !closed_paths.contains(&context.path));
    for agent in &mut config.agents {
        let paths = &mut agent.context_paths;
        paths.retain(|context| !closed_paths.contains(&context.path));
        let images = &mut agent.uploaded_images;
        images.retain(|path| scope.keeps(path, inspect(path) == LookupResult::File, notes));
        // A replay reads nothing from a URL.
        agent.uploaded_image_urls.clear();
        agent.uploaded_files.retain(|file| {
            let path = file.path();
            path.is_none_or(|path| scope.keeps(path, inspect(path) == LookupResult::File, notes))
        });
        if let FolderGuard::On { read, write, .. } = &mut agent.folder_guard {
            read.retain(|path| !closed_paths.contains(path));
            write.retain(|path| !closed_paths.contains(path));
        }
    }
}

fn parse_absolute(text: &str) -> Result<AbsPath> {
    AbsPath::new(text).ok_or_else(|| {
        let message = format!("`{text}` in `replay.yaml` is not an absolute path");
        Error::new(ErrorKind::Environment, message).with_hint("the record is damaged")
    })
}
