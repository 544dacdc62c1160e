//! Deliveries on disk: a plan of the changes is read from a layer over the user's tree, the changes
//! that the user accepts are applied as a whole, and an applied delivery can be undone.
//!
//! Each delivery has its own directory below `.massgen/deliveries`. New content for the user's tree
//! is staged there in a slot with the number of its step; a step swaps what exists at the path with
//! the content of the slot, so that the slot then holds the previous version. A step is undone by
//! doing it once more. Nothing is ever written through a symlink, and nothing is replaced or
//! removed that differs from what was inspected.
//!
//! In plans and steps, `theirs` is the state of a path before the change, which is the user's, and
//! `ours` the state after it, which is the agents'.

mod read_state;
mod delivery_dir;
mod journal;
pub mod store;
mod swap;
mod step_runner;
pub mod recovery;
mod outgoing_links;
pub mod planning;
pub mod contents;
pub mod patch;
pub mod transaction;
pub mod merging;
mod layer_file;
pub mod undo;
pub mod delivered_files;
pub mod portable_layer;
