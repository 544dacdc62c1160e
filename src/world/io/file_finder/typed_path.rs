//! Splits a name that is being typed into its root, the directory in it, and the letters to search
//! for there.

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypedRoot {
    /// Below the base directory, which is fully indexed.
    Base,
    /// Out of it: only the named directory is read.
    Elsewhere,
    /// Below the home directory, where only the named directory is read.
    Home,
}

/// The parts of a typed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypedPath<'t> {
    /// Its root.
    pub(super) root: TypedRoot,
    /// The directory as it was typed: empty, or with a slash at the end.
    pub(super) directory: &'t str,
    /// The rest after the directory.
    pub(super) rest: &'t str,
}

impl<'t> TypedPath<'t> {
    /// Splits `typed` into its parts.
    pub(super) fn parse(typed: &'t str) -> Self {
        let end = typed.rfind('/').map_or(0, |index| index.saturating_add(1));
        let (directory, rest) = typed.split_at_checked(end).unwrap_or_default();
        let root = if directory.starts_with("~/") {
            TypedRoot::Home
        } else if directory.starts_with('/') || directory.split('/').any(|name| name == "..") {
            TypedRoot::Elsewhere
        } else {
            TypedRoot::Base
        };
        Self {
            root,
            directory,
            rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, root: TypedRoot, directory: &str, rest: &str) {
        let expected = TypedPath {
            root,
            directory,
            rest,
        };
        assert_eq!(TypedPath::parse(typed), expected);
    }

    #[test]
    fn a_typed_path_is_split_into_root_directory_and_name() {
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
