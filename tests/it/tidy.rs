//! Structure of the source: which module may use which, what pure modules must not access, the
//! maximum length of a file, and forbidden content.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::source_tree::{FILES_MIN, Source, assert_none, repository, sources, sources_below};

/// Maximum length of a file, in lines without tests.
const LINES_MAX: usize = 800;

/// Modules without side effects: the same arguments always give the same result.
const RULES: &[&str] = &[
    "permissions",
    "spending",
    "tools",
    "bounded_parse",
    "commands",
    "call_rules",
    "code_mode",
    "roles",
    "sandbox_policy",
    "hooks",
    "mentions",
    "check_results",
    "config",
    "layout",
    "ballot",
    "event",
    "run_view",
    "prompts",
    "delivery",
    "batch",
];
/// Paths that lead from a pure module to the outside world.
const WORLDLY: &[&str] = &[
    "std::fs",
    "std::env",
    "std::process",
    "std::time",
    "std::net",
    "std::thread",
    "tokio",
    "rustix",
    "reqwest",
    "async fn",
    "async move",
    ".await",
];
/// Words that promise work instead of doing it, in comments.
const PROMISES: &[&str] = &["TODO", "FIXME", "XXX"];
/// Code that stands for work that is not done, or hides a failing test.
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "#[ignore", "dbg!"];

/// Returns the modules that a `lib.rs` or `mod.rs` lists, in its order, without tests.
fn listed_modules(list: &str) -> Vec<String> {
    let name = |line: &str| {
        let visible = line.strip_prefix("pub").map_or(line, |rest| {
            let restricted = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            restricted.map_or(rest, |(_, rest)| rest)
        });
        let name = visible.trim_start().strip_prefix("mod ")?;
        name.strip_suffix(';').map(str::to_owned)
    };
    list.lines().filter_map(name).collect()
}

/// A folder whose `mod.rs` or `lib.rs` lists its modules in an order in which each imports only those
/// above it.
struct OrderedFolder {
    /// The folder, relative to the repository.
    path: String,
    /// The prefix of paths to its modules.
    prefix: String,
    /// Its modules, from the top.
    modules: Vec<String>,
}

impl OrderedFolder {
    fn read(path: &str, file: &str) -> Self {
        let list = fs::read_to_string(repository().join(path).join(file)).unwrap();
        Self {
            path: path.to_owned(),
            prefix: path.replacen("src", "crate", 1).replace('/', "::") + "::",
            modules: listed_modules(&list),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.modules.iter().position(|module| module == name)
    }

    /// Returns the module of the folder that a file belongs to; `None` for the file with the list.
    fn module_of(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(&self.path).ok()?;
        let first = below.iter().next()?.to_str()?;
        let name = first.strip_suffix(".rs").unwrap_or(first);
        (!matches!(name, "lib" | "main" | "mod" | "tests")).then(|| name.to_owned())
    }

    /// Returns every module that `code` names after the prefix, alone or in braces, with its line.
    fn named_in<'c>(&self, code: &'c str) -> Vec<(usize, &'c str)> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = |text: &'c str| text.split(|c| !is_name(c)).next().unwrap_or_default();
        let mut named = Vec::new();
        let mut line = 1;
        let mut parts = code.split(self.prefix.as_str());
        line += parts.next().unwrap_or_default().matches('\n').count();
        for rest in parts {
            match rest.strip_prefix('{') {
                None => named.push((line, name(rest))),
                Some(list) => {
                    let mut depth = 1_u32;
                    let mut begins = true;
                    for (offset, c) in list.char_indices() {
                        match c {
                            '{' => depth += 1,
                            '}' => depth -= 1,
                            ',' => begins = depth == 1,
                            _ if begins && is_name(c) => {
                                named.push((line, name(list.get(offset..).unwrap_or_default())));
                                begins = false;
                            }
                            _ => {}
                        }
                        if depth == 0 {
                            break;
                        }
                    }
                }
            }
            line += rest.matches('\n').count();
        }
        named
    }

