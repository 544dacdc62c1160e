//! Owns how a user names one of the things of a kind that massgen keeps: as a whole, by the beginning
//! of the name, or by the beginning of what follows the word that all of them begin with.

use crate::error::{Error, ErrorKind, Result};
use crate::text::count_noun;

/// The word for the newest one.
pub const LAST: &str = "last";
/// How many an error names that a beginning could mean.
const NAMED_MAX: usize = 3;

/// What is to be named.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) struct NameScheme {
    /// What one is.
    pub(in crate::world) noun: &'static str,
    /// What its name is called.
    pub(in crate::world) name: &'static str,
    /// What all names begin with.
    pub(in crate::world) prefix: &'static str,
}

impl NameScheme {
    /// The one of `all` that `wanted` means, if any. It is an error if it could mean several.
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
            let rest = name.strip_prefix(self.prefix);
            name.starts_with(wanted) || rest.is_some_and(|rest| rest.starts_with(wanted))
        };
        let found: Vec<&T> = all.iter().filter(begins).collect();
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            several => {
                let some = several.iter().take(NAMED_MAX);
                let some: Vec<String> = some.map(|one| format!("`{}`", name_of(one))).collect();
                let Self { noun, name, .. } = self;
                let several = count_noun(several.len(), noun);
                let message = format!("{several} begin with `{wanted}`");
                Err(Error::new(ErrorKind::Usage, message)
                    .with_hint(format!("write more of the {name}: {}, …", some.join(", "))))
            }
        }
    }
}
