//! Effects of `.env` files: keys of models from any of them, other variables only from the user's
//! own, and no effect on the programs that massgen starts.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use crate::project::{FinishedCommand, Project, make_program};

/// A pipeline, for which massgen starts git, and an agent whose command prints its environment.
const TEAM: &str = r#"
workflow: {type: pipeline, stages: [planner]}
agents:
  - id: planner
    backend:
      type: scripted
      enable_mcp_command_line: true
      replies:
        - {text: go, calls: [{name: execute_command, arguments: {command: "env; ls $JAVA_HOME $GOROOT $CARGO_HOME"}}]}
        - {text: done, repeat: true}
"#;

/// Variables that change what programs run, where they search or whom they ask, with values that
/// point into the project.
const HARMFUL: &[(&str, &str)] = &[
    ("LD_PRELOAD", "evil.so"),
    ("LD_AUDIT", "evil.so"),
    ("LD_LIBRARY_PATH", ""),
    ("PATH", "bin"),
    ("HOME", "home"),
    ("TMPDIR", "tmp"),
    ("GIT_SSH_COMMAND", "trap"),
    ("GIT_EXTERNAL_DIFF", "trap"),
    ("GIT_CONFIG_GLOBAL", "gitconfig"),
    ("GIT_CONFIG_SYSTEM", "gitconfig"),
    ("GIT_EXEC_PATH", "bin"),
    ("GIT_DIR", "bin"),
    ("GIT_PAGER", "trap"),
    ("GIT_EDITOR", "trap"),
    ("PAGER", "trap"),
    ("EDITOR", "trap"),
    ("VISUAL", "trap"),
    ("BROWSER", "trap"),
    ("LESSOPEN", "|trap"),
    ("BASH_ENV", "trap"),
    ("ENV", "trap"),
    ("PYTHONSTARTUP", "trap"),
    ("PYTHONPATH", "bin"),
    ("PYTHONHOME", "bin"),
    ("NODE_OPTIONS", "--require trap"),
    ("SSL_CERT_FILE", "cert"),
    ("SSL_CERT_DIR", "cert"),
    ("HTTPS_PROXY", "http://127.0.0.1:1"),
    ("ALL_PROXY", "http://127.0.0.1:1"),
    ("XDG_CONFIG_HOME", "config"),
    ("XDG_DATA_HOME", "config"),
    ("JAVA_HOME", "secret/place"),
    ("GOROOT", "secret/place"),
    ("CARGO_HOME", "secret/place"),
    ("VIRTUAL_ENV", "secret/place"),
    ("NVM_DIR", "secret/place"),
    ("DOCKER_HOST", "tcp://127.0.0.1:1"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
    ("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1:1"),
    ("LC_LEAK", "${SECRET_OF_USER}"),
    ("TZ", "${SECRET_OF_USER}"),
];

/// Returns a project with a repository in which a trap leaves a file.
fn project_with_traps() -> Project {
    let project = Project::new()
        .file("a.txt", "one\n")
        .file("secret/place/canary", "CANARY-FILE\n")
        .env("SECRET_OF_USER", "CANARY-VARIABLE");
    let trap = format!(
        "#!/bin/sh\necho \"$0\" >> {}\n",
        project.home("sprung").display()
    );
    let project = project.file("trap", &trap).file("bin/git", &trap);
    for name in ["trap", "bin/git"] {
        make_program(&project.path(name));
    }
    for arguments in [
        &["init", "-q"][..],
        &[
            "-c",
            "user.email=a@b",
            "-c",
            "user.name=n",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        ],
    ] {
        let mut git = Command::new("git");
        let git = git.args(arguments).current_dir(project.path(""));
        assert!(git.status().unwrap().success());
    }
    project.config(TEAM)
}

/// Installs a library that leaves a file in the home when a program is started with it.
fn build_library(project: &Project) {
    let code = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void x(void)\n\
         {{FILE *f = fopen(\"{}\", \"a\"); if (f) {{fputs(\"loaded\\n\", f); fclose(f);}}}}\n",
        project.home("sprung").display()
    );
    let source = project.path("evil.c");
    fs::write(&source, code).unwrap();
    let mut cc = Command::new("cc");
    let cc = cc
        .args(["-shared", "-fPIC", "-o"])
        .arg(project.path("evil.so"))
        .arg(&source);
    assert!(cc.status().expect("a C compiler").success());
}

fn dotenv(project: &Project, variables: &[(&str, &str)]) -> String {
    let is_inside = |value: &str| !value.is_empty() && project.path(value).exists();
    let line = |(name, value): &(&str, &str)| {
        let value = if is_inside(value) || *value == "evil.so" {
            project.path(value).display().to_string()
        } else {
            (*value).to_owned()
        };
        format!("{name}='{value}'\n")
    };
    variables.iter().map(line).collect()
}

/// Returns everything that was written below a directory as one text.
fn read_canaries(dir: &Path) -> String {
    let found = Command::new("grep")
        .args(["-rahs", "CANARY"])
        .arg(dir)
        .output()
        .unwrap();
    String::from_utf8_lossy(&found.stdout).into_owned()
}

fn expect_unsprung(finished: &FinishedCommand) {
    let project = finished.project();
    let sprung = fs::read_to_string(project.home("sprung")).unwrap_or_default();
    assert_eq!(sprung, "", "{}", finished.stderr());
    assert_eq!(read_canaries(&project.path(".massgen")), "");
}

#[test]
fn variables_from_a_project_reach_no_program() {
    // Control: the user's own environment counts.
    let project = project_with_traps();
    build_library(&project);
    let evil = project.path("evil.so");
    let loaded = project.env("LD_PRELOAD", evil).args(["do it"]).run();
    assert!(loaded.project().home("sprung").exists());

    let project = project_with_traps();
    build_library(&project);
    let text = dotenv(&project, HARMFUL);
    let finished = project.file(".env", text).args(["do it"]).success();
    expect_unsprung(&finished);
    let warnings: Vec<&str> = finished
        .stderr()
        .lines()
        .filter(|line| line.contains("/.env`"))
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("which may only set API keys"),
        "{warnings:?}"
    );
    assert!(warnings[0].contains("`~/.massgen/.env`"), "{warnings:?}");

    // The user's own file sets variables for configs, but not those of a process.
    let project = project_with_traps();
    build_library(&project);
    let text = dotenv(&project, HARMFUL);
    expect_unsprung(
        &project
            .home_file(".massgen/.env", text)
            .args(["do it"])
            .success(),
    );
}

#[test]
fn each_variable_of_a_project_alone_reaches_no_program() {
    for variable in [
        "LD_PRELOAD",
        "LD_AUDIT",
        "PATH",
        "GIT_CONFIG_GLOBAL",
        "GIT_EXEC_PATH",
        "BASH_ENV",
        "JAVA_HOME",
        "LC_LEAK",
    ] {
        let row = HARMFUL.iter().find(|(name, _)| *name == variable).unwrap();
        let project = project_with_traps();
        build_library(&project);
        let text = dotenv(&project, std::slice::from_ref(row));
        expect_unsprung(&project.file(".env", text).args(["do it"]).success());
    }
}

#[test]
fn a_named_config_gets_variables_of_the_users_own_file_and_none_of_the_projects() {
    const NAMED: &str = "agents:\n  - id: a\n    system_message: says ${GREETING}\n    \
                         backend: {type: scripted, replies: [{text: done, repeat: true}]}\n";
    let project = || {
        Project::new()
            .file("t.yaml", NAMED)
            .args(["--config", "t.yaml", "--dry-run", "x"])
    };
    let own = project()
        .home_file(".massgen/.env", "GREETING=hello\n")
        .success();
    assert!(own.stdout().contains("says hello") || own.stderr().contains("says hello"));
    let foreign = project().file(".env", "GREETING=hello\n").success();
    assert!(!foreign.stdout().contains("says hello") && !foreign.stderr().contains("says hello"));
    let hint = "set it in `~/.massgen/.env` as `GREETING=…`";
    assert!(
        foreign.stderr().contains("variable `GREETING` is not set"),
        "{}",
        foreign.stderr()
    );
    let checked = Project::new()
        .file("t.yaml", NAMED)
        .args(["config", "check", "t.yaml"])
        .run();
    assert!(checked.stdout().contains(hint), "{}", checked.stdout());
}

/// Returns a project whose named config needs no variable, ready to run.
fn project() -> Project {
    let team =
        "agents: [{id: a, backend: {type: scripted, replies: [{text: done, repeat: true}]}}]";
    Project::new()
        .file("t.yaml", team)
        .args(["--config", "t.yaml", "x"])
}

#[test]
fn a_link_out_of_the_project_is_not_read() {
    let linked = project().home_file("secrets", "CANARYNAME=CANARYVALUE\nCANARY line\n");
    symlink(linked.home("secrets"), linked.path(".env")).unwrap();
    let finished = linked.success();
    assert!(
        finished.stderr().contains("a symlink to a file outside"),
        "{}",
        finished.stderr()
    );
    assert!(
        !finished.stderr().contains("CANARY"),
        "{}",
        finished.stderr()
    );
    // Control: a symlink inside the project is read.
    let inside = project()
        .file("settings", "GREETING=1\n")
        .link(".env", "settings")
        .success();
    assert!(
        inside.stderr().contains("`GREETING`"),
        "{}",
        inside.stderr()
    );
}

#[test]
fn a_value_is_taken_as_it_is_written_and_its_size_is_bounded() {
    let filled = project()
        .file(".env", "GROQ_API_KEY=${HOME}${HOME}\n")
        .success();
    let warning = "variables are not expanded";
    assert!(filled.stderr().contains(warning), "{}", filled.stderr());
    let huge = project().file(".env", "A".repeat(256 * 1024 + 1)).success();
    assert!(
        huge.stderr().contains("at most 262144 bytes"),
        "{}",
        huge.stderr()
    );
    let nonsense = project().file(".env", "no\n".repeat(80_000)).success();
    let warnings = nonsense
        .stderr()
        .lines()
        .filter(|line| line.contains("/.env"));
    assert_eq!(warnings.count(), 6, "{}", nonsense.stderr());
}

#[test]
fn values_that_are_filled_into_variables_of_commands_reach_no_record() {
    let team = r#"
agents:
  - id: a
    backend:
      type: scripted
      enable_mcp_command_line: true
      env: {PLAIN: "${SECRET_OF_USER}", SHOWN: "plainly-written-text"}
      replies:
        - {text: go, calls: [{name: execute_command, arguments: {command: "echo $PLAIN $SHOWN"}}]}
        - {text: done, repeat: true}
"#;
    let finished = Project::new()
        .file("t.yaml", team)
        .env("SECRET_OF_USER", "CANARY-VARIABLE")
        .args(["--config", "t.yaml", "x"])
        .success();
    let state = finished.project().path(".massgen");
    assert_eq!(read_canaries(&state), "");
    let mut shown = Command::new("grep");
    let shown = shown
        .args(["-rqs", "plainly-written-text"])
        .arg(state.join("massgen_logs"));
    assert!(shown.status().unwrap().success());
}

/// Returns the config of
/// [`a_named_config_gets_variables_of_the_users_own_file_and_none_of_the_projects`], and the user's
/// own file with the variable that it needs.
fn greeting_project() -> Project {
    let config = "agents:\n  - id: a\n    system_message: says ${GREETING}\n    \
                  backend: {type: scripted, replies: [{text: done, repeat: true}]}\n";
    Project::new()
        .file("t.yaml", config)
        .home_file(".massgen/.env", "GREETING=hello\n")
        .args(["config", "check", "--strict", "t.yaml"])
}

#[test]
fn a_file_that_others_may_change_is_not_the_users_own() {
    let with_mode = |mode: u32| {
        let project = greeting_project();
        let file = project.home(".massgen/.env");
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        project
    };
    for mode in [0o666, 0o602] {
        let refused = with_mode(mode).failure(2);
        let stderr = refused.stderr();
        assert!(
            stderr.contains("every user may change `[HOME]/.massgen/.env`"),
            "{stderr}"
        );
        assert!(stderr.contains("chmod o-w"), "{stderr}");
        assert!(
            refused.stdout().contains("`GREETING` is not set"),
            "{}",
            refused.stdout()
        );
    }
    // Control; and `config check` reads the file like a run.
    for mode in [0o600, 0o644, 0o664] {
        let read = with_mode(mode).success();
        assert_eq!(read.stderr(), "");
    }
    let project = greeting_project();
    if chown(project.home(".massgen/.env"), Some(12345), None).is_ok() {
        let refused = project.failure(2);
        let stderr = refused.stderr();
        assert!(
            stderr.contains("another user owns `[HOME]/.massgen/.env`"),
            "{stderr}"
        );
        let run = refused.then(["--config", "t.yaml", "x"]).run();
        assert!(
            run.stderr().contains("another user owns"),
            "{}",
            run.stderr()
        );
    }
}

#[test]
fn keys_of_a_project_are_checked_as_they_are_used() {
    let team = "agents:\n  - {id: a, backend: {type: openai, model: gpt-5, api_key: '${OPENAI_API_KEY}'}}\n";
    let project = Project::new().file("t.yaml", team);
    let check = ["config", "check", "t.yaml"];
    let unset = project.args(check).run();
    assert!(
        unset.stdout().contains("`OPENAI_API_KEY` is not set"),
        "{}",
        unset.stdout()
    );
    let set = unset
        .then(check)
        .file(".env", "OPENAI_API_KEY=sk-of-the-project\n")
        .success();
    assert!(set.stdout().contains("ok"), "{}", set.stdout());
}

/// A team of one agent, to which this directory is open.
fn open_team(keys: &str) -> Project {
    let team = format!(
        "agents:\n  - id: a\n    backend: {{type: scripted, cwd: w, enable_mcp_command_line: true, \
         replies: [{{text: hi, repeat: true}}]}}\norchestrator:\n  context_paths: [{{path: ., \
         permission: write{keys}}}]\n"
    );
    Project::new()
        .file("team.yaml", team)
        .file(".env", "TOKEN=of-the-user\n")
        .file("sub/.env.local", "TOKEN=of-the-user\n")
        .file(".env.example", "TOKEN=\n")
}

#[test]
fn files_with_variables_are_hidden_from_agents_by_default() {
    let base = ["--config", "team.yaml"];
    let explain = |project: Project, path: &str| {
        let finished = project.args(["explain", "path", path]).args(base).success();
        finished.stdout().to_owned()
    };
    for path in [".env", "sub/.env.local"] {
        let closed = explain(open_team(""), path);
        assert!(closed.contains("hidden-path"), "{closed}");
        assert!(closed.contains("list `.env` in `unprotected`"), "{closed}");
    }
    let sample = explain(open_team(""), ".env.example");
    assert!(!sample.contains("hidden-path"), "{sample}");
    let opened = explain(open_team(", unprotected: [.env]"), "sub/.env.local");
    assert!(!opened.contains("hidden-path"), "{opened}");

    let read = |project: Project, path: &str| {
        let file = project.path(path);
        let command = ["sandbox", "--config", "team.yaml", "--", "cat"];
        project.args(command).args([file]).run().stdout().to_owned()
    };
    for path in [".env", "sub/.env.local"] {
        assert_eq!(read(open_team(""), path), "", "{path}");
    }
    let opened = read(open_team(", unprotected: [.env]"), ".env");
    assert_eq!(opened, "TOKEN=of-the-user\n");

    let note = "/.env` is hidden here; `unprotected: [.env]` of its context path opens it";
    let failed = open_team("")
        .args(base)
        .args(["--check", "grep TOKEN .env", "go"])
        .run();
    let events = crate::project::logged_events(failed.project());
    assert!(events.contains(note), "{events}");
    let mentioned = open_team("")
        .args(base)
        .args(["--dry-run", "use @.env"])
        .success();
    assert!(
        mentioned.stdout().contains("/.env"),
        "{}",
        mentioned.stdout()
    );
}
