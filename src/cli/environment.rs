//! Owns the reading of `.env` files. Which files, and what their variables may change, is told by
//! `config`.

use crate::config::lookup::{add_env, env_places};
use crate::host::Host;
use crate::world::files::read_found;

/// The largest `.env` file, in bytes.
const ENV_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The process with what `.env` files add, and what in them could not be used.
#[derive(Debug)]
pub(crate) struct Completed {
    /// The process, with a larger environment.
    pub host: Host,
    /// What the user should know about the files.
    pub warnings: Vec<String>,
}

/// Adds the variables of the `.env` files to those that are set.
pub(crate) fn complete(host: &Host) -> Completed {
    let places = env_places(&host.cwd, host.home.as_ref(), host.executable_dir.as_ref());
    let mut host = host.clone();
    let mut warnings = Vec::new();
    for place in places {
        match read_found(&place, ENV_FILE_BYTES_MAX) {
            Ok(None) => {}
            Ok(Some(text)) => warnings.extend(add_env(&mut host.env, &place.to_string(), &text)),
            Err(error) => warnings.push(format!("its variables are not used: {error}")),
        }
    }
    Completed { host, warnings }
}
