//! Cases of the self-test: attacks that must fail, and ordinary work that must succeed. They are
//! data, built into the program.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::embedded_file::{EmbeddedFile, embedded_file};
use crate::config::typed_yaml::read_typed;
use crate::error::{Error, Result};
use crate::permissions::grant::Phase;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sandbox::ENFORCING_LEVELS;

/// The lists of cases, each about one subject.
const CASE_LISTS: &[EmbeddedFile] = &[
    embedded_file!("cli/selftest/cases/files.yaml"),
    embedded_file!("cli/selftest/cases/commands.yaml"),
    embedded_file!("cli/selftest/cases/outside.yaml"),
    embedded_file!("cli/selftest/cases/handles.yaml"),
    embedded_file!("cli/selftest/cases/protected.yaml"),
    embedded_file!("cli/selftest/cases/metadata.yaml"),
    embedded_file!("cli/selftest/cases/processes.yaml"),
    embedded_file!("cli/selftest/cases/kernel.yaml"),
    embedded_file!("cli/selftest/cases/network.yaml"),
    embedded_file!("cli/selftest/cases/environment.yaml"),
    embedded_file!("cli/selftest/cases/races.yaml"),
    embedded_file!("cli/selftest/cases/limits.yaml"),
    embedded_file!("cli/selftest/cases/everyday.yaml"),
    embedded_file!("cli/selftest/cases/work.yaml"),
    embedded_file!("cli/selftest/cases/delivery.yaml"),
];

/// The tool that runs commands.
const COMMAND_TOOL: &str = "execute_command";
/// Default timeout of a call, in seconds. Machines are slow and busy.
const SECONDS_DEFAULT: u64 = 60;

/// Expected outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExpectedOutcome {
    /// It does no harm: it is refused or has no effect.
    Held,
    /// It does what it is meant to do.
    Works,
}

/// The user as whom an attack demonstrably does harm without a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlUser {
    /// Any user.
    #[default]
    Anyone,
    /// The superuser.
    Root,
    /// No user: it does not work on every machine, or would damage the machine.
    Nobody,
}

/// One call and its expected outcome. In `args`, `command` and `env`, `$ROOT` stands for the
/// case's directory.
#[derive(Clone, Debug)]
pub struct SelftestCase {
    /// Unique name.
    pub id: String,
    /// What the case is about, such as `symlinks`: the report counts the cases of each class.
    pub class: String,
    /// Description of the test.
    pub description: String,
    /// Expected outcome.
    pub expect: ExpectedOutcome,
    /// Phase in which the agent calls.
    pub phase: Phase,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
    /// Bash script that runs before the call, after the common setup.
    pub setup: String,
    /// Bash script that must succeed after the call; `$RESULT` is a file with the output that the
    /// agent received.
    pub holds: String,
    /// Files that must not change, relative to the case's directory.
    pub unchanged: Vec<String>,
    /// Programs without which the case is meaningless, on the machine and in a container.
    pub needs: Vec<String>,
    /// The levels that promise it.
    pub levels: Vec<SandboxLevel>,
    /// Why a container does not promise it, although level `namespaces` does.
    pub not_in_containers: Option<String>,
    /// Additional environment of massgen.
    pub env: BTreeMap<String, String>,
    /// Timeout of the call, in seconds.
    pub seconds: u64,
    /// The user as whom it demonstrably does harm without a sandbox.
    pub control: ControlUser,
}

/// A file of cases of one class.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseList {
    class: String,
    expect: ExpectedOutcome,
    phase: Option<Phase>,
    cases: Vec<CaseEntry>,
}

/// A case as its file has it; what it leaves out is that of its list, or a default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseEntry {
    id: String,
    #[serde(rename = "why")]
    description: String,
    phase: Option<Phase>,
    expect: Option<ExpectedOutcome>,
    /// A call of `execute_command`; otherwise `tool` and `args` describe the call.
    command: Option<String>,
    timeout: Option<u64>,
    work_dir: Option<String>,
    tool: Option<String>,
    args: Option<Value>,
    #[serde(default)]
    setup: String,
    #[serde(default)]
    holds: String,
    unchanged: Option<Vec<String>>,
    #[serde(default)]
    needs: Vec<String>,
    levels: Option<Vec<SandboxLevel>>,
    not_in_containers: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    seconds: Option<u64>,
    #[serde(default)]
    control: ControlUser,
}

/// Parses all cases.
///
/// # Errors
/// The lists are damaged, which is a bug.
pub fn all_cases() -> Result<Vec<SelftestCase>> {
    let mut cases = Vec::new();
    for file in CASE_LISTS {
        let list: CaseList = read_typed(&file.text()?)
            .map_err(|error| Error::bug("invalid list of cases").with_source(error))?;
        let (class, expect, phase) = (&list.class, list.expect, list.phase);
        let case = |entry: CaseEntry| entry.into_case(class, expect, phase);
        cases.extend(list.cases.into_iter().map(case));
    }
    Ok(cases)
}

/// Returns the files that no attack may change in this phase, unless the case lists others.
fn protected_files(phase: Phase) -> &'static [&'static str] {
    match phase {
        Phase::Coordination => &["outside", "home", "other", "ro", "rw"],
        Phase::Attempt | Phase::Final => &[
            "outside",
            "home",
            "other",
            "ro",
            "rw/.git",
            "rw/.env",
            "rw/.massgen",
        ],
    }
}

impl CaseEntry {
    fn into_case(self, class: &str, expect: ExpectedOutcome, phase: Option<Phase>) -> SelftestCase {
        let phase = self.phase.or(phase).unwrap_or(Phase::Coordination);
        let expect = self.expect.unwrap_or(expect);
        let mut seconds = self.seconds.unwrap_or(SECONDS_DEFAULT);
        let (tool, args) = match self.command {
            None => (self.tool.unwrap_or_default(), self.args.unwrap_or_default()),
            Some(command) => {
                seconds = seconds.saturating_add(self.timeout.unwrap_or_default());
                let mut args = json!({ "command": command });
                if let Some(args) = args.as_object_mut() {
                    args.extend(
                        self.timeout
                            .map(|value| ("timeout".to_owned(), value.into())),
                    );
                    args.extend(
                        self.work_dir
                            .map(|value| ("work_dir".to_owned(), value.into())),
                    );
                }
                (COMMAND_TOOL.to_owned(), args)
            }
        };
        let unchanged = self.unchanged.unwrap_or_else(|| match expect {
            ExpectedOutcome::Held => protected_files(phase)
                .iter()
                .map(ToString::to_string)
                .collect(),
            ExpectedOutcome::Works => Vec::new(),
        });
        SelftestCase {
            id: self.id,
            class: class.to_owned(),
            description: self.description,
            expect,
            phase,
            tool,
            args,
            setup: self.setup,
            holds: self.holds,
            unchanged,
            needs: self.needs,
            levels: self.levels.unwrap_or_else(|| ENFORCING_LEVELS.to_vec()),
            not_in_containers: self.not_in_containers,
            env: self.env,
            seconds,
            control: self.control,
        }
    }
}
