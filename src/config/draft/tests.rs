//! Drafts become YAML that says what was answered, whatever was typed.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config::draft::findings::FindingSeverity;
use crate::config::machine_policy::MachinePolicy;
use crate::config::yaml::{self, YamlNode, YamlValue};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;

/// Texts that YAML, variables or a terminal could take for something else.
const HOSTILE: &[&str] = &[
    "plain",
    "true",
    "no",
    "null",
    "~",
    "12",
    "0x1f",
    "007",
    "1e3",
    "nan",
    ".inf",
    "2026-01-01",
    "it's",
    "say \"hi\"",
    "back\\slash",
    "a: b",
    "a #b",
    "# a",
    "- a",
    "? a",
    "key:",
    "{a: b}",
    "[a, b]",
    "*alias",
    "&anchor",
    "!!python/object:os.system x",
    "!tag",
    "%YAML 1.1",
    "---",
    "...",
    "@at",
    "`tick`",
    "|",
    ">",
    "|\n  a",
    "<<: *x",
    "${HOME}",
    "${NOT_SET}",
    "$HOME",
    "a\nb",
    "a\n\nb",
    "a\n b\n  c",
    "a\n\tb",
    "\ta",
    "a\n",
    "a\n\n",
    "\n",
    "a\r\nb",
    "a \nb",
    "a\n# b\n- c: d",
    "a\n---\nb",
    "tab\there",
    "\u{0}",
    "\u{1b}[31mred",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}a",
    "a\u{202e}b",
    "\u{e0041}",
    "\u{fffe}",
    "\u{10ffff}",
    "Grüße, 世界 👩\u{200d}💻",
    "x: {}\ny: []",
    "# a\nb",
    "- a\n- b\n",
    "%a\n\"b",
    "a\n...\nb: |",
];

fn draft(value: Value) -> TeamDraft {
    serde_json::from_value(value).unwrap()
}

fn check(draft: &TeamDraft, env: &[&str]) -> DraftCheck {
    let base = AbsPath::new("/home/u/project").unwrap();
    let home = AbsPath::new("/home/u").unwrap();
    let env = env.iter().map(|name| ((*name).to_owned(), "k".to_owned()));
    let env = env.chain([("HOME".to_owned(), "/home/u".to_owned())]);
    let origin = ConfigOrigin {
        name: "team.yaml".to_owned(),
        directory: Some(base.clone()),
    };
    let context = ConfigContext {
        base: &base,
        state_parent: &base,
        home: Some(&home),
        env: &env.collect(),
        packages: &BTreeSet::new(),
        policy: &MachinePolicy::default(),
    };
    draft.check(&origin, &context)
}

/// Lists findings as `severity group.entry.name: message`.
fn finding_lines(draft_check: &DraftCheck) -> Vec<String> {
    let line = |finding: &DraftFinding| {
        let at = finding.answer.map_or("draft".to_owned(), |at| {
            format!("{}.{}.{}", at.group, at.entry, at.name)
        });
        format!("{:?} {at}: {}", finding.severity, finding.message).to_lowercase()
    };
    draft_check.findings.iter().map(line).collect()
}

/// Returns the text at a path of the YAML.
#[track_caller]
fn text_at(yaml: &str, path: &str) -> String {
    let tree = yaml::parse(yaml).unwrap_or_else(|error| panic!("{error:?}\n{yaml}"));
    let mut node = &tree;
    for part in path.split('.') {
        let (key, index) = part.split_once('[').unwrap_or((part, ""));
        node = &node
            .entry(key)
            .unwrap_or_else(|| panic!("{path}\n{yaml}"))
            .value;
        if let (Some(index), YamlValue::List(items)) = (index.strip_suffix(']'), &node.value) {
            node = &items[index.parse::<usize>().unwrap()];
        }
    }
    match &node.value {
        YamlValue::Scalar(scalar) => scalar.text.clone(),
        YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => {
            panic!("{path} is {node:?}\n{yaml}")
        }
    }
}

fn keys(node: &YamlNode) -> Vec<&str> {
    node.entries()
        .iter()
        .map(|entry| entry.key.as_str())
        .collect()
}

