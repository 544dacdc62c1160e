//! Owns the order in which a table takes what agents hand in: as it comes, or, where a run is played
//! again, as the record tells. It decides nothing about what is handed in.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::cues::{Cued, Cues};
use crate::agent::round::{Submission, Verdict};
use crate::evidence::Evidence;
use crate::id::{AgentNumber, AnswerLabel};

/// How long the agent is waited for that handed in next. Its model answers at once, and no call to a
/// tool takes that long.
const NEXT_WAIT_MAX: Duration = Duration::from_mins(2);

/// What an agent hands in, and where it waits for the verdict.
pub(super) type Handed = (AgentNumber, Submission, oneshot::Sender<Verdict>);

/// The course that a recorded coordination took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// What was handed in, in the order in which it was taken.
    pub order: VecDeque<Taken>,
    /// What each agent saw, and when.
    pub cues: BTreeMap<AgentNumber, Cues>,
    /// How checks ended on answers.
    pub evidence: BTreeMap<AnswerLabel, Evidence>,
    /// What came after the last of them.
    pub ending: Ending,
}

/// Something that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// By whom.
    pub agent: AgentNumber,
    /// Why hooks refused it, if they did.
    pub hook: Option<String>,
}

/// What hooks have said of something that is handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// They are to be asked.
    Nothing,
    /// What the record tells: why they refused it, if they did.
    Recorded(Option<String>),
}

/// What comes after all that was handed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The ballot closed by itself.
    #[default]
    Closed,
    /// It was cut short, or the record breaks off.
    Cut,
}

/// What a run that is played again follows.
#[derive(Debug)]
pub struct Again {
    /// The course of each attempt.
    pub courses: VecDeque<Course>,
    /// Says that the run goes another way than the record; it then goes on by itself.
    pub departed: CancellationToken,
}

/// A course on its way through a coordination.
#[derive(Debug)]
pub struct Followed {
    /// What is left of it.
    pub course: Course,
    /// Says that the run goes another way.
    pub departed: CancellationToken,
    /// Ends the run where the record ends.
    pub stop: CancellationToken,
}

/// Where a table takes submissions from.
#[derive(Debug)]
pub(super) struct Intake {
    handed: mpsc::Receiver<Handed>,
    followed: Option<Followed>,
    /// What was handed in sooner than in the record.
    early: BTreeMap<AgentNumber, Handed>,
    awaited: watch::Sender<Option<AgentNumber>>,
}

impl Intake {
    /// Takes from `handed`, in the order of `followed` if there is one.
    pub(super) fn new(handed: mpsc::Receiver<Handed>, followed: Option<Followed>) -> Self {
        Self {
            handed,
            followed,
            early: BTreeMap::new(),
            awaited: watch::channel(None).0,
        }
    }

    /// The cues of `agent`, if there is a course.
    pub(super) fn cued(&mut self, agent: AgentNumber) -> Option<Cued> {
        let followed = self.followed.as_mut()?;
        Some(Cued {
            cues: followed.course.cues.remove(&agent).unwrap_or_default(),
            awaited: self.awaited.subscribe(),
            departed: followed.departed.clone(),
        })
    }

    /// The next submission. `is_at_work` tells who can hand something in at all. Nothing is lost if
    /// the waiting is given up.
    pub(super) async fn next(
        &mut self,
        is_at_work: impl Fn(AgentNumber) -> bool,
    ) -> Option<(Handed, Heard)> {
        while let Some(followed) = &mut self.followed {
            let order = &mut followed.course.order;
            let next = order.front().map(|taken| taken.agent);
            self.awaited.send_replace(next);
            match (next, followed.course.ending) {
                (Some(agent), _) if is_at_work(agent) && !followed.departed.is_cancelled() => {
                    if let Some(handed) = self.early.remove(&agent) {
                        let hook = order.pop_front().and_then(|taken| taken.hook);
                        return Some((handed, Heard::Recorded(hook)));
                    }
                    if let Ok(Some(handed)) = timeout(NEXT_WAIT_MAX, self.handed.recv()).await {
                        self.early.insert(handed.0, handed);
                        continue;
                    }
                }
                (None, Ending::Cut) => {
                    followed.stop.cancel();
                    return std::future::pending().await;
                }
                (Some(_), _) | (None, Ending::Closed) => {}
            }
            followed.departed.cancel();
            self.followed = None;
        }
        let handed = match self.early.pop_first() {
            Some((_, handed)) => handed,
            None => self.handed.recv().await?,
        };
        Some((handed, Heard::Nothing))
    }
}
