//! What people learn about massgen itself: spans of a run, tests of the machine, and the self-test.

pub mod telemetry;
pub mod probe;
pub mod script_runner;
