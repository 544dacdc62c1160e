//! The names of deliveries: how they are made, read, ordered, listed and abbreviated.

use std::cmp::Ordering;

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::store::naming::{NameScheme, new_name_time};
use crate::world::store::{existing_directories, reject_symlinks_to};
use crate::world::sys::state_files::dir;

/// The prefix of the names of pipelines' deliveries.
const PIPELINE_PREFIX: &str = "pipeline_";

/// How deliveries are named: like their runs.
pub(in crate::world) const DELIVERY_NAME_SCHEME: NameScheme = NameScheme {
    noun: "delivery",
    name: "run",
    prefix: "log_",
};

/// The separator between a run's name and the number of a further delivery of it.
pub(in crate::world) const NUMBER_SEPARATOR: &str = ".";

/// Returns the names of the deliveries of `run` below `deliveries`, newest first.
pub fn names_of(run: &str, deliveries: &AbsPath) -> Result<Vec<String>> {
    let mut names = list_names(deliveries)?;
    let is_of_run = |name: &str| {
        let suffix = name.strip_prefix(run);
        suffix.is_some_and(|rest| rest.is_empty() || rest.starts_with(NUMBER_SEPARATOR))
    };
    names.retain(|name| is_of_run(name));
    Ok(names)
}

/// Returns the names of all deliveries below `deliveries`, newest first.
pub fn list_names(deliveries: &AbsPath) -> Result<Vec<String>> {
    reject_symlinks_to(deliveries)?;
    let mut names = dir::names_if_exists(deliveries)?;
    names.retain(|name| is_name(name));
    let mut names =
        existing_directories(names, |name| dir::is_owned_by_user(&deliveries.join(name)))?;
    names.sort_by(|first, second| newest_first(first, second));
    Ok(names)
}

/// Orders two deliveries: the later one first. The further deliveries of a run are ordered by their
/// numbers, not by the digits: the tenth is later than the ninth.
fn newest_first(first: &str, second: &str) -> Ordering {
    let sort_key = |name: &str| {
        let (run, further) = split_number(name);
        let (_, time) = run.split_once('_').unwrap_or_default();
        let number = further.map_or(1, |number| number.parse().unwrap_or(u64::MAX));
        (time.to_owned(), number)
    };
    sort_key(second).cmp(&sort_key(first))
}

/// Returns the name of a new delivery below `deliveries` by the pipeline whose name ends in
/// `short_name`.
///
/// # Errors
/// The names of others cannot be read.
pub fn name_for_pipeline(short_name: &str, deliveries: &AbsPath) -> Result<String> {
    let time = new_name_time(&deliveries.parent().unwrap_or_else(AbsPath::root))?;
    Ok(format!("{PIPELINE_PREFIX}{time}_{short_name}"))
}

/// Returns the end of the name of the pipeline that made a delivery, if one did.
pub fn pipeline_of(delivery: &str) -> Option<&str> {
    let (_, short_name) = delivery.strip_prefix(PIPELINE_PREFIX)?.rsplit_once('_')?;
    short_name.split(NUMBER_SEPARATOR).next()
}

/// Returns the names of the deliveries below `deliveries` of the pipeline whose name ends in
/// `short_name`, newest first.
pub fn names_of_pipeline(short_name: &str, deliveries: &AbsPath) -> Result<Vec<String>> {
    let mut names = list_names(deliveries)?;
    names.retain(|name| pipeline_of(name) == Some(short_name));
    Ok(names)
}

/// Returns the run of the delivery `name`: its further deliveries have a number after the name.
pub fn run_of(name: &str) -> &str {
    split_number(name).0
}

/// Splits a name into that of the first delivery and the number of a further one, if it has one.
fn split_number(name: &str) -> (&str, Option<&str>) {
    match name.split_once(NUMBER_SEPARATOR) {
        Some((run, number)) => (run, Some(number)),
        None => (name, None),
    }
}

/// Returns whether `name` has the format of a delivery's name: `log_`, the time of its run, and the
/// number of a further delivery; or `pipeline_`, the time when it was applied, the end of the
/// pipeline's name, and such a number.
fn is_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (run, further) = split_number(name);
    let is_hexadecimal =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let time = match run
        .strip_prefix(PIPELINE_PREFIX)
        .map(|rest| rest.rsplit_once('_'))
    {
        Some(Some((time, short_name))) if is_hexadecimal(short_name) => time,
        Some(_) => return false,
        None => run
            .strip_prefix(DELIVERY_NAME_SCHEME.prefix)
            .unwrap_or_default(),
    };
    time.split('_').all(is_number) && further.is_none_or(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_deliveries_are_ordered_by_number() {
        let earlier = "log_20261231_235958_000000.13";
        let later = "pipeline_20270101_000000_000000_a1b2";
        for run in [
            "log_20261231_235959_000000",
            "pipeline_20261231_235959_000000_a1b2",
        ] {
            let further = (2..=12).map(|number| format!("{run}{NUMBER_SEPARATOR}{number}"));
            let mut expected: Vec<String> = [earlier.to_owned(), run.to_owned()].into();
            expected.extend(further);
            expected.push(later.to_owned());
            expected.reverse();
            let mut names = expected.clone();
            names.sort_unstable();
            assert_ne!(names, expected, "the test has parts that sort as text");
            names.sort_by(|first, second| newest_first(first, second));
            assert_eq!(names, expected);
        }
    }
}
