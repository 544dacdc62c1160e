//! Batches of tasks: the task file, what follows from the end of an attempt at a cell, the results,
//! their tables and comparisons.

pub mod task;
pub mod result;
pub mod next_step;
pub mod cell_state;
pub mod job_script;
pub mod table;
pub mod comparison;
