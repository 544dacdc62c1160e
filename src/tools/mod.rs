//! Owns tools.
