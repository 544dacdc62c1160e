//! A disk on which programs run like those of an agent: in its sandbox, with its package, and with
//! each call through its gate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use massgen::code_mode::language::{ProgramDialect, PythonLibraries};
use massgen::config::ToolFilter;
use massgen::config::command_line::{CodeModeConfig, CommandBounds};
use massgen::dotenv::ConfigVariables;
use massgen::path::{AbsPath, RealPath};
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::sandbox_policy::ResourceLimits;
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::world::access::gate::Gate;
use massgen::world::access::policy::{GatePolicy, ParentDirPolicy};
use massgen::world::access::verdict::Denial;
use massgen::world::exec;
use massgen::world::exec::tool_result::Observation;
use massgen::world::sandbox::Sandbox;
use massgen::world::sandbox::exec_backend::ExecBackend;
use massgen::world::sandbox::exec_environment::agent_directories::AgentDirectories;
use massgen::world::sandbox::exec_environment::{ExecEnvironment, ExecEnvironmentConfig};
use massgen::world::sandbox::program_environment::{ProgramEnvironment, ProgramSafeguards};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::disk::permit;
use crate::mcp_servers::installed_servers;
use crate::project::binary;

/// Python without libraries.
pub(crate) const PYTHON: ProgramDialect = ProgramDialect::Python(PythonLibraries::Standard);
/// Python with pandas.
pub(crate) const PANDAS: ProgramDialect = ProgramDialect::Python(PythonLibraries::Pandas);

/// The Python program that runs others.
const PLAIN_PROGRAMS: &str = include_str!("../cases/programs/plain.py");

/// Must never be seen.
pub(crate) const CANARY: &str = "CANARY-7261";

/// A row of a table in `tests/cases/programs`: the parts of its title, and all lines below.
#[derive(Clone, Debug)]
pub(crate) struct ProgramCase {
    pub(crate) name: String,
    pub(crate) dialect: ProgramDialect,
    pub(crate) rest: Vec<String>,
    pub(crate) text: String,
}

/// Parses the rows of a table.
pub(crate) fn parse_cases(table: &str) -> Vec<ProgramCase> {
    let cases = table
        .split("\n=== ")
        .map(|case| case.trim_start_matches("=== "));
    cases
        .map(|case| {
            let (title, text) = case.split_once('\n').unwrap();
            let mut parts = title.split(" | ").map(str::to_owned);
            ProgramCase {
                name: parts.next().unwrap(),
                dialect: parse_dialect(&parts.next().unwrap()),
                rest: parts.collect(),
                text: format!("{}\n", text.trim_end()),
            }
        })
        .collect()
}

fn parse_dialect(name: &str) -> ProgramDialect {
    match name {
        "python" => PYTHON,
        "pandas" => PANDAS,
        "go" => ProgramDialect::Go,
        _ => panic!("{name}"),
    }
}

/// Returns the virtual environment in which `pandas` is installed.
pub(crate) fn pandas_environment() -> PathBuf {
    Path::new(&installed_servers()).join("tables")
}

/// A disk: `ws` is writable, `ro` is readable, the rest is not open.
pub(crate) struct ProgramFixture {
    root: TempDir,
}

/// A program, and the fixture in which a user runs it.
pub(crate) struct FixtureProgram<'a> {
    pub(crate) fixture: ProgramFixture,
    pub(crate) row: &'a ProgramCase,
}

/// Access of an agent in a fixture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentAccess {
    /// `ws` and `ro`, as with a folder guard.
    Guarded,
    /// All of it.
    Everything,
}

/// Returns the sandbox of this level, if the machine supports it.
pub(crate) fn sandbox_of(choice: SandboxLevelChoice) -> Option<Sandbox> {
    let dir = tempfile::tempdir().unwrap();
    let dir = AbsPath::new(dir.path()).unwrap();
    let executable = AbsPath::new(binary()).unwrap();
    Sandbox::open(choice, &executable, &dir).ok()
}

/// Returns the sandbox of this machine; finding it takes a while.
fn sandbox() -> Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    let open = || {
        let sandbox = sandbox_of(SandboxLevelChoice::Auto).unwrap();
        assert_ne!(
            sandbox.level(),
            SandboxLevel::Unavailable,
            "{:?}",
            sandbox.reasons()
        );
        sandbox
    };
    SANDBOX.get_or_init(open).clone()
}

