//! Owns cli.
