//! The keys of `retention`: what is removed at the end of a run.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, ByteSize, Integer};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys};

/// The longest time that something unused can be kept, in days.
const DAYS_MAX: i64 = 36_500;

/// The lowest and highest limit for all sessions and records together, in bytes.
const BYTES_KEPT_MIN: u64 = 1 << 20;

const BYTES_KEPT_MAX: u64 = 1 << 50;

pub(crate) const DAYS: ServedKey<Integer> = ServedKey::optional(
    &["days"],
    shape::integer(1, DAYS_MAX),
    "How many days something is kept that nobody uses.",
    Harmless,
);

pub(crate) const SIZE: ServedKey<ByteSize> = ServedKey::optional(
    &["size"],
    shape::size(BYTES_KEPT_MIN, BYTES_KEPT_MAX),
    "How much all of it may take up.",
    Harmless,
);

/// The retention of runs and sessions.
pub static RETENTION: KeySection = KeySection {
    path: "retention",
    doc: "What is removed at the end of a run, the oldest first: sessions, the records and workspaces of \
          runs, pipelines, and what is kept of deliveries. What is in use stays, and so does the newest \
          of each kind. Without limits nothing is removed.",
    others: UnknownKeys::Refused,
    keys: &[DAYS.row(), SIZE.row()],
};
