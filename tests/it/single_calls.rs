//! Commands of single calls in the final phase work on a staged copy of the user's tree: their
//! changes are transferred when they have ended, name by name and never at or through a protected
//! name.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::program_fixture::sandbox_of;
use crate::project::{Project, binary};
use crate::repetition::all_or_one;
use crate::waiting::wait_until;
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};

/// Timeout of every wait.
const WAIT_TIME_MAX: Duration = Duration::from_mins(2);

/// Sandbox of a command, and how its write path is staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StagingSetup {
    OverlayInA,
    OverlayInB,
    CopyInB,
    Off,
}

impl StagingSetup {
    const STAGED: [Self; 3] = [Self::OverlayInA, Self::OverlayInB, Self::CopyInB];

    fn level_name(self) -> &'static str {
        match self {
            Self::OverlayInA => "overlay",
            Self::OverlayInB | Self::CopyInB => "namespaces",
            Self::Off => "off",
        }
    }

    /// Returns whether this machine and user support it.
    fn is_supported(self) -> bool {
        let level = match self {
            Self::OverlayInA => SandboxLevel::Overlay,
            Self::OverlayInB | Self::CopyInB => SandboxLevel::Namespaces,
            Self::Off => return true,
        };
        // Only root can create a tree over which no overlay can be mounted.
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let has = sandbox_of(SandboxLevelChoice::Only(level)).is_some()
            && (self != Self::CopyInB || is_root);
        if !has {
            println!("skipped: {self:?}");
        }
        has
    }
}

/// Returns a project whose directory `src` is writable.
fn project(setup: StagingSetup) -> Project {
    let project = Project::new()
        .dir("ws")
        .dir("tmp")
        .file("src/.git/hooks/pre-commit", "#!/bin/sh\n")
        .file("src/.env", "KEY=1\n")
        .file("src/app/.env", "KEY=2\n")
        .file("src/app/main.py", "x = 1\n")
        .file("src/other/main.py", "y = 1\n")
        .file("src/plain/deep/one", "1\n")
        .file("src/gone.txt", "gone\n");
    if setup == StagingSetup::CopyInB {
        for path in ["src/plain", "src/gone.txt"] {
            chown(project.path(path), None, Some(1234)).unwrap();
        }
    }
    let grants = json!({
        "workspace": "ws",
        "context_paths": [{"path": "src", "permission": "write"}],
    });
    let temporary = project.path("tmp");
    project
        .file("grants.json", grants.to_string())
        .env("TMPDIR", temporary)
}

/// Returns a call that runs `line` in `src`.
fn command(project: &Project, setup: StagingSetup, line: &str) -> Command {
    let line = format!("cd ../src && {{ {line}\n}}");
    let mut call = project.command();
    call.args(["tool", "execute_command", "--grants", "grants.json"])
        .args(["--phase", "final", "--sandbox", setup.level_name()])
        .args(["--args", &json!({"command": line}).to_string()]);
    call
}

/// Returns the answer of a call.
#[track_caller]
fn call(project: &Project, setup: StagingSetup, line: &str) -> Value {
    let output = command(project, setup, line).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let outer: Value = serde_json::from_str(&stdout)
        .unwrap_or_else(|_| panic!("{stdout}{}", String::from_utf8_lossy(&output.stderr)));
    let inner = outer["output"].as_str().unwrap();
    serde_json::from_str(inner).unwrap_or_else(|_| panic!("{setup:?} {line}: {inner}"))
}

fn notes_of(answer: &Value) -> String {
    answer["notes"].to_string()
}

fn exists_in(project: &Project, path: &str) -> bool {
    fs::symlink_metadata(project.path(path)).is_ok()
}

