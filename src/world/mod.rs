//! Owns world.

pub mod http;
