//! The completion scripts in real shells, in directories that a stranger filled: what a file is called is
//! put into the line as a name, and runs nothing. Shells that the machine does not have are left out.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::project::{Project, binary};
use crate::terminal::TerminalChild;
use crate::waiting::wait_until;

/// How long a shell may take for all lines.
const ENDS_WITHIN: Duration = Duration::from_mins(3);
/// How long a shell has for a line before it is typed again.
const TYPED_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Names of files that would make the file `PWNED` if a shell read them as text; all begin with `a`.
const HOSTILE: [&str; 12] = [
    "a$(touch${IFS}$W)",
    "a`touch${IFS}$W`",
    "a;touch${IFS}$W;b",
    "a&touch${IFS}$W&b",
    "a|touch${IFS}$W|b",
    "a'$(touch${IFS}$W)'b",
    "a\"$(touch${IFS}$W)\"b",
    "a $(touch $W) b",
    "a<(touch${IFS}$W)",
    "a\\$(touch${IFS}$W)",
    "a\u{1b}]0;t\u{7}$(touch${IFS}$W)",
    "a\n$(touch $W)\nb",
];
/// The words before the name that is completed.
const PLACES: [&str; 3] = [
    "massgen --config a",
    "massgen task a",
    "massgen config check a",
];

/// A shell: its name, its arguments, and the line that loads the script at `$S`, where `massgen` writes
/// its last argument to `$L`.
const SHELLS: [(&str, &[&str], &str); 3] = [
    (
        "bash",
        &["--norc", "--noprofile", "-i"],
        "massgen() { printf '%s\\n' \"${@: -1}\" >> $L; }; . $S",
    ),
    (
        "zsh",
        &["-f", "-i"],
        "massgen() { printf '%s\\n' \"${@[-1]}\" >> $L; }; autoload -U compinit; compinit -u; . $S",
    ),
    (
        "fish",
        &["--no-config", "-i"],
        "function massgen; printf '%s\\n' $argv[-1] >> $L; end; source $S",
    ),
];

/// What became of the files of a shell.
struct ShellFiles {
    /// Whether anything ran.
    is_pwned: bool,
    /// The last arguments of each line.
    log: String,
}

/// Types a line with a completion for each name and place in a shell that has loaded `script`.
fn complete(shell: (&str, &[&str], &str), script: &str) -> ShellFiles {
    let (name, arguments, load) = shell;
    let dir = tempfile::tempdir().unwrap();
    let at = |rel: &str| dir.path().join(rel).display().to_string();
    fs::write(dir.path().join("script"), script).unwrap();
    let mut keys = format!("{load}\r");
    for (number, hostile) in HOSTILE.iter().enumerate() {
        let inside = dir.path().join(format!("names/{number}"));
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join(hostile), "").unwrap();
        for typed in PLACES {
            let line = ["cd ", inside.to_str().unwrap(), "\r", typed, "\t\r"];
            keys.push_str(&line.concat());
        }
    }
    keys.push_str("touch $E\r");
    let variables = [
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("TERM", "xterm".to_owned()),
        ("HOME", at("")),
        ("S", at("script")),
        ("L", at("log")),
        ("W", at("PWNED")),
        ("E", at("ended")),
    ];
    let shown = type_in_shell((name, arguments), &variables, dir.path(), &keys, || {
        dir.path().join("ended").exists()
    });
    let log = fs::read_to_string(dir.path().join("log")).unwrap_or(shown);
    ShellFiles {
        is_pwned: dir.path().join("PWNED").exists(),
        log,
    }
}

/// Types `keys` line by line in a shell in `cwd`, waits until `has_ended`, and returns what it showed.
fn type_in_shell(
    (name, arguments): (&str, &[&str]),
    variables: &[(&str, String)],
    cwd: &Path,
    keys: &str,
    has_ended: impl Fn() -> bool,
) -> String {
    let pty = native_pty_system();
    let pair = pty
        .openpty(PtySize {
            rows: 50,
            cols: 200,
            ..PtySize::default()
        })
        .unwrap();
    let mut command = CommandBuilder::new(name);
    command.args(arguments);
    command.env_clear();
    for (variable, value) in variables {
        command.env(variable, value);
    }
    let ready = cwd.join("ready");
    command.env("R", &ready);
    command.cwd(cwd);
    let child = TerminalChild(pair.slave.spawn_command(command).unwrap());
    drop(pair.slave);
    let mut screen = pair.master.try_clone_reader().unwrap();
    let mut keyboard = pair.master.take_writer().unwrap();
    // A shell that is not read waits.
    let reading = thread::spawn(move || {
        let mut shown = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut piece) {
            shown.extend(piece.iter().take(count));
        }
        String::from_utf8_lossy(&shown).into_owned()
    });
    // Some shells throw away what was typed before their first prompt.
    wait_until("the shell reads lines", ENDS_WITHIN, || {
        keyboard.write_all(b"touch $R\r").unwrap();
        thread::sleep(TYPED_AGAIN_AFTER);
        ready.exists()
    });
    for line in keys.split_inclusive('\r') {
        keyboard.write_all(line.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(30));
    }
    wait_until("the shell has read all lines", ENDS_WITHIN, has_ended);
    drop((child, keyboard, pair.master));
    reading.join().unwrap()
}

fn is_there(shell: &str) -> bool {
    ["/usr/bin", "/bin"]
        .iter()
        .any(|dir| Path::new(dir).join(shell).exists())
}

