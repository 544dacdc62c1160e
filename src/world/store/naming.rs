//! Resolves how a user names an item that massgen keeps, such as a run: by its full name, by a
//! prefix of it, or by a prefix of what follows the common prefix of all such names.

use crate::error::{Error, ErrorKind, Result};
use crate::text::count_noun;

/// The name for the newest item.
pub const LAST: &str = "last";
/// The most candidates that an error about an ambiguous prefix lists.
const EXAMPLES_MAX: usize = 3;

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
