//! Owns what is recorded of a conversation that is gone on with: each reply, and what became of each
//! call. It is given once more in its order, so that nobody is asked for it again. It decides nothing.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::event::StopReason;
use crate::permissions::grant::Phase;
use crate::prompts::untrusted_text::note;
use crate::tools::image::ModelImage;
use crate::tools::request::CallRequest;

/// What is recorded of one conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedConversation {
    /// The whole replies that are still to be given again, and the requests that failed for good.
    pub replies: VecDeque<RecordedReply>,
    /// What became of the calls, by their ids.
    pub calls: BTreeMap<String, RecordedCall>,
    /// How many models could not go on.
    pub models_left: usize,
    /// What is left of what the calls did.
    pub effects: EffectPersistence,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedReply {
    /// With a whole reply.
    Whole {
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
pub enum RecordedCall {
    /// It was begun; nothing tells how it ended.
    Begun,
    /// It was carried out, and the model read this.
    Ended(ToolResultContent),
    /// It was turned away, and the model read this.
    TurnedAway(ToolResultContent),
}

/// What a model reads of a call, and sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResultContent {
    /// The text.
    pub content: String,
    /// Its images.
    pub images: Vec<ModelImage>,
}

impl ToolResultContent {
    /// What a model reads of a call that was turned away for `reason`.
    pub fn from_rejection(reason: &str) -> Self {
        Self {
            content: note(reason),
            images: Vec::new(),
        }
    }
}

/// What is left of what recorded calls did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EffectPersistence {
    /// It is there, on the disk.
    #[default]
    Present,
    /// It is gone, or lies where it does not count: the calls are carried out again.
    Gone,
}

impl RecordedConversation {
    /// Whether all of it has been given.
    pub fn is_exhausted(&self) -> bool {
        self.replies.is_empty()
    }

    /// The text of the last reply.
    pub fn last_text(&self) -> Option<&str> {
        let mut latest_first = self.replies.iter().rev();
        let last = latest_first.find_map(|remembered| match remembered {
            RecordedReply::Whole { text, .. } => Some(text.trim()),
            RecordedReply::Failed(_) => None,
        });
        last.filter(|text| !text.is_empty())
    }

    /// Whether the call `id` is recorded.
    pub fn contains_call(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// What is left of what the call `id` did. What was turned away in the final phase is part of the
    /// delivery, and asked for again.
    pub fn effects_of(&self, id: &str, phase: Phase) -> EffectPersistence {
        match self.calls.get(id) {
            Some(RecordedCall::TurnedAway(_)) if phase == Phase::Final => EffectPersistence::Gone,
            _ => self.effects,
        }
    }

    /// What the model read of the call `id`, if it did.
    pub fn result_of(&self, id: &str) -> Option<&ToolResultContent> {
        match self.calls.get(id)? {
            RecordedCall::Ended(reading) | RecordedCall::TurnedAway(reading) => Some(reading),
            RecordedCall::Begun => None,
        }
    }
}
