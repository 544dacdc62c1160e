//! Owns what a name that is being typed asks for: a place, a directory in it, and the letters that are
//! looked for there. Pure.

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Into the base directory, all of which is known.
    Base,
    /// Out of it: only the directory that is named is looked at.
    Elsewhere,
    /// Into the home directory, in the same way.
    Home,
}

/// A name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked<'t> {
    /// Where it leads.
    pub(super) place: Place,
    /// The directory as it was typed: empty, or with a slash at the end.
    pub(super) directory: &'t str,
    /// What follows it.
    pub(super) rest: &'t str,
}

impl<'t> Asked<'t> {
    /// Takes `typed` apart.
    pub(super) fn read(typed: &'t str) -> Self {
        let end = typed.rfind('/').map_or(0, |at| at.saturating_add(1));
        let (directory, rest) = typed.split_at_checked(end).unwrap_or_default();
        let place = if directory.starts_with("~/") {
            Place::Home
        } else if directory.starts_with('/') || directory.split('/').any(|name| name == "..") {
            Place::Elsewhere
        } else {
            Place::Base
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
    fn check(typed: &str, place: Place, directory: &str, rest: &str) {
        let expected = Asked {
            place,
            directory,
            rest,
        };
        assert_eq!(Asked::read(typed), expected);
    }

    #[test]
    fn a_name_says_where_it_leads() {
        check("", Place::Base, "", "");
        check("ma", Place::Base, "", "ma");
        check("src/ma", Place::Base, "src/", "ma");
        check("src/", Place::Base, "src/", "");
        check("~", Place::Base, "", "~");
        check("~/pro", Place::Home, "~/", "pro");
        check("/etc/ho", Place::Elsewhere, "/etc/", "ho");
        check("../x", Place::Elsewhere, "../", "x");
        check("src/../../x", Place::Elsewhere, "src/../../", "x");
    }
}
