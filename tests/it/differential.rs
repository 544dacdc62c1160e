//! Differential tests with random grants, rules, mentions, hidden and protected names over a small
//! real tree: the decision of the rules about each path, the output of `explain`, the effect of the
//! file tools and that of a command are the same, at every level that this machine supports. The
//! differences for commands that `docs/rules.md` documents are in [`TreeFixture::command_reads`] and
//! [`TreeFixture::command_writes`] only.
#![expect(clippy::print_stdout, reason = "a test says how much it compared")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use massgen::call_rules::CallRules;
use massgen::call_rules::rule_syntax::parse_rule;
use massgen::config::command_line::CommandLineConfig;
use massgen::orchestrator::grants::apply_path_rules;
use massgen::path::{AbsPath, RealPath, RelPath};
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, GrantScope, Permission, Phase, merge};
use massgen::permissions::path_rules::RuleAction;
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use massgen::tools::call::ToolCall;
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::world::access::gate::Gate;
use massgen::world::access::policy::GatePolicy;
use massgen::world::exec;
use massgen::world::exec::tool_result::ActionOutcome;
use massgen::world::sandbox::Sandbox;
use massgen::world::sandbox::exec_backend::ExecBackend;
use massgen::world::sandbox::exec_environment::agent_directories::AgentDirectories;
use massgen::world::sandbox::exec_environment::{ExecEnvironment, ExecEnvironmentConfig};
use serde_json::json;
use tempfile::TempDir;

use crate::project::binary;

/// Number of cases; unset, as many as fit into [`SHORT`].
const CASES: &str = "MASSGEN_TEST_DIFFERENTIAL_CASES";
/// Seed of the first case; the next cases use the numbers that follow.
const SEED: &str = "MASSGEN_TEST_DIFFERENTIAL_SEED";
const SHORT: Duration = Duration::from_secs(10);
/// Maximum number of differences that are shown.
const SHOWN_MAX: usize = 12;

/// The user's files; `WS` is replaced by the workspace, which may be among them.
const FILES: &[&str] = &[
    "p/x.txt",
    "p/k.pem",
    "p/.env",
    "p/LICENSE",
    "p/a/x.txt",
    "p/a/k.pem",
    "p/a/c/x.txt",
    "p/a/c/Keys/id",
    "p/keys/id",
    "p/keys/deep/x.txt",
    "p/docs/x.txt",
    "p/docs/.git/config",
    "p/.git/config",
    "p/.MASSGEN/old",
    "p/node_modules/m.js",
    "q/x.txt",
    "q/keys/id",
    "temp/x.txt",
    "temp/k.pem",
    "WS/x.txt",
    "WS/k.pem",
    "WS/keys/id",
    "WS/a/x.txt",
    "WS/docs/.git/config",
];
const WORKSPACES: &[&str] = &["ws", "p/ws", "p/a/ws", "p/.massgen/ws", "p/keys/ws"];
/// Directories that context paths and mentions open.
const DIRECTORIES: &[&str] = &[
    "p",
    "p",
    "p",
    "p/a",
    "p/a/c",
    "p/keys",
    "p/docs",
    "p/docs/.git",
    "q",
    "q/keys",
    "WS/keys",
];
/// Paths that are hidden or protected below a context path.
const EXCEPTIONS: &[&str] = &[
    "keys", "KEYS", "a", "a/c", "a/k.pem", "docs", "x.txt", ".massgen", "k.PEM", "deep", "a/ws",
];
const GLOBS: &[&str] = &[
    "keys",
    "KEYS",
    "*.pem",
    "a/**",
    "**/c",
    "docs",
    "a",
    "x.txt",
    "*",
    "**",
    ".env",
    ".git",
    "id",
    "ws",
    "ROOT/p/a",
    "ROOT/p/**/k.pem",
    "ROOT/p/keys",
    "ROOT/q/**",
    "ROOT/WS",
    "ROOT/WS/**",
];

/// Deterministic pseudorandom sequence (`SplitMix64`).
struct SeededRandom(u64);

impl SeededRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    fn permission(&mut self) -> Permission {
        [Permission::Read, Permission::Write][self.below(2)]
    }
}

/// A tree on disk, and what is open in it.
struct TreeFixture {
    root: PathBuf,
    workspace: RealPath,
    /// The files with their content.
    files: Vec<(PathBuf, String)>,
    /// The directories that contain them.
    directories: Vec<PathBuf>,
    manager: PathPermissionManager,
    level: SandboxLevel,
    /// Description of the case for people.
    description: String,
    _disk: TempDir,
}

