//! Owns ballot.
