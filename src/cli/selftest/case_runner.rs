//! Owns the trial of one case: the ground is laid, massgen is called as an agent would call it, and
//! bash looks at what came of it, outside of every sandbox.

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

/// The directories in which programs are found: those of the system, the same on every machine.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What massgen has in its environment during each call; none of the canaries may come out.
const ENV: &[(&str, &str)] = &[
    ("PATH", PATH),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("HOME", "$ROOT/home"),
    ("TMPDIR", "$ROOT/tmp"),
    ("OPENAI_API_KEY", "CANARY-APIKEY"),
    ("AWS_SECRET_ACCESS_KEY", "CANARY-AWS"),
    ("GITHUB_TOKEN", "CANARY-TOKEN"),
];
/// How the directory of a case is called.
const PREFIX: &str = "massgen-selftest-";
/// How long the laying of the ground and the look afterwards may take.
const SCRIPT_TIME_MAX: Duration = Duration::from_mins(1);
/// The longest answer of a call that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much of what a script or a call said is told of a failure, in characters.
const TOLD_CHARS_MAX: usize = 300;

/// What is done before the call, and what is found out after it.
const FUNCTIONS: &str = include_str!("state.sh");
const LAY: &str = include_str!("lay.sh");
/// Whoever starts massgen may have files open: none may come through.
const CALL: &str = r#"exec 7< outside 8>> outside/victim.txt 9< outside/secret.txt
cd ws && exec "$0" "$@" < ../.call > ../.answer 2> ../.errors"#;
/// The agent was told no secret, nor that something worked which must not.
const NOTHING_TOLD: &str =
    r#"if grep -aqE 'CANARY-|ESCAPED' "$RESULT"; then echo told: "$(cat "$RESULT")"; exit 1; fi"#;

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseVerdict {
    /// An attack came to nothing.
    Held,
    /// Ordinary work went through.
    Worked,
    /// It was not tried, for this reason.
    Skipped(String),
    /// An attack did harm, or ordinary work did not go through.
    Failed(String),
}

/// What cases are tried with.
#[derive(Clone, Debug)]
pub struct CaseRunner {
    /// massgen, or what is called in its place.
    pub executable: AbsPath,
    /// What holds commands.
    pub enclosure: ExecutionIsolation,
    /// What of massgen's environment does not depend on the case, last of all.
    pub env: BTreeMap<String, String>,
    /// Programs that commands do not find, although they are on this machine.
    pub missing: BTreeSet<String>,
    /// Where the directories of the cases are made.
    pub place: AbsPath,
}

/// What `massgen tool` prints.
#[derive(Deserialize)]
struct ToolReply {
    ok: bool,
    output: String,
}

impl CaseRunner {
    /// Tries a case, or breaks off when `stop` says so. Nothing of it is left.
    ///
    /// # Errors
    /// The machine does not let a case be tried: no directory, no bash.
    pub async fn run(&self, case: &SelftestCase, stop: &CancellationToken) -> Result<CaseVerdict> {
        if let Some(why) = self.skip_reason(case) {
            return Ok(CaseVerdict::Skipped(why));
        }
        if stop.is_cancelled() {
            return Ok(CaseVerdict::Skipped("it was interrupted".to_owned()));
        }
        let missing =
            |name: &&String| self.missing.contains(*name) || find_program(name, PATH).is_none();
        if let Some(missing) = case.needs.iter().find(missing) {
            return Ok(CaseVerdict::Skipped(format!("there is no `{missing}`")));
        }
        let env = ENV
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let ground = ScriptRunner::new(&self.place, PREFIX, &env.collect())?;
        let verdict = tokio::select! {
            verdict = self.run_in(&ground, case) => verdict,
            () = stop.cancelled() => Ok(CaseVerdict::Skipped("it was interrupted".to_owned())),
        };
        ground.clear().await?;
        verdict
    }

    /// Why what holds commands does not promise a case.
    fn skip_reason(&self, case: &SelftestCase) -> Option<String> {
        match &self.enclosure {
            ExecutionIsolation::Sandbox {
                tier: SandboxLevel::Off,
                ..
            } => None,
            ExecutionIsolation::Sandbox { tier, .. } if case.tiers.contains(tier) => None,
            ExecutionIsolation::Sandbox { tier, .. } => {
                Some(format!("tier {tier} does not promise it"))
            }
            ExecutionIsolation::Container { .. } if !case.tiers.contains(&SandboxLevel::B) => {
                Some("a container does not promise it".to_owned())
            }
            ExecutionIsolation::Container { .. } => case.not_in_containers.clone(),
        }
    }