impl ProgramFixture {
    pub(crate) fn new() -> Self {
        let fixture = Self {
            root: tempfile::tempdir().unwrap(),
        };
        for (path, text) in [
            ("ws/a.txt", "a\n"),
            (
                "ws/data/sales.csv",
                "region,amount\nnorth,10\nsouth,5\nnorth,7\neast,3\n",
            ),
            (
                "ws/data/people.json",
                r#"[{"name": "Ann", "age": 30, "tags": ["a", "b"]}, {"name": "Bob", "age": 25, "tags": ["b"]}]"#,
            ),
            (
                "ws/data/log.txt",
                "2024-01-01 INFO start\n2024-01-02 ERROR disk\n2024-01-03 INFO end\n",
            ),
            ("ro/readme.txt", "ro\n"),
            ("outside/secret.txt", CANARY),
            ("outside/victim.txt", "victim\n"),
            ("ws-other/secret.txt", CANARY),
        ] {
            let path = fixture.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        std::os::unix::fs::symlink("../outside", fixture.path("ws/link")).unwrap();
        for dir in ["home", "room"] {
            fs::create_dir(fixture.path(dir)).unwrap();
        }
        fixture
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }

    /// Replaces the placeholders in `text`.
    pub(crate) fn expand_placeholders(&self, text: &str) -> String {
        let root = self.path("");
        let root = root.to_str().unwrap().trim_end_matches('/');
        text.replace("$OUT", &format!("{root}/outside"))
            .replace("$ROOT", root)
    }

    /// Returns the content of everything that is not the agent's.
    pub(crate) fn state(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut state = BTreeMap::new();
        for dir in ["outside", "ro", "ws-other"] {
            for entry in fs::read_dir(self.path(dir)).unwrap() {
                let path = entry.unwrap().path();
                let content = fs::read(&path).unwrap_or_default();
                state.insert(path, content);
            }
        }
        state
    }

    /// Returns the environment that massgen itself would have: with an active virtual environment
    /// for libraries.
    fn env(&self, dialect: ProgramDialect) -> BTreeMap<String, String> {
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME".to_owned(), self.path("home").display().to_string()),
            ("SECRET_KEY".to_owned(), CANARY.to_owned()),
        ]);
        if dialect == PANDAS {
            let tables = pandas_environment().display().to_string();
            env.insert("PATH".to_owned(), format!("{tables}/bin:/usr/bin:/bin"));
            env.insert("VIRTUAL_ENV".to_owned(), tables);
        }
        env
    }

    /// Returns the program environment of an agent here.
    pub(crate) fn programs(
        &self,
        dialect: ProgramDialect,
        layers: ProgramSafeguards,
    ) -> ProgramEnvironment {
        self.programs_in(sandbox(), dialect, layers)
    }

    /// The same in this sandbox.
    pub(crate) fn programs_in(
        &self,
        sandbox: Sandbox,
        dialect: ProgramDialect,
        layers: ProgramSafeguards,
    ) -> ProgramEnvironment {
        let config = CodeModeConfig {
            dialect,
            sandbox: SandboxLevelChoice::Auto,
            limits: ResourceLimits::default(),
            bounds: CommandBounds::default(),
        };
        let held = ExecEnvironment::new(ExecEnvironmentConfig {
            config: &config.sandbox_config(),
            backend: ExecBackend::Sandbox(sandbox),
            executable: &AbsPath::new(binary()).unwrap(),
            directories: AgentDirectories::prepare(&AbsPath::new(self.path("room")).unwrap())
                .unwrap(),
            env: &self.env(dialect),
            config_env: config
                .sandbox_config()
                .added_env(&ConfigVariables::default()),
            home: AbsPath::new(self.path("home")).as_ref(),
        });
        ProgramEnvironment::with_safeguards(dialect, ToolFilter::default(), held, layers)
    }

    /// Opens the gate of an agent here.
    pub(crate) fn gate(&self, programs: ProgramEnvironment, access: AgentAccess) -> Gate {
        let real = |path: &str| RealPath::vouch(self.path(path));
        let grants = match access {
            AgentAccess::Guarded => vec![
                Grant::tree(real("ws"), GrantKind::Workspace, Permission::Write),
                Grant::tree(real("ro"), GrantKind::Context, Permission::Read),
            ],
            AgentAccess::Everything => {
                let root = RealPath::vouch(self.root.path().canonicalize().unwrap());
                vec![Grant::tree(root, GrantKind::Workspace, Permission::Write)]
            }
        };
        let policy = GatePolicy {
            parent_dirs: match access {
                AgentAccess::Guarded => ParentDirPolicy::Refused,
                AgentAccess::Everything => ParentDirPolicy::Followed,
            },
            programs: Some(programs),
            ..GatePolicy::minimal(real("ws"))
        };
        let manager = PathPermissionManager::new(grants, Phase::Final);
        Gate::open(manager, policy).unwrap()
    }

    /// Runs a program as an agent here would.
    pub(crate) fn run(
        &self,
        dialect: ProgramDialect,
        layers: ProgramSafeguards,
        access: AgentAccess,
        program: &str,
    ) -> Result<Observation, Denial> {
        let gate = self.gate(self.programs(dialect, layers), access);
        run_at(&gate, &self.expand_placeholders(program))
    }

    /// Runs a Go program as a user would, without a sandbox; returns its output.
    fn run_go_plainly(&self, program: &str) -> String {
        fs::write(
            self.path("home/plain.go"),
            self.expand_placeholders(program),
        )
        .unwrap();
        let cache = std::env::temp_dir().join("massgen-test-go-cache");
        let ran = Command::new("go")
            .args(["run", "plain.go"])
            .current_dir(self.path("home"))
            .env_clear()
            .envs(self.env(ProgramDialect::Go))
            .env("GOCACHE", cache)
            .env("GO111MODULE", "off")
            .output()
            .unwrap();
        format!(
            "{}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        )
    }
}

