//! How items that massgen keeps, such as runs, are named and found. A new name is greater than all
//! earlier ones, whatever the clock shows, so that the order of names is that of creation. A user
//! names an item by its full name, by a prefix of it, or by a prefix of what follows the common
//! prefix of all such names.

use crate::config::storage_path::{BATCHES, DELIVERIES, LOGS, PIPELINES};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::count_noun;
use crate::world::io::clock;
use crate::world::store::reject_symlinks_to;
use crate::world::sys::state_files::dir;

/// The name for the newest item.
pub const LAST: &str = "last";
/// The most candidates that an error about an ambiguous prefix lists.
const EXAMPLES_MAX: usize = 3;

/// The length of the date and the time of day in a name, in characters: `20261102_140322`.
const SECOND_CHARS: usize = 15;
/// The last microsecond of a second.
const MICROSECOND_MAX: u32 = 999_999;

/// Returns the time for the name of a new run, delivery, pipeline or batch in one of the directories
/// of `state`, as `20261102_140322_123456`: the present local time, or just after the latest name
/// there, if the clock was set back since.
///
/// # Errors
/// The names cannot be read.
pub(in crate::world) fn new_name_time(state: &AbsPath) -> Result<String> {
    let now = clock::now().name_format();
    let mut latest = None;
    for directory in [LOGS, DELIVERIES, PIPELINES, BATCHES] {
        let names = dir::names_if_exists(&state.join(directory))?;
        latest = latest.max(names.iter().filter_map(|name| name_time(name)).max());
    }
    let next = latest
        .filter(|(second, microsecond)| format!("{second}_{microsecond:06}") >= now)
        .and_then(|(second, microsecond)| clock::next_name_time(&second, microsecond));
    Ok(next.unwrap_or(now))
}

/// Returns the second and the microsecond in `name`; the last microsecond if it has none.
fn name_time(name: &str) -> Option<(String, u32)> {
    let (_, time) = name.split_once('_')?;
    let (second, rest) = time.split_at_checked(SECOND_CHARS)?;
    let suffix = rest.strip_prefix('_').unwrap_or_default();
    let suffix = suffix.split(['_', '.']).next().unwrap_or_default();
    let microsecond = match suffix.len() {
        6 => suffix.parse().ok(),
        // A pipeline: five digits of it are hexadecimal, and random ones follow.
        8 => u32::from_str_radix(suffix.get(..5)?, 16).ok(),
        _ => None,
    };
    Some((second.to_owned(), microsecond.unwrap_or(MICROSECOND_MAX)))
}

/// How the items of one kind are named.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) struct NameScheme {
    /// The noun for an item.
    pub(in crate::world) noun: &'static str,
    /// The word for its name, such as "id".
    pub(in crate::world) name: &'static str,
    /// The common prefix of all names.
    pub(in crate::world) prefix: &'static str,
}

impl NameScheme {
    /// Returns the paths of all items in `parent`, newest first.
    ///
    /// # Errors
    /// `parent` cannot be read, or is a symlink.
    pub(in crate::world) fn list(self, parent: &AbsPath) -> Result<impl Iterator<Item = AbsPath>> {
        reject_symlinks_to(parent)?;
        let mut names = dir::names_if_exists(parent)?;
        names.retain(|name| name.starts_with(self.prefix));
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names.into_iter().map(|name| parent.join(name)))
    }

    /// Returns the path in `parent` of the item with exactly this name; `None` if no item has such
    /// a name.
    ///
    /// # Errors
    /// `parent` cannot be read, or is a symlink.
    pub(in crate::world) fn path_of(self, name: &str, parent: &AbsPath) -> Result<Option<AbsPath>> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.starts_with(self.prefix) || !name.chars().all(is_plain) {
            return Ok(None);
        }
        reject_symlinks_to(parent)?;
        Ok(Some(parent.join(name)))
    }

    /// Returns the item of `items` that `given_name` names, if any. It is an error if `given_name`
    /// is ambiguous.
    pub(in crate::world) fn resolve<'a, T>(
        self,
        given_name: &str,
        items: &'a [T],
        name_of: impl Fn(&T) -> String,
    ) -> Result<Option<&'a T>> {
        if let Some(exact) = items.iter().find(|item| name_of(item) == given_name) {
            return Ok(Some(exact));
        }
        let has_prefix = |item: &&T| {
            let name = name_of(item);
            let unprefixed = name.strip_prefix(self.prefix);
            name.starts_with(given_name)
                || unprefixed.is_some_and(|rest| rest.starts_with(given_name))
        };
        let matches: Vec<&T> = items.iter().filter(has_prefix).collect();
        match matches.as_slice() {
            [] => Ok(None),
            [item] => Ok(Some(item)),
            candidates => {
                let examples: Vec<String> = candidates
                    .iter()
                    .take(EXAMPLES_MAX)
                    .map(|item| format!("`{}`", name_of(item)))
                    .collect();
                let Self { noun, name, .. } = self;
                let count = count_noun(candidates.len(), noun);
                let message = format!("`{given_name}` is ambiguous: {count} start with it");
                Err(Error::new(ErrorKind::Usage, message).with_hint(format!(
                    "give more of the {name}: {}, …",
                    examples.join(", ")
                )))
            }
        }
    }
}
