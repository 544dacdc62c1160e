//! The names of tools and parameters in programs: each becomes a valid identifier of the language,
//! and all are unique.

use std::collections::BTreeSet;

/// Reserved words of Python.
const PYTHON_KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Returns a name as a valid Python identifier.
pub(super) fn python_name(name: &str) -> String {
    let identifier: String = name.chars().map(identifier_char).collect();
    let name = identifier.trim_matches('_').to_owned();
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        format!("n{name}")
    } else if PYTHON_KEYWORDS.contains(&name.as_str()) {
        format!("{name}_")
    } else {
        name
    }
}

/// Returns a name as an exported Go identifier: `write_file` becomes `WriteFile`.
pub(super) fn go_name(name: &str) -> String {
    let words = name.split(|letter| identifier_char(letter) == '_');
    let capitalized = |part: &str| {
        let mut letters = part.chars();
        let first_letter = letters.next().map(|letter| letter.to_ascii_uppercase());
        first_letter.into_iter().chain(letters).collect::<String>()
    };
    let name: String = words.map(capitalized).collect();
    if name.starts_with(|first: char| first.is_ascii_uppercase()) {
        name
    } else {
        format!("N{name}")
    }
}

/// Returns the name of a Go function. A name that the package itself uses gets a trailing `_`,
/// which no other name has.
pub(super) fn go_function_name(name: &str) -> String {
    let name = go_name(name);
    if name.ends_with("Params") || name == "Bool" {
        format!("{name}_")
    } else {
        name
    }
}

/// Appends a number to every duplicate of a name.
pub(super) fn make_unique<'n>(names: impl Iterator<Item = &'n mut String>) {
    let mut used_names: BTreeSet<String> = BTreeSet::new();
    for name in names {
        let mut number = 2_usize;
        let mut candidate = name.clone();
        while !used_names.insert(candidate.clone()) {
            candidate = format!("{name}{number}");
            number = number.saturating_add(1);
        }
        *name = candidate;
    }
}

fn identifier_char(letter: char) -> char {
    if letter.is_ascii_alphanumeric() {
        letter
    } else {
        '_'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, python: &str, go: &str) {
        assert_eq!(
            (python_name(name), go_name(name)),
            (python.to_owned(), go.to_owned())
        );
    }

    #[test]
    fn names_are_those_of_the_language() {
        check("write_file", "write_file", "WriteFile");
        check("excludePatterns", "excludePatterns", "ExcludePatterns");
        check("file1", "file1", "File1");
        check("from", "from_", "From");
        check("2d", "n2d", "N2d");
        check(
            "mcp__git-hub__get.it",
            "mcp__git_hub__get_it",
            "McpGitHubGetIt",
        );
        check("", "n", "N");
    }

    #[test]
    fn no_function_is_called_as_a_type_of_the_package() {
        let names = ["get", "get_params", "bool"].map(go_function_name);
        assert_eq!(names, ["Get", "GetParams_", "Bool_"]);
    }

    #[test]
    fn no_two_names_are_one() {
        let mut names = ["a", "b", "a", "a", "a2"].map(str::to_owned);
        make_unique(names.iter_mut());
        assert_eq!(names, ["a", "b", "a2", "a3", "a22"]);
    }
}
