//! The config that a YAML gives and the findings about it. This module has the shared helpers.

mod agent_features;
mod commands;
mod custom_tools;
mod docker;
mod servers;
mod keys;
mod massgen;
mod paths;
mod workflow;

use std::collections::BTreeSet;

use secrecy::ExposeSecret;
use serde_json::json;

use crate::config::diagnostic::Severity;
use crate::config::keys::{KeyStatus, SECTIONS};
use crate::config::machine_policy::MachinePolicy;
use crate::config::{
    Config, ConfigContext, ConfigOrigin, InvalidConfig, LoadedConfig, NoveltyRequirement,
    PlanningMode, ScriptSource, TimeoutConfig, VotingChecklist, VotingSensitivity, load,
};
use crate::dotenv::ConfigVariables;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::permissions::guard::{DownloadsAccess, FolderGuard, GuardPreset};
use crate::permissions::history::ReadBeforeDelete;

const BASE: &str = "/home/ann/project";
const HOME: &str = "/home/ann";

fn try_load(yaml: &str) -> Result<LoadedConfig, Box<InvalidConfig>> {
    let set = [
        ("KEY", "sk-1"),
        ("NUMBER", "0.5"),
        ("EMPTY", ""),
        ("URL", "http://h/v1"),
        ("GROQ_API_KEY", "gsk-1"),
        ("DEEPSEEK_API_KEY", "sk-1"),
        ("TOKEN", "t-1"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "oat-1"),
    ];
    let env: ConfigVariables = set
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    try_load_with(yaml, &env)
}

fn try_load_with(yaml: &str, env: &ConfigVariables) -> Result<LoadedConfig, Box<InvalidConfig>> {
    let base = AbsPath::new(BASE).unwrap();
    let home = AbsPath::new(HOME).unwrap();
    let origin = ConfigOrigin {
        name: "team.yaml".to_owned(),
        directory: AbsPath::new("/configs"),
    };
    let context = ConfigContext {
        base: &base,
        state_parent: &base,
        home: Some(&home),
        env,
        packages: &BTreeSet::new(),
        policy: &MachinePolicy::default(),
    };
    load(yaml.as_bytes(), &origin, &context)
}

/// Returns the config of a YAML that must be valid and without warnings.
#[track_caller]
fn config(yaml: &str) -> Config {
    let loaded = try_load(yaml).unwrap_or_else(|invalid| panic!("{}", invalid.render()));
    assert_eq!(loaded.warnings, [], "{yaml}");
    loaded.config
}

/// Returns the findings of a YAML as `error KEY: MESSAGE (HINT)`.
fn findings(yaml: &str) -> Vec<String> {
    let diagnostics = match try_load(yaml) {
        Ok(loaded) => loaded.warnings,
        Err(invalid) => invalid.diagnostics,
    };
    let lines = diagnostics.iter().map(|finding| {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let hint = finding.suggestion.as_deref().unwrap_or("-");
        format!("{severity} {}: {} ({hint})", finding.key, finding.message)
    });
    lines.collect()
}

/// Checks that each expected string is part of one finding, in order, and that there are no others.
#[track_caller]
fn check(yaml: &str, expected: &[&str]) {
    let findings = findings(yaml);
    assert_eq!(findings.len(), expected.len(), "{yaml}\n{findings:#?}");
    for (finding, expected) in findings.iter().zip(expected) {
        assert!(finding.contains(expected), "{yaml}\n{finding}\n{expected}");
    }
}

/// Returns an agent with additional lines in its backend.
fn with_backend(lines: &str) -> String {
    format!(
        "agent:\n  id: a\n  backend:\n    type: ollama\n    model: m\n{}",
        indent(lines, 4)
    )
}

/// Returns an agent, with additional lines in `orchestrator`.
fn with_orchestrator(lines: &str) -> String {
    let agent = with_backend("cwd: w1");
    format!("{agent}orchestrator:\n{}", indent(lines, 2))
}

