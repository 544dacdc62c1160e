//! The keys of `retention`: what is removed at the end of a run.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, ByteSize, Integer};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys};

/// The longest time that something unused can be kept, in days.
const DAYS_MAX: i64 = 36_500;

/// The lowest and highest limit for all sessions and records together, in bytes.
const BYTES_KEPT_MIN: u64 = 1 << 20;

const BYTES_KEPT_MAX: u64 = 1 << 50;

pub(crate) const DAYS: TypedKey<Integer> = TypedKey::optional(
    &["days"],
    shape::integer(1, DAYS_MAX),
    "Days after which something unused is removed.",
    Harmless,
);

pub(crate) const SIZE: TypedKey<ByteSize> = TypedKey::optional(
    &["size"],
    shape::size(BYTES_KEPT_MIN, BYTES_KEPT_MAX),
    "Maximum total size.",
    Harmless,
);

/// The retention of runs and sessions.
pub static RETENTION: KeySection = KeySection {
    path: "retention",
    doc: "What is removed at the end of a run, oldest first: sessions, logs and workspaces of \
          runs, pipelines, and delivery records. What is in use and the newest of each kind are \
          kept. Without limits nothing is removed.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[DAYS.row(), SIZE.row()],
};
