//! Lets agents whose first requests begin with the same text wait until the first of them is being
//! answered: a vendor has that text in its cache only then, and reads it once.

use std::time::Duration;

use tokio::sync::watch::{self, Receiver, Sender};
use tokio::time::timeout;

use crate::agent::ModelSession;

/// Longest wait for the beginning of the first reply.
const FIRST_REPLY_TIME_MAX: Duration = Duration::from_secs(10);

/// The part of a session in a group with the same text.
#[derive(Debug)]
pub enum SharedPrefix {
    /// It asks first, and says when its reply begins.
    Leader(Sender<bool>),
    /// It waits for that.
    Follower(Receiver<bool>),
}

impl SharedPrefix {
    /// Waits until a request may be sent.
    pub(super) async fn wait(&self) {
        if let SharedPrefix::Follower(begun) = self {
            let mut begun = begun.clone();
            // A leader that is gone, or slow, is not waited for.
            drop(timeout(FIRST_REPLY_TIME_MAX, begun.wait_for(|begun| *begun)).await);
        }
    }

    /// Notes that a reply has begun, or that its request has ended.
    pub(super) fn note_reply(&self) {
        if let SharedPrefix::Leader(begun) = self {
            begun.send_if_modified(|begun| !std::mem::replace(begun, true));
        }
    }
}

/// Groups the sessions that ask the same model with the same system message and tools. Those of a
/// recording do not wait, because a part of their requests is not sent.
pub fn group_by_prefix<'s>(sessions: impl Iterator<Item = &'s mut ModelSession>) {
    let mut leaders: Vec<&mut ModelSession> = Vec::new();
    for session in sessions {
        let is_sent = |session: &ModelSession| {
            let model = session.models.first();
            session.recorded.is_none() && model.is_some_and(|model| !model.backend.is_free())
        };
        if !is_sent(session) {
            continue;
        }
        let leader = leaders
            .iter()
            .find(|leader| has_same_prefix(leader, session));
        match leader.and_then(|leader| leader.shared_prefix.as_ref()) {
            Some(SharedPrefix::Leader(begun)) => {
                session.shared_prefix = Some(SharedPrefix::Follower(begun.subscribe()));
            }
            Some(SharedPrefix::Follower(_)) | None => {
                session.shared_prefix = Some(SharedPrefix::Leader(watch::channel(false).0));
                leaders.push(session);
            }
        }
    }
}

fn has_same_prefix(one: &ModelSession, other: &ModelSession) -> bool {
    let [models, other_models] =
        [one, other].map(|session| session.models.first().map(|model| &model.name));
    let [tools, other_tools] =
        [one, other].map(|session| session.tools.iter().map(|tool| &tool.name));
    models == other_models && one.system == other.system && tools.eq(other_tools)
}
