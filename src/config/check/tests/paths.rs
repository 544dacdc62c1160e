//! Paths that a config opens, and the directories that massgen writes to.

use std::collections::BTreeMap;

use super::*;
use crate::dotenv::{DotenvAuthor, DotenvVariables, parse};

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
        check(&yaml, &["(use the directory that the agents need"]);
        let yaml = with_orchestrator(&format!("context_paths: [{path}]"));
        check(&yaml, &["(use the directory that the agents need"]);
        let yaml = with_backend(&format!("folder_guard: {{read: [{path}]}}"));
        check(&yaml, &["(use the directory that the agents need"]);
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
    check(&entry("hidden_paths: ['[slug].tsx']"), &[]);
    for pattern in ["notes/*", "**/private", "k?y", " notes"] {
        check(
            &entry(&format!("hidden_paths: ['{pattern}']")),
            &["is not a name: patterns close nothing here"],
        );
    }
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
            "warning agent.backend.context_paths: `/home/ann/project/src` is also listed in `orchestrator`",
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
        root: None,
        read: vec![],
        write: vec![],
        workspace_preset: None,
        downloads: DownloadsAccess::Open,
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
fn a_preset_adds_to_the_lists() {
    let guard = |lines: &str| {
        let yaml = with_backend(&format!("cwd: w1\nfolder_guard: {{{lines}}}"));
        config(&yaml).agents[0].folder_guard.clone()
    };
    let path = |path: &str| AbsPath::new(path).unwrap();
    assert_eq!(
        guard("preset: execution, root: flow, read: [docs]"),
        FolderGuard::On {
            root: Some(path("/home/ann/project/flow")),
            read: vec![
                path("/home/ann/project/docs"),
                path("/home/ann/project/flow/learnings"),
            ],
            write: vec![path("/home/ann/project/flow/execution")],
            workspace_preset: None,
            downloads: DownloadsAccess::Open,
        }
    );
    assert_eq!(
        guard("preset: read_only, downloads: false"),
        FolderGuard::On {
            root: None,
            read: vec![],
            write: vec![],
            workspace_preset: Some(GuardPreset::ReadOnly),
            downloads: DownloadsAccess::Dropped,
        }
    );
    check(
        &with_backend("folder_guard: {preset: planning}"),
        &["error agent.backend.folder_guard.preset: the directories of a preset are below"],
    );
    check(
        &with_backend("folder_guard: {preset: plan}"),
        &["error agent.backend.folder_guard.preset"],
    );
}

