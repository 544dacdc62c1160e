//! Keys and values of MassGen that massgen takes in its own way.

use super::*;
use crate::call_rules::rule_syntax::parse_rule;
use crate::config::check::permissions::{CALLS_OF_UNKNOWN_RISK, DANGEROUS_COMMANDS};
use crate::permissions::path_rules::RuleAction;

#[test]
fn values_of_massgen_are_read_as_the_nearest() {
    for (written, read_as) in [
        ("checklist_scored", VotingSensitivity::Strict),
        ("roi_balanced", VotingSensitivity::Balanced),
        ("roi_conservative", VotingSensitivity::Lenient),
    ] {
        let yaml = with_orchestrator(&format!("voting_sensitivity: {written}"));
        let found = format!("`voting_sensitivity: {written}` is read as");
        check(&yaml, &[&found]);
        let config = try_load(&yaml).unwrap().config;
        assert_eq!(config.orchestrator.voting_sensitivity, read_as);
    }
    check(
        &with_backend("mcp_servers: [{name: s, command: git, security: {level: high}}]"),
        &[
            "`git` is not an allowed program for a server",
            "`level: high` is read as `strict`",
        ],
    );
    // A variable may hold one.
    let env: ConfigVariables = [("SENSITIVITY".to_owned(), "roi_balanced".to_owned())]
        .into_iter()
        .collect();
    let yaml = with_orchestrator("voting_sensitivity: ${SENSITIVITY}");
    let loaded = try_load_with(&yaml, &env).unwrap();
    let warnings: Vec<&str> = loaded
        .warnings
        .iter()
        .map(|warning| warning.message.as_str())
        .collect();
    assert!(
        matches!(warnings[..], [warning] if warning.contains("`voting_sensitivity: roi_balanced` is read as")),
        "{warnings:?}"
    );
    let sensitivity = loaded.config.orchestrator.voting_sensitivity;
    assert_eq!(sensitivity, VotingSensitivity::Balanced);
}

#[test]
fn an_agent_may_be_ahead_by_the_number_that_the_config_says() {
    for (keys, expected) in [
        ("skip_coordination_rounds: false", Some(2)),
        ("fairness_lead_cap_answers: 5", Some(5)),
        // MassGen's strict lockstep.
        ("fairness_lead_cap_answers: 0", Some(1)),
        (
            "fairness_enabled: false\nfairness_lead_cap_answers: 1",
            None,
        ),
    ] {
        let rules = config(&with_orchestrator(keys)).orchestrator;
        assert_eq!(rules.answer_lead_max, expected, "{keys}");
    }
}

#[test]
fn a_checklist_has_criteria_and_a_threshold() {
    let checklist = |yaml: &str| {
        let yaml = with_orchestrator(yaml);
        check(&yaml, &[]);
        try_load(&yaml).unwrap().config.orchestrator.checklist
    };
    let own = checklist(
        "voting_sensitivity: checklist_gated\nvoting_threshold: 3\ncoordination:\n  \
         checklist_criteria_inline: [short, {text: true to the source}]",
    );
    let criteria = vec!["short".to_owned(), "true to the source".to_owned()];
    assert_eq!(
        own,
        Some(VotingChecklist {
            criteria,
            threshold: 3
        })
    );
    let default = checklist("voting_sensitivity: checklist_gated").unwrap();
    assert_eq!((default.criteria.len(), default.threshold), (4, 5));
    assert_eq!(checklist("voting_sensitivity: strict"), None);
}

#[test]
fn keys_of_massgen_are_not_sent_to_a_vendor() {
    let loaded = try_load(&with_backend(
        "enable_tool_search: true\ntool_search_variant: bm25\nenable_programmatic_flow: true\n\
         enable_strict_tool_use: true\nmax_concurrent_tools: 3\nstrict: true\nspeed: fast",
    ))
    .unwrap();
    let sent = &loaded.config.agents[0].backend.parameters;
    assert_eq!(json!(sent), json!({ "strict": true }));
    assert_eq!(loaded.warnings.len(), 5, "{:#?}", loaded.warnings);
}