impl TreeFixture {
    fn make(seed: u64, levels: &[SandboxLevel]) -> Self {
        let mut random = SeededRandom(seed);
        let disk = tempfile::tempdir().unwrap();
        let root = disk.path().canonicalize().unwrap();
        let ws = random.of(WORKSPACES);
        let at = |rel: &str| root.join(rel.replace("WS", ws));
        let mut files = Vec::new();
        for (number, rel) in FILES.iter().enumerate() {
            // No random name of a temporary directory contains it.
            let (path, text) = (at(rel), format!("content-{number}-end\n"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &text).unwrap();
            files.push((path, text));
        }
        let mut directories: Vec<PathBuf> = files
            .iter()
            .map(|(path, _)| path.parent().unwrap().to_owned())
            .collect();
        directories.sort();
        directories.dedup();
        fs::create_dir(root.join("room")).unwrap();

        let mut description = format!("workspace {ws}");
        let workspace = RealPath::vouch(at("WS"));
        let own = Grant::tree(workspace.clone(), GrantKind::Workspace, Permission::Write);
        let mut grants = vec![own];
        if random.below(2) == 0 {
            let temp = RealPath::vouch(at("temp"));
            let temp = Grant::tree(temp, GrantKind::TempWorkspace, Permission::Read);
            grants.push(temp);
            description.push_str("; temp workspace");
        }
        for _ in 0..=random.below(4) {
            let (rel, permission) = (random.of(DIRECTORIES), random.permission());
            let mut grant = Grant::tree(RealPath::vouch(at(rel)), GrantKind::Context, permission);
            write!(description, "; {permission} {rel}").unwrap();
            for _ in 0..random.below(3) {
                let exception = random.of(EXCEPTIONS);
                let rel = RelPath::new(exception).unwrap();
                if random.below(2) == 0 {
                    write!(description, " hide {exception}").unwrap();
                    grant.hidden.push(rel);
                } else {
                    write!(description, " protect {exception}").unwrap();
                    grant.protected.push(rel);
                }
            }
            if random.below(4) == 0 {
                description.push_str(" unprotect .git");
                grant.unprotected.push(".git".to_owned());
            }
            merge(&mut grants, grant);
        }
        for _ in 0..random.below(3) {
            let (rel, permission) = (random.of(FILES), random.permission());
            write!(description, "; {permission} file {rel}").unwrap();
            merge(
                &mut grants,
                Grant::file(RealPath::vouch(at(rel)), permission),
            );
        }
        let mut rules = Vec::new();
        for _ in 0..random.below(4) {
            let ruling = [RuleAction::Deny, RuleAction::Deny, RuleAction::Ask][random.below(3)];
            let (access, glob) = (random.permission(), random.of(GLOBS));
            write!(description, "; {ruling} {access}_file({glob})").unwrap();
            let glob = glob
                .replace("ROOT", &root.display().to_string())
                .replace("WS", ws);
            rules.push(parse_rule(ruling, &format!("{access}_file({glob})"), None).unwrap());
        }
        let base = AbsPath::new(at("WS")).unwrap();
        let grants = apply_path_rules(grants, &CallRules::new(rules), &base).unwrap();
        let phase = [Phase::Coordination, Phase::Final][random.below(2)];
        let level = levels[random.below(levels.len())];
        write!(description, "; {phase}; level {level}").unwrap();
        Self {
            workspace,
            files,
            directories,
            manager: PathPermissionManager::new(grants, phase),
            level,
            description,
            root,
            _disk: disk,
        }
    }

    fn may(&self, path: &std::path::Path, requested: Permission) -> bool {
        self.manager.allows(&RealPath::vouch(path), requested)
    }

    /// Returns the grant that applies to a path.
    fn applicable_grant(&self, path: &std::path::Path) -> Option<&Grant> {
        let path = RealPath::vouch(path);
        let mut grants = self.manager.grants().iter();
        grants.find(|grant| grant.relative_path(&path).is_some())
    }

    /// Returns whether no command can run: it would have no working directory, or, at level
    /// `landlock`, something in a writable workspace is closed.
    fn refuses_commands(&self) -> bool {
        let grants = || self.manager.grants().iter();
        let is_open = |grant: &Grant| self.may(grant.root.as_path(), Permission::Read);
        let begins = grants().any(|grant| grant.scope == GrantScope::Tree && is_open(grant));
        let own = self.workspace.as_path();
        let is_narrowed =
            self.level == SandboxLevel::Landlock && self.may(own, Permission::Write) && {
                let is_inside = |path: &std::path::Path| path.starts_with(own) && path != own;
                let files = self.files.iter().map(|(path, _)| path);
                let mut names = files.chain(&self.directories);
                grants().any(|grant| is_inside(grant.root.as_path()))
                    || names.any(|name| is_inside(name) && !self.may(name, Permission::Read))
            };
        !begins || is_narrowed
    }

    /// Returns whether a command can read a file: exactly if the rules allow it to the agent.
    fn command_reads(&self, file: &std::path::Path) -> bool {
        self.may(file, Permission::Read)
    }

    /// Returns whether a command can change the existing file `path`, or, with `new_in`, create it
    /// in that directory.
    fn command_writes(&self, path: &std::path::Path, new_in: Option<&std::path::Path>) -> bool {
        let Some(grant) = self.applicable_grant(path) else {
            return false;
        };
        match (grant.kind, self.level) {
            // Rules about names in the workspace are not enforced at level `landlock`.
            (GrantKind::Workspace, SandboxLevel::Landlock) => {
                self.may(self.workspace.as_path(), Permission::Write)
            }
            // Rules about the name of a new file are not enforced.
            (GrantKind::Workspace, _) => self.may(new_in.unwrap_or(path), Permission::Write),
            // Single files are writable for the file tools only, as are all of the user's files in
            // level `landlock`.
            (GrantKind::Context, SandboxLevel::Overlay | SandboxLevel::Namespaces)
                if grant.scope == GrantScope::Tree =>
            {
                self.may(path, Permission::Write)
            }
            _ => false,
        }
    }

    /// Restores the tree, and returns the paths that had been changed.
    fn restore(&self) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        for (path, text) in &self.files {
            if fs::read_to_string(path).ok().as_ref() != Some(text) {
                fs::write(path, text).unwrap();
                changed.push(path.clone());
            }
        }
        for directory in &self.directories {
            let new = directory.join(NEW);
            if fs::remove_file(&new).is_ok() {
                changed.push(new);
            }
        }
        changed
    }
}

