//! Config files: every example loads, hostile input is rejected quickly, and the reference in
//! `docs/` matches the table of keys.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use massgen::config::diagnostic::Severity;
use massgen::config::examples::{self, EXAMPLES};
use massgen::config::keys::{SECTIONS, ValueShape};
use massgen::config::machine_policy::MachinePolicy;
use massgen::config::yaml::CONFIG_BYTES_MAX;
use massgen::config::{
    ConfigContext, ConfigOrigin, InvalidConfig, LoadedConfig, load, reference, schema,
};
use massgen::dotenv::ConfigVariables;
use massgen::path::AbsPath;
use proptest::prelude::*;
use serde_json::Value;

use crate::source_tree::{Source, sources_below};

fn try_load(name: &str, text: &[u8]) -> Result<LoadedConfig, Box<InvalidConfig>> {
    let base = AbsPath::new("/home/ann/project").unwrap();
    let home = AbsPath::new("/home/ann").unwrap();
    let env = ConfigVariables::from_iter([("KEY".to_owned(), "sk-test".to_owned())]);
    let origin = ConfigOrigin {
        name: name.to_owned(),
        directory: AbsPath::new("/configs"),
    };
    let context = ConfigContext {
        base: &base,
        state_parent: &base,
        home: Some(&home),
        env: &env,
        packages: &BTreeSet::new(),
        policy: &MachinePolicy::default(),
    };
    load(text, &origin, &context)
}

