//! Owns massgen's side of the sandbox: processes that agents start are started here and nowhere
//! else.

use crate::world::sys;

/// The whole of the process that builds a sandbox around one program (`massgen __sandbox`). It is
/// told what to do on the socket that is its standard input, and returns its exit status.
pub fn helper() -> u8 {
    sys::sandbox::helper()
}
