//! Writes single records to a coordination's directory. Everything written is redacted here; files
//! are replaced atomically.

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::id::{AgentId, AnswerLabel};
use crate::path::AbsPath;
use crate::text::escape_json;
use crate::tools::task_plan::TaskPlan;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::records::coordination_progress::{CoordinationProgress, ValidVote};
use crate::world::store::records::record_paths::FINAL;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// The name of the file of one answer.
const ANSWER: &str = "answer.txt";

/// An answer with what is recorded about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerRecord<'a> {
    pub(crate) label: AnswerLabel,
    /// Its text.
    pub(crate) content: &'a str,
    /// The path of the snapshot of the agent's workspace, if it has files.
    pub(crate) snapshot: Option<&'a str>,
    /// The agent's plan, if it has one.
    pub(crate) plan: Option<&'a TaskPlan>,
}

/// Writes the records of one coordination.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    dir: AbsPath,
    redactor: Redactor,
    /// The content of `snapshot_mappings.json`: the path of each label's answer.
    mappings: Map<String, Value>,
}

impl RecordWriter {
    /// Creates a writer to the existing directory `dir`.
    pub(crate) fn new(dir: AbsPath, redactor: Redactor) -> Self {
        Self {
            dir,
            redactor,
            mappings: Map::new(),
        }
    }

    /// Writes `text` as the file `name`.
    pub(crate) fn write_text(&self, name: &str, text: &str) -> Result<()> {
        file::replace_unsynced(&self.dir.join(name), self.redactor.text(text).as_bytes())
    }

    /// Writes `value` as the file `name`.
    pub(crate) fn write_json(&self, name: &str, value: Value) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.redactor.json(value))
            .map_err(Error::unserializable)?;
        let text = escape_json(&text);
        file::replace_unsynced(&self.dir.join(name), text.as_bytes())
    }

    /// Writes `snapshot_mappings.json`.
    pub(crate) fn write_mappings(&self) -> Result<()> {
        self.write_json(
            "snapshot_mappings.json",
            Value::Object(self.mappings.clone()),
        )
    }

    /// Writes an answer.
    pub(crate) fn write_answer(
        &mut self,
        agent: &AgentId,
        time: &LocalDateTime,
        answer: &AnswerRecord<'_>,
    ) -> Result<()> {
        let AnswerRecord {
            label,
            content,
            snapshot,
            plan,
        } = *answer;
        let rel = format!("{agent}/{}", time.name_format());
        let path = format!("{rel}/{ANSWER}");
        let mut mapping = json!({
            "type": "answer",
            "label": label,
            "agent_id": agent,
            "timestamp": time.name_format(),
            "path": path,
            "workspace": snapshot,
        });
        if let (Some(fields), Some(plan)) = (mapping.as_object_mut(), plan) {
            fields.insert("plan".to_owned(), json!(plan));
        }
        self.mappings.insert(label.to_string(), mapping);
        dir::create_all(&self.dir.join(rel), DirectoryAudience::User)?;
        self.write_text(&path, content)
    }

    /// Writes a vote that `progress` already contains.
    pub(crate) fn write_vote(
        &mut self,
        voter: &AgentId,
        time: &LocalDateTime,
        vote: &ValidVote,
        progress: &CoordinationProgress,
    ) -> Result<()> {
        let rel = format!("{voter}/{}", time.name_format());
        let path = format!("{rel}/vote.json");
        let votes_before = self.mappings.values().filter(|known| {
            known.get("type").and_then(Value::as_str) == Some("vote")
                && known.get("agent_id").and_then(Value::as_str) == Some(voter.as_str())
        });
        let number = votes_before.count().saturating_add(1);
        let mapping = json!({
            "type": "vote",
            "label": vote.label,
            "agent_id": voter,
            "timestamp": time.name_format(),
            "path": path,
        });
        let name = match progress.agents.get(voter) {
            Some(progress) => format!("{}.vote{number}", progress.number),
            None => format!("{voter}.vote{number}"),
        };
        self.mappings.insert(name, mapping);
        dir::create_all(&self.dir.join(rel), DirectoryAudience::User)?;
        self.write_json(&path, vote_record(voter, vote, progress, time))
    }

    /// Writes the final answer. The session and the event log have it, too.
    pub(crate) fn write_final_answer(&self, agent: &AgentId, content: &str) -> Result<()> {
        let dir = self.dir.join(format!("{FINAL}/{agent}"));
        dir::create_all(&dir, DirectoryAudience::User)?;
        file::replace_unsynced(&dir.join(ANSWER), self.redactor.text(content).as_bytes())
    }
}

/// Returns the content of `vote.json`.
fn vote_record(
    voter: &AgentId,
    vote: &ValidVote,
    progress: &CoordinationProgress,
    time: &LocalDateTime,
) -> Value {
    let number = |agent: &AgentId| {
        progress
            .agents
            .get(agent)
            .map(|progress| progress.number.to_string())
    };
    let answered_agents = progress
        .agents
        .iter()
        .filter(|(_, progress)| progress.answer_count > 0);
    let (options, options_anon): (Vec<_>, Vec<_>) = answered_agents
        .map(|(agent, progress)| (agent.as_str(), progress.number.to_string()))
        .unzip();
    let mapping: Map<String, Value> = progress
        .agents
        .iter()
        .map(|(agent, progress)| (progress.number.to_string(), agent.as_str().into()))
        .collect();
    let answers: u32 = progress
        .agents
        .values()
        .map(|progress| progress.answer_count)
        .sum();
    json!({
        "voter_id": voter,
        "voter_anon_id": number(voter),
        "voted_for": vote.candidate,
        "voted_for_anon": number(&vote.candidate),
        "voted_for_label": vote.label,
        "reason": vote.reason,
        "timestamp": time.iso_format(),
        "unix_timestamp": time.unix_seconds(),
        "iteration": answers,
        "coordination_round": progress.agents.get(voter).map(|progress| progress.times_informed),
        "available_options": options,
        "available_options_anon": options_anon,
        "agent_mapping": mapping,
    })
}
