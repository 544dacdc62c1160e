//! Owns what a name that is being typed asks for: a place, a directory in it, and the letters that are
//! looked for there. Pure.

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypedRoot {
    /// Into the base directory, all of which is known.
    Base,
    /// Out of it: only the directory that is named is looked at.
    Elsewhere,
    /// Into the home directory, in the same way.
    Home,
}

/// A name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypedPath<'t> {
    /// Where it leads.
    pub(super) place: TypedRoot,
    /// The directory as it was typed: empty, or with a slash at the end.
    pub(super) directory: &'t str,
    /// What follows it.
    pub(super) rest: &'t str,
}

impl<'t> TypedPath<'t> {
    /// Takes `typed` apart.
    pub(super) fn parse(typed: &'t str) -> Self {
        let end = typed.rfind('/').map_or(0, |at| at.saturating_add(1));
        let (directory, rest) = typed.split_at_checked(end).unwrap_or_default();
        let place = if directory.starts_with("~/") {
            TypedRoot::Home
        } else if directory.starts_with('/') || directory.split('/').any(|name| name == "..") {
            TypedRoot::Elsewhere
        } else {
            TypedRoot::Base
        };
        Self {
            place,
            directory,
            rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, place: TypedRoot, directory: &str, rest: &str) {
        let expected = TypedPath {
            place,
            directory,
            rest,
        };
        assert_eq!(TypedPath::parse(typed), expected);
    }

    #[test]
    fn a_name_says_where_it_leads() {
        check("", TypedRoot::Base, "", "");
        check("ma", TypedRoot::Base, "", "ma");
        check("src/ma", TypedRoot::Base, "src/", "ma");
        check("src/", TypedRoot::Base, "src/", "");
        check("~", TypedRoot::Base, "", "~");
        check("~/pro", TypedRoot::Home, "~/", "pro");
        check("/etc/ho", TypedRoot::Elsewhere, "/etc/", "ho");
        check("../x", TypedRoot::Elsewhere, "../", "x");
        check("src/../../x", TypedRoot::Elsewhere, "src/../../", "x");
    }
}