fn indent(lines: &str, by: usize) -> String {
    let line = |line: &str| format!("{:by$}{line}\n", "");
    lines.lines().map(line).collect()
}

#[test]
fn a_minimal_config_has_the_defaults() {
    let config = config("agents:\n- id: a.b-1\n  backend: {type: grok}\n");
    let agent = &config.agents[0];
    assert_eq!(agent.id.as_str(), "a.b-1");
    assert_eq!(agent.backend.model, "grok-4");
    assert_eq!(
        agent.backend.base_url.as_deref(),
        Some("https://api.x.ai/v1")
    );
    assert!(agent.backend.api_key.is_none() && agent.backend.parameters.is_empty());
    assert_eq!(agent.cwd, None);
    assert_eq!(agent.folder_guard, FolderGuard::Off);
    assert_eq!(agent.read_before_delete, ReadBeforeDelete::Enforced);
    assert_eq!(config.timeouts, TimeoutConfig::default());
    assert_eq!(config.orchestrator.session_storage.to_string(), "sessions");
}

#[test]
fn the_file_must_describe_agents() {
    check("", &["error : the file is empty"]);
    check("# only a comment\n", &["error : the file is empty"]);
    check("just text\n", &["error : the file is `just text`"]);
    check("- a\n", &["error : the file is a list"]);
    check("ui: {}\n", &["error agents: `agents` is missing"]);
    check("agents: []\n", &["error agents: `agents` is empty"]);
    check("agents:\n", &["error agents: `agents` is missing"]);
    check("agents: {a: 1}\n", &["error agents: `agents` is a mapping"]);
    check("agent: [a]\n", &["error agent: `agent` is a list"]);
    let both = format!(
        "{}agents: [{{id: b, backend: {{type: grok}}}}]\n",
        with_backend("")
    );
    check(&both, &["error agents: `agent` and `agents` are both set"]);
    check(
        "agents:\n- id: a\n- backend: {type: grok}\n-\n",
        &[
            "error agents[0].backend: `backend` is missing",
            "error agents[1].id: `id` is missing",
            "error agents[2]: `agents[2]` is empty",
        ],
    );
    let many = format!(
        "agents:\n{}",
        "- {id: a, backend: {type: grok}}\n".repeat(513)
    );
    check(
        &many,
        &["error agents: 513 agents are too many: at most 512"],
    );
}

#[test]
fn ids_name_directories() {
    for id in ["../../x", "a/b", ".hidden", "''", "a b", "ä"] {
        let yaml = format!("agent:\n  id: {id}\n  backend: {{type: grok}}\n");
        check(&yaml, &["error agent.id: "]);
    }
    for id in ["no", "12", "1e3", "gemini2.5flash", "0x1F", "true"] {
        let yaml = format!("agent:\n  id: {id}\n  backend: {{type: grok}}\n");
        assert_eq!(config(&yaml).agents[0].id.as_str(), id);
    }
    let twice = |id: &str| {
        format!(
            "agents:\n- {{id: a, backend: {{type: grok}}}}\n- {{id: {id}, backend: {{type: grok}}}}\n"
        )
    };
    check(&twice("a"), &["error agents[1].id: the id `a` is taken"]);
    check(&twice("A"), &["error agents[1].id: the id `a` is taken"]);
    check(&twice("b"), &[]);
}

#[test]
fn all_errors_come_at_once_and_in_order() {
    check(
        "
agents:
  - id: a/b
    backend: {type: groq, temperature: hot}
  - id: c
    backend: {type: nosuch, model: m}
orchestrator:
  context_paths: [{path: /etc}]
  voting: strict
",
        &[
            "agents[0].id",
            "agents[0].backend.temperature",
            "agents[1].backend.type",
            "orchestrator.context_paths[0].path",
            "orchestrator.voting",
        ],
    );
}

