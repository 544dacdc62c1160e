//! Counts JSON values without parsing: a small value takes a hundred times the memory of its text.

/// The most values in a message from another program. A text or an image is one value of any
/// length.
pub(crate) const JSON_VALUES_MAX: usize = 100_000;

/// Counts the values of a text that comes in pieces, including object keys, by the `[`, `{`, `,`
/// and `:` before them. The outermost value is not counted, and an empty list or mapping counts one
/// more, which is near enough for a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JsonValueCounter {
    count: usize,
    position: JsonPosition,
}

/// The position of a counter in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JsonPosition {
    #[default]
    Outside,
    InString,
    AfterBackslash,
}

impl JsonValueCounter {
    /// Counts the next byte.
    pub(crate) fn push(&mut self, byte: u8) {
        self.position = match (self.position, byte) {
            (JsonPosition::Outside, b'"') | (JsonPosition::AfterBackslash, _) => {
                JsonPosition::InString
            }
            (JsonPosition::Outside, b'[' | b'{' | b',' | b':') => {
                self.count = self.count.saturating_add(1);
                JsonPosition::Outside
            }
            (JsonPosition::InString, b'"') => JsonPosition::Outside,
            (JsonPosition::InString, b'\\') => JsonPosition::AfterBackslash,
            (position, _) => position,
        };
    }

    /// Returns whether there are more than [`JSON_VALUES_MAX`].
    pub(crate) fn is_over(self) -> bool {
        self.count > JSON_VALUES_MAX
    }
}

/// Returns whether `text` has more than [`JSON_VALUES_MAX`] values.
pub(crate) fn has_too_many_values(text: &[u8]) -> bool {
    has_more_values(text, JSON_VALUES_MAX)
}

/// Returns whether `text` has more than `count_max` values.
pub(crate) fn has_more_values(text: &[u8], count_max: usize) -> bool {
    let mut counter = JsonValueCounter::default();
    // A byte is at most one value.
    text.len() > count_max
        && text.iter().any(|byte| {
            counter.push(*byte);
            counter.count > count_max
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_what_stands_in_strings_is_not() {
        let check = |text: &str, expected| {
            let mut counter = JsonValueCounter::default();
            text.bytes().for_each(|byte| counter.push(byte));
            assert_eq!(counter.count, expected, "{text}");
        };
        check("", 0);
        check("7", 0);
        check("[1,2,3]", 3);
        check(r#"{"a":{"b":[]}}"#, 5);
        check(r#"["[,{:", "\"[,", "\\", "é,"]"#, 4);
    }

    #[test]
    fn json_values_are_counted_and_not_their_length() {
        let long = format!("[\"{}\"]", ",".repeat(16 * JSON_VALUES_MAX));
        assert!(!has_too_many_values(long.as_bytes()));
        let most = format!("[{}0]", "0,".repeat(JSON_VALUES_MAX - 1));
        assert!(!has_too_many_values(most.as_bytes()));
        let more = format!("[{}0]", "0,".repeat(JSON_VALUES_MAX));
        assert!(has_too_many_values(more.as_bytes()));
    }
}
