//! All system calls on files and processes. The module is private to `world`: the compiler, not a
//! review, keeps the rest of massgen from the disk. It must never decide whether an agent may do
//! something.
//!
//! What was checked is what is used: a path is resolved once ([`follow`]), and the caller that acts
//! on it opens it again beneath a directory handle, with every symlink refused
//! ([`dir::DirectoryHandle`]).

pub(crate) mod file_kind;
pub(crate) mod file_system_error;
pub(crate) mod meta;
pub(crate) mod content;
pub(crate) mod dir;
pub(crate) mod conditional_replace;
pub(crate) mod staged_file;
pub(crate) mod slot;
pub(crate) mod tree_listing;
pub(crate) mod untrusted_walk;
pub(crate) mod upper_layer;
pub(crate) mod follow;
pub(crate) mod grant;
pub(crate) mod file_system_features;
pub(crate) mod state_files;
pub(crate) mod replica;
pub(crate) mod proc;
pub(crate) mod machine_facts;
pub(crate) mod restricted_search;
pub(crate) mod environment;
pub(crate) mod process;
pub(crate) mod cgroup;
pub(crate) mod launch;
pub(crate) mod sandbox;