/// Name of files that are created.
const NEW: &str = "zz.new";

fn call(name: &str, arguments: &serde_json::Value) -> ToolCall {
    parse(name, &arguments.to_string(), &ToolCatalogue::default()).unwrap()
}

/// Differences in one fixture, and the number of answers that were compared.
#[derive(Default)]
struct Comparison {
    answers: usize,
    refused: usize,
    differences: Vec<String>,
}

impl Comparison {
    fn compare(&mut self, operation: &str, path: &std::path::Path, got: bool, expected: bool) {
        self.answers += 1;
        if got != expected {
            let path = path.display();
            let difference = format!("{operation} {path}: {got}, and {expected} was expected");
            self.differences.push(difference);
        }
    }
}

fn compare_accesses(fixture: &TreeFixture, sandbox: &Sandbox) -> Comparison {
    let commands = ExecEnvironment::new(ExecEnvironmentConfig {
        config: &CommandLineConfig::default(),
        backend: ExecBackend::Sandbox(sandbox.clone()),
        executable: &AbsPath::new(binary()).unwrap(),
        directories: AgentDirectories::prepare(&AbsPath::new(fixture.root.join("room")).unwrap())
            .unwrap(),
        env: &BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        config_env: BTreeMap::new(),
        home: None,
    });
    let policy = GatePolicy {
        commands: Some(commands),
        ..GatePolicy::minimal(fixture.workspace.clone())
    };
    let gate = Gate::open(fixture.manager.clone(), policy).unwrap();
    let mut compared = Comparison::default();
    by_command(fixture, &gate, &mut compared);
    by_tools(fixture, &gate, &mut compared);
    compared
}

/// Reads and writes everything with one command.
fn by_command(fixture: &TreeFixture, gate: &Gate, compared: &mut Comparison) {
    let mut script = "exec 2>/dev/null; ".to_owned();
    for (path, _) in &fixture.files {
        let path = path.display();
        write!(
            script,
            "{{ IFS= read -r line < '{path}' && echo \"$line\"; }}; "
        )
        .unwrap();
    }
    for (path, _) in &fixture.files {
        write!(script, "{{ echo more >> '{}'; }}; ", path.display()).unwrap();
    }
    for directory in &fixture.directories {
        let new = directory.join(NEW);
        write!(script, "{{ echo new > '{}'; }}; ", new.display()).unwrap();
    }
    script.push_str("echo END; true");
    let call = call("execute_command", &json!({ "command": script }));
    let output = match gate.check(call) {
        Ok(permitted) => exec::run(permitted).content,
        Err(denial) => denial.to_string(),
    };
    let changed = fixture.restore();
    let is_refused = !output.contains("END\\n") && !output.contains("END\n");
    let root = fixture.root.as_path();
    compared.compare(
        &format!("refuses: {output}"),
        root,
        is_refused,
        fixture.refuses_commands(),
    );
    if is_refused {
        compared.refused += 1;
    }
    for (path, text) in &fixture.files {
        let reads = output.contains(text.trim_end());
        let expected = !is_refused && fixture.command_reads(path);
        compared.compare("command reads", path, reads, expected);
        let expected = !is_refused && fixture.command_writes(path, None);
        compared.compare("command writes", path, changed.contains(path), expected);
    }
    for directory in &fixture.directories {
        let new = directory.join(NEW);
        let expected = !is_refused && fixture.command_writes(&new, Some(directory));
        compared.compare("command makes", &new, changed.contains(&new), expected);
    }
}

