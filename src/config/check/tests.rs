//! What a YAML becomes, and what is said about it.

use std::collections::BTreeMap;

use secrecy::ExposeSecret;
use serde_json::json;

use crate::config::diagnostic::Severity;
use crate::config::keys::{SECTIONS, Status};
use crate::config::{
    Config, Context, Invalid, Loaded, NoveltyRequirement, Origin, Planning, Rounds, Script,
    TimeoutConfig, VotingSensitivity, load,
};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::permissions::guard::{Downloads, FolderGuard};
use crate::permissions::history::ReadBeforeDelete;

const BASE: &str = "/home/ann/project";
const HOME: &str = "/home/ann";

fn try_load(yaml: &str) -> Result<Loaded, Box<Invalid>> {
    let base = AbsPath::new(BASE).unwrap();
    let home = AbsPath::new(HOME).unwrap();
    let set = [
        ("KEY", "sk-1"),
        ("NUMBER", "0.5"),
        ("EMPTY", ""),
        ("URL", "http://h/v1"),
    ];
    let env: BTreeMap<String, String> = set
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let origin = Origin {
        name: "team.yaml".to_owned(),
        directory: AbsPath::new("/configs"),
    };
    let context = Context {
        base: &base,
        home: Some(&home),
        env: &env,
    };
    load(yaml.as_bytes(), &origin, &context)
}

/// The config of a YAML that must be valid and without warnings.
#[track_caller]
fn config(yaml: &str) -> Config {
    let loaded = try_load(yaml).unwrap_or_else(|invalid| panic!("{}", invalid.render()));
    assert_eq!(loaded.warnings, [], "{yaml}");
    loaded.config
}

/// The findings of a YAML as `error KEY: MESSAGE (HINT)`.
fn findings(yaml: &str) -> Vec<String> {
    let found = match try_load(yaml) {
        Ok(loaded) => loaded.warnings,
        Err(invalid) => invalid.diagnostics,
    };
    let lines = found.iter().map(|found| {
        let severity = match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let hint = found.suggestion.as_deref().unwrap_or("-");
        format!("{severity} {}: {} ({hint})", found.key, found.message)
    });
    lines.collect()
}

/// Each expected text is part of one finding, in order, and there are no others.
#[track_caller]
fn check(yaml: &str, expected: &[&str]) {
    let found = findings(yaml);
    assert_eq!(found.len(), expected.len(), "{yaml}\n{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{yaml}\n{found}\n{expected}");
    }
}

/// An agent with more lines in its backend.
fn with_backend(lines: &str) -> String {
    format!(
        "agent:\n  id: a\n  backend:\n    type: ollama\n    model: m\n{}",
        indent(lines, 4)
    )
}

/// An agent, and more lines in `orchestrator`.
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
    assert_eq!(
        config.orchestrator.snapshot_storage.to_string(),
        "snapshots"
    );
}

#[test]
fn every_default_of_the_table_is_the_default_of_the_code() {
    let mut written = 0;
    for section in SECTIONS {
        let served = section
            .keys
            .iter()
            .filter(|key| key.status == Status::Served);
        for (name, default) in served.filter_map(|key| Some((key.names[0], key.default?))) {
            let line = format!("{name}: {default}");
            let (with, without) = match section.path {
                "orchestrator" => (with_orchestrator(&line), with_backend("cwd: w1")),
                "agents[].backend" => (with_backend(&line), with_backend("")),
                "timeout_settings" => (
                    format!("{}timeout_settings: {{{line}}}\n", with_backend("")),
                    with_backend(""),
                ),
                "limits" => (
                    format!("{}limits: {{{line}}}\n", with_backend("")),
                    with_backend(""),
                ),
                "orchestrator.coordination" => (
                    with_orchestrator(&format!("coordination: {{{line}}}")),
                    with_backend("cwd: w1"),
                ),
                "context_paths[]" => (
                    with_orchestrator(&format!("context_paths: [{{path: src, {line}}}]")),
                    with_orchestrator("context_paths: [src]"),
                ),
                "agents[].folder_guard" => (
                    with_backend(&format!("folder_guard: {{{line}}}")),
                    with_backend("folder_guard: {}"),
                ),
                "" => (format!("{}{line}\n", with_backend("")), with_backend("")),
                other => panic!("no case for `{other}`"),
            };
            let (with, without) = (config(&with), config(&without));
            assert_eq!(
                format!("{with:?}"),
                format!("{without:?}"),
                "{}.{name}",
                section.path
            );
            written += 1;
        }
    }
    assert!(written > 15, "only {written} defaults were tried");
}

