//! The documentation is correct: its commands run, and the names in it exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use massgen::permissions::protected::PROTECTED;
use massgen::permissions::rules::RULES;

use crate::project::Project;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the complete blocks of a document in this language.
pub(crate) fn blocks(text: &'static str, language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let begun = text.split(fence.as_str()).skip(1);
    begun
        .map(|block| block.split_once("```").unwrap().0)
        .collect()
}

/// Returns the lines of a document's blocks that begin with `fence`.
fn block_lines<'a>(text: &'a str, fence: &str) -> Vec<&'a str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line == fence {
            inside = true;
        } else if line == "```" {
            inside = false;
        } else if inside && !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

/// Returns the code spans outside of blocks.
fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose
        .flat_map(|part| part.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn readme_commands_run() {
    check_commands("README.md", 6);
}

#[test]
fn commands_for_scripts_run() {
    check_commands("docs/scripts.md", 2);
}

/// Runs the commands of a document, at least `count_min`, one after another in one directory.
#[track_caller]
fn check_commands(document: &str, count_min: usize) {
    let text = read(document);
    let commands: Vec<&str> = block_lines(&text, "```sh")
        .into_iter()
        .flat_map(|line| line.split(" && "))
        .collect();
    assert!(commands.len() >= count_min, "{commands:?}");
    let mut project = Project::new()
        .file("README.md", "# A project\n")
        .dir("docs");
    for command in commands {
        if let Some(script) = command.strip_prefix("bash ") {
            assert!(repository().join(script).exists(), "{script}");
        } else if let Some(words) = command.strip_prefix("massgen ") {
            let finished = project.retyped(shell_words(words)).success();
            project = finished.then::<&str>([]);
        } else {
            let known = ["cargo install --path . --locked", "mkdir -p ", "cd ", "sh "];
            assert!(
                known.iter().any(|known| command.starts_with(known)),
                "{command}"
            );
        }
    }
}

/// The program that the README's demo delivers runs.
#[test]
fn the_demo_delivers_a_program() {
    let project = Project::new().file("README.md", "# Weather station\n");
    let arguments = [
        "--config",
        "@examples/basic/offline_demo",
        "Greet my project",
    ];
    let finished = project.args(arguments).success();
    let greeting = Command::new("sh")
        .arg("hello_massgen.sh")
        .current_dir(finished.project().path(""))
        .output()
        .unwrap();
    let greeting = String::from_utf8(greeting.stdout).unwrap();
    assert!(
        greeting.starts_with("Hello from massgen, Weather station!\n"),
        "{greeting}"
    );
}

#[test]
fn readme_config_is_valid() {
    let yaml = block_lines(&read("README.md"), "```yaml").join("\n");
    let project = Project::new().file("team.yaml", yaml).dir("src");
    let finished = project
        .args(["config", "check", "--strict", "team.yaml"])
        .success();
    assert_eq!(finished.stdout(), "team.yaml: ok\n");
}

/// Splits a command line into words; the only quotes are double quotes around a whole word.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn architecture_names_what_exists() {
    let text = read("docs/architecture.md");
    assert!(text.lines().count() <= 200);
    let lib = read("src/lib.rs");
    let modules: Vec<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    for module in &modules {
        let row = format!("`{module}");
        assert!(text.contains(&row), "`{module}` is not on the map");
    }
    let tests = tests_text();
    let mut missing = Vec::new();
    for name in quoted(&text) {
        let exists = if name.contains('/') {
            repository().join(name).exists()
        } else if name.contains("::") {
            is_module(name)
        } else if modules.contains(&name) {
            true
        } else if name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            tests.contains(&format!("fn {name}("))
        } else {
            true
        };
        if !exists {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "{missing:?} do not exist");
}

fn is_module(name: &str) -> bool {
    let path = repository().join("src").join(name.replace("::", "/"));
    path.with_extension("rs").exists() || path.join("mod.rs").exists()
}

fn tests_text() -> String {
    let entries = fs::read_dir(repository().join("tests/it")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn permissions_lists_every_rule_and_protected_name() {
    let text = read("docs/permissions.md");
    let names = quoted(&text);
    let rules = RULES.iter().map(|rule| rule.name);
    let missing: Vec<&str> = rules
        .chain(PROTECTED.iter().copied())
        .filter(|name| !names.contains(name))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/permissions.md does not name {missing:?}"
    );
}

#[test]
fn commands_lists_every_rule() {
    let text = read("docs/commands.md");
    let names = quoted(&text);
    let mut rules = massgen::commands::rules::RULES.iter();
    let missing = rules.find(|rule| !names.contains(&rule.name));
    assert!(
        missing.is_none(),
        "docs/commands.md does not name {missing:?}"
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    let readme = read("README.md");
    let targets = readme
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    for target in targets.filter(|target| !target.starts_with("http")) {
        assert!(repository().join(Path::new(target)).exists(), "{target}");
    }
}