#[test]
fn api_key_variables_are_not_expanded_where_models_could_read_them() {
    check(&with_backend("api_key: '${GROQ_API_KEY}'"), &[]);
    check(
        &with_backend("user: 'I am ${GROQ_API_KEY}'"),
        &[
            "warning agent.backend.user: variable `GROQ_API_KEY` contains an API key: it is not expanded",
        ],
    );
    // No backend type of its own has this key.
    check(
        &with_backend("user: 'I am ${DEEPSEEK_API_KEY}'"),
        &[
            "warning agent.backend.user: variable `DEEPSEEK_API_KEY` contains an API key: it is not expanded",
        ],
    );
    check(
        &with_backend("base_url: 'http://h/${GROQ_API_KEY}/v1'"),
        &["error agent.backend.base_url: variable `GROQ_API_KEY` contains an API key"],
    );
    let config =
        "agent: {id: a, system_message: '${GROQ_API_KEY}', backend: {type: ollama, model: m}}";
    let loaded = try_load(config).unwrap();
    assert!(!format!("{:?}", loaded.config).contains("gsk-1"));
    assert_eq!(loaded.warnings.len(), 1);
}

#[test]
fn variables_are_expanded_or_reported() {
    let model = |yaml: &str| config(yaml).agents[0].backend.model.clone();
    assert_eq!(
        model("agent: {id: a, backend: {type: ollama, model: 'x-${KEY}'}}"),
        "x-sk-1"
    );
    assert_eq!(
        model("agent: {id: a, backend: {type: ollama, cwd: w, model: '${cwd}'}}"),
        "w"
    );
    assert_eq!(
        model("agent: {id: a, backend: {type: ollama, cwd: '${KEY}/${cwd}', model: '${cwd}'}}"),
        "sk-1//home/ann/project"
    );
    check(
        &with_backend("temperature: ${KEY}"),
        &["error agent.backend.temperature: `temperature` is `${KEY}`"],
    );
    check(
        &with_backend("extra_body: text"),
        &["error agent.backend.extra_body"],
    );
    check(
        &with_backend("user: ${NOT_SET}"),
        &["warning agent.backend.user: variable `NOT_SET` is not set: it is not expanded"],
    );
    check(
        &with_backend("api_key: ${NOT_SET}"),
        &["error agent.backend.api_key: variable `NOT_SET` is not set"],
    );
    check(
        &with_backend("base_url: http://${NOT_SET}/v1"),
        &["error agent.backend.base_url"],
    );
    check(
        &with_backend("api_key: ${EMPTY}"),
        &["error agent.backend.api_key: `api_key` is empty"],
    );
    check(
        &with_backend("mcp_servers: [{env: {A: '${NOT_SET}'}}]"),
        &[
            "error agent.backend.mcp_servers[0].name: `name` is missing",
            "error agent.backend.mcp_servers[0].env: variable `NOT_SET` is not set",
        ],
    );
}

#[test]
fn no_message_and_no_text_repeats_a_key() {
    let yaml = with_backend("api_key: sk-secret\ntemperature: hot");
    let invalid = try_load(&yaml).unwrap_err();
    let broken = format!("{yaml}  - [");
    let broken = try_load(&broken).unwrap_err();
    let inline = try_load("agent: {id: a, backend: {type: x, api_key: sk-secret}}").unwrap_err();
    for invalid in [invalid, broken, inline] {
        assert!(!invalid.source.text().contains("sk-secret"));
        assert!(!invalid.render().contains("sk-secret"));
        assert!(!invalid.to_json().to_string().contains("sk-secret"));
    }
    let loaded = try_load(&with_backend("api_key: sk-secret")).unwrap();
    assert!(!format!("{loaded:?}").contains("sk-secret"));
}