/// A config with every key that is served.
const FULL: &str = r"
x-common: &common {type: ollama, temperature: 0.2, top_k: 40, stream_options: null}
agents:
  - id: one
    system_message: be brief
    folder_guard: {read: [docs, ~/notes], write: [/srv/out], downloads: off}
    backend:
      <<: *common
      model: m1
      base_url: ${URL}
      api_key: ${KEY}
      cwd: w1
      allowed_tools: [read_text_file]
      exclude_tools: []
      enforce_read_before_delete: no
      max_tokens: 100
      some_new_parameter: {deep: [1, true, null, text]}
      extra_body: {chat_template_kwargs: {enable_thinking: false}}
  - id: two
    backend:
      <<: *common
      model: 4
      cwd: /srv/two
      disallowed_tools: [delete_file]
      seed: ${NUMBER}
      system_message: in the backend
      context_paths: [own]
orchestrator:
  snapshot_storage: s
  agent_temporary_workspace: .massgen/t
  session_storage: /srv/sessions
  voting_sensitivity: strict
  max_new_answers_per_agent: 3
  answer_novelty_requirement: balanced
  skip_coordination_rounds: true
  context_paths:
    - src
    - path: .
      permission: write
      protected_paths: [LICENSE, /home/ann/project/docs]
      hidden_paths: [secret/]
      unprotected: [.VSCode]
  coordination:
    enable_planning_mode: true
    planning_mode_instruction: plan only
    max_orchestration_restarts: 2
timeout_settings:
  orchestrator_timeout_seconds: 60
  initial_round_timeout_seconds: 30
  subsequent_round_timeout_seconds: 20
  round_timeout_grace_seconds: 0
";

#[test]
fn every_served_key_of_an_agent_is_read() {
    let config = config(FULL);
    let [one, two] = config.agents.as_slice() else {
        panic!("two agents");
    };
    assert_eq!(one.system_message.as_deref(), Some("be brief"));
    assert_eq!(
        one.folder_guard,
        FolderGuard::On {
            read: ["/home/ann/project/docs", "/home/ann/notes"]
                .map(|p| AbsPath::new(p).unwrap())
                .into(),
            write: vec![AbsPath::new("/srv/out").unwrap()],
            downloads: Downloads::Dropped,
        }
    );
    assert_eq!(one.backend.base_url.as_deref(), Some("http://h/v1"));
    assert_eq!(
        one.backend.api_key.as_ref().unwrap().expose_secret(),
        "sk-1"
    );
    assert_eq!(
        one.tools.allowed.as_deref(),
        Some(["read_text_file".to_owned()].as_slice())
    );
    assert_eq!(one.read_before_delete, ReadBeforeDelete::Off);
    assert_eq!(
        serde_json::Value::Object(one.backend.parameters.clone()),
        json!({
            "max_tokens": 100,
            "some_new_parameter": {"deep": [1, true, null, "text"]},
            "chat_template_kwargs": {"enable_thinking": false},
            "temperature": 0.2,
            "top_k": 40,
            "stream_options": null,
        })
    );
    assert_eq!(two.backend.model, "4");
    assert_eq!(two.backend.parameters["seed"], json!(0.5));
    assert_eq!(two.system_message.as_deref(), Some("in the backend"));
    assert_eq!(two.tools.excluded, ["delete_file"]);
    assert_eq!(
        two.context_paths[0].path.to_string(),
        "/home/ann/project/own"
    );
}

