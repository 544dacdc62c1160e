//! Owns what massgen keeps on disk under `.massgen`: workspaces, snapshots, sessions and records.
//! Nothing that massgen did not make is ever emptied or replaced here.

pub mod redact;