#[test]
fn an_agent_may_work_on_files_by_commands_alone() {
    let excluded = |lines: &str| {
        let yaml = with_backend(&format!("exclude_file_operation_mcps: true\n{lines}"));
        config(&yaml).agents[0].tools.excluded.len()
    };
    assert!(excluded("cwd: w\nenable_mcp_command_line: true") > 10);
    assert_eq!(excluded("cwd: w\nenable_code_based_tools: true"), 0);
    let mut without = with_backend("exclude_file_operation_mcps: false\ncwd: w");
    without.push_str("  append_system_prompt: Be kind.\n  system_message: Be brief.\n");
    let agent = &config(&without).agents[0];
    assert!(agent.tools.excluded.is_empty());
    assert_eq!(
        agent.system_message.as_deref(),
        Some("Be brief.\n\nBe kind.")
    );
}

#[test]
fn tools_of_an_external_agent_are_listed_by_its_names() {
    let lists = |vendor: &str| {
        format!(
            "agent: {{id: a, backend: {{type: {vendor}, cwd: w, allowed_tools: [Bash, WebSearch]}}}}\n"
        )
    };
    check(&lists("claude_code"), &[]);
    check(
        &lists("grok"),
        &[
            "massgen has no file tool `Bash`",
            "massgen has no file tool `WebSearch`",
        ],
    );
}

#[test]
fn partly_supported_keys_cause_one_warning() {
    for (lines, expected) in [
        (
            "enable_multimodal_tools: true\nimage_generation_backend: google",
            "orchestrator.image_generation_backend: `image_generation_backend` has no effect: `google` \
             makes no media here",
        ),
        (
            "coordination: {evaluation_criteria_generator: {enabled: true}}",
            "agents score answers only with `voting_sensitivity: checklist_gated`",
        ),
        (
            "coordination: {persona_generator: {enabled: true, persist_across_turns: true}}",
            "they are written for each turn",
        ),
    ] {
        check(&with_orchestrator(lines), &[expected]);
    }
    let subagents = "coordination: {subagent_types: [Explorer, own, explorer], subagent_orchestrator: \
                     {enabled: true, shared_child_team_types: [Own], enable_web_search: true, agents: [{backend: {type: claude, \
                     model: m, cwd: w}}, {id: other, backend: {type: ollama, model: n}}, \
                     {backend: {type: codex, model: o}}]}}";
    let config = config(&with_orchestrator(subagents));
    let [first, other, program] = config.agents[0].backend.subagent_models.as_slice() else {
        panic!("three models");
    };
    assert_eq!(program.name, "agent_3");
    assert!(program.backend.external_agent.is_some());
    let model = &first.backend;
    assert_eq!((model.vendor.name, &*model.model), ("claude", "m"));
    assert_eq!(model.parameters["enable_web_search"], true);
    assert_eq!((&*first.name, &*other.name), ("agent_1", "other"));
    assert_eq!(other.backend.model, "n");
    let types = &config.orchestrator.subagent_types;
    assert_eq!(types.names, ["explorer", "own"]);
    assert_eq!(types.types_with_models, Some(vec!["own".to_owned()]));
    assert_eq!(
        types.user_directory,
        AbsPath::new("/home/ann/.massgen/subagent_types")
    );
    let names_with = |keys: &str| {
        let keys = with_orchestrator(&format!("coordination: {{enable_subagents: true{keys}}}"));
        super::config(&keys).orchestrator.subagent_types.names
    };
    assert_eq!(names_with("").len(), 5);
    assert!(names_with(", subagent_types: []").is_empty());
    for (keys, expected) in [
        ("subagent_types: [../x]", "`../x` is not a name"),
        (
            "subagent_orchestrator: {enabled: true, agents: [{backend: {type: codex, model: m, \
             exclude_tools: [Bash]}}]}",
            "`exclude_tools` would have no effect: a subagent has the tools",
        ),
        (
            "subagent_orchestrator: {enabled: true, agents: [{id: a, backend: {type: ollama, model: m}}, \
             {id: a, backend: {type: ollama, model: n}}]}",
            "`a` is the name of an earlier one",
        ),
    ] {
        check(
            &with_orchestrator(&format!("coordination: {{{keys}}}")),
            &[expected],
        );
    }
}

