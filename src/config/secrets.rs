//! Redacts keys in a config's text, so that they appear neither in a diagnostic nor in a record of
//! the run. It works line by line, also on text that does not parse.

/// Names whose value is redacted. A variable matches if its name ends with one of them, ignoring
/// case.
const SECRET_NAMES: &[&str] = &[
    "api_key",
    "apikey",
    "authorization",
    "password",
    "private_key",
    "secret",
    "_token",
];

/// Returns whether a variable holds a secret, judging by its name.
pub fn is_secret(variable: &str) -> bool {
    let name = variable.to_ascii_lowercase();
    let mut endings = SECRET_NAMES.iter().chain(&["_key"]);
    name == "token" || endings.any(|ending| name.ends_with(ending))
}

/// Replaces every value of a secret key with asterisks of the same length in bytes. References such
/// as `${OPENAI_API_KEY}` stay: they name a key and do not contain it.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut block_indent: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_in_block =
            block_indent.is_some_and(|outer| indent > outer || line.trim().is_empty());
        if is_in_block {
            push_redacted(&mut out, line);
            continue;
        }
        block_indent = None;
        match secret_value_start(line) {
            Some(start) => {
                let (key, value) = line.split_at(start);
                let opens_block =
                    value.trim().is_empty() || value.trim_start().starts_with(['|', '>']);
                block_indent = opens_block.then_some(indent);
                out.push_str(key);
                push_redacted(&mut out, value);
            }
            None => out.push_str(line),
        }
    }
    out
}

/// Returns the start of the value of the first secret key in a line, unless it is a reference.
fn secret_value_start(line: &str) -> Option<usize> {
    let lower = line.to_ascii_lowercase();
    let name_ends = SECRET_NAMES.iter().flat_map(|name| {
        lower
            .match_indices(name)
            .map(move |(start, name)| start + name.len())
    });
    name_ends
        .filter_map(|end| {
            let text_after_name = lower.get(end..)?.trim_start_matches(['"', '\'']);
            let value = text_after_name
                .trim_start()
                .strip_prefix([':', '='])?
                .trim_start_matches(' ');
            let is_reference = value.trim_start_matches(['"', '\'']).starts_with("${");
            (!is_reference).then_some(lower.len() - value.len())
        })
        .min()
}

fn push_redacted(out: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_whitespace() || matches!(c, '|' | '>') {
            out.push(c);
        } else {
            out.extend(std::iter::repeat_n('*', c.len_utf8()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let redacted = redact(text);
        assert_eq!(redacted, expected);
        assert_eq!(redacted.len(), text.len());
    }

    #[test]
    fn values_of_secret_keys_are_hidden_and_all_else_is_kept() {
        check("    api_key: sk-1\n", "    api_key: ****\n");
        check("api_key: \"sk-ü\" # mine\n", "api_key: ******* * ****\n");
        check(
            "{type: x, \"API_KEY\" : sk, model: m}",
            "{type: x, \"API_KEY\" : *** ****** **",
        );
        check("  X_TOKEN: abc\n", "  X_TOKEN: ***\n");
        check(
            "private_key: |\n  MIG\nb: c\n",
            "private_key: |\n  ***\nb: c\n",
        );
        check(
            "a:\n  api_key: |\n    sk\n\n  b: c\n",
            "a:\n  api_key: |\n    **\n\n  b: c\n",
        );
        check("api_key:\n  sk\nb: c\n", "api_key:\n  **\nb: c\n");
    }

    #[test]
    fn references_and_other_keys_are_kept() {
        for text in [
            "api_key: ${OPENAI_API_KEY}\n",
            "api_key: \"${KEY}\"\n",
            "max_tokens: 100\n",
            "# the api_key is read from the environment\n",
            "model: gpt\n",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn names_of_variables_say_whether_they_hold_secrets() {
        for name in [
            "TOKEN",
            "GITHUB_TOKEN",
            "SIGNING_KEY",
            "MY_API_KEY",
            "DbPassword",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["HOME", "TOKENS", "KEYBOARD", "LANG"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
