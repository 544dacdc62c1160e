//! The events of a run that its lines are made of, kept while the dashboard covers the terminal.
//! The pieces of replies are not among them. It is bounded: when it is full, tool calls are only
//! counted.

use std::collections::VecDeque;
use std::time::Duration;

use crate::event::{Event, ModelEvent};

/// Maximum number of events after which tool calls and requests are only counted.
const EVENTS_MAX: usize = 20_000;

/// An event and its time.
#[derive(Clone, Debug)]
pub(super) struct LineEvent {
    /// The time since the start.
    pub(super) elapsed: Duration,
    pub(super) event: Event,
}

/// The events of a run so far, without the pieces of replies.
#[derive(Clone, Debug, Default)]
pub(super) struct LineHistory {
    events: VecDeque<LineEvent>,
    omitted_count: u64,
}

impl LineHistory {
    /// Adds an event.
    pub(super) fn push(&mut self, event: &Event, elapsed: Duration) {
        if event.is_streamed() || matches!(event, Event::Model(ModelEvent::Replied { .. })) {
            return;
        }
        let is_detail = matches!(event, Event::Tool(_) | Event::Model(_) | Event::Subagent(_));
        if is_detail && self.events.len() >= EVENTS_MAX {
            self.omitted_count = self.omitted_count.saturating_add(1);
            return;
        }
        self.events.push_back(LineEvent {
            elapsed,
            event: event.without_log_fields().into_owned(),
        });
    }

    /// Returns the events, oldest first.
    pub(super) fn events(&self) -> impl DoubleEndedIterator<Item = &LineEvent> {
        self.events.iter()
    }

    /// Returns the number of events that were not kept.
    pub(super) fn omitted_count(&self) -> u64 {
        self.omitted_count
    }
}
