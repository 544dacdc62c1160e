//! Batches of tasks: the task file, what follows from the end of an attempt at a cell, the results
//! and their tables.

pub mod task;
pub mod result;
pub mod next_step;
pub mod cell_state;
pub mod queue_commands;
pub mod worker_script;
pub mod kubernetes;
pub mod table;
pub mod comparison;