/// Returns all findings about a text, as the user sees them.
fn config_findings(name: &str, text: &[u8]) -> String {
    match try_load(name, text) {
        Ok(loaded) => loaded.render(),
        Err(invalid) => invalid.render(),
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a text with a file of the repository; `MASSGEN_BLESS=1` writes the file instead.
#[track_caller]
fn check_file(path: &Path, actual: &str) {
    if std::env::var_os("MASSGEN_BLESS").is_some() {
        std::fs::write(path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    let name = path.display();
    assert!(
        expected == actual,
        "{name} differs; MASSGEN_BLESS=1 rewrites it. It is now:\n{actual}"
    );
}

fn files_below(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, ending));
        } else if path.extension().is_some_and(|found| found == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn every_example_loads_without_a_warning() {
    assert!(EXAMPLES.len() >= 9, "only {} examples", EXAMPLES.len());
    for example in EXAMPLES {
        assert_eq!(
            config_findings(example.name, example.text.as_bytes()),
            "",
            "{}",
            example.name
        );
        assert!(
            example.summary().ends_with('.'),
            "{}: {}",
            example.name,
            example.summary()
        );
    }
}

#[test]
fn every_file_below_configs_is_built_in() {
    let configs = repository().join("configs");
    let names: Vec<String> = files_below(&configs, "yaml")
        .iter()
        .map(|path| path.strip_prefix(&configs).unwrap().display().to_string())
        .collect();
    assert!(!names.is_empty());
    for name in names {
        assert!(
            examples::find_example(&name).is_some(),
            "{name} is not in EXAMPLES"
        );
    }
}

#[test]
fn cases_give_the_findings_that_stand_beside_them() {
    let cases = files_below(&repository().join("tests/cases/config"), "yaml");
    assert!(cases.len() >= 10, "only {} cases", cases.len());
    for case in cases {
        let text = std::fs::read(&case).unwrap();
        let name = case.file_name().unwrap().to_str().unwrap();
        let is_valid = try_load(name, &text).is_ok();
        assert_eq!(
            is_valid,
            case.parent().unwrap().ends_with("valid"),
            "{name}"
        );
        check_file(
            &case.with_extension("txt"),
            &format!("{}\n", config_findings(name, &text)),
        );
    }
}

#[test]
fn the_reference_is_what_the_table_gives() {
    check_file(
        &repository().join("docs/config.md"),
        &reference::reference(),
    );
}

/// Checks that a text is rejected within the time limit, for the expected reason.
#[track_caller]
fn check_hostile(text: &[u8], expected: &str) {
    let invalid = try_load("hostile.yaml", text).unwrap_err();
    let shown = invalid.render();
    assert!(shown.contains(expected), "{expected:?} is not in\n{shown}");
    assert!(
        shown.len() < 100_000,
        "{expected}: {} bytes are shown",
        shown.len()
    );
}

/// Returns `count` lines.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    let lines: Vec<String> = (0..count).map(line).collect();
    lines.join("\n")
}

/// `a` is a list of strings; each further anchor is a list of ten of the one before.
fn alias_bomb(levels: u8) -> String {
    let mut text = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..levels {
        let (before, name) = (char::from(b'a' + level - 1), char::from(b'a' + level));
        let items = vec![format!("*{before}"); 10].join(",");
        writeln!(text, "{name}: &{name} [{items}]").unwrap();
    }
    text
}

#[test]
fn hostile_texts_are_refused() {
    let too_large = "the YAML is too large, too deep, or its aliases make it so";
    check_hostile(alias_bomb(8).as_bytes(), too_large);
    check_hostile("[".repeat(100_000).as_bytes(), "recursion limit");
    check_hostile("{a: ".repeat(100_000).as_bytes(), "recursion limit");
    check_hostile("? ".repeat(100_000).as_bytes(), too_large);
    let ladder = lines(900, |depth| format!("{}a:", " ".repeat(depth)));
    check_hostile(ladder.as_bytes(), too_large);
    check_hostile(
        lines(60_000, |n| format!("k{n}: {n}")).as_bytes(),
        too_large,
    );
    let long = format!("a: &a {}\n{}", "x".repeat(900_000), "b: *a\n".repeat(50));
    check_hostile(long.as_bytes(), "duplicate key");
    let aliases = lines(50, |n| format!("b{n}: *a"));
    let long = format!("a: &a {}\n{aliases}", "x".repeat(900_000));
    check_hostile(long.as_bytes(), too_large);
    check_hostile(
        &vec![b'a'; CONFIG_BYTES_MAX + 1],
        "the file is larger than 1 MiB",
    );
    check_hostile(
        b"agent:\n  id: \xff\xfe\n",
        "the file is not UTF-8 text: invalid byte in line 2",
    );
    check_hostile(b"a: 1\na: 2\n", "duplicate key `a`");
    check_hostile(b"a:\n\tb: 1\n", "tabs disallowed");
    check_hostile(b"a: [1\nb: 2\n", "not valid YAML");
    check_hostile(
        b"a: 1\n---\nb: 2\n",
        "the file has more than one YAML document",
    );
    check_hostile(b"a: &a [*a]\n", "not valid YAML");
    check_hostile(b"a: \0\n", "not valid YAML");
    check_hostile(b"a: .nan\n", "not valid YAML");
    let keys = lines(9_000, |n| format!("agentz{n}: 1"));
    check_hostile(keys.as_bytes(), "9000 keys are too many: at most 256");
    check_hostile(keys.as_bytes(), "only the first 100 findings are listed");
    let keys = lines(9_000, |n| format!("    modle{n}: 1"));
    let backend = format!("agent:\n  id: a\n  backend:\n{keys}\n");
    check_hostile(backend.as_bytes(), "9000 keys are too many: at most 256");
    let variables = format!(
        "agent: {{id: a, system_message: '{}'}}",
        "${KEY}".repeat(150_000)
    );
    check_hostile(variables.as_bytes(), "the expanded value is longer than");
}

#[test]
fn attacks_by_config_are_refused() {
    check_hostile(
        b"agents:\n  - id: ../../x\n    backend: {cwd: ../../../outside}\n",
        "`../../../outside` is not a directory of massgen",
    );
    check_hostile(
        b"mcp_servers:\n  - name: x\n    command: sh\n    args: [-c, 'touch /outside/p']\n",
        "`agents` is missing",
    );
    check_hostile(
        b"agent: {id: a, backend: {type: grok}}\n\
          orchestrator:\n  session_storage: /home/ann\n  context_paths: [/srv]\n",
        "`/home/ann` is your home directory",
    );
    check_hostile(
        b"agent: {id: a, backend: {type: grok}}\n\
          orchestrator:\n  session_storage: /srv/rw\n  context_paths: [/srv/rw]\n",
        "the storage shares a directory with `/srv/rw`",
    );
}

#[test]
fn large_configs_within_the_limits_load() {
    let agents = lines(512, |n| {
        format!("- {{id: a{n}, backend: {{type: grok, cwd: w{n}}}}}")
    });
    let loaded = try_load("large.yaml", format!("agents:\n{agents}").as_bytes());
    assert_eq!(loaded.unwrap().config.agents.len(), 512);
}

#[test]
fn json_and_byte_order_marks_are_read() {
    let json =
        b"{\n\t\"agent\": {\n\t\t\"id\": \"a\",\n\t\t\"backend\": {\"type\": \"grok\"}\n\t}\n}\n";
    assert_eq!(config_findings("team.json", json), "");
    let marked = b"\xef\xbb\xbfagent: {id: a, backend: {type: grok}}\r\n";
    assert_eq!(config_findings("team.yaml", marked), "");
}

#[test]
fn the_schema_is_made_of_every_section() {
    let schema = schema::schema();
    let definitions = schema["$defs"].as_object().unwrap();
    assert_eq!(
        definitions.len(),
        SECTIONS.len() - 1,
        "sections share a name"
    );
    let text = schema.to_string();
    for reference in text.split("\"$ref\":\"#/$defs/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(definitions.contains_key(name), "{name} is not defined");
    }
    let permission = &definitions["context_paths"]["properties"]["permission"];
    assert_eq!(
        permission["anyOf"][0]["enum"],
        serde_json::json!(["read", "write"])
    );
    let types = definitions["backend"]["properties"]["type"]["enum"]
        .as_array()
        .unwrap();
    assert!(types.contains(&Value::from("chatcompletion")));
    assert!(
        !types.contains(&Value::from("copilot")),
        "editors would offer a type that is not supported"
    );
}

#[test]
fn keys_of_a_section_are_unique() {
    for section in SECTIONS {
        let names: Vec<&str> = section
            .keys
            .iter()
            .flat_map(|key| key.names)
            .copied()
            .collect();
        for (index, name) in names.iter().enumerate() {
            assert!(
                !names[..index].contains(name),
                "{}.{name} is there twice",
                section.path
            );
        }
        for key in section.keys {
            assert!(
                !key.doc.is_empty() && !key.doc.contains('|'),
                "{:?}",
                key.names
            );
            if let ValueShape::Mapping(inner) | ValueShape::TextOr(inner) = key.shape {
                let listed = SECTIONS.iter().any(|section| std::ptr::eq(*section, inner));
                assert!(listed, "{} is not in SECTIONS", inner.path);
            }
        }
    }
}

/// Generates pieces of YAML syntax, and keys of the table.
fn yaml_piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "agents",
            "agent",
            "id",
            "backend",
            "type",
            "grok",
            "scripted",
            "cwd",
            "context_paths",
            "path",
            "orchestrator",
            "folder_guard",
            "read",
            "api_key",
            "timeout_settings",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![
            ": ", ":\n  ", "\n", "\n  ", "\n    ", "- ", "{", "}", "[", "]", ", ", "&a ", "*a",
            "<<: ", "| \n", "'", "\"", "#", "!!str ", "~", "${KEY}", "${", "---\n", "? ", "\t",
            "\\",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,3}",
        any::<i32>().prop_map(|number| number.to_string()),
    ]
}

