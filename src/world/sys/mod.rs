//! Owns the system calls. Private to `world`: no other module can name it.

pub(crate) mod own;
