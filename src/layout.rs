//! Owns layout.
