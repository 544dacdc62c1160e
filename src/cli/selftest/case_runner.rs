//! Runs one case: prepares its directory, calls massgen as an agent would, and checks the effects
//! with bash outside of every sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cli::selftest::case::{ExpectedOutcome, SelftestCase};
use crate::error::Result;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::{ExecutionIsolation, SandboxLevel};
use crate::text::single_line;
use crate::world::diagnostics::script_runner::{ScriptOutcome, ScriptRunner, find_program};

/// Directories in which programs are looked up: those of the system, the same on every machine.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Environment of massgen during each call; none of the canaries may leak.
const MASSGEN_ENV: &[(&str, &str)] = &[
    ("PATH", PATH),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("HOME", "$ROOT/home"),
    ("TMPDIR", "$ROOT/tmp"),
    ("OPENAI_API_KEY", "CANARY-APIKEY"),
    ("AWS_SECRET_ACCESS_KEY", "CANARY-AWS"),
    ("GITHUB_TOKEN", "CANARY-TOKEN"),
];
/// Prefix of the directories of cases.
const DIRECTORY_PREFIX: &str = "massgen-selftest-";
/// Timeout of the setup script and of the check script.
const SCRIPT_TIME_MAX: Duration = Duration::from_mins(1);
/// Maximum size of a call's reply, in bytes.
const REPLY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum length of output that is quoted in a failure, in characters.
const QUOTED_CHARS_MAX: usize = 300;

/// The shell function `state`, for the setup and the check.
const STATE_FUNCTION: &str = include_str!("state.sh");
/// The setup that all cases have.
const SETUP_SCRIPT: &str = include_str!("setup.sh");
/// Opens files before massgen starts: a command must not inherit them.
const CALL_SCRIPT: &str = r#"exec 7< outside 8>> outside/victim.txt 9< outside/secret.txt
cd ws && exec "$0" "$@" < ../.call > ../.answer 2> ../.errors"#;
/// Fails if the agent received a secret, or a sign that a forbidden action worked.
const LEAK_CHECK: &str =
    r#"if grep -aqE 'CANARY-|ESCAPED' "$RESULT"; then echo leaked: "$(cat "$RESULT")"; exit 1; fi"#;

/// Verdict about a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseVerdict {
    /// An attack failed.
    Held,
    /// Ordinary work succeeded.
    Worked,
    /// It was not run, for this reason.
    Skipped(String),
    /// An attack did harm, or ordinary work did not succeed.
    Failed(String),
}

/// Settings for running cases.
#[derive(Clone, Debug)]
pub struct CaseRunner {
    /// The massgen executable, or a replacement.
    pub executable: AbsPath,
    /// Isolation of commands.
    pub isolation: ExecutionIsolation,
    /// Environment of massgen that does not depend on the case; it takes precedence.
    pub env: BTreeMap<String, String>,
    /// Programs that commands do not find although they are on this machine.
    pub missing_programs: BTreeSet<String>,
    /// Parent of the cases' directories.
    pub parent: AbsPath,
}

/// Output of `massgen tool`.
#[derive(Deserialize)]
struct ToolReply {
    ok: bool,
    output: String,
}

impl CaseRunner {
    /// Runs a case, or interrupts it when `stop` is cancelled. Removes its directory afterwards.
    ///
    /// # Errors
    /// The machine cannot run a case: no directory can be created, or bash is missing.
    pub async fn run(&self, case: &SelftestCase, stop: &CancellationToken) -> Result<CaseVerdict> {
        if let Some(reason) = self.skip_reason(case) {
            return Ok(CaseVerdict::Skipped(reason));
        }
        if stop.is_cancelled() {
            return Ok(CaseVerdict::Skipped("it was interrupted".to_owned()));
        }
        let is_missing = |name: &&String| {
            self.missing_programs.contains(*name) || find_program(name, PATH).is_none()
        };
        if let Some(missing_name) = case.needs.iter().find(is_missing) {
            return Ok(CaseVerdict::Skipped(format!(
                "`{missing_name}` is not installed"
            )));
        }
        let env = MASSGEN_ENV
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let runner = ScriptRunner::new(&self.parent, DIRECTORY_PREFIX, &env.collect())?;
        let verdict = tokio::select! {
            verdict = self.run_in_directory(&runner, case) => verdict,
            () = stop.cancelled() => Ok(CaseVerdict::Skipped("it was interrupted".to_owned())),
        };
        runner.clean_up().await?;
        verdict
    }

    /// Returns why the isolation does not promise this case.
    fn skip_reason(&self, case: &SelftestCase) -> Option<String> {
        match self.isolation.level() {
            Some(SandboxLevel::Off) => None,
            Some(level) if case.levels.contains(&level) => None,
            Some(level) => Some(format!("sandbox level `{level}` does not promise it")),
            None if !case.levels.contains(&SandboxLevel::Namespaces) => {
                Some("a container does not promise it".to_owned())
            }
            None => case.not_in_containers.clone(),
        }
    }