fn text(project: &Project, path: &str) -> String {
    let read = fs::read_to_string(project.path(path));
    read.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns everything at and below `path`, by relative path.
fn names(path: &Path) -> BTreeMap<PathBuf, fs::Metadata> {
    let mut found = BTreeMap::new();
    let mut left = vec![path.to_owned()];
    while let Some(at) = left.pop() {
        let Ok(meta) = fs::symlink_metadata(&at) else {
            continue;
        };
        if meta.is_dir() {
            let inside = fs::read_dir(&at).unwrap();
            left.extend(inside.map(|entry| entry.unwrap().path()));
        }
        found.insert(at.strip_prefix(path).unwrap().to_owned(), meta);
    }
    found
}

/// Returns a snapshot of the protected names: kind, inode, owner, times and content.
fn protected_files(project: &Project) -> BTreeMap<PathBuf, String> {
    let root = project.path("src");
    let is_protected = |path: &Path| {
        let mut names = path.components();
        names.any(|name| matches!(name.as_os_str().to_str(), Some(".git" | ".env")))
    };
    let all = names(&root).into_iter();
    let state = all
        .filter(|(path, _)| is_protected(path))
        .map(|(path, meta)| {
            let at = root.join(&path);
            let content = match fs::read_link(&at) {
                Ok(target) => target.display().to_string(),
                Err(_) if meta.is_file() => fs::read_to_string(&at).unwrap(),
                Err(_) => String::new(),
            };
            let marks = rustix::fs::lgetxattr(&at, "user.test", &mut [0_u8; 16][..]).is_ok();
            let state = format!(
                "{:o} {} {} {} {marks} {content}",
                meta.mode(),
                meta.ino(),
                meta.mtime(),
                meta.mtime_nsec()
            );
            (path, state)
        });
    state.collect()
}

/// Exchanges two names of the tree.
const EXCHANGE: &str = "python3 -c 'import ctypes; l = ctypes.CDLL(None); \
                        print(l.renameat2(-100, b\"app\", -100, b\"other\", 2))'";

/// Sets an extended attribute on a file.
const MARK: &str = "python3 -c 'import os; os.setxattr(\"app/.env\", \"user.test\", b\"x\")'";

/// Attacks: the preparation of the tree, and the command.
const ATTACKS: &[(&str, &str)] = &[
    ("ln .git/hooks/pre-commit check.sh", "echo PWN >> check.sh"),
    ("ln app/.env plain/settings", "echo PWN > plain/settings"),
    (
        "mv app/.env shared; ln -s ../shared app/.env",
        "rm -r app; echo f > app",
    ),
    ("rm app/.env; mkfifo app/.env", "rm -r app; echo f > app"),
    (
        "rm app/.env; mkfifo app/.env",
        "rm -r app; mkdir app; echo KEY=3 > app/.env",
    ),
    ("true", "rm -r app; ln -s other app"),
    ("true", "rm -r app; mkfifo app"),
    ("true", "mv app moved"),
    ("true", "mv plain/deep app/deep; mv app plain"),
    ("true", EXCHANGE),
    (
        "rm app/.env; ln -s main.py app/.env",
        "ln -sfn ../gone.txt app/.env",
    ),
    (
        "rm app/.env; ln -s ../gone.txt app/.env; touch gone.txt",
        "rm app/.env",
    ),
    ("true", "ln app/.env app/settings; echo PWN >> app/settings"),
    ("true", "mv app/.env app/settings; echo PWN > app/.env"),
    ("true", "chmod 777 .git app/.env"),
    ("true", "touch -d 2001-01-01 .git app/.env"),
    ("true", MARK),
    ("true", "rm -rf .git .env app"),
    ("true", "echo KEY=PWN > .env; echo KEY=PWN > app/.env"),
    (
        "true",
        "rm -r other; mkdir -p other/.git/hooks; echo PWN > other/.git/hooks/pre-commit",
    ),
    ("true", "echo PWN > plain/.env; chmod 500 plain"),
];

/// Returns a project with the prepared tree, and a snapshot of its protected names.
fn prepared_project(setup: StagingSetup, before: &str) -> (Project, BTreeMap<PathBuf, String>) {
    let project = project(setup);
    let done = Command::new("sh")
        .args(["-ec", before])
        .current_dir(project.path("src"))
        .status();
    assert!(done.unwrap().success(), "{before}");
    let state = protected_files(&project);
    (project, state)
}

#[test]
fn protected_names_stay_as_they_are_whatever_a_command_does() {
    let setups = StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported());
    let setups: Vec<StagingSetup> = setups.collect();
    for (number, (before, line)) in ATTACKS.iter().enumerate() {
        for setup in all_or_one(&setups, number) {
            let (project, state) = prepared_project(setup, before);
            let answer = call(&project, setup, line);
            assert_eq!(
                protected_files(&project),
                state,
                "{setup:?} {line}: {answer}"
            );
        }
        let (project, state) = prepared_project(StagingSetup::Off, before);
        call(&project, StagingSetup::Off, line);
        assert_ne!(protected_files(&project), state, "it does no harm: {line}");
    }
}

