//! Pipelines and roles: how they are built, and the findings about mistakes in them.

use super::*;
use crate::config::workflow::{ProjectChoice, WorkflowConfig};
use crate::id::AgentId;
use crate::roles::{RoleReadAccess, RoleRight, RoleWriteAccess};

/// Returns a team of three with a pipeline; `ben` and `cat` may run commands.
fn with_workflow(keys: &str, rest: &str) -> String {
    let agent = |id: &str, more: &str| {
        format!("  - {{id: {id}, backend: {{type: scripted, replies: [{{text: x}}]{more}}}}}\n")
    };
    let commands = ", enable_mcp_command_line: true";
    let agents = [
        agent("ann", ""),
        agent("ben", commands),
        agent("cat", commands),
    ]
    .concat();
    format!("agents:\n{agents}workflow: {{type: pipeline, {keys}}}\n{rest}")
}

const ALL: &str = "stages: [{role: planner, agent: ann}, {role: tester, agents: [ben, cat]}]";

#[track_caller]
fn workflow(keys: &str, rest: &str) -> WorkflowConfig {
    config(&with_workflow(keys, rest)).workflow.unwrap()
}

#[track_caller]
fn refused(keys: &str, rest: &str, expected: &[&str]) {
    check(&with_workflow(keys, rest), expected);
}

#[test]
fn a_pipeline_has_stages_with_agents_and_limits() {
    let config = workflow(&format!("{ALL}, max_iterations: 7, merge_tries: 0"), "");
    let stages = config.pipeline.stages.iter().map(|stage| {
        let agents: Vec<&str> = stage.agents.iter().map(AgentId::as_str).collect();
        format!("{} {} x{}", stage.role.name, agents.join("+"), stage.copies)
    });
    assert_eq!(
        stages.collect::<Vec<_>>(),
        ["planner ann x1", "tester ben+cat x1"]
    );
    assert_eq!(
        (config.pipeline.iterations_max, config.merge_tries_max),
        (7, 0)
    );
    assert_eq!(config.pipeline.until, None);
    assert_eq!(config.project, ProjectChoice::Auto);
    let same =
        "stages: [{role: ann}, {role: user, agent: ben}, {role: planner, agent: cat, copies: 3}]";
    let config = workflow(same, "roles: {ann: {}}\n");
    assert_eq!(
        config.pipeline.stages[0].agents[0].as_str(),
        "ann",
        "the agent of the same name"
    );
    assert_eq!(config.pipeline.until.unwrap().as_str(), "user");
    assert_eq!(config.pipeline.stages[2].copies, 3);
}

#[test]
fn roles_are_described_and_changed() {
    let rest = "roles:\n  \
        guard: {purpose: p, prompt: q, rights: [read, write], writes: [docs/x, tests], reads: [planner], output: G.md}\n  \
        planner: {writes: project}\n";
    let stages =
        "stages: [{role: planner, agent: ann}, {role: guard, agents: [ben, cat]}], until: guard";
    let config = workflow(stages, rest);
    let [planner, guard] = config.pipeline.stages.as_slice() else {
        panic!("two stages");
    };
    assert_eq!(planner.role.writes, RoleWriteAccess::Project);
    assert_eq!(
        planner.role.output.as_deref(),
        Some("PLAN.md"),
        "the rest is as it was"
    );
    assert!(guard.role.has_right(RoleRight::Write) && !guard.role.has_right(RoleRight::Edit));
    let dirs = ["docs/x", "tests"].map(|dir| crate::path::RelPath::new(dir).unwrap());
    assert_eq!(
        guard.role.writes,
        RoleWriteAccess::OwnAndListed(dirs.to_vec())
    );
    assert_eq!(
        guard.role.reads,
        RoleReadAccess::Only(vec![planner.role.name.clone()])
    );
    assert_eq!(guard.role.output.as_deref(), Some("G.md"));
    assert_eq!(config.pipeline.until.as_ref(), Some(&guard.role.name));
}

#[test]
fn mistakes_in_stages_are_named() {
    let all = "{role: tester, agents: [ben, cat]}";
    let stages = |first: &str| format!("stages: [{first}, {all}]");
    refused(
        &stages("planer"),
        "",
        &["unknown role `planer` (did you mean `planner`?)"],
    );
    let unknown = "unknown agent `anna` (did you mean `ann`?)";
    refused(&stages("{role: planner, agent: anna}"), "", &[unknown]);
    refused("stages: []", "", &["`stages` is empty"]);
    let twice = "role `tester` is in two stages";
    refused(&stages("{role: tester, agent: ben}"), "", &[twice]);
    let unable = "role `user` runs commands, but its agent `ann` may not";
    refused(&stages("{role: user, agent: ann}"), "", &[unable]);
    let planner = "{role: planner, agent: ann}";
    let no_stage = "role `reviewer` is not a stage";
    refused(
        &format!("{}, until: reviewer", stages(planner)),
        "",
        &[no_stage],
    );
    let name = "not a role name";
    refused(&stages("{role: Planner, agent: ann}"), "", &[name]);
    refused(
        &format!("{}, directory: ../x", stages(planner)),
        "",
        &["`../x` is not a directory of the tree"],
    );
    refused(
        &format!("{}, directory: .git", stages(planner)),
        "",
        &["`.git` is not a directory of the tree"],
    );
    refused(
        &stages("{role: planner, agent: ann, copies: 17}"),
        "",
        &["copies"],
    );
}

#[test]
fn mistakes_in_roles_are_named() {
    let described = |keys: &str| format!("roles: {{planner: {{{keys}}}}}\n");
    refused(
        ALL,
        &described("rights: [edit]"),
        &["`edit` requires `write`"],
    );
    refused(
        ALL,
        &described("output: a/b"),
        &["`a/b` is not a file name"],
    );
    refused(
        ALL,
        &described("output: .git"),
        &["`.git` is not a file name"],
    );
    refused(
        ALL,
        &described("writes: [/etc]"),
        &["`/etc` is not a directory of the tree"],
    );
    let reads = "`planner` reads outputs of `reviewer`, which is not a stage";
    refused(ALL, &described("reads: [reviewer]"), &[reads]);
    let listed = "roles: [{name: x}, {name: x}, {purpose: y}]\n";
    refused(
        ALL,
        listed,
        &["role `x` is defined twice", "`name` is missing"],
    );
    let without = format!("{}roles: {{x: {{}}}}\n", with_backend(""));
    check(&without, &["`roles` have no effect without `workflow`"]);
}

#[test]
fn keys_that_roles_control_are_errors_elsewhere() {
    let write = "orchestrator: {context_paths: [{path: src, permission: write}]}\n";
    refused(
        ALL,
        write,
        &["is open for writing, but a pipeline cannot write to context paths"],
    );
    refused(ALL, "orchestrator: {context_paths: [src]}\n", &[]);
    let guarded = with_workflow(ALL, "").replace(
        "id: ann, backend: {",
        "id: ann, backend: {cwd: w, folder_guard: {read: [src]}, ",
    );
    check(&guarded, &["`folder_guard` of `ann` is set by its role"]);
    let placed =
        with_workflow(ALL, "").replace("id: ann, backend: {", "id: ann, backend: {cwd: /srv/w, ");
    check(&placed, &["`cwd` of `ann` is set by its role"]);
}
