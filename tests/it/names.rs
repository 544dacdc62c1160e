//! Naming of types: unique in the crate, and noun phrases that say what a value is.

use std::collections::BTreeMap;

use crate::source_tree::{assert_none, sources};

/// Maximum percentage of types that share their name with another type of the crate.
const SHARED_PERCENT_MAX: usize = 8;
/// Maximum percentage of types whose name is a single word.
const ONE_WORD_PERCENT_MAX: usize = 35;
/// Minimum mean length of a type name, in letters.
const MEAN_LENGTH_MIN: usize = 11;
/// With fewer types, the test has looked in the wrong place.
const TYPES_MIN: usize = 1000;
/// Names that mean nothing outside their module.
const GENERAL: &[&str] = &[
    "Action", "Args", "Config", "Context", "Data", "Entry", "Error", "Info", "Inner", "Item",
    "Kind", "Limits", "Line", "Mode", "Options", "Outcome", "Output", "Part", "Place", "Reason",
    "Result", "Seat", "Source", "Stage", "State", "Status", "Step", "Target", "Turn", "Value",
];
/// General names that are the complete name of the crate's own concept.
const CONCEPTS: &[&str] = &["Action", "Config", "Error", "Result"];
/// Participles that do not end in `ed`.
const IRREGULAR_PARTICIPLES: &[&str] = &[
    "Begun", "Bound", "Broken", "Built", "Chosen", "Cut", "Done", "Drawn", "Driven", "Felt",
    "Found", "Frozen", "Given", "Gone", "Grown", "Heard", "Held", "Hidden", "Kept", "Known",
    "Laid", "Left", "Lent", "Lost", "Made", "Meant", "Met", "Paid", "Put", "Read", "Run", "Said",
    "Seen", "Sent", "Shown", "Shut", "Spent", "Split", "Spoken", "Stood", "Struck", "Sunk",
    "Taken", "Thrown", "Told", "Torn", "Woken", "Won", "Worn", "Written",
];
/// Generic types that read with their parameter, such as `Permitted<Action>`.
const WRAPPERS: &[&str] = &["Permitted"];
/// Nouns that end in `ed`.
const NOUNS_IN_ED: &[&str] = &["Feed", "Need", "Seed", "Speed"];

/// The definition of a type.
struct Definition {
    name: String,
    is_public: bool,
    /// `src/a.rs:12`.
    location: String,
}

/// Returns the name of the struct, enum, trait or alias that a line of code defines, and whether it
/// is public. An indented alias is the associated type of a trait.
fn defined_type(line: &str) -> Option<(String, bool)> {
    let mut words = line.split_whitespace();
    let mut is_public = false;
    loop {
        match words.next()? {
            "struct" | "enum" | "trait" | "union" => break,
            "type" if !line.starts_with(' ') => break,
            "unsafe" => {}
            word if word.starts_with("pub") => is_public = true,
            _ => return None,
        }
    }
    let name = words.next()?;
    let end = name
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(name.len());
    let name = name.split_at(end).0;
    (!name.is_empty()).then(|| (name.to_owned(), is_public))
}

fn definitions() -> Vec<Definition> {
    let mut definitions = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (number, line) in source.code() {
            if let Some((name, is_public)) = defined_type(&line) {
                let location = format!("{}:{number}", source.path.display());
                definitions.push(Definition {
                    name,
                    is_public,
                    location,
                });
            }
        }
    }
    assert!(
        definitions.len() >= TYPES_MIN,
        "only {} types",
        definitions.len()
    );
    definitions
}

/// Counts the words of a name in camel case; several capitals in a row are one word.
fn count_words(name: &str) -> usize {
    let mut count = 0;
    let mut was_capital = false;
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_capital = letter.is_ascii_uppercase();
        let begins_word = letters.peek().is_some_and(char::is_ascii_lowercase);
        if is_capital && (!was_capital || begins_word) {
            count += 1;
        }
        was_capital = is_capital;
    }
    count
}

