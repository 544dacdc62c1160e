//! Owns how fast models are asked: limits of requests and tokens in a minute, shared by all agents of
//! a run and honoured before anything is sent. Whoever may not send yet is told how long to wait, in
//! the order of asking.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::BackendConfig;
use crate::config::rates::RateLimit;

/// The time that limits count in.
const MINUTE: Duration = Duration::from_mins(1);
/// Bytes of text that are counted as a token until the vendor has said how many there were.
const BYTES_PER_TOKEN: usize = 4;

/// All limits of a run.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    gauges: Vec<(RateLimit, Arc<Gauge>)>,
}

/// The limits that hold for one model.
#[derive(Clone, Debug, Default)]
pub struct Pacing {
    gauges: Vec<Arc<Gauge>>,
}

/// When a request may be sent.
#[derive(Debug)]
pub struct Slot {
    /// How long to wait before.
    pub wait: Duration,
    /// The limit that makes it wait the longest.
    pub reason: String,
    /// Where its tokens are counted.
    tokens: Vec<(Arc<Gauge>, u64)>,
}

/// One limit and what was sent under it.
#[derive(Debug)]
struct Gauge {
    what: String,
    unit: Unit,
    window: Mutex<Window>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Requests,
    Tokens,
}

/// What was or will be sent, oldest first. In no minute does the sum go over the most.
#[derive(Debug)]
struct Window {
    most: u64,
    sent: VecDeque<Sent>,
    next_id: u64,
}

#[derive(Debug)]
struct Sent {
    id: u64,
    at: Instant,
    amount: u64,
}

impl Pace {
    /// The pace that these limits set.
    pub fn new(limits: &[RateLimit]) -> Self {
        let gauge = |limit: &RateLimit, most: Option<u64>, unit: Unit| {
            let most = most?;
            let scope = match (limit.vendor, &limit.model) {
                (Some(vendor), Some(model)) => format!(" of `{}/{model}`", vendor.name),
                (Some(vendor), None) => format!(" of `{}`", vendor.name),
                (None, Some(model)) => format!(" of `{model}`"),
                (None, None) => String::new(),
            };
            let noun = match unit {
                Unit::Requests => "requests",
                Unit::Tokens => "tokens",
            };
            let gauge = Gauge {
                what: format!("the limit{scope} is {most} {noun} a minute"),
                unit,
                window: Mutex::new(Window::new(most)),
            };
            Some((limit.clone(), Arc::new(gauge)))
        };
        let both = |limit: &RateLimit| {
            [
                gauge(limit, limit.requests_per_minute, Unit::Requests),
                gauge(limit, limit.tokens_per_minute, Unit::Tokens),
            ]
        };
        Self {
            gauges: limits.iter().flat_map(both).flatten().collect(),
        }
    }

    /// The limits that hold for the model that `config` describes.
    pub fn of(&self, config: &BackendConfig) -> Pacing {
        let holds = |limit: &RateLimit| limit.holds_for(config.vendor, &config.model);
        let gauges = self.gauges.iter().filter(|(limit, _)| holds(limit));
        Pacing {
            gauges: gauges.map(|(_, gauge)| Arc::clone(gauge)).collect(),
        }
    }
}

impl Pacing {
    /// Takes the next free slot for a request of `bytes`; `None` if no limit holds.
    pub fn slot(&self, bytes: usize) -> Option<Slot> {
        if self.gauges.is_empty() {
            return None;
        }
        let now = Instant::now();
        let estimate = u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
        let mut slot = Slot {
            wait: Duration::ZERO,
            reason: String::new(),
            tokens: Vec::new(),
        };
        for gauge in &self.gauges {
            let amount = match gauge.unit {
                Unit::Requests => 1,
                Unit::Tokens => estimate,
            };
            let (id, at) = gauge.with(|window| window.take(now, amount));
            let wait = at.saturating_duration_since(now);
            if wait > slot.wait {
                slot.wait = wait;
                slot.reason.clone_from(&gauge.what);
            }
            if gauge.unit == Unit::Tokens {
                slot.tokens.push((Arc::clone(gauge), id));
            }
        }
        Some(slot)
    }
}

impl Slot {
    /// Counts the tokens that the vendor counted, in place of the estimate.
    pub fn settle(self, tokens: u64) {
        for (gauge, id) in self.tokens {
            gauge.with(|window| window.correct(id, tokens));
        }
    }
}

impl Gauge {
    fn with<T>(&self, look: impl FnOnce(&mut Window) -> T) -> T {
        look(&mut self.window.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Window {
    fn new(most: u64) -> Self {
        Self {
            most,
            sent: VecDeque::new(),
            next_id: 0,
        }
    }

    /// Enters `amount` at the first time from `now` on at which it may be sent, after all that was
    /// entered before. What is more than the limit by itself is sent as if it were the limit.
    fn take(&mut self, now: Instant, amount: u64) -> (u64, Instant) {
        while self
            .sent
            .front()
            .is_some_and(|sent| sent.at + MINUTE <= now)
        {
            self.sent.pop_front();
        }
        let amount = amount.min(self.most);
        let mut at = self.sent.back().map_or(now, |last| last.at.max(now));
        let mut sum = amount;
        for sent in self.sent.iter().rev() {
            sum = sum.saturating_add(sent.amount);
            if sum > self.most {
                at = at.max(sent.at + MINUTE);
                break;
            }
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.sent.push_back(Sent { id, at, amount });
        (id, at)
    }

    fn correct(&mut self, id: u64, amount: u64) {
        if let Some(sent) = self.sent.iter_mut().find(|sent| sent.id == id) {
            sent.amount = amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks after how many seconds each of these amounts may be sent, asked for at these seconds.
    #[track_caller]
    fn check(most: u64, asked: &[(u64, u64)], expected: &[u64]) {
        let start = Instant::now();
        let mut window = Window::new(most);
        let sent: Vec<u64> = asked
            .iter()
            .map(|(second, amount)| {
                let (_, at) = window.take(start + Duration::from_secs(*second), *amount);
                at.duration_since(start).as_secs()
            })
            .collect();
        assert_eq!(sent, expected);
    }

    #[test]
    fn in_no_minute_is_more_sent_than_the_limit() {
        check(
            2,
            &[(0, 1), (0, 1), (0, 1), (0, 1), (0, 1)],
            &[0, 0, 60, 60, 120],
        );
        check(2, &[(0, 1), (50, 1), (55, 1), (70, 1)], &[0, 50, 60, 110]);
        check(2, &[(0, 1), (0, 1), (200, 1)], &[0, 0, 200]);
        check(100, &[(0, 60), (1, 60), (2, 40)], &[0, 60, 60]);
        // One that is too great by itself waits for an empty minute, not for ever.
        check(100, &[(0, 10), (1, 500), (2, 1)], &[0, 60, 120]);
    }

    #[test]
    fn a_count_of_the_vendor_replaces_the_estimate() {
        let start = Instant::now();
        let mut window = Window::new(100);
        let (id, _) = window.take(start, 10);
        window.correct(id, 95);
        let (_, at) = window.take(start, 10);
        assert_eq!(at, start + MINUTE);
    }
}
