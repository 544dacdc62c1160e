//! Rate limits for requests to models: requests and tokens per minute, shared by all agents of a
//! run and enforced before anything is sent. A reservation returns how long to wait, and later
//! reservations never make that longer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::BackendConfig;
use crate::config::rates::RateLimit;

/// The window over which limits count.
const MINUTE: Duration = Duration::from_mins(1);
/// Bytes of text that are estimated as one token until the vendor has reported the count.
const BYTES_PER_TOKEN: usize = 4;

/// All rate limits of a run.
#[derive(Clone, Debug, Default)]
pub struct RateLimiter {
    /// Each limit of the config with one of its windows.
    limits: Vec<(RateLimit, Arc<LimitWindow>)>,
}

/// The rate limits that apply to one model.
#[derive(Clone, Debug, Default)]
pub struct ModelRateLimiter {
    limits: Vec<Arc<LimitWindow>>,
}

/// Reservation for one request.
#[derive(Debug)]
pub struct RateReservation {
    /// How long to wait before sending it.
    pub wait: Duration,
    /// The limit that determines the wait.
    pub reason: String,
    /// The windows of the limits on tokens, and the id of its entry in each.
    token_entries: Vec<(Arc<LimitWindow>, u64)>,
}

/// One limit and the requests that count towards it.
#[derive(Debug)]
struct LimitWindow {
    /// The limit in words.
    description: String,
    unit: RateUnit,
    window: Mutex<SlidingWindow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateUnit {
    Requests,
    Tokens,
}

/// Requests that were or will be sent, oldest first. In no minute does their sum exceed the limit.
#[derive(Debug)]
struct SlidingWindow {
    amount_max: u64,
    entries: VecDeque<WindowEntry>,
    next_id: u64,
}

#[derive(Debug)]
struct WindowEntry {
    id: u64,
    sent_at: Instant,
    amount: u64,
}

impl RateLimiter {
    /// Creates the windows for these limits.
    pub fn new(limits: &[RateLimit]) -> Self {
        let window = |limit: &RateLimit, amount_max: Option<u64>, unit: RateUnit| {
            let amount_max = amount_max?;
            let scope = match (limit.vendor, &limit.model) {
                (Some(vendor), Some(model)) => format!(" of `{}/{model}`", vendor.name),
                (Some(vendor), None) => format!(" of `{}`", vendor.name),
                (None, Some(model)) => format!(" of `{model}`"),
                (None, None) => String::new(),
            };
            let noun = match unit {
                RateUnit::Requests => "requests",
                RateUnit::Tokens => "tokens",
            };
            let window = LimitWindow {
                description: format!("the limit{scope} is {amount_max} {noun} a minute"),
                unit,
                window: Mutex::new(SlidingWindow::new(amount_max)),
            };
            Some((limit.clone(), Arc::new(window)))
        };
        let windows = |limit: &RateLimit| {
            [
                window(limit, limit.requests_per_minute, RateUnit::Requests),
                window(limit, limit.tokens_per_minute, RateUnit::Tokens),
            ]
        };
        Self {
            limits: limits.iter().flat_map(windows).flatten().collect(),
        }
    }

    /// Returns the limits that apply to the model of `config`.
    pub fn model_limiter(&self, config: &BackendConfig) -> ModelRateLimiter {
        let applies = |limit: &RateLimit| limit.applies_to(config.vendor, &config.model);
        let windows = self.limits.iter().filter(|(limit, _)| applies(limit));
        ModelRateLimiter {
            limits: windows.map(|(_, window)| Arc::clone(window)).collect(),
        }
    }
}

impl ModelRateLimiter {
    /// Reserves the next free slot for a request of `bytes`; `None` if no limit applies.
    pub fn reserve(&self, bytes: usize) -> Option<RateReservation> {
        let tokens = u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX);
        (!self.limits.is_empty()).then(|| self.reserve_from(Instant::now(), tokens))
    }

    fn reserve_from(&self, now: Instant, estimate: u64) -> RateReservation {
        // All windows are locked together: what one limit delays must not yet count towards
        // another. All callers lock them in the order of the config.
        let limits = self.limits.iter();
        let mut windows: Vec<_> = limits.map(|limit| (limit, limit.lock())).collect();
        for (_, window) in &mut windows {
            window.evict(now);
        }
        let (send_time, reason) = earliest_in_all(&windows, now, estimate);
        let token_entries = windows.iter_mut().filter_map(|(limit, window)| {
            let id = window.insert(send_time, limit.amount(estimate));
            (limit.unit == RateUnit::Tokens).then(|| (Arc::clone(limit), id))
        });
        RateReservation {
            wait: send_time.saturating_duration_since(now),
            reason,
            token_entries: token_entries.collect(),
        }
    }
}

