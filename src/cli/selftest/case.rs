//! Owns the cases of the self test: attacks that must come to nothing, and ordinary work that must
//! go through. They are data, built into the program.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::permissions::grant::Phase;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::sandbox::ENFORCING;

/// The lists of cases, each of one subject.
const LISTS: &[&str] = &[
    include_str!("cases/files.yaml"),
    include_str!("cases/commands.yaml"),
    include_str!("cases/outside.yaml"),
    include_str!("cases/handles.yaml"),
    include_str!("cases/protected.yaml"),
    include_str!("cases/metadata.yaml"),
    include_str!("cases/processes.yaml"),
    include_str!("cases/kernel.yaml"),
    include_str!("cases/network.yaml"),
    include_str!("cases/environment.yaml"),
    include_str!("cases/races.yaml"),
    include_str!("cases/limits.yaml"),
    include_str!("cases/everyday.yaml"),
    include_str!("cases/work.yaml"),
    include_str!("cases/delivery.yaml"),
];

/// The tool that runs commands.
const COMMAND: &str = "execute_command";
/// How long a call may take that says nothing about it, in seconds. Machines are slow and busy.
const SECONDS_MAX: u64 = 60;

/// What has to become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExpectedOutcome {
    /// It does no harm, whether it is refused or comes to nothing.
    Held,
    /// It does what it is for.
    Works,
}

/// Who can show that an attack does harm where nothing holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlUser {
    /// Every user.
    #[default]
    Anyone,
    /// The superuser.
    Root,
    /// Nobody on every machine, or not without harm to it.
    Nobody,
}

/// One call and what has to become of it. In `args`, `command`, `grants` and `env` every `$ROOT`
/// stands for the case's directory.
#[derive(Clone, Debug)]
pub struct SelftestCase {
    /// What it is called; no other case has this name.
    pub id: String,
    /// What it belongs to.
    pub class: String,
    /// What is tried.
    pub why: String,
    /// What has to become of it.
    pub expect: ExpectedOutcome,
    /// The phase that the agent calls in.
    pub phase: Phase,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
    /// What bash does before the call, after the common ground is laid.
    pub setup: String,
    /// What bash finds true after the call; `$RESULT` is a file of what the agent was told.
    pub holds: String,
    /// What is the same after the call, relative to the case's directory.
    pub unchanged: Vec<String>,
    /// Programs without which it says nothing, on the machine and in a container.
    pub needs: Vec<String>,
    /// The tiers that promise it.
    pub tiers: Vec<SandboxLevel>,
    /// Why a container does not promise it, although tier B does.
    pub not_in_containers: Option<String>,
    /// What massgen finds in its environment, beside what every case has.
    pub env: BTreeMap<String, String>,
    /// How long the call may take, in seconds.
    pub seconds: u64,
    /// Who can show that it does harm where nothing holds it.
    pub control: ControlUser,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseList {
    class: String,
    expect: ExpectedOutcome,
    #[serde(default)]
    phase: Option<Phase>,
    cases: Vec<CaseEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseEntry {
    id: String,
    why: String,
    phase: Option<Phase>,
    expect: Option<ExpectedOutcome>,
    /// A call of `execute_command`; otherwise `tool` and `args` say what is called.
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
    tiers: Option<Vec<SandboxLevel>>,
    not_in_containers: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    seconds: Option<u64>,
    #[serde(default)]
    control: ControlUser,
}

/// All cases.
///
/// # Errors
/// Their lists are damaged, which is a bug.
pub fn all_cases() -> Result<Vec<SelftestCase>> {
    let mut cases = Vec::new();
    for text in LISTS {
        let list: CaseList = serde_yaml::from_str(text)
            .map_err(|error| Error::bug("a list of cases is damaged").with_source(error))?;
        let (class, expect, phase) = (&list.class, list.expect, list.phase);
        let case = |listed: CaseEntry| listed.into_case(class, expect, phase);
        cases.extend(list.cases.into_iter().map(case));
    }
    Ok(cases)
}

/// What no attack may change in this phase, unless it says more.
fn protected_files(phase: Phase) -> &'static [&'static str] {
    match phase {
        Phase::Coordination => &["outside", "home", "other", "ro", "rw"],
        Phase::Final => &[
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
        let mut seconds = self.seconds.unwrap_or(SECONDS_MAX);
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
                (COMMAND.to_owned(), args)
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
            why: self.why,
            expect,
            phase,
            tool,
            args,
            setup: self.setup,
            holds: self.holds,
            unchanged,
            needs: self.needs,
            tiers: self.tiers.unwrap_or_else(|| ENFORCING.to_vec()),
            not_in_containers: self.not_in_containers,
            env: self.env,
            seconds,
            control: self.control,
        }
    }
}
