//! Merges the user's version of a text with massgen's: only if the two changed different parts of
//! the same base.

/// Maximum length of a text that is merged, in bytes.
pub const MERGE_BYTES_MAX: usize = 512 * 1024;

/// Merges both changes of `base` into one text; `None` if they conflict, or if one of the three is
/// not text or is too long.
pub fn merge_texts(base: &[u8], theirs: &[u8], ours: &[u8]) -> Option<Vec<u8>> {
    let (base, theirs, ours) = (as_text(base)?, as_text(theirs)?, as_text(ours)?);
    diffy::merge(base, theirs, ours)
        .ok()
        .map(String::into_bytes)
}

/// Returns `bytes` as text; `None` if they are not text or are too long to be merged.
pub fn as_text(bytes: &[u8]) -> Option<&str> {
    let fits = bytes.len() <= MERGE_BYTES_MAX && !bytes.contains(&0);
    if fits {
        std::str::from_utf8(bytes).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, theirs: &str, ours: &str, expected: Option<&str>) {
        let merged = merge_texts(base.as_bytes(), theirs.as_bytes(), ours.as_bytes());
        assert_eq!(merged.as_deref(), expected.map(str::as_bytes));
    }

    #[test]
    fn changes_of_different_parts_become_one_text() {
        let base = "1\n2\n3\n4\n5\n6\n7\n";
        check(
            base,
            "one\n2\n3\n4\n5\n6\n7\n",
            "1\n2\n3\n4\n5\n6\n7\n8\n",
            Some("one\n2\n3\n4\n5\n6\n7\n8\n"),
        );
        check(base, base, "2\n", Some("2\n"));
        check(base, "same\n", "same\n", Some("same\n"));
    }

    #[test]
    fn changes_that_meet_stay_apart() {
        check("1\n2\n3\n", "1\nzwei\n3\n", "1\ndeux\n3\n", None);
        check("1\n", "", "1\n2\n", None);
    }

    #[test]
    fn only_texts_of_a_moderate_length_are_merged() {
        check("a\n", "a\0\n", "a\n", None);
        let long = "x\n".repeat(MERGE_BYTES_MAX);
        check(&long, &long, &long, None);
        assert_eq!(merge_texts(b"\xff\n", b"\xff\n", b"\xff\n"), None);
    }
}