/// Runs programs as a user would, without a sandbox, each in its fixture; returns their outputs.
pub(crate) fn run_plainly(dialect: ProgramDialect, programs: &[FixtureProgram<'_>]) -> Vec<String> {
    match dialect {
        ProgramDialect::Python(_) => run_python_plainly(dialect, programs),
        ProgramDialect::Go => {
            let run =
                |program: &FixtureProgram<'_>| program.fixture.run_go_plainly(&program.row.text);
            programs.iter().map(run).collect()
        }
    }
}

/// The same for programs in Python: one process starts them all.
fn run_python_plainly(dialect: ProgramDialect, programs: &[FixtureProgram<'_>]) -> Vec<String> {
    let libraries: &[&str] = if dialect == PANDAS {
        &["numpy", "pandas"]
    } else {
        &[]
    };
    let listed = programs.iter().map(|program| {
        let (text, env) = (
            program.fixture.expand_placeholders(&program.row.text),
            program.fixture.env(dialect),
        );
        json!({"text": text, "dir": program.fixture.path("home"), "env": env})
    });
    let listed: Vec<Value> = listed.collect();
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("programs.json");
    let work = json!({"libraries": libraries, "programs": listed});
    fs::write(&list, work.to_string()).unwrap();
    let status = Command::new("python3")
        .args(["-c", PLAIN_PROGRAMS])
        .arg(&list)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .env_clear()
        .envs(programs[0].fixture.env(dialect))
        .status();
    assert!(status.unwrap().success());
    let outputs = programs.iter().map(|program| {
        let output = fs::read(program.fixture.path("home/plain.out"))
            .unwrap_or_else(|_| panic!("{} was not run", program.row.name));
        String::from_utf8_lossy(&output).into_owned()
    });
    outputs.collect()
}

/// Runs a program through a gate.
pub(crate) fn run_at(gate: &Gate, program: &str) -> Result<Observation, Denial> {
    let arguments = json!({"code": program}).to_string();
    let call = parse("execute_code", &arguments, &ToolCatalogue::default()).unwrap();
    permit(gate, call).map(exec::run)
}

/// Returns one part of what a model reads about a program.
pub(crate) fn report_field(observation: &Observation, part: &str) -> Value {
    let report: Value = serde_json::from_str(&observation.content)
        .unwrap_or_else(|_| panic!("{}", observation.content));
    report[part].clone()
}
