//! Owns what is recorded of a conversation that is gone on with: each reply, and what became of each
//! call. It is given once more in its order, so that nobody is asked for it again. It decides nothing.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::brief::foreign::note;
use crate::event::StopReason;
use crate::permissions::grant::Phase;
use crate::tools::image::Image;
use crate::tools::request::CallRequest;

/// What is recorded of one conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The whole replies that are still to be given again, and the requests that failed for good.
    pub replies: VecDeque<Remembered>,
    /// What became of the calls, by their ids.
    pub calls: BTreeMap<String, CallRecord>,
    /// How many models could not go on.
    pub models_left: usize,
    /// What is left of what the calls did.
    pub effects: Effects,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Remembered {
    /// With a whole reply.
    Said {
        /// Its text.
        text: String,
        /// Its calls, in order.
        calls: Vec<CallRequest>,
        /// Why it stopped.
        stop: StopReason,
        /// What the vendor wants to have back.
        echo: Option<Value>,
    },
    /// No model gave one, for this reason.
    Failed(String),
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallRecord {
    /// It was begun; nothing tells how it ended.
    Begun,
    /// It was carried out, and the model read this.
    Ended(Reading),
    /// It was turned away, and the model read this.
    TurnedAway(Reading),
}

/// What a model reads of a call, and sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The text.
    pub content: String,
    /// Its images.
    pub images: Vec<Image>,
}

impl Reading {
    /// What a model reads of a call that was turned away for `reason`.
    pub fn turned_away(reason: &str) -> Self {
        Self {
            content: note(reason),
            images: Vec::new(),
        }
    }
}

/// What is left of what recorded calls did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effects {
    /// It is there, on the disk.
    #[default]
    There,
    /// It is gone, or lies where it does not count: the calls are carried out again.
    Gone,
}

impl Memory {
    /// Whether all of it has been given.
    pub fn is_over(&self) -> bool {
        self.replies.is_empty()
    }

    /// The text of the last reply.
    pub fn last_words(&self) -> Option<&str> {
        let mut latest_first = self.replies.iter().rev();
        let last = latest_first.find_map(|remembered| match remembered {
            Remembered::Said { text, .. } => Some(text.trim()),
            Remembered::Failed(_) => None,
        });
        last.filter(|text| !text.is_empty())
    }

    /// Whether the call `id` is recorded.
    pub fn knows(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// What is left of what the call `id` did. What was turned away in the final phase is part of the
    /// delivery, and asked for again.
    pub fn effects_of(&self, id: &str, phase: Phase) -> Effects {
        match self.calls.get(id) {
            Some(CallRecord::TurnedAway(_)) if phase == Phase::Final => Effects::Gone,
            _ => self.effects,
        }
    }

    /// What the model read of the call `id`, if it did.
    pub fn read(&self, id: &str) -> Option<&Reading> {
        match self.calls.get(id)? {
            CallRecord::Ended(reading) | CallRecord::TurnedAway(reading) => Some(reading),
            CallRecord::Begun => None,
        }
    }
}
