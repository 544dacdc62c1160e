//! Attacks on the file tools and ordinary calls of them, each against a fresh disk: those of the
//! self-test, and those of `cases/attacks.jsonl`, one per line, which need more than one call can
//! do.
//!
//! `setup` runs in bash before the grants are opened (after that with `after_open`), `holds` after
//! the call, with the answer in the file `$RESULT`; what is listed under `unchanged` must not
//! change. An `exchange` names two paths that are exchanged continuously while the call is
//! repeated.

use std::path::Path;
use std::process::Command;

use massgen::cli::selftest::case::{self as shipped, ExpectedOutcome};
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::world::access::gate::Gate;
use massgen::world::access::policy::GatePolicy;
use massgen::world::exec;
use massgen::world::exec::tool_result::ActionOutcome;
use serde::Deserialize;
use serde_json::Value;

use crate::disk::{Disk, NameExchange};

const CASES: &str = include_str!("../cases/attacks.jsonl");

/// With fewer cases, the file is damaged.
const CASES_MIN: usize = 90;

/// Class of the self-test's cases that are calls of file tools.
const FILES: &str = "files";

/// Number of calls during an exchange.
const RACED_CALLS: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[serde(rename = "why")]
    description: String,
    phase: String,
    tool: String,
    args: Value,
    expect: String,
    #[serde(default)]
    setup: String,
    holds: Option<String>,
    #[serde(default)]
    unchanged: Vec<String>,
    grants: Option<Vec<CaseGrant>>,
    #[serde(default)]
    after_open: bool,
    exchange: Option<(String, String)>,
}

impl From<shipped::SelftestCase> for Case {
    fn from(case: shipped::SelftestCase) -> Self {
        let expect = match case.expect {
            ExpectedOutcome::Held => "deny",
            ExpectedOutcome::Works => "allow",
        };
        Self {
            id: case.id,
            description: case.description,
            phase: case.phase.to_string(),
            tool: case.tool,
            args: case.args,
            expect: expect.to_owned(),
            setup: case.setup,
            holds: Some(case.holds),
            unchanged: case.unchanged,
            grants: None,
            after_open: false,
            exchange: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseGrant {
    path: String,
    perm: String,
    kind: String,
}

#[test]
fn attacks_change_nothing_and_ordinary_calls_work() {
    let mut failures = Vec::new();
    let mut cases = 0;
    let own = CASES
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let shipped = shipped::all_cases()
        .unwrap()
        .into_iter()
        .filter(|case| case.class == FILES)
        .map(Case::from);
    for case in own.chain(shipped) {
        cases += 1;
        if let Err(failure) = run(&case) {
            failures.push(format!("{} ({}): {failure}", case.id, case.description));
        }
    }
    assert!(cases >= CASES_MIN, "only {cases} cases");
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn run(case: &Case) -> Result<(), String> {
    let disk = Disk::new();
    if !case.after_open {
        run_bash(&disk, &case.setup)?;
    }
    let gate = gate(&disk, case);
    if case.after_open {
        run_bash(&disk, &case.setup)?;
    }
    let before: Vec<_> = case.unchanged.iter().map(|path| disk.state(path)).collect();
    let (outcome, answer) = match &case.exchange {
        Some((one, other)) => {
            let _exchange = NameExchange::of(
                disk.expand_placeholders(one).into(),
                disk.expand_placeholders(other).into(),
            );
            for _ in 1..RACED_CALLS {
                disk.file("ws/a", "a");
                call(&disk, &gate, case);
            }
            call(&disk, &gate, case)
        }
        None => call(&disk, &gate, case),
    };
    std::fs::write(disk.path(".result"), &answer).unwrap();
    let after: Vec<_> = case.unchanged.iter().map(|path| disk.state(path)).collect();
    if before != after {
        return Err(format!("{:?} changed: {answer}", case.unchanged));
    }
    if let Some(holds) = &case.holds {
        run_bash(&disk, holds).map_err(|_| format!("`{holds}` does not hold: {answer}"))?;
    }
    if case.expect == "allow" && outcome != Some(ActionOutcome::Done) {
        return Err(answer);
    }
    Ok(())
}

/// Returns the outcome of the call, if it was allowed, and what the model reads.
fn call(disk: &Disk, gate: &Gate, case: &Case) -> (Option<ActionOutcome>, String) {
    let arguments = fill_paths(disk, &case.args).to_string();
    let call = match parse(&case.tool, &arguments, &ToolCatalogue::default()) {
        Ok(call) => call,
        Err(error) => return (None, error.to_string()),
    };
    match gate.check(call) {
        Ok(permitted) => {
            let observation = exec::run(permitted);
            (Some(observation.outcome), observation.content)
        }
        Err(denial) => (None, denial.to_string()),
    }
}

fn fill_paths(disk: &Disk, value: &Value) -> Value {
    match value {
        Value::String(text) => disk.expand_placeholders(text).into(),
        Value::Array(values) => values.iter().map(|value| fill_paths(disk, value)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), fill_paths(disk, value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn gate(disk: &Disk, case: &Case) -> Gate {
    let phase = match case.phase.as_str() {
        "final" => Phase::Final,
        _ => Phase::Coordination,
    };
    let grants: Vec<Grant> = match &case.grants {
        None => disk.grants(),
        Some(grants) => grants.iter().map(|grant| grant.to_grant(disk)).collect(),
    };
    let workspace = grants
        .iter()
        .find(|grant| grant.kind == GrantKind::Workspace)
        .unwrap();
    let policy = GatePolicy::minimal(workspace.root.clone());
    Gate::open(PathPermissionManager::new(grants, phase), policy).unwrap()
}

impl CaseGrant {
    fn to_grant(&self, disk: &Disk) -> Grant {
        let root = disk.real(Path::new(&disk.expand_placeholders(&self.path)));
        let kind = match self.kind.as_str() {
            "workspace" => GrantKind::Workspace,
            _ => GrantKind::Context,
        };
        let permission = match self.perm.as_str() {
            "write" => Permission::Write,
            _ => Permission::Read,
        };
        Grant::tree(root, kind, permission)
    }
}

fn run_bash(disk: &Disk, script: &str) -> Result<(), String> {
    let root = disk.path("");
    let output = Command::new("bash")
        .args(["-e", "-c", script])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("ROOT", disk.expand_placeholders("$ROOT"))
        .env("RESULT", disk.path(".result"))
        .current_dir(root)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