#[test]
fn every_question_is_one_of_the_table_of_keys() {
    for group in FORM {
        assert!(
            group.list.is_none() || group.doc().is_some(),
            "{}",
            group.id
        );
        let names: Vec<&str> = group.questions.iter().map(FormQuestion::name).collect();
        for question in group.questions {
            let key = question
                .key()
                .unwrap_or_else(|| panic!("{:?}", question.path));
            assert!(
                key.is_implemented() && !key.doc.is_empty(),
                "{:?}",
                question.path
            );
            let same = names.iter().filter(|name| **name == question.name());
            assert_eq!(same.count(), 1, "{:?}", question.path);
        }
    }
    let offered: Vec<&str> = offered_vendors().map(|vendor| vendor.name).collect();
    assert!(offered.contains(&"claude_code") && !offered.contains(&"scripted"));
}

#[test]
fn a_draft_becomes_short_yaml_with_comments() {
    let draft = draft(json!({
        "agents": [
            {"id": "ann", "type": "openai", "model": "gpt-5", "cwd": "workspace1",
             "system_message": "Be brief.\n\n- Write tests: always.\n"},
            {"id": "ben", "type": "claude", "cwd": "workspace2"},
            {"id": "cid", "type": "claude_code", "cwd": "workspace3"},
        ],
        "context_paths": [{"path": "src", "permission": "write"}, {"path": "docs"}],
        "commands": [{"enable_mcp_command_line": "true", "command_line_network": "files.example.com\n.example.org"}],
        "checks": [{"command": "cargo test -q", "timeout": "60"}],
        "limits": [{"max_cost_usd": "2.50", "orchestrator_timeout_seconds": "900"}],
        "coordination": [{"delivery": "review", "voting_sensitivity": "strict"}],
    }));
    let draft_check = check(&draft, &["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]);
    assert_eq!(finding_lines(&draft_check), [""; 0]);
    insta::assert_snapshot!(draft_check.yaml, @r##"
# A team for massgen. `massgen config check FILE` checks it; docs/config.md lists all keys.

# The team.
agents:
  # Its name in logs and directories: letters, digits, `_`, `-` and `.`.
  - id: ann
    # Its model.
    backend:
      # The vendor: one of the backend types.
      type: openai
      # The vendor's name of the model.
      model: gpt-5
      # The agent's workspace; without one it has no file tools.
      cwd: workspace1
      # Whether the agent may run commands, with the same access as its file tools.
      enable_mcp_command_line: true
      # Network access of local commands: none, full, or the hosts of these domains.
      command_line_network:
        - files.example.com
        - ".example.org"
    # Additional instructions for this agent.
    system_message: |
      Be brief.

      - Write tests: always.
  - id: ben
    backend:
      type: claude
      cwd: workspace2
      enable_mcp_command_line: true
      command_line_network:
        - files.example.com
        - ".example.org"
  - id: cid
    backend:
      type: claude_code
      cwd: workspace3

# How the agents work together, and on which paths.
orchestrator:
  # Paths open to every agent.
  context_paths:
    # The path: absolute, below `~`, or relative to the directory in which massgen is started.
    - path: src
      # What agents may do there; the changes of the answer that wins are delivered.
      permission: write
    - path: docs
  # How critical agents should be when they vote.
  voting_sensitivity: strict

# Commands that are run on every answer, on your files with its changes, and again after the delivery.
checks:
  # The shell command.
  - command: "cargo test -q"
    # Timeout in seconds.
    timeout: 60

# Limits on cost, tokens and tool calls of the run.
limits:
  # US dollars.
  max_cost_usd: 2.50

# Timeouts.
timeout_settings:
  # The whole run.
  orchestrator_timeout_seconds: 900

# Whether you review the delivery before it is applied.
delivery: review
"##);
    let config = draft_check.loaded.unwrap().config;
    let networks = config.agents.iter().map(|agent| agent.commands.is_some());
    assert_eq!(networks.collect::<Vec<_>>(), [true, true, false]);
    let paths = config.orchestrator.context_paths.iter();
    let paths: Vec<Permission> = paths.map(|path| path.permission).collect();
    assert_eq!(paths, [Permission::Write, Permission::Read]);
}

#[test]
fn every_text_is_read_as_it_was_typed() {
    for text in HOSTILE {
        let draft = draft(json!({
            "agents": [{"id": "a", "type": "ollama", "model": text, "system_message": text}],
            "checks": [{"command": text, "name": text}],
            "context_paths": [{"path": text}],
        }));
        let draft_check = check(&draft, &[]);
        let yaml = &draft_check.yaml;
        if !text.trim().is_empty() {
            assert_eq!(text_at(yaml, "agents[0].system_message"), *text, "{yaml}");
            for path in [
                "agents[0].backend.model",
                "checks[0].command",
                "checks[0].name",
                "orchestrator.context_paths[0].path",
            ] {
                assert_eq!(text_at(yaml, path), text.trim(), "{path}\n{yaml}");
            }
        }
        let tree = yaml::parse(yaml).unwrap();
        assert_eq!(keys(&tree), ["agents", "orchestrator", "checks"], "{yaml}");
        let hidden = |c: char| c != '\n' && crate::text::is_hidden(c);
        let joined = |c: char| matches!(c, '\u{200d}');
        assert!(!yaml.chars().any(|c| hidden(c) && !joined(c)), "{yaml:?}");
        assert!(
            draft_check
                .findings
                .iter()
                .all(|finding| !finding.message.contains("YAML")),
            "{draft_check:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_becomes_another_key_or_value(text in "[ -~\\n\\t\u{e0}-\u{ff}]{0,40}", line in any::<String>()) {
        let draft = draft(json!({
            "agents": [{"id": line, "type": "ollama", "model": "m", "system_message": text}],
        }));
        let yaml = draft.to_yaml();
        let tree = yaml::parse(&yaml).unwrap();
        prop_assert_eq!(keys(&tree), ["agents"]);
        if !text.trim().is_empty() {
            prop_assert_eq!(text_at(&yaml, "agents[0].system_message"), text);
        }
        if !line.trim().is_empty() {
            prop_assert_eq!(text_at(&yaml, "agents[0].id"), line.trim());
        }
    }
}

/// Returns an agent without faults.
fn agent() -> Value {
    json!({"id": "a", "type": "ollama", "model": "m", "cwd": "workspace1"})
}

/// Checks drafts, each with the variables that are set and the findings that it gets.
#[track_caller]
fn expect_findings(cases: &[(Value, &[&str], &[&str])]) {
    for (answers, env, expected) in cases {
        let draft_check = check(&draft(answers.clone()), env);
        let lines = finding_lines(&draft_check);
        assert_eq!(
            lines.len(),
            expected.len(),
            "{lines:#?}\n{}",
            draft_check.yaml
        );
        for expected in *expected {
            let is_said = lines.iter().any(|line| line.starts_with(expected));
            assert!(
                is_said,
                "{expected} is not in {lines:#?}\n{}",
                draft_check.yaml
            );
        }
        let has_error = lines.iter().any(|line| line.starts_with("error"));
        assert_eq!(draft_check.loaded.is_none(), has_error, "{lines:?}");
    }
}

#[test]
fn findings_of_a_draft_are_reported_at_their_answers() {
    expect_findings(&[
        (json!({"agents": [agent()]}), &[], &[]),
        (
            json!({"agents": []}),
            &[],
            &["error draft: `agents` is empty"],
        ),
        (
            json!({"agents": [{}]}),
            &[],
            &[
                "error agents.0.id: `id` is missing",
                "error agents.0.type: `backend` is missing",
            ],
        ),
        (
            json!({"agents": [agent(), {"id": "A", "type": "grokk", "cwd": "workspace2"}]}),
            &[],
            &["error agents.1.type: unknown backend type `grokk`"],
        ),
        (
            json!({"agents": [agent(), {"id": "A", "type": "ollama", "model": "m", "cwd": "workspace2"}]}),
            &[],
            &["error agents.1.id: the id `a` is taken by another agent"],
        ),
        (
            json!({"agents": [{"id": "a", "type": "openrouter"}]}),
            &["OPENROUTER_API_KEY"],
            &["error agents.0.model: `model` is missing, and `openrouter` has no default"],
        ),
        (
            json!({"agents": [{"id": "a", "type": "openai", "base_url": "ftp://x"}]}),
            &["OPENAI_API_KEY"],
            &["error agents.0.base_url: `base_url` is not an http url"],
        ),
        (
            json!({"agents": [{"id": "a", "type": "gemini"}]}),
            &[],
            &["note agents.0.type: `google_api_key` or `gemini_api_key` is not set"],
        ),
        (
            json!({"agents": [{"id": "a", "type": "chatcompletion", "model": "m",
                "base_url": "https://api.groq.com/v1"}]}),
            &["OPENAI_API_KEY"],
            &["note agents.0.type: `groq_api_key` is not set"],
        ),
    ]);
}

#[test]
fn each_finding_is_beside_the_answer_that_it_concerns() {
    expect_findings(&[
        (
            json!({"agents": [agent()], "context_paths": [{"permission": "write"}, {"path": "a", "permission": "all"}]}),
            &[],
            &[
                "error context_paths.0.path: `path` is missing",
                "error context_paths.1.permission: `permission` is `all`",
            ],
        ),
        (
            json!({"agents": [agent()], "context_paths": [{"path": "a"}, {"path": "./a"}]}),
            &[],
            &["error context_paths.1.path: `/home/u/project/a` is listed twice"],
        ),
        (
            json!({"agents": [agent(), {"id": "b", "type": "ollama", "model": "m"}],
                "commands": [{"enable_mcp_command_line": "true", "command_line_network": "a..b"}]}),
            &[],
            &[
                "warning commands.0.enable_mcp_command_line: commands need a workspace",
                "error commands.0.command_line_network: `a..b`",
            ],
        ),
        (
            json!({"agents": [agent()], "limits": [{"max_cost_usd": "much", "max_tokens_total": "0", "max_tool_calls": "1.5"}]}),
            &[],
            &[
                "error limits.0.max_cost_usd: `max_cost_usd` is `much`",
                "error limits.0.max_tokens_total: `max_tokens_total` is `0`",
                "error limits.0.max_tool_calls: `max_tool_calls` is `1.5`",
            ],
        ),
        (
            json!({"agents": [agent()], "checks": [{"command": "make"}, {"command": "make"}, {"command": "x", "required": "maybe", "timeout": "-1"}]}),
            &[],
            &[
                "error checks.1.command: two checks are called `make`",
                "error checks.2.required: `required` is `maybe`",
                "error checks.2.timeout: `timeout` is `-1`",
            ],
        ),
    ]);
}

#[test]
fn variables_are_filled_in_as_in_every_config() {
    let answers = |text: &str| json!({"agents": [{"id": "a", "type": "ollama", "model": "m", "system_message": text}]});
    let message = |text: &str, env: &[&str]| {
        let draft_check = check(&draft(answers(text)), env);
        let warned = finding_lines(&draft_check).join("; ");
        let agents = draft_check.loaded.unwrap().config.agents;
        (agents[0].system_message.clone().unwrap(), warned)
    };
    assert_eq!(
        message("at ${HOME}", &[]),
        ("at /home/u".to_owned(), String::new())
    );
    let (text, warned) = message("key ${OPENAI_API_KEY}", &["OPENAI_API_KEY"]);
    assert_eq!(text, "key ${OPENAI_API_KEY}");
    assert!(
        warned.starts_with("warning agents.0.system_message"),
        "{warned}"
    );
}

#[test]
fn a_draft_has_no_answers_to_other_questions() {
    for (answers, expected) in [
        (
            json!({"agents": [{"api_key": "sk-1"}]}),
            "does not ask for `api_key`",
        ),
        (json!({"servers": []}), "no group `servers`"),
        (json!({"commands": [{}, {}]}), "more than 1 entries"),
        (
            json!({"agents": vec![json!({}); DRAFT_ENTRIES_MAX + 1]}),
            "more than 64 entries",
        ),
        (json!({"agents": {}}), "expected a sequence"),
        (json!({"agents": [{"id": 1}]}), "expected a string"),
        (json!([]), "expected a map"),
    ] {
        let error = serde_json::from_value::<TeamDraft>(answers.clone()).unwrap_err();
        assert!(error.to_string().contains(expected), "{answers}: {error}");
    }
}

#[test]
fn the_first_draft_is_an_agent_of_a_vendor_whose_key_is_set() {
    for (env, vendor) in [(None, "openai"), (Some("ANTHROPIC_API_KEY"), "claude")] {
        let variables = env.map(|name: &str| (name.to_owned(), "k".to_owned()));
        let draft = TeamDraft::initial(&variables.into_iter().collect());
        let agents = draft.entries(QuestionGroup::find("agents").unwrap());
        assert_eq!(agents.len(), 1);
        assert_eq!(agents[0]["type"], vendor);
        assert_eq!(agents[0]["cwd"], "workspace1");
        let draft_check = check(&draft, env.as_slice());
        let severities: Vec<FindingSeverity> = draft_check
            .findings
            .iter()
            .map(|finding| finding.severity)
            .collect();
        let expected: &[FindingSeverity] = match env {
            None => &[FindingSeverity::Note],
            Some(_) => &[],
        };
        assert_eq!(severities, expected);
    }
}
