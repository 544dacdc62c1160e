//! Reads the process once into a `Host` and ends with the exit status that `massgen` decides on.

fn main() {}
