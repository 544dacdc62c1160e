//! Reads the policy of the machine.

use std::collections::BTreeSet;

use crate::config::machine_policy::{MACHINE_POLICY_PATH, MachinePolicy};
use crate::config::yaml::CONFIG_BYTES_MAX;
use crate::config::{ConfigContext, ConfigOrigin, load_machine_policy};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::files::read_of_root;

/// Reads the policy of the machine; without its file, there is none.
///
/// # Errors
/// The file cannot be read, is not root's alone, or is not a valid policy.
pub fn read_machine_policy() -> Result<MachinePolicy> {
    let ask = "ask the administrator of this machine: until this is mended, nothing runs";
    let path = AbsPath::root().join(MACHINE_POLICY_PATH);
    let bytes_max = u64::try_from(CONFIG_BYTES_MAX).unwrap_or(u64::MAX);
    let text = read_of_root(&path, bytes_max).map_err(|error| error.with_hint(ask))?;
    let Some(text) = text else {
        return Ok(MachinePolicy::default());
    };
    let origin = ConfigOrigin {
        name: path.to_string(),
        directory: path.parent(),
    };
    // No variable and no home: they are the user's.
    let context = ConfigContext {
        base: &AbsPath::root(),
        state_parent: &AbsPath::root(),
        home: None,
        env: &ConfigVariables::default(),
        packages: &BTreeSet::new(),
        policy: &MachinePolicy::default(),
    };
    load_machine_policy(&text, &origin, &context).map_err(|findings| {
        let message = format!("`{path}` is not a valid policy");
        let error = Error::new(ErrorKind::Config, message);
        let error = findings.into_iter().fold(error, Error::with_hint);
        error.with_hint(ask)
    })
}