#[test]
fn backends_are_complete() {
    let backend = |line: &str| format!("agent:\n  id: a\n  backend: {{{line}}}\n");
    check(
        &backend("type: groqq"),
        &["unknown backend type `groqq` (did you mean `groq`?)"],
    );
    check(
        &backend("type: Anthropic"),
        &["unknown backend type `Anthropic` (did you mean `claude`?)"],
    );
    check(
        &backend("type: copilot"),
        &["backend type `copilot` is not supported yet (use `type: acp` with"],
    );
    check(&backend("model: m"), &["`type` is missing"]);
    check(
        &backend("type: chatcompletion"),
        &["`model` is missing, and `chatcompletion` has no default"],
    );
    check(
        &backend("type: azure_openai, model: m"),
        &[
            "`base_url` is missing, and `azure_openai` has no default (add `base_url: https://…`, or set AZURE_OPENAI_ENDPOINT)",
        ],
    );
    check(
        &backend("type: grok, base_url: api.x.ai"),
        &["`base_url` is not a URL"],
    );
    check(
        &backend("type: grok, base_url: 'ftp://h'"),
        &["`base_url` is not an HTTP URL"],
    );
    check(
        &backend("type: grok, base_url: 'https://u:p@h'"),
        &["contains a password"],
    );
    check(&backend("type: grok, base_url: 'https://h/v1'"), &[]);
}

#[test]
fn scripted_backends_have_replies() {
    let backend = |line: &str| format!("agent:\n  id: a\n  backend: {{type: scripted, {line}}}\n");
    let script = |line: &str| config(&backend(line)).agents[0].backend.script.clone();
    assert_eq!(
        script("replies: [{text: 'hello ${USER}'}]"),
        Some(ScriptSource::Inline {
            replies: json!([{"text": "hello ${USER}"}]),
            lines: vec![3],
        })
    );
    let file = |path: &str| Some(ScriptSource::File(AbsPath::new(path).unwrap()));
    assert_eq!(script("script: r.yaml"), file("/configs/r.yaml"));
    assert_eq!(script("script: /r.yaml"), file("/r.yaml"));
    assert_eq!(script("script: ~/r.yaml"), file("/home/ann/r.yaml"));
    check(
        &backend("model: m"),
        &["a `scripted` backend needs its replies"],
    );
    check(
        &backend("replies: [], script: a"),
        &["`replies` and `script` are both set"],
    );
    check(
        &with_backend("replies: []"),
        &["only a `scripted` backend can have replies"],
    );
}

#[test]
fn tools_are_named_as_they_are_called() {
    let names = "delete_file, read_file, mcp__filesystem__write_file, mcp__discord__send";
    check(&with_backend(&format!("exclude_tools: [{names}]")), &[]);
    check(
        &with_backend("exclude_tools: [delete_fle]"),
        &[
            "error agent.backend.exclude_tools[0]: massgen has no file tool `delete_fle` (did you mean `delete_file`?)",
        ],
    );
    check(
        &with_backend("disallowed_tools: ['Bash(rm*)']"),
        &["warning agent.backend.disallowed_tools[0]: massgen has no file tool `Bash(rm*)`"],
    );
    check(
        &with_backend("allowed_tools: [read_file]\nexclude_tools: [read_file]"),
        &[],
    );
}

#[test]
fn a_warning_is_given_once_and_never_hides_an_error() {
    let agent = |id: usize| {
        format!("- {{id: a{id}, backend: {{type: groq, model: m, enable_web_search: true}}}}\n")
    };
    let agents = (0..50).map(agent).collect::<Vec<_>>().concat();
    let loaded = try_load(&format!("agents:\n{agents}")).unwrap();
    let [warning] = loaded.warnings.as_slice() else {
        panic!("{:?}", loaded.warnings);
    };
    assert_eq!(warning.repeats, 49);
    assert_eq!(
        loaded.warning_lines(),
        [
            "team.yaml:2:44: `enable_web_search` is not sent to `groq`: the agent works without \
          the vendor's web search (and in 49 more places)"
        ]
    );
    let unset: Vec<String> = (0..150).map(|n| format!("p{n}: ${{V{n}}}")).collect();
    let unset = unset.join("\n");
    let invalid = try_load(&with_backend(&format!("{unset}\ntemperature: hot"))).unwrap_err();
    assert!(
        invalid
            .diagnostics
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    );
}