/// Returns the first time from `now` on at which every limit allows a request of this many tokens,
/// and the limit that determines it.
fn earliest_in_all(
    windows: &[(&Arc<LimitWindow>, MutexGuard<'_, SlidingWindow>)],
    now: Instant,
    tokens: u64,
) -> (Instant, String) {
    let (mut time, mut reason) = (now, "");
    loop {
        let previous_time = time;
        for (limit, window) in windows {
            let earliest = window.earliest_from(time, limit.amount(tokens));
            if earliest > time {
                (time, reason) = (earliest, &limit.description);
            }
        }
        if time == previous_time {
            return (time, reason.to_owned());
        }
    }
}

impl RateReservation {
    /// Replaces the estimate by the tokens that the vendor counted.
    pub fn set_token_count(self, tokens: u64) {
        for (limit, id) in self.token_entries {
            limit.lock().correct(id, tokens);
        }
    }
}

impl LimitWindow {
    fn lock(&self) -> MutexGuard<'_, SlidingWindow> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how much of the limit a request of this many tokens uses.
    fn amount(&self, tokens: u64) -> u64 {
        match self.unit {
            RateUnit::Requests => 1,
            RateUnit::Tokens => tokens,
        }
    }
}

impl SlidingWindow {
    fn new(amount_max: u64) -> Self {
        Self {
            amount_max,
            entries: VecDeque::new(),
            next_id: 0,
        }
    }

    /// Removes entries that are too old to count at `now`.
    fn evict(&mut self, now: Instant) {
        let is_too_old = |entry: &mut WindowEntry| entry.sent_at + MINUTE <= now;
        while self.entries.pop_front_if(is_too_old).is_some() {}
    }

    /// Returns the first time from `from` on at which `amount` may be sent. An amount that exceeds
    /// the limit counts as the limit.
    fn earliest_from(&self, from: Instant, amount: u64) -> Instant {
        let minute_end = |at: &Instant| self.end_of_full_minute(*at, amount.min(self.amount_max));
        std::iter::successors(Some(from), minute_end)
            .last()
            .unwrap_or(from)
    }

    /// Returns the end of the first minute around `at` that has no room for `amount`; `None` if all
    /// have room.
    fn end_of_full_minute(&self, at: Instant, amount: u64) -> Option<Instant> {
        // Every minute around `at` that matters ends at `at`, or when a request is sent that is
        // still waiting.
        let send_times = self.entries.iter().map(|entry| entry.sent_at);
        let ends = send_times.filter(|end| *end > at && *end < at + MINUTE);
        std::iter::once(at).chain(ends).find_map(|end| {
            let is_within =
                |entry: &&WindowEntry| entry.sent_at <= end && entry.sent_at + MINUTE > end;
            let entries_within = self.entries.iter().filter(is_within);
            let sum = entries_within.fold(amount, |sum, entry| sum.saturating_add(entry.amount));
            let oldest = self.entries.iter().find(is_within)?;
            (sum > self.amount_max).then(|| oldest.sent_at + MINUTE)
        })
    }

    /// Records `amount`, which is sent at `at`. Returns the id of the entry.
    fn insert(&mut self, at: Instant, amount: u64) -> u64 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let index = self.entries.partition_point(|entry| entry.sent_at <= at);
        let amount = amount.min(self.amount_max);
        self.entries.insert(
            index,
            WindowEntry {
                id,
                sent_at: at,
                amount,
            },
        );
        id
    }

    fn correct(&mut self, id: u64, amount: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.amount = amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the waits, in seconds, for requests of these amounts made at these seconds.
    #[track_caller]
    fn check(amount_max: u64, requests: &[(u64, u64)], expected: &[u64]) {
        let start = Instant::now();
        let mut window = SlidingWindow::new(amount_max);
        let sent: Vec<u64> = requests
            .iter()
            .map(|(second, amount)| {
                let now = start + Duration::from_secs(*second);
                window.evict(now);
                let at = window.earliest_from(now, *amount);
                window.insert(at, *amount);
                at.duration_since(start).as_secs()
            })
            .collect();
        assert_eq!(sent, expected);
    }

    #[test]
    fn no_minute_exceeds_the_limit() {
        check(
            2,
            &[(0, 1), (0, 1), (0, 1), (0, 1), (0, 1)],
            &[0, 0, 60, 60, 120],
        );
        check(2, &[(0, 1), (50, 1), (55, 1), (70, 1)], &[0, 50, 60, 110]);
        check(2, &[(0, 1), (0, 1), (200, 1)], &[0, 0, 200]);
        // A request that fits alongside a waiting one does not wait for it, and never delays it.
        check(100, &[(0, 60), (1, 60), (2, 40), (3, 1)], &[0, 60, 2, 62]);
        // A request that exceeds the limit by itself waits for an empty minute, not for ever.
        check(100, &[(0, 10), (1, 500), (2, 1)], &[0, 60, 120]);
    }

    #[test]
    fn a_request_that_waits_for_one_limit_counts_later_for_the_others() {
        let limit = RateLimit {
            vendor: None,
            model: None,
            requests_per_minute: Some(2),
            tokens_per_minute: Some(100),
        };
        let windows = RateLimiter::new(&[limit]).limits.into_iter();
        let limiter = ModelRateLimiter {
            limits: windows.map(|(_, window)| window).collect(),
        };
        let start = Instant::now();
        let seconds =
            [100, 100, 0, 0, 0].map(|tokens| limiter.reserve_from(start, tokens).wait.as_secs());
        assert_eq!(seconds, [0, 60, 0, 60, 120]);
    }

    #[test]
    fn the_count_of_the_vendor_replaces_the_estimate() {
        let start = Instant::now();
        let mut window = SlidingWindow::new(100);
        let id = window.insert(start, 10);
        window.correct(id, 95);
        assert_eq!(window.earliest_from(start, 10), start + MINUTE);
    }
}