#[test]
fn every_served_key_of_the_team_is_read() {
    let config = config(FULL);
    let rules = &config.orchestrator;
    assert_eq!(rules.voting_sensitivity, VotingSensitivity::Strict);
    assert_eq!(rules.answer_novelty, NoveltyRequirement::Balanced);
    assert_eq!(rules.max_new_answers_per_agent, Some(3));
    assert_eq!(rules.coordination, Rounds::Skip);
    assert_eq!(rules.max_orchestration_restarts, 2);
    let instruction = Some("plan only".to_owned());
    assert_eq!(rules.planning, Planning::On { instruction });
    let [source, project] = rules.context_paths.as_slice() else {
        panic!("two context paths");
    };
    assert_eq!(source.path.to_string(), "/home/ann/project/src");
    assert_eq!(source.permission, Permission::Read);
    assert_eq!(project.path.to_string(), BASE);
    assert_eq!(project.permission, Permission::Write);
    let protected: Vec<String> = project.protected.iter().map(ToString::to_string).collect();
    assert_eq!(protected, ["LICENSE", "docs"]);
    assert_eq!(project.hidden[0].to_string(), "secret");
    assert_eq!(project.unprotected, [".vscode"]);
    assert_eq!(config.timeouts.initial_round_seconds, Some(30));
    assert_eq!(config.timeouts.round_grace_seconds, 0);
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
    check(
        &both,
        &["error agents: `agent` and `agents` are both there"],
    );
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
fn unknown_keys_are_errors_with_the_nearest_known_one() {
    check(
        "agnets: []\n",
        &[
            "unknown key `agnets` (did you mean `agents`?)",
            "agents: `agents` is missing",
        ],
    );
    check(
        &with_orchestrator("voting-sensitivity: strict"),
        &["unknown key `voting-sensitivity` (did you mean `voting_sensitivity`?)"],
    );
    check(
        "agent:\n  id: a\n  backend: {type: grok}\n  cwd: w\n",
        &["error agent.cwd: unknown key `cwd` (it belongs into `agents[].backend`)"],
    );
    check(
        &with_orchestrator("context_paths: [{path: a, colour: red}]"),
        &["keys here are `path`, `permission`, `protected_paths`"],
    );
    check(&with_orchestrator("x-anything: {a: b}"), &[]);
}

#[test]
fn keys_of_a_backend_that_look_like_typing_errors_are_errors() {
    check(
        &with_backend("temprature: 0.5"),
        &["unknown key `temprature` (did you mean `temperature`?)"],
    );
    check(
        &with_backend("Base_URL: http://h"),
        &["did you mean `base_url`?"],
    );
    check(&with_backend("modle: x"), &["did you mean `model`?"]);
    check(&with_backend("brand_new_parameter: 1"), &[]);
}

#[test]
fn a_parameter_that_the_vendor_has_not_is_one_warning_and_not_sent() {
    let backend = |lines: &str| {
        format!("agent: {{id: a, backend: {{type: gemini, model: gemini-3.8-flash, {lines}}}}}")
    };
    let sent = |lines: &str| {
        let loaded = try_load(&backend(lines)).unwrap();
        serde_json::Value::Object(loaded.config.agents[0].backend.parameters.clone())
    };
    let mixed = "top_k: 4, logit_bias: {1: 2}, enable_web_search: yes, my_own: 1, seed: null";
    check(
        &backend(mixed),
        &[
            "warning agent.backend.logit_bias: `logit_bias` is not sent to `gemini`: it chooses words \
             without this parameter (-)",
        ],
    );
    let expected = json!({"top_k": 4, "enable_web_search": true, "my_own": 1, "seed": null});
    assert_eq!(sent(mixed), expected);
    let nothing = "logit_bias: null, enable_web_search: false, enable_code_interpreter: no";
    check(&backend(nothing), &[]);
    assert_eq!(sent(nothing), json!({}));
    let asked_for = "extra_body: {logit_bias: {1: 2}}";
    check(&backend(asked_for), &[]);
    assert_eq!(sent(asked_for), json!({"logit_bias": {"1": 2}}));
    check(
        &backend("enable_web_search: true").replace("3.8", "2.5"),
        &["not sent to `gemini`: its models before Gemini 3 take either tools of Google's or"],
    );

    let falling_back = "enable_web_search: true, extra_body: {logit_bias: {1: 2}}, \
                        fallback: [gemini-3.7-flash, gemini-2.5-flash, {type: groq, model: m, top_k: 1}]";
    check(
        &backend(falling_back),
        &[
            "warning agent.backend.fallback[1]: `enable_web_search` is not sent to `gemini`: its models",
        ],
    );
    let loaded = try_load(&backend(falling_back)).unwrap();
    let fallback = &loaded.config.agents[0].backend.fallback;
    let sent: Vec<usize> = fallback
        .iter()
        .map(|backend| backend.parameters.len())
        .collect();
    assert_eq!(sent, [2, 1, 1]);
}

#[test]
fn keys_that_are_not_served_are_one_warning_each() {
    check(
        &with_backend("mcp_servers: [{name: x, command: sh}]\nenable_web_search: true"),
        &[
            "warning agent.backend.mcp_servers: `mcp_servers` is not supported: no MCP server is started",
            "warning agent.backend.enable_web_search: `enable_web_search` is not sent to `ollama`",
        ],
    );
    check(
        &with_backend("enable_web_search: false\nenable_mcp_command_line: no"),
        &[],
    );
    check(
        &with_backend("enable_web_search: maybe"),
        &["error agent.backend.enable_web_search"],
    );
    check(
        &with_backend("permission_mode: acceptEdit"),
        &["did you mean `acceptEdits`?"],
    );
    let ui = |line: &str| format!("{}ui: {{{line}}}\n", with_backend(""));
    check(
        &ui("display_type: rich_terminal"),
        &["warning ui.display_type: "],
    );
    check(&ui("display_type: simple, logging_enabled: true"), &[]);
    check(
        &with_orchestrator("timeout: {orchestrator_timeout_seconds: 5}"),
        &["warning orchestrator.timeout.orchestrator_timeout_seconds: "],
    );
    check(
        &with_orchestrator(
            "coordination: {use_skills: true, broadcast: false, resume_from_log: {round: 1}}",
        ),
        &[
            "warning orchestrator.coordination.use_skills",
            "warning orchestrator.coordination.resume_from_log",
        ],
    );
}

#[test]
fn keys_that_cannot_be_used_are_errors_with_the_way_out() {
    check(
        &with_backend("system_prompt: x"),
        &["cannot be used here (write it as `system_message` of the agent)"],
    );
    check(
        &with_backend("stream: false"),
        &["`stream` cannot be used here"],
    );
    check(
        "models: [a]\nagent: {id: a, backend: {type: grok}}\n",
        &["`models` cannot be used here (it is from the first version"],
    );
}

#[test]
fn values_have_the_shape_of_their_key() {
    check(
        &with_backend("temperature: 3"),
        &["`temperature` is `3` (-)"],
    );
    check(
        &with_backend("temperature: warm"),
        &["`temperature` is `warm`"],
    );
    check(&with_backend("max_tokens: 0"), &["`max_tokens` is `0` (-)"]);
    check(&with_backend("max_tokens: 1.5"), &["`max_tokens` is `1.5`"]);
    check(
        &with_backend("exclude_tools: delete_file"),
        &["`exclude_tools` is `delete_file` (-)"],
    );
    check(
        &with_backend("exclude_tools: [[a]]"),
        &["error agent.backend.exclude_tools[0]"],
    );
    check(&with_backend("cwd: {a: b}"), &["`cwd` is a mapping (-)"]);
    check(
        &with_orchestrator("voting_sensitivity: strct"),
        &["did you mean `strict`?"],
    );
    check(&with_orchestrator("max_new_answers_per_agent: null"), &[]);
    check(
        &with_orchestrator("skip_coordination_rounds: 1"),
        &["`skip_coordination_rounds` is `1`"],
    );
    check(
        &with_orchestrator("context_paths: src"),
        &["`context_paths` is `src`"],
    );
    check(
        &with_orchestrator("context_paths: [{permission: read}]"),
        &["orchestrator.context_paths[0].path: `path` is missing"],
    );
    check(
        &with_orchestrator("context_paths: [{path: a, permission: wrte}]"),
        &["did you mean `write`?"],
    );
    let timeout = |value: &str| {
        format!(
            "{}timeout_settings: {{orchestrator_timeout_seconds: {value}}}\n",
            with_backend("")
        )
    };
    for value in ["0", "-1", "1.5", "604801", "99999999999999999999", "soon"] {
        check(
            &timeout(value),
            &["error timeout_settings.orchestrator_timeout_seconds"],
        );
    }
    check(&timeout("604800"), &[]);
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
fn variables_are_filled_in_or_told() {
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
        &["warning agent.backend.user: the variable `NOT_SET` is not set: the text stays"],
    );
    check(
        &with_backend("api_key: ${NOT_SET}"),
        &["error agent.backend.api_key: the variable `NOT_SET` is not set"],
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
        &["warning agent.backend.mcp_servers"],
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
        &["there is no backend type `groqq` (did you mean `groq`?)"],
    );
    check(
        &backend("type: gemini_cli"),
        &["the backend type `gemini_cli` is not served yet (use `type: openrouter`, which"],
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
        &["`base_url` is not an address"],
    );
    check(
        &backend("type: grok, base_url: 'ftp://h'"),
        &["`base_url` is not an address of the web"],
    );
    check(
        &backend("type: grok, base_url: 'https://u:p@h'"),
        &["holds a password"],
    );
    check(&backend("type: grok, base_url: 'https://h/v1'"), &[]);
}

#[test]
fn scripted_backends_have_replies() {
    let backend = |line: &str| format!("agent:\n  id: a\n  backend: {{type: scripted, {line}}}\n");
    let script = |line: &str| config(&backend(line)).agents[0].backend.script.clone();
    assert_eq!(
        script("replies: [{text: 'hello ${USER}'}]"),
        Some(Script::Inline(json!([{"text": "hello ${USER}"}])))
    );
    let file = |path: &str| Some(Script::File(AbsPath::new(path).unwrap()));
    assert_eq!(script("script: r.yaml"), file("/configs/r.yaml"));
    assert_eq!(script("script: /r.yaml"), file("/r.yaml"));
    assert_eq!(script("script: ~/r.yaml"), file("/home/ann/r.yaml"));
    check(
        &backend("model: m"),
        &["a `scripted` backend needs its replies"],
    );
    check(
        &backend("replies: [], script: a"),
        &["`replies` and `script` are both there"],
    );
    check(
        &with_backend("replies: []"),
        &["only a `scripted` backend has replies"],
    );
}

#[test]
fn wide_paths_are_opened_only_on_request() {
    for path in [
        "/",
        "/etc",
        "/home",
        "'~'",
        "/home/ann",
        "..",
        "/proc/self",
        ".massgen/sessions/s1",
        "/usr",
    ] {
        let yaml = with_orchestrator(&format!("context_paths: [{{path: {path}}}]"));
        check(&yaml, &["(name the directory that the agents need"]);
        let yaml = with_orchestrator(&format!("context_paths: [{path}]"));
        check(&yaml, &["(name the directory that the agents need"]);
        let yaml = with_backend(&format!("folder_guard: {{read: [{path}]}}"));
        check(&yaml, &["(name the directory that the agents need"]);
    }
    let wide = with_orchestrator("context_paths: [{path: /usr, allow_broad: true}]");
    assert_eq!(config(&wide).orchestrator.context_paths.len(), 1);
    for path in [
        ".",
        "src",
        "/srv/data",
        "~/other",
        "/usr/share/doc",
        "../sibling",
    ] {
        check(&with_orchestrator(&format!("context_paths: [{path}]")), &[]);
    }
}

#[test]
fn context_paths_are_whole() {
    let entry = |line: &str| with_orchestrator(&format!("context_paths: [{{path: src, {line}}}]"));
    check(
        &entry("protected_paths: [../x]"),
        &["`../x` is not inside the context path"],
    );
    check(
        &entry("hidden_paths: [/etc/x]"),
        &["`/etc/x` is not inside the context path"],
    );
    check(
        &entry("unprotected: [.gti]"),
        &["`.gti` is not a protected name (did you mean `.git`?)"],
    );
    check(
        &entry("unprotected: [src]"),
        &["(remove it: the name is open anyway)"],
    );
    check(
        &with_orchestrator("context_paths: [src, ./src/]"),
        &["error orchestrator.context_paths[1]"],
    );
    check(
        &with_orchestrator("context_paths: ['']"),
        &["the path is empty"],
    );
    check(
        &with_orchestrator("context_paths: [~bob/x]"),
        &["is the home directory of another user"],
    );
    check(
        &with_orchestrator("context_paths: [\"a\\0b\"]"),
        &["cannot be a path"],
    );
    check(
        &with_orchestrator("context_paths: [~, src]"),
        &["error orchestrator.context_paths[0]"],
    );
    let many = format!(
        "context_paths: [{}]",
        (0..257)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    );
    check(
        &with_orchestrator(&many),
        &["`context_paths` has 257 entries; at most 256"],
    );
}

#[test]
fn the_orchestrators_entry_counts_before_the_agents() {
    let yaml = "
agent:
  id: a
  backend: {type: grok, cwd: w, context_paths: [{path: src, permission: write}, own]}
orchestrator:
  context_paths: [src]
";
    check(
        yaml,
        &[
            "warning agent.backend.context_paths: `/home/ann/project/src` is listed in `orchestrator` too",
        ],
    );
    let loaded = try_load(yaml).unwrap();
    let own: Vec<String> = loaded.config.agents[0]
        .context_paths
        .iter()
        .map(|p| p.path.to_string())
        .collect();
    assert_eq!(own, ["/home/ann/project/own"]);
}

#[test]
fn a_guard_is_off_or_has_lists() {
    let guard = |yaml: &str| config(yaml).agents[0].folder_guard.clone();
    assert_eq!(guard(&with_backend("")), FolderGuard::Off);
    let closed = FolderGuard::On {
        read: vec![],
        write: vec![],
        downloads: Downloads::Open,
    };
    assert_eq!(guard(&with_backend("folder_guard: {}")), closed);
    assert_eq!(
        guard(&with_backend("folder_guard: {read: , write: []}")),
        closed
    );
    check(
        &with_backend("folder_guard:"),
        &["error agent.backend.folder_guard: `folder_guard` is empty"],
    );
    check(
        &with_backend("folder_guard: off"),
        &["error agent.backend.folder_guard: `folder_guard` is `off`"],
    );
    check(
        &with_backend("folder_guard: {}\ncontext_paths: [src]"),
        &[
            "warning agent.backend.context_paths: `context_paths` are not open to an agent with a `folder_guard`",
        ],
    );
}

#[test]
fn directories_of_massgen_lie_apart() {
    for cwd in ["..", ".", "../x", ".massgen", "a/../../b", "''"] {
        check(
            &with_backend(&format!("cwd: {cwd}")),
            &["does not name a directory of massgen's"],
        );
    }
    for cwd in ["/", "/etc", "'~'", "/home/ann/project", "/home"] {
        check(
            &with_backend(&format!("cwd: {cwd}")),
            &["let the agent work in a directory of its own"],
        );
    }
    for cwd in [
        "w1",
        ".massgen/workspaces/w",
        "/srv/w",
        "~/w",
        "/home/ann/project/.massgen/workspaces/w",
    ] {
        check(&with_backend(&format!("cwd: {cwd}")), &[]);
    }
    let pair = |a: &str, b: &str| {
        let agent =
            |id: &str, cwd: &str| format!("- {{id: {id}, backend: {{type: grok, cwd: {cwd}}}}}\n");
        format!("agents:\n{}{}", agent("a", a), agent("b", b))
    };
    check(
        &pair("w", "./w"),
        &["this directory is the one of `agents[0].backend.cwd` too"],
    );
    check(&pair("/srv/w", "/srv/w/x"), &["lie in one another"]);
    check(
        &pair("w", ".massgen/workspaces/w"),
        &["is the one of `agents[0].backend.cwd` too"],
    );
    check(&pair("w", "w/x"), &[]);
    check(&pair("w1", "w2"), &[]);
}

#[test]
fn storage_lies_apart_from_what_agents_are_given() {
    for key in [
        "snapshot_storage",
        "agent_temporary_workspace",
        "session_storage",
    ] {
        for place in ["/", "/etc", "'~'", "/home/ann/project"] {
            check(
                &with_orchestrator(&format!("{key}: {place}")),
                &["for massgen alone"],
            );
        }
        for place in ["../x", "''", "."] {
            check(
                &with_orchestrator(&format!("{key}: {place}")),
                &["does not name a directory of massgen's"],
            );
        }
        for place in ["/srv/a", "/srv/a/b", "/srv"] {
            let yaml = with_orchestrator(&format!("{key}: {place}\ncontext_paths: [/srv/a]"));
            check(&yaml, &["the storage shares a directory with `/srv/a`"]);
        }
        check(
            &with_orchestrator(&format!("{key}: workspaces")),
            &["lie in one another"],
        );
        check(
            &with_orchestrator(&format!("{key}: massgen_logs/x")),
            &["the one of `massgen's log`"],
        );
        check(
            &with_orchestrator(&format!("{key}: /srv/a\ncontext_paths: [/srv/b]")),
            &[],
        );
        check(
            &with_orchestrator(&format!("{key}: store\ncontext_paths: [.]")),
            &[],
        );
    }
    check(
        &with_orchestrator("snapshot_storage: s\nsession_storage: s/x"),
        &[
            "error orchestrator.session_storage: this directory and the one of `orchestrator.snapshot_storage`",
        ],
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
        &["warning agent.backend.allowed_tools: tools are both allowed and excluded"],
    );
}

#[test]
fn a_warning_is_given_once_and_never_hides_an_error() {
    let agent =
        |id: usize| format!("- {{id: a{id}, backend: {{type: grok, enable_web_search: true}}}}\n");
    let agents = (0..50).map(agent).collect::<Vec<_>>().concat();
    let loaded = try_load(&format!("agents:\n{agents}")).unwrap();
    let [warning] = loaded.warnings.as_slice() else {
        panic!("{:?}", loaded.warnings);
    };
    assert_eq!(warning.repeats, 49);
    assert_eq!(
        loaded.warning_lines(),
        [
            "team.yaml:2:34: `enable_web_search` is not sent to `grok`: the agent works without a \
          search of the vendor's (and in 49 more places)"
        ]
    );
    let unset: Vec<String> = (0..150).map(|n| format!("p{n}: ${{V{n}}}")).collect();
    let unset = unset.join("\n");
    let invalid = try_load(&with_backend(&format!("{unset}\ntemperature: hot"))).unwrap_err();
    assert!(
        invalid
            .diagnostics
            .iter()
            .any(|found| found.severity == Severity::Error)
    );
}
