//! Implements `massgen explain calls`: reads one tool call per line and prints one decision per
//! line. No server is started for an explanation, so calls of its tools are denied as unknown.

use std::borrow::Cow;
use std::io::{self, BufRead, Read as _, Write};

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::call_rules::judge::CallJudgement;
use crate::cli::explain::{AgentGates, GRANTED};
use crate::error::{Error, Result};
use crate::hooks::HookEvent;
use crate::permissions::grant::{Permission, Phase};
use crate::permissions::rules::{ASKED_BY_CONFIG, DENIED_BY_CONFIG};
use crate::tools::error::CallParseError;
use crate::tools::parse::parse;
use crate::tools::served::ToolCatalogue;
use crate::world::access::hook_runner::HookRunner;
use crate::world::access::verdict::{AccessRefusal, PathVerdict};

/// Maximum length of a line, in bytes: a call with the longest arguments fits.
const LINE_BYTES_MAX: u64 = 5 * 1024 * 1024;

/// One line of the input: a tool call, and whose call it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainRequest<'a> {
    #[serde(borrow)]
    tool: Cow<'a, str>,
    #[serde(borrow)]
    args: &'a RawValue,
    #[serde(borrow)]
    agent: Option<Cow<'a, str>>,
    phase: Option<Phase>,
}

/// One line of the output: the decision about a call.
#[derive(Debug, Serialize)]
struct ExplainReply<'a> {
    decision: &'static str,
    rule: &'a str,
    reason: Cow<'a, str>,
    paths: Vec<ExplainedPath<'a>>,
    /// The commands of the hooks that would be asked; they are not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<&'a str>,
}

/// The decision about one path of a call.
#[derive(Debug, Serialize)]
struct ExplainedPath<'a> {
    path: Cow<'a, str>,
    access: Permission,
    grant: Option<Cow<'a, str>>,
}

/// Answers each line of `input` with one line of JSON, in order and flushed immediately. An invalid
/// line gets `{"error": …}`, and the next one is processed. A closed output is not an error.
pub fn explain_calls(
    agents: &[AgentGates],
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<()> {
    let (mut line, mut reply_line) = (Vec::new(), Vec::new());
    loop {
        reply_line.clear();
        let line_read = read_line(&mut input, &mut line)
            .map_err(|error| Error::io("cannot read tool calls from standard input", error))?;
        let reply = match line_read {
            LineReadOutcome::End => return Ok(()),
            LineReadOutcome::TooLong => {
                Err(format!("the line has more than {LINE_BYTES_MAX} bytes"))
            }
            LineReadOutcome::Whole => write_reply(agents, &line, &mut reply_line),
        };
        let encoded = match reply {
            Ok(()) => Ok(()),
            Err(error) => {
                reply_line.clear();
                serde_json::to_writer(&mut reply_line, &json!({"error": error}))
            }
        };
        reply_line.push(b'\n');
        let written = encoded
            .map_err(io::Error::from)
            .and_then(|()| output.write_all(&reply_line))
            .and_then(|()| output.flush());
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            result => result.map_err(|error| Error::io("cannot write the decisions", error))?,
        }
    }
}

/// Result of reading a line.
#[derive(Clone, Copy, Debug)]
enum LineReadOutcome {
    Whole,
    TooLong,
    End,
}

/// Reads the next line into `line`; if it is too long, only its beginning.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<LineReadOutcome> {
    line.clear();
    if input
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', line)?
        == 0
    {
        return Ok(LineReadOutcome::End);
    }
    let is_full = u64::try_from(line.len()).is_ok_and(|length| length == LINE_BYTES_MAX);
    if is_full && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
        return Ok(LineReadOutcome::TooLong);
    }
    Ok(LineReadOutcome::Whole)
}

