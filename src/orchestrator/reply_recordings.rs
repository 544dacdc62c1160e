//! The files that the config key `record` names. At the end of a run, massgen atomically replaces
//! each by the recording of its agent's replies, but never a file that is not such a recording.

use crate::config::Config;
use crate::error::Result;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::world::store::records::{Recorder, recording};

/// The recorded agents, and the files for their replies.
#[derive(Debug)]
pub struct ReplyRecordings(Vec<(AgentId, AbsPath)>);

impl ReplyRecordings {
    /// Collects the files that `config` names; fails if one must not or cannot be written.
    pub fn validate(config: &Config) -> Result<Self> {
        let recording_paths = config.agents.iter().filter_map(|agent| {
            let path = agent.record.clone()?;
            Some((agent.id.clone(), path))
        });
        let recordings: Vec<(AgentId, AbsPath)> = recording_paths.collect();
        for (_, path) in &recordings {
            recording::check_target(path)?;
        }
        Ok(Self(recordings))
    }

    /// Writes the files. Returns one sentence for each that could not be written.
    pub fn publish(&self, recorder: &Recorder) -> Vec<String> {
        let publish = |(agent, path): &(AgentId, AbsPath)| match recorder.replies_file(agent) {
            None => Some(format!("`{path}` was not written: {agent} gave no reply")),
            Some(replies) => recording::publish(replies, path)
                .err()
                .map(|error| format!("cannot record the replies of {agent}: {error:#}")),
        };
        self.0.iter().filter_map(publish).collect()
    }
}
