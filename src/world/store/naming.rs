//! Resolves how a user names an item that massgen keeps, such as a run: by its full name, by a
//! prefix of it, or by a prefix of what follows the common prefix of all such names.

use crate::error::{Error, ErrorKind, Result};
use crate::text::count_noun;

/// The name for the newest item.
pub const LAST: &str = "last";
/// The most candidates that an error about an ambiguous prefix lists.
const NAMED_MAX: usize = 3;

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
    /// Returns the item of `all` that `wanted` names, if any. It is an error if `wanted` is
    /// ambiguous.
    pub(in crate::world) fn resolve<'a, T>(
        self,
        wanted: &str,
        all: &'a [T],
        name_of: impl Fn(&T) -> String,
    ) -> Result<Option<&'a T>> {
        if let Some(exact) = all.iter().find(|one| name_of(one) == wanted) {
            return Ok(Some(exact));
        }
        let begins = |one: &&T| {
            let name = name_of(one);
            let name_end = name.strip_prefix(self.prefix);
            name.starts_with(wanted) || name_end.is_some_and(|rest| rest.starts_with(wanted))
        };
        let matches: Vec<&T> = all.iter().filter(begins).collect();
        match matches.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            several => {
                let examples: Vec<String> = several
                    .iter()
                    .take(NAMED_MAX)
                    .map(|one| format!("`{}`", name_of(one)))
                    .collect();
                let Self { noun, name, .. } = self;
                let several = count_noun(several.len(), noun);
                let message = format!("`{wanted}` is ambiguous: {several} start with it");
                Err(Error::new(ErrorKind::Usage, message).with_hint(format!(
                    "give more of the {name}: {}, …",
                    examples.join(", ")
                )))
            }
        }
    }
}