/// Writes the decision about the call in `line` to `reply_line`. The error says why there is no
/// decision.
fn write_reply(
    agents: &[AgentGates],
    line: &[u8],
    reply_line: &mut Vec<u8>,
) -> std::result::Result<(), String> {
    let request: ExplainRequest<'_> =
        serde_json::from_slice(line).map_err(|error| format!("not a call: {error}"))?;
    let gates = find_gates(agents, request.agent.as_deref())?;
    let phase = request.phase.unwrap_or(Phase::Coordination);
    // No server is started for an explanation: its tools are unknown.
    let catalogue = ToolCatalogue::default();
    let encoded = match parse(&request.tool, request.args.get(), &catalogue) {
        Ok(call) => {
            let gate = gates.gate(phase);
            let (judgement, verdicts) = (gate.judge_rules(&call), gate.explain(&call));
            let mut reply = decision_reply(&judgement, &verdicts);
            let hooks = gate.hooks().map(HookRunner::hook_list).into_iter();
            let matching_hooks =
                hooks.flat_map(|hooks| hooks.matching(HookEvent::PreToolUse, Some(call.name())));
            reply.hooks = matching_hooks.map(|hook| hook.command.as_str()).collect();
            serde_json::to_writer(reply_line, &reply)
        }
        Err(error) => serde_json::to_writer(reply_line, &parse_error_reply(&error)),
    };
    encoded.map_err(|error| error.to_string())
}

/// Returns the gates of the agent `name`; without a name, those of the only agent.
fn find_gates<'a>(
    agents: &'a [AgentGates],
    name: Option<&str>,
) -> std::result::Result<&'a AgentGates, String> {
    let is_requested = |gates: &&AgentGates| match (&gates.agent, name) {
        (Some(agent), Some(name)) => agent.as_str() == name,
        (Some(_), None) => agents.len() == 1,
        // Grants of the caller apply whatever agent the line names.
        (None, _) => true,
    };
    agents.iter().find(is_requested).ok_or_else(|| match name {
        Some(name) => format!("no agent `{name}`"),
        None => "`agent` is missing: there are several agents".to_owned(),
    })
}

fn parse_error_reply(error: &CallParseError) -> ExplainReply<'static> {
    let rule = if matches!(error, CallParseError::UnknownTool { .. }) {
        "unknown-tool"
    } else {
        "unreadable-call"
    };
    ExplainReply {
        decision: "deny",
        rule,
        reason: error.to_string().into(),
        paths: Vec::new(),
        hooks: Vec::new(),
    }
}

/// Combines the decision of the rules about tools and commands with that about each path: a denial
/// takes precedence over an approval request.
fn decision_reply<'v>(
    judgement: &'v CallJudgement,
    verdicts: &'v [PathVerdict],
) -> ExplainReply<'v> {
    let mut refusals = verdicts
        .iter()
        .filter_map(|verdict| verdict.refusal.as_ref());
    // A path is either denied by a rule or waits for a question to the user.
    let is_denial = |refusal: &&AccessRefusal| refusal.rule != ASKED_BY_CONFIG;
    let denial = refusals.clone().find(is_denial);
    let rule_and_reason = |refusal: &'v AccessRefusal| (refusal.rule, refusal.reason.as_str());
    let (decision, (rule, reason)) = match (judgement, denial, refusals.next()) {
        (CallJudgement::Denied(matched), _, _) => {
            ("deny", (DENIED_BY_CONFIG, matched.reason.as_str()))
        }
        (_, Some(refusal), _) => ("deny", rule_and_reason(refusal)),
        (CallJudgement::Asked(matched), _, _) => {
            ("ask", (ASKED_BY_CONFIG, matched.reason.as_str()))
        }
        (_, None, Some(refusal)) => ("ask", rule_and_reason(refusal)),
        (CallJudgement::Undecided | CallJudgement::Allowed, None, None) => {
            ("allow", (GRANTED, "every path was granted"))
        }
    };
    let paths = verdicts.iter().map(|verdict| ExplainedPath {
        path: match &verdict.real {
            Some(real_path) => real_path.as_path().to_string_lossy(),
            None => verdict.path.as_str().into(),
        },
        access: verdict.requested,
        grant: verdict
            .grant
            .as_ref()
            .map(|(root, _)| root.as_path().to_string_lossy()),
    });
    ExplainReply {
        decision,
        rule,
        reason: reason.into(),
        paths: paths.collect(),
        hooks: Vec::new(),
    }
}
