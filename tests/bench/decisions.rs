//! Measures one decision of the permission rules, and one whole check at the gate with its system
//! calls.

use divan::{Bencher, black_box};
use massgen::path::RealPath;
use massgen::permissions::PathPermissionManager;
use massgen::permissions::grant::{Grant, GrantKind, Permission, Phase};
use massgen::tools::call::{LineRange, ReadForm, ToolCall, UserPath};
use massgen::world::access::gate::Gate;
use massgen::world::access::policy::GatePolicy;

/// A workspace, the snapshots, and six context paths.
fn manager(root: &str) -> PathPermissionManager {
    let real = |path: &str| RealPath::vouch(format!("{root}{path}"));
    let mut grants = vec![
        Grant::tree(
            real("/.massgen/workspaces/w"),
            GrantKind::Workspace,
            Permission::Write,
        ),
        Grant::tree(
            real("/.massgen/temp"),
            GrantKind::TempWorkspace,
            Permission::Read,
        ),
    ];
    for name in ["", "/docs", "/src", "/src/deep", "/tests", "/lib"] {
        grants.push(Grant::tree(
            real(name),
            GrantKind::Context,
            Permission::Write,
        ));
    }
    PathPermissionManager::new(grants, Phase::Final)
}

#[divan::bench(args = ["/p/src/deep/module/file.rs", "/p/.git/config", "/etc/passwd"])]
fn decide(bencher: Bencher<'_, '_>, path: &str) {
    let manager = manager("/p");
    let path = RealPath::vouch(path);
    bencher.bench(|| manager.allows(black_box(&path), Permission::Write));
}

#[divan::bench]
fn check_at_the_gate(bencher: Bencher<'_, '_>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for below in [
        ".massgen/workspaces/w",
        ".massgen/temp",
        "docs",
        "src/deep",
        "tests",
        "lib",
    ] {
        std::fs::create_dir_all(root.join(below)).unwrap();
    }
    std::fs::write(root.join("src/deep/a.rs"), "fn a() {}").unwrap();
    let root = root.to_str().unwrap();
    let base = RealPath::vouch(format!("{root}/.massgen/workspaces/w"));
    let gate = Gate::open(manager(root), GatePolicy::minimal(base)).unwrap();
    let path = UserPath::parse(format!("{root}/src/deep/a.rs")).unwrap();
    let call = || ToolCall::ReadTextFile {
        path: path.clone(),
        lines: LineRange::All,
        form: ReadForm::Plain,
    };
    bencher
        .with_inputs(call)
        .bench_values(|call| gate.check(call).is_ok());
}
