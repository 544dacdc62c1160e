//! Deliveries as values: which names one would change and how, which changes the user selects, and
//! how two versions of a text are merged. Nothing here touches the disk.

pub mod path_state;
pub mod change_details;
pub mod plan;
pub mod choice;
pub mod line_diff;
pub mod hunks;
pub mod patch_name;
