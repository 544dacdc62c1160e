//! Owns brief.
