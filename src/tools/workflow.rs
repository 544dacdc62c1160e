//! Owns the calls by which an agent takes part in the coordination.
