//! Owns world.
