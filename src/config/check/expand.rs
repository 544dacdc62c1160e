//! Expands `${NAME}` in values: environment variables, and `${cwd}`.

/// A string with its variables expanded, and the names that had no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpandedText {
    /// The string; a variable without a value stays as written.
    pub(super) text: String,
    /// The names without a value, in order of occurrence.
    pub(super) unset: Vec<String>,
}

/// Expands the variables in `text`, but none in their values. Only `${UPPER_CASE}` and `${cwd}` are
/// variables; anything else that looks like one is literal.
pub(super) fn expand<'a>(text: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> ExpandedText {
    let mut expanded = String::with_capacity(text.len());
    let mut unset = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((name, tail)) = after.split_once('}').filter(|(name, _)| is_name(name)) else {
            // Only `${` is literal: a variable may begin right after it.
            expanded.push_str("${");
            rest = after;
            continue;
        };
        if let Some(value) = value_of(name) {
            expanded.push_str(value);
        } else {
            expanded.extend(["${", name, "}"]);
            unset.push(name.to_owned());
        }
        rest = tail;
    }
    expanded.push_str(rest);
    ExpandedText {
        text: expanded,
        unset,
    }
}

/// Returns whether the string is a single variable and nothing else: then the type of the value is
/// inferred, which may be a number.
pub(super) fn is_whole_variable(text: &str) -> bool {
    text.strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(is_name)
}

fn is_name(name: &str) -> bool {
    let is_upper = |c: char| c.is_ascii_uppercase() || c == '_';
    name == "cwd"
        || (name.starts_with(is_upper) && name.chars().all(|c| is_upper(c) || c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str, unset: &[&str]) {
        let values = |name: &str| match name {
            "KEY" => Some("v"),
            "EMPTY" => Some(""),
            "NESTED" => Some("${KEY}"),
            "cwd" => Some("w1"),
            _ => None,
        };
        let expansion = expand(text, values);
        assert_eq!(expansion.text, expected);
        assert_eq!(expansion.unset, unset);
    }

    #[test]
    fn variables_are_filled_in_once() {
        check("${KEY}", "v", &[]);
        check("a${KEY}b${KEY}c", "avbvc", &[]);
        check("${cwd}/x", "w1/x", &[]);
        check("[${EMPTY}]", "[]", &[]);
        check("${NESTED}", "${KEY}", &[]);
    }

    #[test]
    fn variables_without_a_value_stay_and_are_reported() {
        check(
            "${OTHER} ${KEY} ${NONE_2}",
            "${OTHER} v ${NONE_2}",
            &["OTHER", "NONE_2"],
        );
    }

    #[test]
    fn malformed_variables_in_a_config_are_plain_text() {
        for text in [
            "$KEY",
            "${}",
            "${key}",
            "${KEY:-x}",
            "${KEY",
            "${ KEY }",
            "}${",
            "$${2A}",
        ] {
            check(text, text, &[]);
        }
        check("${${KEY}", "${v", &[]);
    }
}
