//! Each key by itself: whether it is known and supported, its shape and its default.

use super::commands::with_commands;
use super::docker::in_docker;
use super::servers::with_servers;
use super::*;
use crate::config::DashboardMode;

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one arm for each section, and nothing else"
)]
fn every_default_of_the_table_is_the_default_of_the_code() {
    let mut written = 0;
    for section in SECTIONS {
        let supported = section
            .keys
            .iter()
            .filter(|key| key.status == KeyStatus::Supported);
        for (name, default) in supported.filter_map(|key| Some((key.names[0], key.default?))) {
            let line = format!("{name}: {default}");
            let (with, without) = match section.path {
                "orchestrator" => (with_orchestrator(&line), with_backend("cwd: w1")),
                "agents[].backend" if name.starts_with("command_") => {
                    (with_commands(&line), with_commands(""))
                }
                "agents[].backend.command_line_limits" => (
                    with_commands(&format!("command_line_limits: {{{line}}}")),
                    with_commands(""),
                ),
                "agents[].backend.command_line_docker_credentials" => (
                    in_docker(&format!("command_line_docker_credentials: {{{line}}}")),
                    in_docker("command_line_docker_credentials: {}"),
                ),
                "agents[].backend.command_line_docker_packages" => (
                    in_docker(&format!("command_line_docker_packages: {{{line}}}")),
                    in_docker("command_line_docker_packages: {}"),
                ),
                "agents[].backend.command_line_docker_packages.preinstall" => (
                    in_docker(&format!(
                        "command_line_docker_packages: {{preinstall: {{{line}}}}}"
                    )),
                    in_docker("command_line_docker_packages: {preinstall: {}}"),
                ),
                "agents[].backend.mcp_servers[]" => (
                    with_servers(&format!("[{{name: s, command: node, {line}}}]")),
                    with_servers("[{name: s, command: node}]"),
                ),
                "agents[].backend.mcp_servers[].oauth" => (
                    with_servers(&format!(
                        "[{{name: s, url: 'https://e.org', oauth: {{{line}}}}}]"
                    )),
                    with_servers("[{name: s, url: 'https://e.org'}]"),
                ),
                "agents[].backend.mcp_servers[].security" => (
                    with_servers(&format!(
                        "[{{name: s, command: node, security: {{{line}}}}}]"
                    )),
                    with_servers("[{name: s, command: node}]"),
                ),
                "agents[].backend" => (with_backend(&line), with_backend("")),
                "agents[]" => (
                    with_backend("").replace("  id: a\n", &format!("  id: a\n  {line}\n")),
                    with_backend(""),
                ),
                "agents[].backend.custom_tools[]" => (
                    with_backend(&format!("custom_tools: [{{function: f, {line}}}]")),
                    with_backend("custom_tools: [{function: f}]"),
                ),
                "agents[].backend.tools[]" => (
                    with_backend(&format!(
                        "tools: [{{name: t, command: a, description: d, {line}}}]"
                    )),
                    with_backend("tools: [{name: t, command: a, description: d}]"),
                ),
                "timeout_settings" => (
                    format!("{}timeout_settings: {{{line}}}\n", with_backend("")),
                    with_backend(""),
                ),
                "limits" => (
                    format!("{}limits: {{{line}}}\n", with_backend("")),
                    with_backend(""),
                ),
                "memory" => (
                    format!("{}memory: {{{line}}}\n", with_backend("")),
                    with_backend(""),
                ),
                "memory.persistent_memory" => {
                    let memory = format!("{{enabled: true, persistent_memory: {{{line}}}}}");
                    let with = format!("{}memory: {memory}\n", with_backend(""));
                    (with, with_backend(""))
                }
                "permissions" => (
                    format!("{}permissions: {{{line}}}\n", with_backend("")),
                    with_backend(""),
                ),
                "permissions.rules" => (
                    format!("{}permissions: {{rules: {{{line}}}}}\n", with_backend("")),
                    format!("{}permissions: {{rules: {{}}}}\n", with_backend("")),
                ),
                "orchestrator.coordination" => (
                    with_orchestrator(&format!("coordination: {{{line}}}")),
                    with_backend("cwd: w1"),
                ),
                "orchestrator.coordination.subagent_orchestrator"
                | "orchestrator.coordination.persona_generator"
                | "orchestrator.coordination.evaluation_criteria_generator"
                | "orchestrator.dspy" => {
                    let nested = |keys: &str| {
                        let (above, key) = section.path.rsplit_once('.').unwrap();
                        let nested = format!("{key}: {{{keys}}}");
                        let gated = "voting_sensitivity: checklist_gated";
                        with_orchestrator(&match above {
                            "orchestrator" => format!("{gated}\n{nested}"),
                            _ => format!("{gated}\ncoordination: {{{nested}}}"),
                        })
                    };
                    // Without a model, subagents have that of their agent, with a warning.
                    if name == "enabled" || section.path.ends_with("subagent_orchestrator") {
                        (nested(&line), nested(""))
                    } else {
                        let with = format!("enabled: true, {line}");
                        (nested(&with), nested("enabled: true"))
                    }
                }
                "orchestrator.coordination.checklist_criteria_inline[]" => {
                    let criterion = |keys: &str| {
                        with_orchestrator(&format!(
                            "voting_sensitivity: checklist_gated\n\
                             coordination: {{checklist_criteria_inline: [{{text: short{keys}}}]}}"
                        ))
                    };
                    (criterion(&format!(", {line}")), criterion(""))
                }
                "context_paths[]" => (
                    with_orchestrator(&format!("context_paths: [{{path: src, {line}}}]")),
                    with_orchestrator("context_paths: [src]"),
                ),
                "agents[].folder_guard" => (
                    with_backend(&format!("folder_guard: {{{line}}}")),
                    with_backend("folder_guard: {}"),
                ),
                "checks[]" => (
                    format!("{}checks: [{{command: make, {line}}}]\n", with_backend("")),
                    format!("{}checks: [make]\n", with_backend("")),
                ),
                "judge" => (
                    format!("{}judge: {{command: make, {line}}}\n", with_backend("")),
                    format!("{}judge: {{command: make}}\n", with_backend("")),
                ),
                "workflow" => (
                    format!(
                        "{}workflow: {{type: pipeline, stages: [planner], {line}}}\n",
                        with_backend("")
                    ),
                    format!(
                        "{}workflow: {{type: pipeline, stages: [planner]}}\n",
                        with_backend("")
                    ),
                ),
                "workflow.stages[]" => (
                    format!(
                        "{}workflow: {{type: pipeline, stages: [{{role: planner, {line}}}]}}\n",
                        with_backend("")
                    ),
                    format!(
                        "{}workflow: {{type: pipeline, stages: [planner]}}\n",
                        with_backend("")
                    ),
                ),
                "hooks" => (
                    format!("{}hooks: {{{line}}}\n", with_backend("")),
                    with_backend(""),
                ),
                "hooks.PreToolUse[]" => (
                    with_hooks(&format!("[{{hooks: ['true'], {line}}}]")),
                    with_hooks("[{hooks: ['true']}]"),
                ),
                "hook" => (
                    with_hooks(&format!("[{{hooks: [{{command: 'true', {line}}}]}}]")),
                    with_hooks("[{hooks: [{command: 'true'}]}]"),
                ),
                "ui" => (
                    format!("{}ui: {{{line}}}\n", with_backend("")),
                    with_backend(""),
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

/// Returns a config with these hooks before tool calls.
fn with_hooks(groups: &str) -> String {
    format!("{}hooks: {{PreToolUse: {groups}}}\n", with_backend(""))
}

/// A config with every supported key.
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
fn every_supported_key_of_an_agent_is_read() {
    let config = config(FULL);
    let [one, two] = config.agents.as_slice() else {
        panic!("two agents");
    };
    assert_eq!(one.system_message.as_deref(), Some("be brief"));
    assert_eq!(
        one.folder_guard,
        FolderGuard::On {
            root: None,
            workspace_preset: None,
            read: ["/home/ann/project/docs", "/home/ann/notes"]
                .map(|p| AbsPath::new(p).unwrap())
                .into(),
            write: vec![AbsPath::new("/srv/out").unwrap()],
            downloads: DownloadsAccess::Dropped,
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
fn every_supported_key_of_the_team_is_read() {
    let config = config(FULL);
    let rules = &config.orchestrator;
    assert_eq!(rules.voting_sensitivity, VotingSensitivity::Strict);
    assert_eq!(rules.answer_novelty, NoveltyRequirement::Balanced);
    assert_eq!(rules.max_new_answers_per_agent, Some(3));
    assert!(rules.skips_coordination);
    assert_eq!(rules.max_orchestration_restarts, 2);
    let instruction = Some("plan only".to_owned());
    assert_eq!(rules.planning, PlanningMode::On { instruction });
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
        &["error agent.cwd: unknown key `cwd` (it belongs in `agents[].backend`)"],
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
    let backend_keys = "extra_body: {logit_bias: {1: 2}}";
    check(&backend(backend_keys), &[]);
    assert_eq!(sent(backend_keys), json!({"logit_bias": {"1": 2}}));
    check(
        &backend("enable_web_search: true").replace("3.8", "2.5"),
        &[],
    );
    check(
        &backend("enable_web_search: true").replace("gemini-3.8-flash", "gemma-3-27b-it"),
        &["not sent to `gemini`: models before Gemini 3 support either Google's tools or"],
    );

    let falling_back = "enable_web_search: true, extra_body: {logit_bias: {1: 2}}, \
                        fallback: [gemini-3.7-flash, gemma-3-27b-it, {type: groq, model: m, top_k: 1}]";
    check(
        &backend(falling_back),
        &[
            "warning agent.backend.fallback[1]: `enable_web_search` is not sent to `gemini`: models before",
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
fn disabled_unsupported_features_cause_no_warning() {
    let with =
        |keys: &str| with_orchestrator(&format!("coordination: {{prompt_improver: {keys}}}"));
    check(&with("{enabled: false, limit: 5}"), &[]);
    for keys in ["{enabled: true}", "{inner: {enabled: false}}"] {
        check(&with(keys), &["`prompt_improver` is not supported"]);
    }
}

#[test]
fn a_model_of_another_maker_than_the_type_is_named() {
    let with = |keys: &str| format!("agent: {{id: a, backend: {{{keys}}}}}");
    let expected = "warning agent.backend.model: `claude-sonnet-4-5` is a model of `claude`, but \
                    `type` is `openai` (set `type: claude`)";
    check(&with("type: openai, model: claude-sonnet-4-5"), &[expected]);
    check(&with("type: openai, model: gpt-5"), &[]);
    // Servers of others may have models of all makers.
    for keys in [
        "type: openai, base_url: 'https://models.example/v1', model: claude-sonnet-4-5",
        "type: openrouter, model: claude-sonnet-4-5",
    ] {
        check(&with(keys), &[]);
    }
}

#[test]
fn keys_of_a_fallback_are_judged_as_those_of_its_backend() {
    let falling_back = |keys: &str| with_backend(&format!("fallback: [{{model: m, {keys}}}]"));
    check(&falling_back("temperature: 1, my_own: {a: 1}"), &[]);
    for (key, finding) in [
        (
            "temperature: hot",
            "error agent.backend.fallback[0].temperature: `temperature` is `hot`",
        ),
        (
            "temprature: 1",
            "error agent.backend.fallback[0].temprature: unknown key `temprature`",
        ),
        (
            "stream: true",
            "error agent.backend.fallback[0].stream: `stream` cannot be used here",
        ),
        (
            "cwd: w2",
            "error agent.backend.fallback[0].cwd: unknown key `cwd`",
        ),
        (
            "idle_timeout_seconds: 9",
            "error agent.backend.fallback[0].idle_timeout_seconds: unknown key",
        ),
        (
            "hooks: {}",
            "error agent.backend.fallback[0].hooks: unknown key `hooks`",
        ),
    ] {
        check(&falling_back(key), &[finding]);
    }
}

#[test]
fn keys_that_are_not_supported_are_one_warning_each() {
    check(
        &with_backend("direct_mcp_servers: [x]\nenable_x_search: true\nenable_web_search: true"),
        &[
            "warning agent.backend.direct_mcp_servers[0]: there is no server `x`",
            "warning agent.backend.enable_x_search: `enable_x_search` is not supported: the agent has",
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
        &ui("logging_enabled: false"),
        &["warning ui.logging_enabled: "],
    );
    check(
        &ui("display_type: rich_terminal, type: x, logging_enabled: true"),
        &[],
    );
    for (written, expected) in [
        ("display_type: simple", DashboardMode::Never),
        ("display_type: textual_terminal", DashboardMode::Auto),
        ("display_type: simple, dashboard: auto", DashboardMode::Auto),
    ] {
        assert_eq!(config(&ui(written)).dashboard, expected, "{written}");
    }
    check(&format!("{}display: {{type: x}}\n", with_backend("")), &[]);
    let at_the_top = "timeout: {orchestrator_timeout_seconds: 9}\ntask: do it\nnlip: {}\n";
    check(
        &format!("{}{at_the_top}", with_backend("")),
        &[
            "warning timeout: `timeout` is not supported: MassGen does not act on it either",
            "warning task: `task` is not supported: the task is given on the command line",
            "warning nlip: ",
        ],
    );
    check(
        &with_orchestrator("timeout: {orchestrator_timeout_seconds: 5}"),
        &["warning orchestrator.timeout.orchestrator_timeout_seconds: "],
    );
    check(
        &with_orchestrator(
            "coordination: {checkpoint_enabled: true, broadcast: false, resume_from_log: {round: 1}}",
        ),
        &[
            "warning orchestrator.coordination.checkpoint_enabled",
            "warning orchestrator.coordination.resume_from_log",
        ],
    );
}

#[test]
fn keys_that_restrict_and_are_not_supported_are_errors() {
    for (line, expected) in [
        (
            "permission_mode: plan",
            "error agent.backend.permission_mode",
        ),
        (
            "permission_mode: acceptEdits",
            "warning agent.backend.permission_mode",
        ),
        ("vote_only: true", "error agent.backend.vote_only"),
        (
            "max_thinking_tokens: 100",
            "error agent.backend.max_thinking_tokens",
        ),
    ] {
        check(&with_backend(line), &[expected]);
    }
    check(
        &with_backend("vote_only: false\nenable_tool_search: false"),
        &[],
    );
    check(
        &with_orchestrator("coordination: {checkpoint_gated_patterns: [rm], web_review: true}"),
        &["write them as `ask` or `deny`", "write `delivery: review`"],
    );
    check(
        &with_orchestrator("coordination: {checkpoint_gated_patterns: [], web_review: false}"),
        &[],
    );
}

#[test]
fn keys_that_cannot_be_used_are_errors_with_a_suggestion() {
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
fn rules_that_fit_nothing_are_warned_of() {
    let rules = |list: &str, rule: &str| {
        let servers = "cwd: w\nmcp_servers: [{name: every, command: node, args: [x]}]";
        let yaml = format!(
            "permissions: {{{list}: ['{rule}']}}\n{}",
            with_backend(servers)
        );
        findings(&yaml)
    };
    let check = |list: &str, rule: &str, expected: &str| {
        let findings = rules(list, rule);
        let fits = findings.iter().any(|finding| finding.contains(expected));
        assert!(fits, "{rule}\n{findings:#?}\n{expected}");
    };
    let fits = |list: &str, rule: &str| {
        let findings = rules(list, rule);
        let is_about =
            |finding: &String| finding.contains("matches nothing") || finding.contains("alone");
        assert!(!findings.iter().any(is_about), "{rule}\n{findings:#?}");
    };
    check("deny", "mcp(evry/*)", "no server `evry`");
    check("deny", "mcp(evry/*)", "did you mean `every`?");
    check("ask", "mcp(evry)", "no server `evry`");
    check("deny", "tool(mcp__evry__x)", "no server `evry`");
    check(
        "deny",
        "tool(no_such_tool)",
        "massgen has no tool `no_such_tool`",
    );
    check("allow", "tool(write_fil)", "did you mean `write_file`?");
    check("deny", "tool(delet_*)", "massgen has no tool `delet_*`");
    check(
        "deny",
        "command(curl)",
        "use `command(curl *)` for any arguments",
    );
    for rule in [
        "mcp(every/anything)",
        "mcp(*/delete_file)",
        "mcp(ev*/x)",
        "mcp",
        "tool(mcp__every__x)",
        "tool(mcp__*)",
        "tool(*_file)",
        "tool(read_file)",
        "tool(new_answer)",
        "tool(WebFetch)",
        "*",
        "command(curl *)",
        "command(cur*)",
        "command(git push)",
        "read_file(secrets/**)",
    ] {
        fits("deny", rule);
    }
    fits("allow", "command(curl)");
}