#[test]
fn limits_of_models_are_no_team() {
    check(
        "gemini: {gemini-2.5-flash: {rpm: 9, tpm: 240000}, default: {rpm: 7, rpd: 100}}\n",
        &["error : this is a file of MassGen's rate limits"],
    );
    check("gemini: {flash: {rpm: 9, x: 1}}\n", &["", ""]);
}

#[test]
fn rules_of_massgen_are_combined_with_those_beside_them() {
    for rule in DANGEROUS_COMMANDS.iter().chain(CALLS_OF_UNKNOWN_RISK) {
        parse_rule(RuleAction::Ask, rule, None).unwrap_or_else(|reason| panic!("{rule}: {reason}"));
    }
    let ruling = |section: &str, call: &str| {
        let yaml = with_backend(&format!("cwd: w\npermissions: {section}"));
        let loaded = try_load(&yaml).unwrap_or_else(|invalid| panic!("{}", invalid.render()));
        let rules = &loaded.config.agents[0].permissions.rules;
        rules.action_for_example(call).unwrap()
    };
    let (deny, ask, allow) = (RuleAction::Deny, RuleAction::Ask, RuleAction::Allow);
    let rules = "rules: {deny: ['command(git push --force*)'], ask: ['command(npm publish*)'], \
                 allow: ['command(git status)', 'write_file(./**)', 'command(sudo *)']}";
    let beside = format!("{{{rules}, deny: ['write_file(a.txt)']}}");
    for (section, call, expected) in [
        (beside.as_str(), "command(git push --force)", deny),
        (&beside, "command(git push --force origin main)", deny),
        (&beside, "command(git push origin main)", allow),
        (&beside, "command(npm publish)", ask),
        (&beside, "command(npm publish --tag next)", ask),
        (&beside, "command(git status)", allow),
        (&beside, "write_file(a.txt)", deny),
        (&beside, "write_file(b.txt)", allow),
        // The strictest wins: `allow` does not lift what is asked because of its risk.
        (&beside, "command(sudo id)", ask),
        (&beside, "command(rm -rf x)", ask),
        (&beside, "command(rm x)", allow),
        (&beside, "command(curl http://h)", ask),
        (&beside, "command(git reset --hard HEAD)", ask),
        ("{automation_default: risk-based}", "command(wget x)", ask),
        ("{automation_default: risk-based}", "command(make)", allow),
        ("{automation_default: deny-all}", "command(make)", ask),
        ("{automation_default: deny-all}", "mcp(s/t)", ask),
        ("{automation_default: deny-all}", "write_file(a)", allow),
        ("{automation_default: allow-all}", "command(sudo id)", allow),
        ("{deny: []}", "command(sudo id)", allow),
        ("{role: read-only}", "write_file(a)", deny),
        ("{role: read-only}", "command(ls)", deny),
        (
            "{role: read-only, rules: {allow: [command]}}",
            "command(ls)",
            deny,
        ),
        (
            "{enabled: false, rules: {deny: [command]}}",
            "command(ls)",
            allow,
        ),
    ] {
        assert_eq!(ruling(section, call), expected, "{section} {call}");
    }
    check(
        &with_backend("permissions: {rules: {deny: ['commnd(x)']}}"),
        &["error agent.backend.permissions.rules.deny[0]: invalid rule"],
    );
}