#[test]
fn directories_of_massgen_lie_apart() {
    for cwd in ["..", ".", "../x", ".massgen", "a/../../b", "''"] {
        check(
            &with_backend(&format!("cwd: {cwd}")),
            &["is not a directory of massgen"],
        );
    }
    for cwd in ["/", "/etc", "'~'", "/home/ann/project", "/home"] {
        check(
            &with_backend(&format!("cwd: {cwd}")),
            &["give the agent a separate directory"],
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
        &pair("/srv/w", "/srv/./w"),
        &["this directory is also that of `agents[0].backend.cwd`"],
    );
    check(&pair("/srv/w", "/srv/w/x"), &["are nested"]);
    check(&pair("w", "w/x"), &[]);
    check(&pair("w1", "w2"), &[]);
    // Some disks take these for one directory.
    let folded = "because a case-insensitive file system treats both spellings as the same";
    check(
        &pair("/srv/work", "/srv/Work"),
        &[&format!(
            "is also that of `agents[0].backend.cwd`, {folded}"
        )],
    );
    check(
        &pair("/srv/WORK", "/srv/work/x"),
        &[&format!("are nested, {folded}")],
    );
    check(&pair("/srv/a/w", "/srv/w\u{200b}"), &[]);
    check(&pair("/srv/w", "/srv/w\u{200b}"), &[folded]);
}

#[test]
fn agents_with_the_same_workspace_have_one_each() {
    let workspaces = |names: &[&str]| {
        let agent = |(index, cwd): (usize, &&str)| {
            format!("- {{id: a{index}, backend: {{type: grok, cwd: {cwd}}}}}\n")
        };
        let agents: String = names.iter().enumerate().map(agent).collect();
        let loaded = try_load(&format!("agents:\n{agents}")).unwrap();
        let agents = loaded.config.agents.iter();
        let own: Vec<String> = agents
            .map(|agent| agent.cwd.as_ref().unwrap().to_string())
            .collect();
        (own.join(" "), loaded.warnings.len())
    };
    for (names, own, warnings) in [
        (&["w1", "w2"][..], "w1 w2", 0),
        (&["w", "./w", "w"], "w w_2 w_3", 2),
        (&["w", "W"], "w W_2", 1),
        (&["w", "w", "w_2"], "w w_2 w_2_2", 2),
        (
            &["w", ".massgen/workspaces/w"],
            "w .massgen/workspaces/w_2",
            1,
        ),
        (&["w", "w/x"], "w w/x", 0),
    ] {
        assert_eq!(workspaces(names), (own.to_owned(), warnings), "{names:?}");
    }
    check(
        "agents:\n- {id: a, backend: {type: grok, cwd: w}}\n\
         - {id: b, backend: {type: grok, cwd: w}}\n",
        &["warning agents[1].backend.cwd: another agent works in `w` too: this one works in `w_2`"],
    );
}

#[test]
fn an_external_agent_always_has_a_workspace() {
    let yaml = "agents:\n- {id: a, backend: {type: gemini_cli}}\n\
                - {id: b, backend: {type: codex}}\n- {id: c, backend: {type: grok}}\n";
    let agents = try_load(yaml).unwrap().config.agents;
    let own: Vec<Option<String>> = agents
        .iter()
        .map(|agent| agent.cwd.as_ref().map(ToString::to_string))
        .collect();
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(own, [name("workspace"), name("workspace_2"), None]);
}

#[test]
fn a_program_gets_its_key_or_else_a_token_of_the_account() {
    let program = |keys: &str| {
        let agent = format!("{{id: a, backend: {{cwd: w, {keys}}}}}");
        let config = config(&format!("agents: [{agent}]\n"));
        let program = config.agents[0].backend.external_agent.clone().unwrap();
        let names: Vec<String> = program.sandbox.env.keys().cloned().collect();
        (names.join(" "), program.may_sign_in())
    };
    let (token, may_sign_in) = program("type: claude_code, reasoning_effort: low");
    assert!(token.contains("CLAUDE_CODE_OAUTH_TOKEN") && may_sign_in);
    assert!(token.contains("CLAUDE_CODE_EFFORT_LEVEL"), "{token}");
    let (key, may_sign_in) = program("type: claude_code, api_key: '${KEY}'");
    assert!(key.contains("ANTHROPIC_API_KEY") && may_sign_in);
    assert!(!key.contains("OAUTH"), "{key}");
    assert!(!program("type: codex, reasoning_effort: low").1);
    assert!(program("type: codex, env: [TOKEN]").1);
}

#[test]
fn a_key_of_a_project_does_not_replace_an_exported_token() {
    let variables = |author, exported: &str, keys: &str| {
        let file = AbsPath::new("/home/ann/project/.env").unwrap();
        let mut files = DotenvVariables::default();
        files.add(&file, author, parse("ANTHROPIC_API_KEY=sk-1").assignments);
        let process = BTreeMap::from([(exported.to_owned(), "oat-1".to_owned())]);
        let env = ConfigVariables::new(&process, &files);
        let yaml = format!("agents: [{{id: a, backend: {{cwd: w, type: claude_code{keys}}}}}]\n");
        let config = try_load_with(&yaml, &env).unwrap().config;
        let program = config.agents[0].backend.external_agent.clone().unwrap();
        let accounts = ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"];
        accounts.map(|name| program.sandbox.env.contains_key(name))
    };
    let (key, token) = ([true, false], [false, true]);
    let exported = "CLAUDE_CODE_OAUTH_TOKEN";
    assert_eq!(variables(DotenvAuthor::Stranger, exported, ""), token);
    assert_eq!(variables(DotenvAuthor::Stranger, "OTHER", ""), key);
    assert_eq!(variables(DotenvAuthor::User, exported, ""), key);
    // A config that names the key means it.
    let written = ", api_key: '${ANTHROPIC_API_KEY}'";
    assert_eq!(variables(DotenvAuthor::Stranger, exported, written), key);
}

#[test]
fn logs_of_massgen_may_be_read() {
    for entry in [
        ".massgen/massgen_logs",
        "{path: .massgen/massgen_logs/log_1, permission: read}",
    ] {
        check(
            &with_orchestrator(&format!("context_paths: [{entry}]")),
            &[],
        );
    }
    for entry in [
        ".massgen",
        ".massgen/sessions",
        ".massgen/massgen_logs2",
        "{path: .massgen/massgen_logs, permission: write}",
    ] {
        check(
            &with_orchestrator(&format!("context_paths: [{entry}]")),
            &["is massgen's own state"],
        );
    }
}

#[test]
fn storage_lies_apart_from_what_agents_are_given() {
    let key = "session_storage";
    for path in ["/", "/etc", "'~'", "/home/ann/project"] {
        check(
            &with_orchestrator(&format!("{key}: {path}")),
            &["only for massgen"],
        );
    }
    for path in ["../x", "''", "."] {
        check(
            &with_orchestrator(&format!("{key}: {path}")),
            &["is not a directory of massgen"],
        );
    }
    for path in ["/srv/a", "/srv/a/b", "/srv"] {
        let yaml = with_orchestrator(&format!("{key}: {path}\ncontext_paths: [/srv/a]"));
        check(&yaml, &["the storage shares a directory with `/srv/a`"]);
    }
    let yaml = with_orchestrator(&format!("{key}: /srv/A\ncontext_paths: [/srv/a]"));
    check(&yaml, &["the storage shares a directory with `/srv/a`"]);
    for (path, problem) in [
        ("workspaces", "are nested"),
        ("massgen_logs/x", "that of `.massgen/massgen_logs`"),
        ("snapshots", "that of `.massgen/snapshots`"),
    ] {
        check(&with_orchestrator(&format!("{key}: {path}")), &[problem]);
        let absolute = format!("{key}: /home/ann/project/.massgen/{path}");
        check(&with_orchestrator(&absolute), &[problem]);
    }
    check(
        &with_orchestrator(&format!("{key}: /srv/a\ncontext_paths: [/srv/b]")),
        &[],
    );
    check(
        &with_orchestrator(&format!("{key}: store\ncontext_paths: [.]")),
        &[],
    );
}
