//! Tables over the decision: each denial has a control next to it.

use super::grant::{Grant, GrantKind, GrantScope, Permission, Phase};
use super::path_rules::{CallApproval, PathGlob, PathRule, RuleAction};
use super::rules::{RULES, RuleExample};
use super::{DenyReason, PathPermissionManager, PermissionDecision};
use crate::path::{RealPath, RelPath};
use Permission::{Read, Write};
use Phase::{Coordination, Final};

#[expect(clippy::disallowed_methods, reason = "paths in tests need not exist")]
fn real(path: &str) -> RealPath {
    RealPath::vouch(path)
}

fn rule_about(action: RuleAction, access: Permission, glob: &str) -> PathRule {
    let glob = PathGlob::parse(glob, None).unwrap();
    PathRule::new(action, access, &glob, real("/g").to_abs())
}

fn grants() -> Vec<Grant> {
    let mut project = Grant::tree(real("/p"), GrantKind::Context, Write);
    project.protected = vec![RelPath::new("LICENSE").unwrap()];
    project.hidden = vec![
        RelPath::new("keys").unwrap(),
        RelPath::new(".massgen").unwrap(),
    ];
    vec![
        project,
        Grant::tree(real("/p/docs"), GrantKind::Context, Read),
        Grant::tree(
            real("/p/.massgen/workspaces/w1"),
            GrantKind::Workspace,
            Write,
        ),
        Grant::tree(real("/p/.massgen/temp"), GrantKind::TempWorkspace, Read),
        Grant::file(real("/etc/app.conf"), Write),
    ]
}

/// Checks a decision: `expected` is `allow KIND`, or the name of the rule that denies.
#[track_caller]
fn check(path: &str, phase: Phase, requested: Permission, expected: &str) {
    let manager = PathPermissionManager::new(grants(), phase);
    let outcome = match manager.decide(&real(path), requested) {
        PermissionDecision::Allow { grant } => format!("allow {}", grant.kind),
        PermissionDecision::Deny(DenyReason::OutsideGrants) => "outside".to_owned(),
        PermissionDecision::Deny(DenyReason::Lowered { rule, .. }) => rule.name.to_owned(),
    };
    assert_eq!(outcome, expected, "{requested} {path} in {phase}");
}

#[test]
fn the_deepest_grant_applies_and_rules_only_lower_it() {
    check("/p/src/a.rs", Coordination, Read, "allow context");
    check("/p/src/a.rs", Coordination, Write, "coordination-phase");
    check("/p/src/a.rs", Final, Write, "allow context");
    check("/p/docs/a.md", Final, Read, "allow context");
    check("/p/docs/a.md", Final, Write, "granted-permission");
    check("/p/.git/config", Final, Read, "allow context");
    check("/p/.git/config", Final, Write, "protected-name");
    check("/p/LICENSE", Final, Write, "protected-path");
    check("/p/LICENSE", Final, Read, "allow context");
    check("/p/keys/k", Final, Read, "hidden-path");
    check("/p/.massgen/workspaces/w2/a", Final, Read, "hidden-path");
    check(
        "/p/.massgen/workspaces/w1/a",
        Coordination,
        Write,
        "allow workspace",
    );
    check(
        "/p/.massgen/workspaces/w1/.git/a",
        Coordination,
        Write,
        "allow workspace",
    );
    check(
        "/p/.massgen/temp/agent1.1/a",
        Final,
        Read,
        "allow temp_workspace",
    );
    check(
        "/p/.massgen/temp/agent1.1/a",
        Final,
        Write,
        "read-only-kind",
    );
}

#[test]
fn paths_outside_all_grants_cannot_be_read() {
    check("/etc/passwd", Coordination, Read, "outside");
    check("/p2/a", Final, Read, "outside");
    check("/", Final, Read, "outside");
}

#[test]
fn a_granted_file_leaves_its_siblings_closed() {
    check("/etc/app.conf", Coordination, Read, "allow context");
    check("/etc/app.conf", Coordination, Write, "coordination-phase");
    check("/etc/app.conf", Final, Write, "allow context");
    check("/etc/app.conf2", Final, Read, "outside");
    check("/etc", Final, Read, "outside");
    check("/etc/app.conf/x", Final, Read, "outside");
}

#[test]
fn a_granted_file_with_a_protected_name_stays_read_only() {
    let manager =
        |name: &str| PathPermissionManager::new(vec![Grant::file(real(name), Write)], Final);
    assert!(!manager("/p/.env").allows(&real("/p/.env"), Write));
    assert!(manager("/p/.env").allows(&real("/p/.env"), Read));
    assert!(manager("/p/a.rs").allows(&real("/p/a.rs"), Write));
}

