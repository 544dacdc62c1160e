//! Names of what a repository holds: object IDs, branches, and commit authors. They are validated
//! once, and git cannot mistake them for an option or another name.

use std::fmt;

/// The lengths of an object ID in hexadecimal digits: SHA-1 and SHA-256.
const ID_LENGTHS: [usize; 2] = [40, 64];

/// The ID of a commit or a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(String);

impl ObjectId {
    /// Parses an ID as git prints it.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = ID_LENGTHS.contains(&text.len()) && text.bytes().all(is_digit);
        is_id.then(|| Self(text.to_owned()))
    }

    /// Returns the ID as git accepts it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A branch, without `refs/heads/`: names of letters, digits, `_`, `-` and `.`, joined by `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BranchName(String);

impl BranchName {
    /// Parses a name of these characters that git accepts too.
    pub fn parse(name: &str) -> Option<Self> {
        let is_part = |part: &str| {
            let starts_well = part.starts_with(|first: char| first.is_ascii_alphanumeric());
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            let is_lock = part
                .rsplit_once('.')
                .is_some_and(|(_, last)| last == "lock");
            let ends_well = !part.ends_with('.') && !is_lock;
            starts_well && ends_well && !part.contains("..") && part.chars().all(is_allowed)
        };
        name.split('/').all(is_part).then(|| Self(name.to_owned()))
    }

    /// Returns the full name of the reference.
    pub fn reference(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The author of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitAuthor {
    /// The name, on one line and without `<` and `>`.
    name: String,
    /// The email address, with the same restrictions.
    address: String,
}

impl CommitAuthor {
    /// Creates an author with this name and address; characters that git cannot store are removed
    /// from both.
    pub fn new(name: &str, address: &str) -> Self {
        let plain_text = |text: &str| {
            let is_plain = |c: &char| !c.is_control() && !matches!(c, '<' | '>');
            let plain_text: String = text.chars().filter(is_plain).collect();
            plain_text.trim().to_owned()
        };
        Self {
            name: plain_text(name),
            address: plain_text(address),
        }
    }

    /// Returns the name and the address.
    pub(super) fn parts(&self) -> (&str, &str) {
        (&self.name, &self.address)
    }

    /// Returns the variables that set both author and committer for git.
    pub(super) fn variables(&self) -> [(&'static str, &str); 4] {
        [
            ("GIT_AUTHOR_NAME", &self.name),
            ("GIT_AUTHOR_EMAIL", &self.address),
            ("GIT_COMMITTER_NAME", &self.name),
            ("GIT_COMMITTER_EMAIL", &self.address),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_a_name_of_40_or_64_small_digits() {
        let check = |text: &str, good| assert_eq!(ObjectId::parse(text).is_some(), good, "{text}");
        check(&"a1".repeat(20), true);
        check(&"0f".repeat(32), true);
        check(&"A1".repeat(20), false);
        check(&"a1".repeat(19), false);
        check("--upload-pack=touch-something-and-40-long", false);
        check("", false);
    }

    #[test]
    fn a_branch_is_no_option_and_no_other_reference() {
        let check =
            |name: &str, good| assert_eq!(BranchName::parse(name).is_some(), good, "{name}");
        check("main", true);
        check("massgen/0a1b2c3d/implementer-2", true);
        check("v1.2", true);
        for name in [
            "", "/", "a/", "/a", "a//b", "-d", "a/-b", "a b", "a..b", "a.", "a.lock", "a~1", "a^",
            "a:b", "@", "a@{1}", "a\nb", ".a", "ä",
        ] {
            check(name, false);
        }
    }

    #[test]
    fn an_author_stays_on_one_line() {
        let author = CommitAuthor::new("planner <x>\nparent 0", " a@b\u{7} ");
        assert_eq!(author.name, "planner xparent 0");
        assert_eq!(author.address, "a@b");
    }
}
