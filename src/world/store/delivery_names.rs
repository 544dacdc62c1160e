//! The names of deliveries: how they are made, read, listed and abbreviated.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::io::clock;
use crate::world::store::naming::NameScheme;
use crate::world::store::reject_symlinks_to;
use crate::world::sys::state_files::dir;

/// What the names of deliveries of pipelines begin with.
const PIPELINE: &str = "pipeline_";

/// How deliveries are named: as the runs that they are of.
pub(in crate::world) const DELIVERY_NAME_SCHEME: NameScheme = NameScheme {
    noun: "delivery",
    name: "run",
    prefix: "log_",
};

/// What stands between the name of a run and the number of a further delivery of it.
pub(in crate::world) const FURTHER: &str = ".";

/// The names of the deliveries of `run` below `deliveries`.
pub fn names_of(run: &str, deliveries: &AbsPath) -> Result<Vec<String>> {
    let mut names = names(deliveries)?;
    let is_further = |name: &str| {
        let rest = name.strip_prefix(run);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(FURTHER))
    };
    names.retain(|name| is_further(name));
    Ok(names)
}

/// The names of all deliveries below `deliveries`, newest first.
pub fn names(deliveries: &AbsPath) -> Result<Vec<String>> {
    reject_symlinks_to(deliveries)?;
    let mut names = dir::names_if_exists(deliveries)?;
    names.retain(|name| is_name(name) && dir::is_owned_by_user(&deliveries.join(name)));
    let moment = |name: &str| name.split_once('_').map(|(_, moment)| moment.to_owned());
    names.sort_by_key(|name| std::cmp::Reverse(moment(name)));
    Ok(names)
}

/// The name of a delivery of the pipeline whose own name ends in `short`, at this moment.
pub fn name_for_pipeline(short: &str) -> String {
    format!("{PIPELINE}{}_{short}", clock::now().name_format())
}

/// The end of the name of the pipeline that a delivery is of, if it is of one.
pub fn pipeline_of(delivery: &str) -> Option<&str> {
    let (_, short) = delivery.strip_prefix(PIPELINE)?.rsplit_once('_')?;
    short.split(FURTHER).next()
}

/// Whether massgen names a delivery so: `log_`, the moment of its run, and the number of a further one; or
/// `pipeline_`, the moment when it was applied, the end of the name of the pipeline, and such a number.
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
