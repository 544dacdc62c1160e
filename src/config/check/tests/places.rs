//! Paths that a config opens, and the directories that massgen writes to.

use super::*;

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
        own: None,
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
            own: None,
            downloads: DownloadsAccess::Open,
        }
    );
    assert_eq!(
        guard("preset: read_only, downloads: false"),
        FolderGuard::On {
            root: None,
            read: vec![],
            write: vec![],
            own: Some(GuardPreset::ReadOnly),
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
        &pair("w", "./w"),
        &["this directory is also that of `agents[0].backend.cwd`"],
    );
    check(&pair("/srv/w", "/srv/w/x"), &["are nested"]);
    check(
        &pair("w", ".massgen/workspaces/w"),
        &["is also that of `agents[0].backend.cwd`"],
    );
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
    check(&pair("w", "W"), &[folded]);
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
                &["only for massgen"],
            );
        }
        for place in ["../x", "''", "."] {
            check(
                &with_orchestrator(&format!("{key}: {place}")),
                &["is not a directory of massgen"],
            );
        }
        for place in ["/srv/a", "/srv/a/b", "/srv"] {
            let yaml = with_orchestrator(&format!("{key}: {place}\ncontext_paths: [/srv/a]"));
            check(&yaml, &["the storage shares a directory with `/srv/a`"]);
        }
        let yaml = with_orchestrator(&format!("{key}: /srv/A\ncontext_paths: [/srv/a]"));
        check(&yaml, &["the storage shares a directory with `/srv/a`"]);
        check(
            &with_orchestrator(&format!("{key}: workspaces")),
            &["are nested"],
        );
        check(
            &with_orchestrator(&format!("{key}: massgen_logs/x")),
            &["that of `massgen's log`"],
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
            "error orchestrator.session_storage: this directory and that of `orchestrator.snapshot_storage`",
        ],
    );
}