#[test]
fn a_tree_inside_a_context_path_keeps_its_exceptions() {
    let rels = |paths: &[&str]| -> Vec<RelPath> {
        let rels = paths.iter().map(|path| RelPath::new(path).unwrap());
        rels.collect()
    };
    let mut project = Grant::tree(real("/p"), GrantKind::Context, Read);
    project.hidden = rels(&["src/keys", "vault"]);
    project.protected = rels(&["src/LICENSE"]);
    let mention = |root: &str| Grant::tree(real(root), GrantKind::Context, Write);
    let own = Grant::tree(real("/p/src/ws"), GrantKind::Workspace, Write);
    let grants = vec![mention("/p/src"), own, project, mention("/p/vault")];
    let manager = PathPermissionManager::new(grants, Final);
    let allows = |path: &str, requested| manager.allows(&real(path), requested);
    assert!(allows("/p/src/a", Write));
    assert!(!allows("/p/src/keys/k", Read));
    assert!(allows("/p/src/LICENSE", Read) && !allows("/p/src/LICENSE", Write));
    assert!(allows("/p/src/ws/LICENSE", Write));
    assert!(allows("/p/vault/k", Read), "it was named itself");
}

#[test]
fn a_nested_grant_applies_to_every_spelling_of_its_path() {
    let tree = |root: &str, permission| Grant::tree(real(root), GrantKind::Context, permission);
    let mut project = tree("/p", Write);
    project.hidden = vec![RelPath::new("lib/Keys").unwrap()];
    let grants = vec![
        project,
        tree("/p/vendor", Read),
        tree("/p/vendor/made", Write),
        tree("/p/LIB", Write),
        Grant::file(real("/p/a.txt"), Read),
        tree("/q/one", Write),
        tree("/q/ONE", Read),
    ];
    let manager = PathPermissionManager::new(grants, Final);
    let check = |path: &str, expected: Option<Permission>| {
        let is_allowed = |requested: &Permission| manager.allows(&real(path), *requested);
        let highest = [Write, Read].into_iter().find(is_allowed);
        assert_eq!(highest, expected, "{path}");
    };
    check("/p/src/a", Some(Write));
    check("/p/vendor/a", Some(Read));
    check("/p/VENDOR/a", Some(Read));
    check("/p/VENDOR", Some(Read));
    check("/p/Vendor./a", Some(Read));
    check("/p/vendors/a", Some(Write));
    check("/p/src/VENDOR/a", Some(Write));
    check("/p/vendor/made/a", Some(Write));
    // It is unknown which components of a path the disk folds, so every enclosing grant must allow
    // it.
    check("/p/VENDOR/made/a", Some(Read));
    check("/p/vendor/MADE/a", Some(Read));
    check("/p/lib/a", Some(Write));
    check("/p/lib/keys/k", None);
    check("/p/LIB/KEYS/k", None);
    check("/p/A.TXT", Some(Read));
    check("/p/A.TXT/b", Some(Write));
    check("/q/one/a", Some(Read));
    check("/q/ONE/a", Some(Read));
    check("/P/src/a", None);
    assert!(manager.is_grant_root(&real("/p/VENDOR")) && !manager.is_grant_root(&real("/p/src")));
    assert!(
        manager.contains_grant_root(&real("/P")) && manager.contains_grant_root(&real("/p/Vendor"))
    );
    assert!(!manager.contains_grant_root(&real("/p/vendor/MADE")));
}

#[test]
fn no_grants_means_no_access() {
    let manager = PathPermissionManager::new(Vec::new(), Final);
    assert!(!manager.allows(&real("/p/a"), Read));
    assert!(!manager.can_write());
    assert!(PathPermissionManager::new(grants(), Final).can_write());
}

#[test]
fn a_path_that_holds_another_grants_root_is_known() {
    let manager = PathPermissionManager::new(grants(), Final);
    assert!(manager.contains_grant_root(&real("/p/.massgen")));
    assert!(manager.contains_grant_root(&real("/p")));
    assert!(!manager.contains_grant_root(&real("/p/docs")));
    assert!(!manager.contains_grant_root(&real("/p/src")));
}

#[test]
fn merging_only_raises() {
    let mut merged = grants();
    let before = merged.len();
    super::grant::merge(
        &mut merged,
        Grant::tree(real("/p/docs"), GrantKind::Context, Write),
    );
    super::grant::merge(
        &mut merged,
        Grant::tree(real("/p"), GrantKind::Context, Read),
    );
    let permission = |root: &str| {
        merged
            .iter()
            .find(|g| g.root == real(root))
            .unwrap()
            .permission
    };
    assert_eq!(
        (merged.len(), permission("/p/docs"), permission("/p")),
        (before, Write, Write)
    );
}