/// Makes each tool call separately, and compares `explain`.
fn by_tools(fixture: &TreeFixture, gate: &Gate, compared: &mut Comparison) {
    for (path, text) in &fixture.files {
        for (tool, requested) in [
            ("read_text_file", Permission::Read),
            ("write_file", Permission::Write),
        ] {
            let arguments = match requested {
                Permission::Read => json!({ "path": path }),
                Permission::Write => json!({ "path": path, "content": "more\n" }),
            };
            let expected = fixture.may(path, requested);
            let call = || call(tool, &arguments);
            let explained = gate
                .explain(&call())
                .iter()
                .all(|verdict| verdict.refusal.is_none());
            compared.compare(&format!("explain {tool}"), path, explained, expected);
            let done = gate.check(call()).is_ok_and(|permitted| {
                let seen = exec::run(permitted);
                let is_shown =
                    requested == Permission::Write || seen.content.contains(text.trim_end());
                seen.outcome == ActionOutcome::Done && is_shown
            });
            compared.compare(tool, path, done, expected);
        }
    }
    for directory in &fixture.directories {
        let new = directory.join(NEW);
        let arguments = json!({ "path": new, "content": "new\n" });
        let made = gate
            .check(call("write_file", &arguments))
            .is_ok_and(|permitted| exec::run(permitted).outcome == ActionOutcome::Done);
        compared.compare(
            "tool makes",
            &new,
            made,
            fixture.may(&new, Permission::Write),
        );
    }
    let changed = fixture.restore();
    for (path, _) in &fixture.files {
        let expected = fixture.may(path, Permission::Write);
        compared.compare("changed by tools", path, changed.contains(path), expected);
    }
}

fn number_variable(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: expected a number")),
    )
}

fn open_sandboxes() -> Vec<(SandboxLevel, Sandbox)> {
    let dir = tempfile::tempdir().unwrap();
    let dir = AbsPath::new(dir.path()).unwrap();
    let executable = AbsPath::new(binary()).unwrap();
    let open = |level| match Sandbox::open(SandboxLevelChoice::Only(level), &executable, &dir) {
        Ok(sandbox) => Some((level, sandbox)),
        Err(error) => {
            println!("level {level} is not compared: {error}");
            None
        }
    };
    [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ]
    .into_iter()
    .filter_map(open)
    .collect()
}

#[test]
fn explain_the_file_tools_and_commands_say_the_same_of_every_path() {
    let sandboxes = open_sandboxes();
    let levels: Vec<SandboxLevel> = sandboxes.iter().map(|(level, _)| *level).collect();
    if levels.is_empty() {
        println!("nothing is compared: no level holds here");
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first =
        number_variable(SEED).unwrap_or(u64::from(now.subsec_nanos()) + now.as_secs() * 1_000_000);
    let cases = number_variable(CASES);
    let begun = Instant::now();
    let (next, answers, refused) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let found = Mutex::new(Vec::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let is_over = cases.map_or_else(|| begun.elapsed() > SHORT, |cases| index >= cases);
            if is_over || found.lock().unwrap().len() > SHOWN_MAX {
                return;
            }
            let seed = first.wrapping_add(index);
            let fixture = TreeFixture::make(seed, &levels);
            let sandbox = sandboxes
                .iter()
                .find(|(level, _)| *level == fixture.level)
                .unwrap();
            let compared = compare_accesses(&fixture, &sandbox.1);
            answers.fetch_add(compared.answers, Ordering::Relaxed);
            refused.fetch_add(compared.refused, Ordering::Relaxed);
            let report = |difference| {
                format!(
                    "{SEED}={seed} {CASES}=1: {}\n  {difference}",
                    fixture.description
                )
            };
            found
                .lock()
                .unwrap()
                .extend(compared.differences.into_iter().map(report));
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism()
            .map_or(2, usize::from)
            .min(8);
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let made = next.load(Ordering::Relaxed);
    let (answers, refused) = (
        answers.load(Ordering::Relaxed),
        refused.load(Ordering::Relaxed),
    );
    println!(
        "{answers} answers in about {made} cases from seed {first}; {refused} commands refused"
    );
    let found = found.into_inner().unwrap();
    let shown: Vec<&String> = found.iter().take(SHOWN_MAX).collect();
    assert!(found.is_empty(), "{} differences: {shown:#?}", found.len());
}
