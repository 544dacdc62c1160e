//! Owns agent.
