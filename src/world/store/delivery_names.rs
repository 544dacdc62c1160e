//! The names of deliveries: how they are made, read, listed and abbreviated.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::io::clock;
use crate::world::store::naming::NameScheme;
use crate::world::store::reject_symlinks_to;
use crate::world::sys::state_files::dir;

/// The prefix of the names of pipelines' deliveries.
const PIPELINE: &str = "pipeline_";

/// How deliveries are named: like their runs.
pub(in crate::world) const DELIVERY_NAME_SCHEME: NameScheme = NameScheme {
    noun: "delivery",
    name: "run",
    prefix: "log_",
};

/// The separator between a run's name and the number of a further delivery of it.
pub(in crate::world) const FURTHER: &str = ".";

/// Returns the names of the deliveries of `run` below `deliveries`.
pub fn names_of(run: &str, deliveries: &AbsPath) -> Result<Vec<String>> {
    let mut names = names(deliveries)?;
    let is_further = |name: &str| {
        let rest = name.strip_prefix(run);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(FURTHER))
    };
    names.retain(|name| is_further(name));
    Ok(names)
}

/// Returns the names of all deliveries below `deliveries`, newest first.
pub fn names(deliveries: &AbsPath) -> Result<Vec<String>> {
    reject_symlinks_to(deliveries)?;
    let mut names = dir::names_if_exists(deliveries)?;
    names.retain(|name| is_name(name) && dir::is_owned_by_user(&deliveries.join(name)));
    let moment = |name: &str| name.split_once('_').map(|(_, moment)| moment.to_owned());
    names.sort_by_key(|name| std::cmp::Reverse(moment(name)));
    Ok(names)
}

/// Returns the name of a delivery made now by the pipeline whose name ends in `short`.
pub fn name_for_pipeline(short: &str) -> String {
    format!("{PIPELINE}{}_{short}", clock::now().name_format())
}

/// Returns the end of the name of the pipeline that made a delivery, if one did.
pub fn pipeline_of(delivery: &str) -> Option<&str> {
    let (_, short) = delivery.strip_prefix(PIPELINE)?.rsplit_once('_')?;
    short.split(FURTHER).next()
}

/// Returns the names of the deliveries below `deliveries` of the pipeline whose name ends in `short`,
/// newest first.
pub fn names_of_pipeline(short: &str, deliveries: &AbsPath) -> Result<Vec<String>> {
    let mut names = names(deliveries)?;
    names.retain(|name| pipeline_of(name) == Some(short));
    Ok(names)
}

/// Returns the run of the delivery `name`: its further deliveries have a number after the name.
pub fn run_of(name: &str) -> &str {
    name.split_once(FURTHER).map_or(name, |(run, _)| run)
}

/// Returns whether `name` has the format of a delivery's name: `log_`, the time of its run, and the
/// number of a further delivery; or `pipeline_`, the time when it was applied, the end of the
/// pipeline's name, and such a number.
fn is_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (run, further) = match name.split_once(FURTHER) {
        Some((run, further)) => (run, Some(further)),
        None => (name, None),
    };
    let is_hexadecimal =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let moment = match run.strip_prefix(PIPELINE).map(|rest| rest.rsplit_once('_')) {
        Some(Some((moment, short))) if is_hexadecimal(short) => moment,
        Some(_) => return false,
        None => run
            .strip_prefix(DELIVERY_NAME_SCHEME.prefix)
            .unwrap_or_default(),
    };
    moment.split('_').all(is_number) && further.is_none_or(is_number)
}
