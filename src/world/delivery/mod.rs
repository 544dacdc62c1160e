//! Owns deliveries on the disk: what one would change is read from a layer over the user's tree, what
//! the user takes of it is applied as a whole, and what was applied can be taken back.
//!
//! Each delivery has a directory of its own below `.massgen/deliveries`. What is to be put into the
//! user's tree waits there in a slot with the number of its step; a step exchanges what stands at the
//! name with what is in the slot, so that the slot then holds what stood there before. A step is
//! taken back by taking it once more. Nothing is ever written through a link, and nothing is replaced
//! or removed that is not what was looked at.

mod read_state;
mod delivery_dir;
mod journal;
pub mod store;
pub mod tree;
mod swap;
mod session;
pub mod recovery;
pub mod planning;
pub mod contents;
pub mod transaction;
pub mod merging;
pub mod undo;
pub mod retention;
