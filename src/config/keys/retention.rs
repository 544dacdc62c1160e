//! The keys of `retention`: what is removed at the end of a run.

/// The longest time that something unused can be kept, in days.
const DAYS_MAX: i64 = 36_500;

/// The lowest and highest limit for all sessions and records together, in bytes.
const BYTES_KEPT_MIN: u64 = 1 << 20;

const BYTES_KEPT_MAX: u64 = 1 << 50;

section! {
    /// What is removed at the end of a run, oldest first: sessions, logs and workspaces of runs,
    /// pipelines, and delivery records. What is in use and the newest of each kind are kept.
    /// Without limits nothing is removed.
    pub static RETENTION = "retention";

    /// Days after which something unused is removed.
    const DAYS = ["days"] integer(1, DAYS_MAX);

    /// Maximum total size.
    const SIZE = ["size"] size(BYTES_KEPT_MIN, BYTES_KEPT_MAX);
}
