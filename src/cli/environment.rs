//! Owns the reading of `.env` files. Which files, and what their variables may change, is told by
//! `config`.

use std::collections::BTreeMap;

use crate::config::lookup::{add_env, env_places, is_of_process};
use crate::config::vendors::names_endpoint;
use crate::host::Host;
use crate::path::AbsPath;
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
    /// The file that each added variable comes from.
    pub origins: BTreeMap<String, AbsPath>,
}

/// Adds the variables of the `.env` files to those that are set.
pub(crate) fn complete(host: &Host) -> Completed {
    let places = env_places(&host.cwd, host.home.as_ref(), host.executable_dir.as_ref());
    let mut host = host.clone();
    let mut warnings = Vec::new();
    let mut origins = BTreeMap::new();
    for place in places {
        match read_found(&place, ENV_FILE_BYTES_MAX) {
            Ok(None) => {}
            Ok(Some(text)) => {
                let mut env = host.env.clone();
                warnings.extend(add_env(&mut env, &place.to_string(), &text));
                let of_project = place.parent().as_ref() == Some(&host.cwd);
                let is_refused =
                    |name: &str| is_of_process(name) || of_project && names_endpoint(name);
                warnings.extend(refuse(&mut env, (&host.env, &place), is_refused));
                let added = env.keys().filter(|name| !host.env.contains_key(*name));
                origins.extend(added.map(|name| (name.clone(), place.clone())));
                host.env = env;
            }
            Err(error) => warnings.push(format!("its variables are not used: {error:#}")),
        }
    }
    Completed {
        host,
        warnings,
        origins,
    }
}

/// Takes out what a file may not set. A project's own `.env` may bring keys, and may not say where
/// the user's keys go; no file says where a run is told about.
fn refuse(
    env: &mut BTreeMap<String, String>,
    (before, place): (&BTreeMap<String, String>, &AbsPath),
    is_refused: impl Fn(&str) -> bool,
) -> Vec<String> {
    let is_new = |name: &String| is_refused(name) && !before.contains_key(name);
    let dropped: Vec<String> = env.keys().filter(|name| is_new(name)).cloned().collect();
    env.retain(|name, _| !is_new(name));
    let warning = |name| format!("`{name}` in `{place}` is not used: set it in your environment");
    dropped.into_iter().map(warning).collect()
}
