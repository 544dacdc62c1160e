//! Owns what a delivery is, as values: which names it would change and how, what the user takes of
//! it, and how two versions of a text become one. Nothing here touches the disk.

pub mod path_state;
pub mod plan;
pub mod choice;
pub mod hunks;
pub mod merge;
