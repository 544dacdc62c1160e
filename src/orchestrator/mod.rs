//! Owns orchestrator.