    /// Returns the places in `sources` that name a module below their own, or hide which module they
    /// name.
    fn downward_imports(&self, sources: &[Source]) -> Vec<String> {
        let is_root = self.path == "src";
        let mut findings = Vec::new();
        for source in sources {
            let Some(own) = self.module_of(&source.path) else {
                continue;
            };
            let own_position = self
                .position(&own)
                .unwrap_or_else(|| panic!("`{own}` is not in {}", self.path));
            let lines = source.code();
            for (number, line) in &lines {
                let hides =
                    line.contains("crate::{") || (line.contains("super::") && !source.is_test());
                if is_root && hides {
                    let at = format!("{}:{number}: {}", source.path.display(), line.trim());
                    findings.push(format!("{at}: name modules one by one, with `crate::`"));
                }
            }
            let code: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
            let code = code.join("\n");
            for (line, name) in self.named_in(&code) {
                let at = format!("{}:{line}", source.path.display());
                match self.position(name) {
                    Some(position) if position > own_position => {
                        findings.push(format!("{at}: `{name}` is below `{own}`"));
                    }
                    None if is_root => {
                        findings.push(format!("{at}: `{name}` is no module of lib.rs"));
                    }
                    Some(_) | None => {}
                }
            }
        }
        findings
    }
}

#[test]
fn imports_point_up_the_page() {
    let sources = sources();
    let crate_root = OrderedFolder::read("src", "lib.rs");
    assert!(crate_root.modules.len() >= 15, "{:?}", crate_root.modules);
    let mut findings = crate_root.downward_imports(&sources);
    for (path, modules_min) in [
        ("src/world", 10),
        ("src/world/sys", 20),
        ("src/world/io", 10),
        ("src/world/sandbox", 15),
        ("src/world/sandbox/docker", 15),
        ("src/world/store", 20),
        ("src/world/git", 12),
        ("src/world/mcp", 12),
        ("src/world/access", 8),
        ("src/world/exec", 30),
        ("src/world/delivery", 14),
        ("src/world/diagnostics", 3),
    ] {
        let count = OrderedFolder::read(path, "mod.rs").modules.len();
        assert!(count >= modules_min, "{path} lists only {count} modules");
    }
    let is_world = |source: &&Source| source.path.starts_with("src/world") && !source.is_test();
    let lists = sources
        .iter()
        .filter(is_world)
        .filter(|source| source.path.ends_with("mod.rs"));
    for list in lists {
        let path = list.path.parent().unwrap().to_str().unwrap();
        findings.extend(OrderedFolder::read(path, "mod.rs").downward_imports(&sources));
    }
    assert_none(&findings);
}

#[test]
fn imports_that_point_down_are_found() {
    let folder = OrderedFolder {
        path: "src".to_owned(),
        prefix: "crate::".to_owned(),
        modules: ["error", "permissions", "world"]
            .map(str::to_owned)
            .to_vec(),
    };
    let check = |text: &str, count: usize| {
        let source = Source {
            path: "src/permissions/mod.rs".into(),
            text: text.to_owned(),
        };
        assert_eq!(folder.downward_imports(&[source]).len(), count, "{text}");
    };
    check("use crate::error::Error;", 0);
    check("use crate::permissions::grant::Grant;", 0);
    check("// crate::world\nlet a = 1; // crate::world", 0);
    check("use crate::world::access::gate;", 1);
    check("fn f() -> crate::world::Gate {", 1);
    check("use crate::{error, world};", 2);
    check("use crate::{error, permissions::{grant, rules}};", 1);
    check("use super::grant;", 1);
    check("use crate::elsewhere::X;", 1);
    check("#[cfg(test)]\nmod tests {\n use super::*;", 0);
}

#[test]
fn rules_reach_no_world() {
    let sources = sources();
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let Some(module) = source.module().filter(|module| RULES.contains(module)) else {
            continue;
        };
        seen.insert(module);
        for (number, line) in source.code() {
            for word in WORLDLY.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{number}: `{word}`", source.path.display()));
            }
        }
    }
    assert_eq!(seen, RULES.iter().copied().collect::<BTreeSet<_>>());
    assert_none(&findings);
}

#[test]
fn one_file_makes_permits_and_one_folder_opens_them() {
    let mut makers = BTreeSet::new();
    let mut openers = BTreeSet::new();
    for source in sources() {
        for (_, line) in source.code() {
            if line.contains("Permitted {") && !line.contains("struct ") && !line.contains("impl") {
                makers.insert(source.path.clone());
            }
            if line.contains("into_action(") && !line.contains("fn ") {
                openers.insert(source.path.parent().unwrap().to_owned());
            }
        }
    }
    assert_eq!(
        makers,
        BTreeSet::from([PathBuf::from("src/world/access/gate/mod.rs")])
    );
    assert_eq!(openers, BTreeSet::from([PathBuf::from("src/world/exec")]));
}