    async fn run_in_directory(
        &self,
        runner: &ScriptRunner,
        case: &SelftestCase,
    ) -> Result<CaseVerdict> {
        let unchanged = case.unchanged.join(" ");
        let setup_script = format!(
            "exec > .report 2>&1\n{STATE_FUNCTION}\nset -e\n{SETUP_SCRIPT}\n{}\nstate {unchanged} > .before",
            case.setup
        );
        if runner
            .run(&setup_script, &["setup"], &BTreeMap::new(), SCRIPT_TIME_MAX)
            .await?
            != ScriptOutcome::Succeeded
        {
            let output = runner.read_file(".report", REPLY_BYTES_MAX)?;
            return Ok(CaseVerdict::Skipped(format!(
                "the setup failed: {}",
                quoted_text(&output)
            )));
        }
        let (call_outcome, reply) = self.run_tool(runner, case).await?;
        let failed_verdict = |reason: &str, output: &str| {
            Ok(CaseVerdict::Failed(format!(
                "{reason}: {}",
                quoted_text(output)
            )))
        };
        let Some(reply) = reply else {
            let errors = runner.read_file(".errors", REPLY_BYTES_MAX)?;
            return match call_outcome {
                ScriptOutcome::TimedOut => failed_verdict("it took too long", &errors),
                ScriptOutcome::Succeeded | ScriptOutcome::Failed => {
                    failed_verdict("the call was interrupted", &errors)
                }
            };
        };
        runner.write_file(".result", &result_text(&reply.output))?;
        let leak_check = match case.expect {
            ExpectedOutcome::Held => LEAK_CHECK,
            ExpectedOutcome::Works => "",
        };
        let check_script = format!(
            "exec > .report 2>&1\n{STATE_FUNCTION}\n{leak_check}\n\
             state {unchanged} | diff .before - || exit 1\n{}\n",
            case.holds
        );
        let variables = BTreeMap::from([
            ("RESULT".to_owned(), "$ROOT/.result".to_owned()),
            ("ANSWER".to_owned(), "$ROOT/.answer".to_owned()),
            ("MASSGEN".to_owned(), self.executable.to_string()),
        ]);
        let outcome = runner
            .run(&check_script, &["check"], &variables, SCRIPT_TIME_MAX)
            .await?;
        let report = runner.read_file(".report", REPLY_BYTES_MAX)?;
        match (case.expect, outcome) {
            (ExpectedOutcome::Works, _) if !reply.ok => {
                failed_verdict("it was refused or failed", &reply.output)
            }
            (_, ScriptOutcome::Succeeded) => Ok(match case.expect {
                ExpectedOutcome::Held => CaseVerdict::Held,
                ExpectedOutcome::Works => CaseVerdict::Worked,
            }),
            (ExpectedOutcome::Held, _) => {
                failed_verdict("it did harm", &format!("{report} {}", reply.output))
            }
            (ExpectedOutcome::Works, _) => {
                failed_verdict("it had no effect", &format!("{report} {}", reply.output))
            }
        }
    }

    /// Calls massgen with open files and canaries, and reads its reply.
    async fn run_tool(
        &self,
        runner: &ScriptRunner,
        case: &SelftestCase,
    ) -> Result<(ScriptOutcome, Option<ToolReply>)> {
        runner.write_file(".call", &runner.expand(&case.args.to_string()))?;
        runner.write_file(".grants", &grants_json(runner))?;
        let grants = runner.path().join(".grants").to_string();
        let phase = case.phase.to_string();
        let executable = self.executable.to_string();
        let (switch, value) = match &self.isolation {
            ExecutionIsolation::Sandbox { level, .. } => ("--sandbox", level.to_string()),
            ExecutionIsolation::Container { image } => ("--docker", image.clone()),
        };
        let words = [
            executable.as_str(),
            "tool",
            &case.tool,
            "--args",
            "-",
            "--grants",
            &grants,
            "--phase",
            &phase,
            switch,
            &value,
        ];
        let mut env = case.env.clone();
        env.extend(self.env.clone());
        let time_max = Duration::from_secs(case.seconds);
        let outcome = runner.run(CALL_SCRIPT, &words, &env, time_max).await?;
        let reply = runner.read_file(".answer", REPLY_BYTES_MAX)?;
        Ok((outcome, serde_json::from_str(&reply).ok()))
    }
}

fn grants_json(runner: &ScriptRunner) -> String {
    let path = |name: &str| runner.path().join(name).to_string();
    json!({
        "workspace": path("ws"),
        "context_paths": [
            { "path": path("ro"), "permission": "read" },
            { "path": path("rw"), "permission": "write" },
        ],
    })
    .to_string()
}

/// Returns the output of a call without the command line that the agent wrote.
fn result_text(output: &str) -> String {
    match serde_json::from_str::<Value>(output) {
        Ok(Value::Object(mut reply)) if reply.contains_key("stdout") => {
            reply.shift_remove("command");
            let texts = reply.values().map(|value| match value.as_str() {
                Some(text) => text.to_owned(),
                None => value.to_string(),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Ok(_) | Err(_) => output.to_owned(),
    }
}

fn quoted_text(text: &str) -> String {
    single_line(text, QUOTED_CHARS_MAX)
}