#[test]
fn a_protected_socket_is_not_lost() {
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let (project, _) = prepared_project(setup, "rm app/.env");
        let _socket = UnixListener::bind(project.path("src/app/.env")).unwrap();
        let state = protected_files(&project);
        let answer = call(&project, setup, "rm -r app; echo f > app; mv other app2");
        assert_eq!(protected_files(&project), state, "{setup:?}: {answer}");
        assert!(notes_of(&answer).contains("not delivered"), "{answer}");
        assert!(exists_in(&project, "src/app2/main.py") && !exists_in(&project, "src/other"));
    }
}

#[test]
fn a_hard_link_to_a_protected_name_is_reported_and_new_names_are_written() {
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let (project, _) = prepared_project(
            setup,
            "ln .git/hooks/pre-commit check.sh; ln app/main.py twin.py",
        );
        let line = "echo PWN >> check.sh; echo 2 >> twin.py; echo new > fresh.sh; rm other/main.py";
        let answer = call(&project, setup, line);
        assert!(notes_of(&answer).contains("several names"), "{answer}");
        assert_eq!(text(&project, "src/check.sh"), "#!/bin/sh\n");
        // No write goes through a hard link, whatever its other names are.
        assert_eq!(text(&project, "src/app/main.py"), "x = 1\n");
        assert_eq!(text(&project, "src/fresh.sh"), "new\n");
        assert!(!exists_in(&project, "src/other/main.py"));
        // It is unknown which of the names was to be removed.
        let answer = call(&project, setup, "rm check.sh");
        assert!(notes_of(&answer).contains("several names"), "{answer}");
        assert!(exists_in(&project, "src/check.sh"));
    }
}