#[test]
fn one_file_makes_calls_that_the_compiler_cannot_check() {
    let mut unchecked = BTreeSet::new();
    let mut findings = Vec::new();
    for source in sources() {
        let mut comment = String::new();
        for (index, line) in source.text.lines().enumerate() {
            if let Some(words) = line.trim_start().strip_prefix("//") {
                comment.push_str(words);
                continue;
            }
            if ["unsafe {", "unsafe fn", "unsafe impl"]
                .iter()
                .any(|word| line.contains(word))
            {
                unchecked.insert(source.path.clone());
                if !comment.contains("SAFETY: ") {
                    findings.push(format!(
                        "{}:{}: no reason",
                        source.path.display(),
                        index + 1
                    ));
                }
            }
            comment.clear();
        }
    }
    assert_none(&findings);
    let raw = PathBuf::from("src/world/sys/sandbox/raw.rs");
    assert_eq!(unchecked, BTreeSet::from([raw]));
}

#[test]
fn files_begin_with_their_subject_and_stay_short() {
    let mut findings = Vec::new();
    for source in sources().iter().chain(&sources_below("tests")) {
        let path = source.path.display();
        if !source.text.starts_with("//! ") {
            findings.push(format!("{path}: does not begin with `//!`"));
        }
        let lines = if source.is_test() {
            0
        } else {
            source.code().len()
        };
        if lines > LINES_MAX {
            findings.push(format!("{path}: {lines} lines"));
        }
    }
    assert_none(&findings);
}

#[test]
fn nothing_is_left_unfinished() {
    let mut findings = Vec::new();
    let own = Path::new(file!()).file_name();
    for source in sources().iter().chain(&sources_below("tests")) {
        if source.path.file_name() == own {
            continue;
        }
        for (index, line) in source.text.lines().enumerate() {
            let comment = line.split_once("//").map_or("", |(_, comment)| comment);
            let promised = PROMISES.iter().find(|word| comment.contains(**word));
            let unfinished = UNFINISHED.iter().find(|word| line.contains(**word));
            for word in promised.into_iter().chain(unfinished) {
                findings.push(format!("{}:{}: `{word}`", source.path.display(), index + 1));
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn every_test_file_is_declared() {
    let main = fs::read_to_string(repository().join("tests/it/main.rs")).unwrap();
    let declared = listed_modules(&main);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for entry in fs::read_dir(repository().join("tests/it")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".rs").filter(|name| *name != "main") {
            let count = declared.iter().filter(|other| *other == name).count();
            counts.insert(name.to_owned(), count);
        }
    }
    assert!(counts.len() >= 4, "tests/it holds only {counts:?}");
    counts.retain(|_, count| *count != 1);
    assert!(
        counts.is_empty(),
        "not declared once in main.rs: {counts:?}"
    );
}

#[test]
fn no_text_holds_a_long_dash() {
    let mut files = vec![
        repository().join("README.md"),
        repository().join("Cargo.toml"),
    ];
    for folder in ["src", "tests", "docs", "configs"] {
        let mut folders = vec![repository().join(folder)];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).unwrap();
            for path in entries.map(|entry| entry.unwrap().path()) {
                if path.is_file() {
                    files.push(path);
                } else if !path.ends_with("node_modules") {
                    folders.push(path);
                }
            }
        }
    }
    assert!(files.len() >= FILES_MIN, "only {} files", files.len());
    let mut findings = Vec::new();
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            if line.contains(['\u{2014}', '\u{2013}']) {
                findings.push(format!("{}:{}", path.display(), index + 1));
            }
        }
    }
    assert_none(&findings);
}

#[test]
fn one_file_starts_programs() {
    let mut starters = BTreeSet::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (_, line) in source.code() {
            if line.contains("Command::new(") || line.contains("posix_spawn") {
                starters.insert(source.path.clone());
            }
        }
    }
    let process = PathBuf::from("src/world/sys/process.rs");
    assert_eq!(starters, BTreeSet::from([process]));
}

/// What draws on a terminal must not decide, and what decides must not draw.
#[test]
fn one_folder_draws_on_the_whole_terminal() {
    let dashboard = Path::new("src/cli/dashboard");
    let mut drawing = 0;
    let mut findings = Vec::new();
    for source in sources() {
        for (number, line) in source.code() {
            if ["ratatui_", "crossterm::"]
                .iter()
                .all(|name| !line.contains(name))
            {
                continue;
            }
            if source.path.starts_with(dashboard) {
                drawing += 1;
            } else if source.path.starts_with("src") {
                findings.push(format!("{}:{number}: {line}", source.path.display()));
            }
        }
    }
    assert!(drawing > 0);
    assert_none(&findings);
}