#[test]
fn a_hostile_name_is_completed_as_a_name() {
    for shell in SHELLS.into_iter().filter(|(name, ..)| is_there(name)) {
        let name = shell.0;
        let script = Project::new().args(["completions", name]).success();
        let done = complete(shell, script.stdout());
        assert!(!done.is_pwned, "{name}: {}", done.log);
        // The control: names were completed. In bash, one with lines is several choices.
        let is_whole =
            |hostile: &&&str| !hostile.contains('\n') && (name == "bash" || !hostile.contains(' '));
        let whole_names = HOSTILE.iter().filter(is_whole);
        for hostile in whole_names {
            let is_completed = done.log.lines().any(|line| line == *hostile);
            assert!(is_completed, "{name}: {hostile:?}: {}", done.log);
        }
    }
}

#[test]
fn a_script_that_does_not_quote_would_run_it() {
    let bash = SHELLS[0];
    let script = Project::new().args(["completions", "bash"]).success();
    let unquoted = script.stdout().replace(" -o filenames", "");
    assert_ne!(unquoted, script.stdout());
    assert!(complete(bash, &unquoted).is_pwned);
}

/// Names that are completed: the words before the cursor, and what the last one becomes.
const COMPLETED: [(&str, &str); 12] = [
    (
        "massgen --config @examples/basic/off",
        "@examples/basic/offline_demo",
    ),
    ("massgen --config kept_t", "kept_team"),
    ("massgen -m claude-opus-4-8", "claude-opus-4-8"),
    ("massgen --sandbox landl", "landlock"),
    ("massgen explain path x --agent wri", "writer"),
    (
        "massgen sessions show session_20",
        "session_20260102_030405_abcd",
    ),
    ("massgen logs show log_20", "log_20260102_030405_123456"),
    (
        "massgen batch status batch_20",
        "batch_20260102_030405_abcd",
    ),
    ("massgen --config=kept_t", "--config=kept_team"),
    (
        "massgen --config=@examples/basic/off",
        "--config=@examples/basic/offline_demo",
    ),
    ("massgen --sandbox=landl", "--sandbox=landlock"),
    ("massgen explain path x --agent=wri", "--agent=writer"),
];
/// Names that are completed in steps in bash, and those whose `@` bash has quoted.
const IN_STEPS: [(&str, &str); 4] = [
    (
        "massgen --config @exa\tba\tof",
        "@examples/basic/offline_demo",
    ),
    (
        "massgen --config \\@examples/basic/of",
        "@examples/basic/offline_demo",
    ),
    (
        "massgen --config=@\tba\tof",
        "--config=@examples/basic/offline_demo",
    ),
    (
        "massgen --config=\\@examples/basic/of",
        "--config=@examples/basic/offline_demo",
    ),
];
/// A name with a space. For bash, such names were once several choices.
const SPACED: (&str, &str) = ("massgen --config spac", "spaced team.yaml");

#[test]
fn names_of_configs_models_agents_sessions_runs_and_batches_are_completed_in_each_shell() {
    for (name, arguments, load) in SHELLS.into_iter().filter(|(name, ..)| is_there(name)) {
        let config = "agents:\n  - {id: writer, backend: {type: scripted, replies: [{text: x}]}}\n";
        let project = Project::new()
            .file(".massgen/config.yaml", config)
            .file(".massgen/kept_team.yaml", config)
            .dir(".massgen/sessions/session_20260102_030405_abcd/turn_1")
            .dir(".massgen/massgen_logs/log_20260102_030405_123456/turn_1")
            .file(".massgen/batches/batch_20260102_030405_abcd/batch.json", "");
        let mut lines = COMPLETED.to_vec();
        let project = if name == "bash" {
            lines.push(SPACED);
            lines.extend(IN_STEPS);
            // It is no level of the sandbox.
            project.file("landlord", "").file(SPACED.1, config)
        } else {
            project
        };
        let project = project.args(["completions", name]).success();
        let script = project.stdout().to_owned();
        let project = project.then::<&str>([]);
        let home = project.home("");
        let at = |rel: &str| home.join(rel).display().to_string();
        fs::create_dir(home.join("bin")).unwrap();
        std::os::unix::fs::symlink(binary(), home.join("bin/massgen")).unwrap();
        fs::write(home.join("script"), script).unwrap();
        let mut keys = format!("{load}\r");
        for (line, _) in &lines {
            keys.push_str(line);
            keys.push_str("\t\r");
        }
        keys.push_str("touch $E\r");
        let path = format!("{}:/usr/bin:/bin", at("bin"));
        let variables = [
            ("PATH", path),
            ("TERM", "xterm".to_owned()),
            ("HOME", at("")),
            ("S", at("script")),
            ("L", at("log")),
            ("E", at("ended")),
        ];
        let shown = type_in_shell(
            (name, arguments),
            &variables,
            &project.path(""),
            &keys,
            || home.join("ended").exists(),
        );
        let log = fs::read_to_string(home.join("log")).unwrap_or_default();
        for (line, completed) in &lines {
            let logged = log.lines().filter(|logged| logged.trim_end() == *completed);
            let same = lines.iter().filter(|(_, other)| other == completed);
            assert_eq!(
                logged.count(),
                same.count(),
                "{name}: {line}\n{log}\n{shown}"
            );
        }
    }
}