fn is_bare_participle(name: &str) -> bool {
    let is_regular = name.ends_with("ed") && !NOUNS_IN_ED.contains(&name);
    count_words(name) == 1
        && !WRAPPERS.contains(&name)
        && (is_regular || IRREGULAR_PARTICIPLES.contains(&name))
}

/// Returns every name with the places that define it.
fn by_name(definitions: &[Definition]) -> BTreeMap<&str, Vec<&Definition>> {
    let mut names: BTreeMap<&str, Vec<&Definition>> = BTreeMap::new();
    for definition in definitions {
        names.entry(&definition.name).or_default().push(definition);
    }
    names
}

#[test]
fn names_are_read_from_definitions() {
    let public = |name: &str| Some((name.to_owned(), true));
    let private = |name: &str| Some((name.to_owned(), false));
    assert_eq!(defined_type("pub struct Gate<'a> {"), public("Gate"));
    assert_eq!(
        defined_type("    pub(super) enum WalkAction {"),
        public("WalkAction")
    );
    assert_eq!(defined_type("unsafe trait Raw: Send {"), private("Raw"));
    assert_eq!(defined_type("struct Unit;"), private("Unit"));
    assert_eq!(defined_type("pub type Name<T> = Vec<T>;"), public("Name"));
    assert_eq!(defined_type("    type Error = Fault;"), None);
    assert_eq!(defined_type("let struct_name = 1;"), None);
    for (name, count) in [
        ("Gate", 1),
        ("SseEvent", 2),
        ("MCPServer", 2),
        ("HTTP", 1),
        ("RoleTableRow", 3),
    ] {
        assert_eq!(count_words(name), count, "{name}");
    }
    for (name, is_bare) in [
        ("Told", true),
        ("Seated", true),
        ("Seed", false),
        ("SharedServer", false),
        ("Gate", false),
    ] {
        assert_eq!(is_bare_participle(name), is_bare, "{name}");
    }
}

#[test]
fn public_types_have_unique_names() {
    let definitions = definitions();
    let shared = by_name(&definitions)
        .into_iter()
        .filter(|(_, all)| all.len() > 1 && all.iter().any(|one| one.is_public));
    let describe = |(name, all): (&str, Vec<&Definition>)| {
        let places: Vec<&str> = all.iter().map(|one| one.location.as_str()).collect();
        format!("`{name}`: {}", places.join(", "))
    };
    assert_none(&shared.map(describe).collect::<Vec<_>>());
}

#[test]
fn general_type_names_stay_private() {
    let is_general = |one: &&Definition| {
        GENERAL.contains(&one.name.as_str()) && !CONCEPTS.contains(&one.name.as_str())
    };
    let findings: Vec<String> = definitions()
        .iter()
        .filter(is_general)
        .filter(|one| one.is_public)
        .map(|one| format!("{}: `{}`", one.location, one.name))
        .collect();
    assert_none(&findings);
}

#[test]
fn no_type_is_a_bare_participle() {
    let findings: Vec<String> = definitions()
        .iter()
        .filter(|one| is_bare_participle(&one.name))
        .map(|one| format!("{}: `{}`", one.location, one.name))
        .collect();
    assert_none(&findings);
}

#[test]
fn type_names_are_distinct_and_descriptive() {
    let definitions = definitions();
    let names = by_name(&definitions);
    let percent = |count: usize| count * 100 / definitions.len();
    let shared = names
        .values()
        .filter(|all| all.len() > 1)
        .map(Vec::len)
        .sum();
    let single = definitions
        .iter()
        .filter(|one| count_words(&one.name) == 1)
        .count();
    let letters: usize = definitions.iter().map(|one| one.name.len()).sum();
    let measured = (
        percent(shared),
        percent(single),
        letters / definitions.len(),
    );
    let (shared, single, length) = measured;
    assert!(
        shared <= SHARED_PERCENT_MAX,
        "{shared} % of types share a name"
    );
    assert!(
        single <= ONE_WORD_PERCENT_MAX,
        "{single} % of types have one word"
    );
    assert!(
        length >= MEAN_LENGTH_MIN,
        "type names have {length} letters on average"
    );
}
