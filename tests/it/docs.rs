//! The documentation is correct: its commands run, and the names in it exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use massgen::permissions::protected::{MARKED_NAMES, PROTECTED_NAMES};
use massgen::permissions::rules::RULES;

use crate::project::Project;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the complete blocks of a document in this language.
pub(crate) fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let begun = text.split(fence.as_str()).skip(1);
    begun
        .map(|block| block.split_once("```").unwrap().0)
        .collect()
}

/// Returns the lines of a document's blocks that begin with `fence`.
pub(crate) fn block_lines<'a>(text: &'a str, fence: &str) -> Vec<&'a str> {
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
fn quoted_words(text: &str) -> Vec<&str> {
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
        } else if let Some(arguments) = command.strip_prefix("massgen ") {
            let finished = project.retyped(shell_words(arguments)).success();
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
fn documents_have_no_marks_of_a_merge() {
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let is_mark = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
        assert!(!text.lines().any(is_mark), "{}", path.display());
    }
}

/// Returns the paths of the README and of all pages below `docs`.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![repository().join("README.md")];
    for directory in ["docs", "docs/decisions"] {
        let entries = fs::read_dir(repository().join(directory)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        found.extend(files.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    found
}

#[test]
fn the_configs_of_the_documentation_are_valid() {
    let mut project = Project::new()
        .dir("src")
        .dir("flow/execution")
        .dir("flow/learnings")
        .dir("flow/validation")
        .file("notify.sh", "")
        .file("builder.yaml", "replies: [{text: done}]")
        .env("TICKETS_TOKEN", "of the tests")
        .env("MY_AGENT_KEY", "of the tests");
    let mut names = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let page = document.file_stem().unwrap().to_str().unwrap();
        let is_team = |block: &&str| {
            let mut lines = block.lines();
            lines.any(|line| line.starts_with("agents:") || line.starts_with("agent:"))
        };
        let teams = blocks(&text, "yaml");
        for (number, team) in teams.into_iter().filter(is_team).enumerate() {
            let name = format!("{page}_{number}.yaml");
            project = project.file(&name, team);
            names.push(name);
        }
    }
    assert!(names.len() > 20, "{names:?}");
    let arguments = ["config", "check", "--strict"];
    let checked = project.args(arguments).args(&names).run();
    assert_eq!(
        checked.code(),
        Some(0),
        "{}{}",
        checked.stdout(),
        checked.stderr()
    );
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
    for name in quoted_words(&text) {
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
    let names = quoted_words(&text);
    let rules = RULES.iter().map(|rule| rule.name);
    let missing: Vec<&str> = rules
        .chain(PROTECTED_NAMES.iter().copied())
        .chain(
            MARKED_NAMES
                .iter()
                .flat_map(|(_, names)| names.iter().copied()),
        )
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
    let names = quoted_words(&text);
    let mut rules = massgen::commands::rules::RULES.iter();
    let missing = rules.find(|rule| !names.contains(&rule.name));
    assert!(
        missing.is_none(),
        "docs/commands.md does not name {missing:?}"
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("http")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            let has_anchor = || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor);
            if !target.exists() || !(anchor.is_empty() || has_anchor()) {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the anchors that GitHub gives the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose = text.split("```").step_by(2);
    let headings = prose
        .flat_map(str::lines)
        .filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let letters = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then_some(c),
        });
        letters.collect()
    };
    headings.map(anchor).collect()
}