#[test]
fn merging_keeps_the_exceptions_of_both() {
    let rel_path = |path: &str| RelPath::new(path).unwrap();
    let tree = |hidden: &str, protected: &str| {
        let mut grant = Grant::tree(real("/g"), GrantKind::Context, Read);
        grant.hidden = vec![rel_path(hidden)];
        grant.protected = vec![rel_path(protected)];
        grant
    };
    let mut merged = vec![tree("a", "x")];
    super::grant::merge(&mut merged, tree("b", "x"));
    super::grant::merge(&mut merged, tree("a", "y"));
    assert_eq!(merged.len(), 1);
    assert_eq!(merged[0].hidden, [rel_path("a"), rel_path("b")]);
    assert_eq!(merged[0].protected, [rel_path("x"), rel_path("y")]);
}

#[test]
fn every_rule_does_what_its_examples_say() {
    let decide = |example: &RuleExample| {
        let mut grant = Grant::tree(real("/g"), example.kind, example.granted);
        grant.scope = GrantScope::Tree;
        grant.hidden = vec![RelPath::new("secrets").unwrap()];
        grant.protected = vec![RelPath::new("LICENSE").unwrap()];
        grant.path_rules = [
            rule_about(RuleAction::Deny, Write, "*.lock"),
            rule_about(RuleAction::Deny, Read, "keys"),
            rule_about(RuleAction::Ask, Write, "deploy/**"),
        ]
        .into();
        let path = real("/g").join(&RelPath::new(example.rel).unwrap());
        let manager = PathPermissionManager::new(vec![grant], example.phase);
        match manager.decide(&path, example.requested) {
            PermissionDecision::Allow { .. } => None,
            PermissionDecision::Deny(DenyReason::Lowered { rule, .. }) => Some(rule.name),
            PermissionDecision::Deny(DenyReason::OutsideGrants) => Some("outside"),
        }
    };
    for rule in RULES {
        assert!(
            !rule.allows.is_empty() && !rule.denies.is_empty(),
            "{}",
            rule.name
        );
        for example in rule.allows {
            assert_eq!(decide(example), None, "{}: {example:?}", rule.name);
        }
        for example in rule.denies {
            assert_eq!(decide(example), Some(rule.name), "{example:?}");
        }
    }
}

#[test]
fn an_approval_lifts_a_question_and_no_denial() {
    let mut grant = Grant::tree(real("/g"), GrantKind::Workspace, Write);
    grant.path_rules = [
        rule_about(RuleAction::Ask, Write, "deploy/**"),
        rule_about(RuleAction::Deny, Write, "deploy/keys"),
        rule_about(RuleAction::Allow, Write, "**"),
    ]
    .into();
    let manager = PathPermissionManager::new(vec![grant], Final);
    let check = |path: &str, approval, expected: bool| {
        let decision = manager.decide_with_approval(&real(path), Write, approval);
        let is_allowed = matches!(decision, PermissionDecision::Allow { .. });
        assert_eq!(is_allowed, expected, "{path} {approval:?}");
    };
    check("/g/a", CallApproval::Missing, true);
    check("/g/deploy/plan", CallApproval::Missing, false);
    check("/g/deploy/plan", CallApproval::Given, true);
    check("/g/deploy/keys", CallApproval::Given, false);
    check("/elsewhere", CallApproval::Given, false);
}

#[test]
fn a_subagent_may_do_nothing_that_its_parent_may_not() {
    let workspace = real("/p/.massgen/workspaces/w1/.subagents/s");
    let paths = [
        "/p/src/a.rs",
        "/p/docs/a.md",
        "/p/keys/k",
        "/p/LICENSE",
        "/p/.git/config",
        "/p/.massgen/workspaces/w1/a",
        "/p/.massgen/workspaces/w1/.subagents/s2/a",
        "/p/.massgen/workspaces/w1/.subagents/s/a",
        "/p/.massgen/workspaces/w1/.SUBAGENTS/s/a",
        "/p/.massgen/workspaces/w2/a",
        "/p/.massgen/temp/agent1.1/a",
        "/etc/app.conf",
        "/etc/passwd",
    ];
    for phase in [Coordination, Final] {
        let parent = PathPermissionManager::new(grants(), phase);
        let child = parent.for_subagent(&workspace).unwrap();
        assert_eq!(child.phase(), phase);
        for path in paths.map(real) {
            assert_eq!(
                child.allows(&path, Read),
                parent.allows(&path, Read),
                "{path}"
            );
            let is_own = path.is_within(&workspace);
            assert_eq!(child.allows(&path, Write), is_own, "{phase} {path}");
            assert!(parent.allows(&path, Write) || !is_own, "{path}");
        }
        // It can have no subagent outside of its own directory.
        assert!(
            child
                .for_subagent(&real("/p/.massgen/workspaces/w1/x"))
                .is_none()
        );
        for elsewhere in [
            "/p/src",
            "/p/.massgen/temp",
            "/p/.massgen/workspaces/w2",
            "/tmp",
        ] {
            assert!(
                parent.for_subagent(&real(elsewhere)).is_none(),
                "{elsewhere}"
            );
        }
    }
}