#[test]
fn what_a_command_sees_in_a_file_is_applied_whatever_attributes_it_sets() {
    let line = "python3 -c '
import os
for name in [\"app/main.py\", \"new.txt\"]:
    open(name, \"w\").write(\"kept\")
    for mark in [\"overlay.massgen.removed\", \"massgen.removed\", \"plain\"]:
        os.setxattr(name, \"user.\" + mark, b\"y\")
'";
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let answer = call(&project, setup, line);
        assert_eq!(answer["success"], true, "{setup:?}: {answer}");
        assert_eq!(text(&project, "src/app/main.py"), "kept", "{setup:?}");
        assert_eq!(text(&project, "src/new.txt"), "kept", "{setup:?}");
    }
}

#[test]
fn ordinary_changes_are_applied_and_the_rest_is_reported() {
    let line = "
        set -e
        mkdir -p pkg/node_modules/dep pkg/lib
        for i in $(seq 200); do echo $i > pkg/node_modules/dep/$i.js; echo $i > pkg/lib/$i.js; done
        cat pkg/node_modules/dep/*.js | wc -l
        head -c 64M /dev/zero | tr '\\0' x > large
        mv plain renamed; rm gone.txt; ln -s app/main.py link; echo 'x = 2' > app/main.py
        mkdir -m 700 secret; echo '#!/bin/sh' > run.sh; chmod 755 run.sh; touch other/main.py
        echo no > .env.local
        git init -q . 2>&1 || echo refused
        echo a > .git/config 2>&1 || echo refused";
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let state = protected_files(&project);
        let answer = call(&project, setup, line);
        assert_eq!(answer["success"], true, "{setup:?}: {answer}");
        let out = answer["stdout"].as_str().unwrap();
        assert!(
            out.starts_with("200\n") && out.contains("refused"),
            "{answer}"
        );
        for name in ["pkg/node_modules", ".env.local"] {
            assert!(
                notes_of(&answer).contains(name),
                "{setup:?} {name}: {answer}"
            );
            assert!(
                !exists_in(&project, &format!("src/{name}")),
                "{setup:?} {name}"
            );
        }
        assert!(notes_of(&answer).contains("to files delivered"), "{answer}");
        assert_eq!(text(&project, "src/pkg/lib/200.js"), "200\n");
        assert_eq!(
            fs::metadata(project.path("src/large")).unwrap().len(),
            64 << 20
        );
        assert_eq!(text(&project, "src/renamed/deep/one"), "1\n");
        assert!(!exists_in(&project, "src/plain") && !exists_in(&project, "src/gone.txt"));
        assert_eq!(text(&project, "src/link"), "x = 2\n");
        let mode = |path: &str| fs::metadata(project.path(path)).unwrap().mode() & 0o777;
        assert_eq!(
            (mode("src/secret"), mode("src/run.sh") & 0o111),
            (0o700, 0o111)
        );
        assert_eq!(protected_files(&project), state, "{setup:?}");
        assert_eq!(
            fs::read_dir(project.path("tmp")).unwrap().count(),
            0,
            "{setup:?}"
        );
    }
}

#[test]
fn at_level_landlock_commands_of_a_single_call_change_nothing_of_the_users() {
    if sandbox_of(SandboxLevelChoice::Only(SandboxLevel::Landlock)).is_none() {
        println!("skipped: level `landlock`");
        return;
    }
    let project = project(StagingSetup::Off);
    let before: Vec<PathBuf> = names(&project.path("src")).into_keys().collect();
    let mut refused = project.command();
    refused
        .args(["tool", "execute_command", "--grants", "grants.json"])
        .args(["--phase", "final", "--sandbox", "landlock", "--args"])
        .arg(
            json!({"command": "rm -r ../src/app; echo x > ../src/x; cat ../src/gone.txt"})
                .to_string(),
        );
    let stdout = String::from_utf8(refused.output().unwrap().stdout).unwrap();
    assert!(
        stdout.contains("Permission denied") && stdout.contains("gone"),
        "{stdout}"
    );
    let after: Vec<PathBuf> = names(&project.path("src")).into_keys().collect();
    assert_eq!(after, before);
}

/// Kills a call once `is_so` is true.
fn kill_when(mut call: Child, condition: &str, is_so: impl FnMut() -> bool) {
    wait_until(condition, WAIT_TIME_MAX, is_so);
    call.kill().unwrap();
    call.wait().unwrap();
}

fn start(project: &Project, setup: StagingSetup, line: &str) -> Child {
    let mut call = command(project, setup, line);
    call.stdout(Stdio::null()).stderr(Stdio::null());
    call.spawn().unwrap()
}

#[test]
fn a_call_that_is_killed_while_its_command_runs_has_changed_nothing() {
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let names_before = names(&project.path("src")).into_keys().collect::<Vec<_>>();
        let state = protected_files(&project);
        let line = "rm -rf .git app; echo x > new; mkdir -p d/.git; touch ../ws/begun; sleep 600";
        let begun = start(&project, setup, line);
        kill_when(begun, "the command runs", || {
            exists_in(&project, "ws/begun")
        });
        let now = names(&project.path("src")).into_keys().collect::<Vec<_>>();
        assert_eq!(
            (now, protected_files(&project)),
            (names_before, state),
            "{setup:?}"
        );
        assert_eq!(fs::read_dir(project.path("tmp")).unwrap().count(), 1);
        // The next call removes what that one left, and works.
        wait_until("nothing is left behind", WAIT_TIME_MAX, || {
            call(&project, setup, "echo y > new");
            fs::read_dir(project.path("tmp")).unwrap().count() == 0
        });
        assert_eq!(text(&project, "src/new"), "y\n");
    }
}

#[test]
fn a_call_that_is_killed_while_it_copies_leaves_whole_files() {
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let state = protected_files(&project);
        let line = "for i in $(seq 600); do echo \"content $i\" > other/$i; done; rm -r plain";
        let begun = start(&project, setup, line);
        let carried = || fs::read_dir(project.path("src/other")).unwrap().count();
        kill_when(begun, "something is carried", || carried() > 10);
        for (path, meta) in names(&project.path("src/other")) {
            if meta.is_file() && path != Path::new("main.py") {
                let number: u32 = path.to_str().unwrap().parse().expect("no other name");
                let content = fs::read_to_string(project.path("src/other").join(&path));
                assert_eq!(content.unwrap(), format!("content {number}\n"), "{setup:?}");
            }
        }
        assert_eq!(protected_files(&project), state, "{setup:?}");
    }
}

#[test]
fn calls_that_run_at_the_same_time_both_deliver() {
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let line = |own: &str, other: &str| {
            format!(
                "touch ../ws/{own}; while [ ! -e ../ws/{other} ]; do sleep 0.01; done; \
                 echo {own} > {own}; echo {own} > both"
            )
        };
        let calls = [("a", "b"), ("b", "a")].map(|(own, other)| {
            let call = command(&project, setup, &line(own, other))
                .stdout(Stdio::piped())
                .spawn();
            call.unwrap()
        });
        for call in calls {
            let output = call.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        assert_eq!(
            (text(&project, "src/a"), text(&project, "src/b")),
            ("a\n".into(), "b\n".into())
        );
        let both = text(&project, "src/both");
        assert!(both == "a\n" || both == "b\n", "{both}");
    }
}

#[test]
fn files_that_the_user_saves_while_a_command_runs_are_kept() {
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let line = "touch ../ws/begun; while [ ! -e ../ws/saved ]; do sleep 0.01; done; \
                    echo agent > app/main.py; echo agent > other/main.py";
        let begun = command(&project, setup, line)
            .stdout(Stdio::piped())
            .spawn();
        wait_until("the command runs", WAIT_TIME_MAX, || {
            exists_in(&project, "ws/begun")
        });
        fs::write(project.path("src/app/main.py"), "user\n").unwrap();
        fs::write(project.path("ws/saved"), "").unwrap();
        let stdout = begun.unwrap().wait_with_output().unwrap().stdout;
        let stdout = String::from_utf8_lossy(&stdout);
        assert_eq!(
            text(&project, "src/app/main.py"),
            "user\n",
            "{setup:?} {stdout}"
        );
        assert_eq!(
            text(&project, "src/other/main.py"),
            "agent\n",
            "{setup:?} {stdout}"
        );
        assert!(stdout.contains("the user changed it"), "{stdout}");
    }
}

#[test]
fn links_and_pipes_that_the_user_makes_while_a_command_runs_stay() {
    const CHANGES: &str = "echo agent > app/main.py; echo agent > new; ln -s agent link; rm gone.txt; \
                           ln -sfn agent old";
    let users = PathBuf::from("plain/deep/one");
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let path = |rel: &str| project.path(format!("src/{rel}"));
        let target = |rel: &str| fs::read_link(path(rel));
        symlink("before", path("old")).unwrap();
        let line = format!(
            "{CHANGES}; touch ../ws/changed; while [ ! -e ../ws/saved ]; do sleep 0.01; done"
        );
        let begun = command(&project, setup, &line)
            .stdout(Stdio::piped())
            .spawn();
        wait_until("the command has changed them", WAIT_TIME_MAX, || {
            exists_in(&project, "ws/changed")
        });
        let linked = ["app/main.py", "new", "link", "old"];
        for rel in linked {
            // There is nothing to remove if the command creates the name.
            fs::remove_file(path(rel)).unwrap_or_default();
            symlink(&users, path(rel)).unwrap();
        }
        fs::remove_file(path("gone.txt")).unwrap();
        mkfifoat(CWD, path("gone.txt"), Mode::RUSR | Mode::WUSR).unwrap();
        fs::write(project.path("ws/saved"), "").unwrap();
        let stdout = begun.unwrap().wait_with_output().unwrap().stdout;
        let stdout = String::from_utf8_lossy(&stdout);
        for rel in linked {
            assert_eq!(
                target(rel).ok().as_ref(),
                Some(&users),
                "{setup:?} {rel}: {stdout}"
            );
        }
        let kind = fs::symlink_metadata(path("gone.txt")).unwrap().file_type();
        assert!(kind.is_fifo(), "{setup:?}: {stdout}");
        assert!(stdout.contains("the user changed it"), "{stdout}");
        // Control: the next command finds them as they are, and may replace them.
        call(
            &project,
            setup,
            &format!("rm app/main.py new link; {CHANGES}"),
        );
        assert_eq!(text(&project, "src/app/main.py"), "agent\n", "{setup:?}");
        assert_eq!(text(&project, "src/new"), "agent\n", "{setup:?}");
        for rel in ["link", "old"] {
            assert_eq!(target(rel).unwrap(), Path::new("agent"), "{setup:?} {rel}");
        }
        // A copy of the tree contains no pipe that could be removed there.
        let is_left = setup == StagingSetup::CopyInB;
        assert_eq!(exists_in(&project, "src/gone.txt"), is_left, "{setup:?}");
    }
}

#[test]
fn changes_of_a_command_on_the_users_streams_are_applied() {
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let mut sandbox = project.command();
        sandbox
            .args(["sandbox", "--grants", "grants.json", "--phase", "final"])
            .args(["--sandbox", setup.level_name(), "--", "sh", "-c"])
            .arg("cd ../src; echo new > new; rm -r app; exit 7");
        let output = sandbox.output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("not delivered"), "{stderr}");
        assert_eq!(text(&project, "src/new"), "new\n");
        assert!(exists_in(&project, "src/app/.env"));
    }
}

#[test]
fn an_unreadable_directory_is_applied_with_its_contents() {
    for setup in StagingSetup::STAGED
        .into_iter()
        .filter(|setup| setup.is_supported())
    {
        let project = project(setup);
        let answer = call(
            &project,
            setup,
            "mkdir shut; echo x > shut/x; chmod 000 shut",
        );
        let mode = fs::metadata(project.path("src/shut"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o700, 0o700, "{answer}");
        assert_eq!(text(&project, "src/shut/x"), "x\n");
    }
}

#[test]
fn a_call_fails_and_is_not_denied_while_no_file_can_be_opened() {
    let project = Project::new().file("ws/a/b.txt", "text");
    let grants = json!({"workspace": project.path("ws")}).to_string();
    fs::write(project.path("grants.json"), grants).unwrap();
    let read_with = |open_files_max: u32| {
        let arguments = r#"{"path": "a/b.txt"}"#;
        let call = format!("tool read_text_file --grants grants.json --args '{arguments}'");
        let line = format!(
            "ulimit -n {open_files_max}; exec '{}' {call}",
            binary().display()
        );
        let mut shell = Command::new("sh");
        let output = shell
            .args(["-c", &line])
            .current_dir(project.path(""))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let reports: Vec<String> = (5..16).map(read_with).collect();
    let has = |text: &str| reports.iter().any(|report| report.contains(text));
    assert!(has("error: nothing can be opened now: "), "{reports:?}");
    assert!(has(r#""output":"text""#), "{reports:?}");
    assert!(!has("denied") && !has("deny"), "{reports:?}");
}