    async fn run_in(&self, ground: &ScriptRunner, case: &SelftestCase) -> Result<CaseVerdict> {
        let unchanged = case.unchanged.join(" ");
        let laid = format!(
            "exec > .said 2>&1\n{FUNCTIONS}\nset -e\n{LAY}\n{}\nstate {unchanged} > .before",
            case.setup
        );
        if ground
            .run(&laid, &["lay"], &BTreeMap::new(), SCRIPT_TIME_MAX)
            .await?
            != ScriptOutcome::Succeeded
        {
            let said = ground.read_file(".said", ANSWER_BYTES_MAX)?;
            return Ok(CaseVerdict::Skipped(format!(
                "the ground could not be laid: {}",
                one_line_text(&said)
            )));
        }
        let (end, answer) = self.run_tool(ground, case).await?;
        let failed = |why: &str, said: &str| {
            Ok(CaseVerdict::Failed(format!(
                "{why}: {}",
                one_line_text(said)
            )))
        };
        let Some(answer) = answer else {
            let said = ground.read_file(".errors", ANSWER_BYTES_MAX)?;
            return match end {
                ScriptOutcome::TimedOut => failed("it took too long", &said),
                ScriptOutcome::Succeeded | ScriptOutcome::Failed => {
                    failed("the call broke off", &said)
                }
            };
        };
        ground.write_file(".result", &describe_result(&answer.output))?;
        let nothing_told = match case.expect {
            ExpectedOutcome::Held => NOTHING_TOLD,
            ExpectedOutcome::Works => "",
        };
        let looked = format!(
            "exec > .said 2>&1\n{FUNCTIONS}\n{nothing_told}\n\
             state {unchanged} | diff .before - || exit 1\n{}\n",
            case.holds
        );
        let added = BTreeMap::from([
            ("RESULT".to_owned(), "$ROOT/.result".to_owned()),
            ("ANSWER".to_owned(), "$ROOT/.answer".to_owned()),
            ("MASSGEN".to_owned(), self.executable.to_string()),
        ]);
        let look = ground
            .run(&looked, &["look"], &added, SCRIPT_TIME_MAX)
            .await?;
        let found = ground.read_file(".said", ANSWER_BYTES_MAX)?;
        match (case.expect, look) {
            (ExpectedOutcome::Works, _) if !answer.ok => {
                failed("it was refused or failed", &answer.output)
            }
            (_, ScriptOutcome::Succeeded) => Ok(match case.expect {
                ExpectedOutcome::Held => CaseVerdict::Held,
                ExpectedOutcome::Works => CaseVerdict::Worked,
            }),
            (ExpectedOutcome::Held, _) => {
                failed("it did harm", &format!("{found} {}", answer.output))
            }
            (ExpectedOutcome::Works, _) => {
                failed("it had no effect", &format!("{found} {}", answer.output))
            }
        }
    }

    /// Calls massgen with open files and canaries, and reads its answer.
    async fn run_tool(
        &self,
        ground: &ScriptRunner,
        case: &SelftestCase,
    ) -> Result<(ScriptOutcome, Option<ToolReply>)> {
        ground.write_file(".call", &ground.expand(&case.args.to_string()))?;
        ground.write_file(".grants", &grants_json(ground))?;
        let grants = ground.path().join(".grants").to_string();
        let phase = case.phase.to_string();
        let executable = self.executable.to_string();
        let (switch, held) = match &self.enclosure {
            ExecutionIsolation::Sandbox { tier, .. } => ("--sandbox", tier.to_string()),
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
            &held,
        ];
        let mut env = case.env.clone();
        env.extend(self.env.clone());
        let time_max = Duration::from_secs(case.seconds);
        let end = ground.run(CALL, &words, &env, time_max).await?;
        let answer = ground.read_file(".answer", ANSWER_BYTES_MAX)?;
        Ok((end, serde_json::from_str(&answer).ok()))
    }
}

fn grants_json(ground: &ScriptRunner) -> String {
    let path = |name: &str| ground.path().join(name).to_string();
    json!({
        "workspace": path("ws"),
        "context_paths": [
            { "path": path("ro"), "permission": "read" },
            { "path": path("rw"), "permission": "write" },
        ],
    })
    .to_string()
}

/// What a call tells of itself, without the command that the agent wrote.
fn describe_result(output: &str) -> String {
    match serde_json::from_str::<Value>(output) {
        Ok(Value::Object(mut answer)) if answer.contains_key("stdout") => {
            answer.shift_remove("command");
            let texts = answer.values().map(|value| match value.as_str() {
                Some(text) => text.to_owned(),
                None => value.to_string(),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Ok(_) | Err(_) => output.to_owned(),
    }
}

fn one_line_text(text: &str) -> String {
    single_line(text, TOLD_CHARS_MAX)
}
