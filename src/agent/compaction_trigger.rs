//! When a conversation is compacted and how far: before its next request, once it fills the share
//! of its model's context that the config names.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::OrchestratorConfig;

/// Decides when the conversation of an agent is compacted.
#[derive(Debug, Default)]
pub struct CompactionTrigger {
    /// The share of the context from which a conversation is compacted.
    threshold: Option<f64>,
    /// The share of the steps, counted from the newest, that a compaction keeps unchanged.
    pub(super) recent_share: Option<f64>,
    is_due: AtomicBool,
}

impl CompactionTrigger {
    /// Creates the trigger of a new conversation from the rules of the config.
    pub fn new(rules: &OrchestratorConfig) -> Self {
        Self {
            threshold: rules.compaction_threshold,
            recent_share: rules.compression_target_ratio,
            is_due: AtomicBool::new(false),
        }
    }

    /// Returns a trigger with the same rules for a conversation of a subagent.
    pub(super) fn for_subagent(&self) -> Self {
        Self {
            threshold: self.threshold,
            recent_share: self.recent_share,
            is_due: AtomicBool::new(false),
        }
    }

    /// Records that a request used this many tokens of a context of this size, as far as that is
    /// known.
    pub(super) fn record_usage(&self, used: u64, context: Option<u64>) {
        let share = context.and_then(|context| share(used, context));
        let is_due = match (share, self.threshold) {
            (Some(share), Some(threshold)) => used > 0 && share >= threshold,
            (None, _) | (_, None) => false,
        };
        self.is_due.store(is_due, Ordering::Relaxed);
    }

    /// Returns whether the conversation is to be compacted now, and clears the mark.
    pub(super) fn take(&self) -> bool {
        self.is_due.swap(false, Ordering::Relaxed)
    }
}

/// Returns which share of a context is used.
fn share(used: u64, context: u64) -> Option<f64> {
    let used_tokens = f64::from(u32::try_from(used).ok()?);
    let context = f64::from(u32::try_from(context).ok()?);
    (context > 0.0).then(|| used_tokens / context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_compacted_once_from_the_threshold_on() {
        for (threshold, used, context, expected) in [
            (Some(0.25), 24, Some(100), false),
            (Some(0.25), 25, Some(100), true),
            (Some(0.25), 25, None, false),
            (Some(0.0), 0, Some(100), false),
            (None, 100, Some(100), false),
        ] {
            let compaction_trigger = CompactionTrigger {
                threshold,
                ..CompactionTrigger::default()
            };
            compaction_trigger.record_usage(used, context);
            assert_eq!(compaction_trigger.take(), expected, "{threshold:?} {used}");
            assert!(!compaction_trigger.take());
        }
    }
}