proptest! {
    #[test]
    fn no_text_is_a_panic(pieces in prop::collection::vec(yaml_piece(), 0..60)) {
        let text = pieces.concat();
        match try_load("random.yaml", text.as_bytes()) {
            Ok(loaded) => prop_assert!(!loaded.config.agents.is_empty()),
            Err(invalid) => {
                let is_error = |found: &massgen::config::diagnostic::Diagnostic| found.severity == Severity::Error;
                prop_assert!(invalid.diagnostics.iter().any(is_error));
                prop_assert!(!invalid.render().is_empty());
            }
        }
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(invalid) = try_load("random.yaml", &bytes) {
            prop_assert!(!invalid.to_json().to_string().is_empty());
        }
    }
}

/// Keys that no reader needs: each has a single value.
const UNREAD_KEYS: &[&str] = &["hooks::TYPE", "workflow::TYPE"];
/// With fewer keys, the test has looked in the wrong place.
const TYPED_KEYS_MIN: usize = 150;

/// Returns the declared keys of a file of `src/config/keys`, as readers name them.
fn declared_keys(source: &Source) -> Vec<String> {
    let module = source.path.file_stem().unwrap().to_str().unwrap();
    let lines = source.code().into_iter();
    let names = lines.filter_map(|(_, line)| {
        let (name, _) = line.trim().strip_prefix("const ")?.split_once(" = [")?;
        (!name.starts_with('$')).then(|| format!("{module}::{name}"))
    });
    names.collect()
}

#[test]
fn every_key_that_massgen_acts_on_is_read() {
    let is_table = |source: &Source| source.path.starts_with("src/config/keys");
    let sources = sources_below("src/config");
    let (table, readers): (Vec<Source>, Vec<Source>) = sources.into_iter().partition(is_table);
    let declared: Vec<String> = table.iter().flat_map(declared_keys).collect();
    assert!(
        declared.len() >= TYPED_KEYS_MIN,
        "only {} keys",
        declared.len()
    );
    let readers = readers.iter().filter(|source| !source.is_test());
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut read = BTreeSet::new();
    for (_, line) in readers.flat_map(Source::code) {
        for path in line.split(|c| !is_part(c) && c != ':') {
            let mut parts = path.rsplit("::");
            if let (Some(name), Some(module)) = (parts.next(), parts.next()) {
                read.insert(format!("{module}::{name}"));
            }
        }
    }
    let is_unread = |key: &&String| !read.contains(key.as_str());
    let unread: Vec<&String> = declared.iter().filter(is_unread).collect();
    assert_eq!(unread, UNREAD_KEYS);
}
