//! What the settings and attributes of a project's repository have git run: none of it is run by any git
//! that massgen starts. Each setting is one row, with a control in which a plain git does run its program.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::git::{create_trap, take_triggered};
use crate::pipeline::{git_in, pipeline_config, role_replies, write_call};
use crate::project::{Project, make_program};
use crate::scripted_team::{FINAL, agent, team};
use crate::terminal::{CTRL_C, CTRL_D, Terminal};

/// A setting, as the shell lines that make it, where `$T` is the program that must not run and `$D` a
/// directory outside of the project; and lines by which a plain git runs it.
type Row = (&'static str, &'static str, &'static str);

/// Each driver of attributes has a file of its own, which is committed. `f.txt` has none.
const ROWS: &[Row] = &[
    ("fsmonitor", "git config core.fsmonitor $T", "git status"),
    (
        "hooks-path",
        "mkdir $D/hooks; cp $T $D/hooks/reference-transaction; cp $T $D/hooks/post-index-change; \
         cp $T $D/hooks/pre-commit; git config core.hooksPath $D/hooks",
        "git commit -q --allow-empty -m x",
    ),
    (
        "hooks",
        "for h in reference-transaction post-index-change pre-commit post-checkout post-merge; do \
         cp $T .git/hooks/$h; done; git config --unset-all core.hooksPath || true",
        "git commit -q --allow-empty -m x",
    ),
    (
        "pager",
        "git config core.pager $T",
        "script -qec 'git log' /dev/null",
    ),
    (
        "pager-of-command",
        "git config pager.log $T",
        "script -qec 'git log' /dev/null",
    ),
    (
        "editor",
        "git config core.editor $T",
        "git commit -q --allow-empty",
    ),
    (
        "sequence-editor",
        "git config sequence.editor $T",
        "git rebase -i --root",
    ),
    (
        "ask-pass",
        "git config core.askPass $T",
        "printf 'protocol=https\\nhost=h\\n\\n' | git credential fill",
    ),
    (
        "credential-helper",
        "git config credential.helper \"!$T\"",
        "printf 'protocol=https\\nhost=h\\n\\n' | git credential fill",
    ),
    (
        "ssh-command",
        "git config core.sshCommand $T",
        "git ls-remote ssh://h.invalid/x",
    ),
    (
        "git-proxy",
        "git config core.gitProxy $T",
        "git ls-remote git://h.invalid/x",
    ),
    (
        "include",
        "git config -f $D/included core.fsmonitor $T; git config include.path $D/included",
        "git status",
    ),
    (
        "include-if",
        "git config -f $D/included-if core.fsmonitor $T; \
         git config includeIf.gitdir:/.path $D/included-if",
        "git status",
    ),
    (
        "include-on-branch",
        "git config -f $D/included-on core.fsmonitor $T; \
         git config 'includeIf.onbranch:**.path' $D/included-on",
        "git status",
    ),
    (
        "of-worktree",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor $T",
        "git status",
    ),
    (
        "external-diff",
        "git config diff.external $T",
        "echo 2 > f.txt; git diff",
    ),
    (
        "diff-command",
        "git config diff.command.command $T",
        "echo 2 > command.txt; git diff",
    ),
    (
        "textconv",
        "git config diff.textconv.textconv $T",
        "echo 2 > textconv.txt; git diff",
    ),
    (
        "clean",
        "git config filter.clean.clean $T",
        "echo 2 > clean.txt; git add clean.txt",
    ),
    (
        "smudge",
        "git config filter.smudge.smudge $T",
        "rm smudge.txt; git checkout smudge.txt",
    ),
    (
        "process",
        "git config filter.process.process $T",
        "echo 2 > process.txt; git add process.txt",
    ),
    (
        "attributes-of-repository",
        "echo 'info.txt filter=info' >> .git/info/attributes; git config filter.info.clean $T",
        "echo 2 > info.txt; git add info.txt",
    ),
    (
        "attributes-file",
        "echo 'named.txt filter=named' > $D/attributes; git config core.attributesFile $D/attributes; \
         git config filter.named.clean $T",
        "echo 2 > named.txt; git add named.txt",
    ),
    (
        "merge-driver",
        "git config merge.merge.driver $T",
        "git checkout -q -b side; echo 2 > merge.txt; git commit -qam 2; git checkout -q trunk; \
         echo 3 > merge.txt; git commit -qam 3; git merge side",
    ),
    (
        "gpg",
        "git config gpg.program $T; git config commit.gpgSign true; git config user.signingKey x",
        "git commit -q --allow-empty -m x",
    ),
    (
        "gpg-ssh",
        "git config gpg.format ssh; git config gpg.ssh.program $T; git config commit.gpgSign true; \
         git config user.signingKey key::x",
        "git commit -q --allow-empty -m x",
    ),
    ("alias", "git config alias.evil \"!$T\"", "git evil"),
    (
        "protocol",
        "git config protocol.ext.allow always; git config remote.ext.url ext::$T",
        "git fetch ext",
    ),
    (
        "instead-of",
        "git config protocol.ext.allow always; git config url.ext::$T.insteadOf x:y",
        "git ls-remote x:y",
    ),
    (
        "promised",
        "git config protocol.ext.allow always; git config remote.promisor.url ext::$T; \
         git config remote.promisor.promisor true",
        "git cat-file -p 1234567890123456789012345678901234567890",
    ),
    (
        "upload-pack",
        "git config remote.up.url .; git config remote.up.uploadpack $T",
        "git fetch up",
    ),
    (
        "receive-pack",
        "git config remote.re.url .; git config remote.re.receivepack $T",
        "git push re HEAD:refs/heads/x",
    ),
    (
        "remote-vcs",
        "mkdir $D/bin; cp $T $D/bin/git-remote-evil; git config remote.vcs.vcs evil; \
         git config remote.vcs.url x",
        "PATH=$D/bin:$PATH git fetch vcs",
    ),
    (
        "submodule",
        "git config submodule.library.update \"!$T\"; git config submodule.library.active true; \
         git config submodule.library.url $PWD",
        "git config -f .gitmodules submodule.library.path library; \
         git config -f .gitmodules submodule.library.url $PWD; \
         git -c protocol.file.allow=always clone -q . library; \
         git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),library; \
         git -C library -c user.name=u -c user.email=u@u commit -q --allow-empty -m x; \
         git submodule update",
    ),
    (
        "alternate-refs",
        "git config core.alternateRefsCommand $T",
        "git clone -q --bare . $D/other.git; echo $D/other.git/objects > .git/objects/info/alternates; \
         printf 0000 | git receive-pack .",
    ),
    (
        "trailer",
        "git config trailer.evil.key evil; git config trailer.evil.command $T",
        "echo m | git interpret-trailers --trailer evil=x",
    ),
    (
        "diff-filter",
        "git config interactive.diffFilter $T",
        "echo 2 > f.txt; echo q | git -c color.ui=always add -p",
    ),
    (
        "diff-tool",
        "git config diff.tool evil; git config difftool.evil.cmd $T",
        "echo 2 > f.txt; git difftool -y",
    ),
];
/// Settings that git of a repository does not take from it: they are there, and have no control.
const UNHEEDED: &str = "git config uploadpack.packObjectsHook $T; git config init.templateDir $D; \
    for c in rev-parse update-ref config symbolic-ref ls-files diff-index update-index read-tree var; do \
    git config alias.$c \"!$T\"; done";
/// Lines by which a git from 2.54 on runs the hooks that settings name.
const CONFIGURED_HOOKS: &str = "for e in reference-transaction post-index-change; do \
    git config --add hook.evil.event $e; done; git config hook.evil.command $T; \
    git config --add hook.a.b=c.event reference-transaction; git config hook.a.b=c.command $T";

/// The files that have a driver, and one that has none.
const FILES: [&str; 10] = [
    "f.txt",
    "command.txt",
    "textconv.txt",
    "clean.txt",
    "smudge.txt",
    "process.txt",
    "info.txt",
    "named.txt",
    "merge.txt",
    "new.txt",
];
const ATTRIBUTES: &str = "command.txt diff=command\ntextconv.txt diff=textconv\nclean.txt filter=clean\n\
    smudge.txt filter=smudge\nprocess.txt filter=process\nmerge.txt merge=merge\n";

/// A repository of one commit in `dir`.
fn make_repository(dir: &Path) {
    for name in FILES.iter().filter(|name| **name != "new.txt") {
        fs::write(dir.join(name), "1\n").unwrap();
    }
    fs::write(dir.join(".gitattributes"), ATTRIBUTES).unwrap();
    fs::write(dir.join(".gitignore"), ".massgen\n*.yaml\n/home\n").unwrap();
    git_in(dir, &["init", "-q", "-b", "trunk"]);
    git_in(dir, &["add", "."]);
    git_in(dir, &["commit", "-q", "-m", "first"]);
}

/// Runs shell lines in `dir`, whatever their status. Gives what they said.
fn shell(dir: &Path, lines: &str, program: &str, outside: &Path) -> String {
    // Where git waits for the program and the program for git.
    let mut command = Command::new("timeout");
    command.args(["12", "sh", "-c", lines]).current_dir(dir);
    for name in [
        "GIT_EDITOR",
        "EDITOR",
        "VISUAL",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "GIT_PAGER",
        "PAGER",
    ] {
        command.env_remove(name);
    }
    let output = command
        .env("T", program)
        .env("D", outside)
        .env("HOME", outside)
        .env("TERM", "xterm")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "u")
        .env("GIT_AUTHOR_EMAIL", "u@u")
        .env("GIT_COMMITTER_NAME", "u")
        .env("GIT_COMMITTER_EMAIL", "u@u")
        .output()
        .unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_plain_git_runs_what_each_setting_names() {
    let mut idle = Vec::new();
    for (name, setting, control) in ROWS {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make_repository(dir.path());
        let program = create_trap(outside.path(), name);
        shell(dir.path(), setting, &program, outside.path());
        take_triggered(outside.path());
        let output = shell(dir.path(), control, &program, outside.path());
        if take_triggered(outside.path()).is_empty() {
            idle.push(format!("{name}: {output}"));
        }
    }
    assert!(idle.is_empty(), "{}", idle.join("\n"));
}

/// Puts all settings at once into the repository in `dir`.
fn set_all(dir: &Path, outside: &Path) {
    for (name, setting, _) in ROWS.iter().filter(|(name, ..)| *name != "hooks") {
        shell(dir, setting, &create_trap(outside, name), outside);
    }
    shell(dir, UNHEEDED, &create_trap(outside, "unheeded"), outside);
    shell(
        dir,
        CONFIGURED_HOOKS,
        &create_trap(outside, "configured-hook"),
        outside,
    );
    let settings = git_in(dir, &["config", "--list", "--name-only", "--includes"]);
    assert!(settings.lines().count() > ROWS.len() + 20, "{settings}");
    take_triggered(outside);
}

/// What an agent writes.
fn git_calls() -> Vec<String> {
    let read = |name: &&str| format!("{{name: read_text_file, arguments: {{path: {name}}}}}");
    let known = FILES.iter().filter(|name| **name != "new.txt");
    let reads = known.map(read);
    reads
        .chain(FILES.iter().map(|name| write_call(name, "agent\\n")))
        .collect()
}

/// A project whose repository is in `top` of it, seen from where massgen is started, with all settings.
fn project(top: &str) -> (Project, tempfile::TempDir) {
    let outside = tempfile::tempdir().unwrap();
    let agents = [agent(
        "implementer",
        "",
        &role_replies(&git_calls().join(", "), "did it"),
    )];
    let at = |name: &&str| {
        let path = format!("path: \"{{{{cwd}}}}/{name}\"");
        format!(
            "{{name: read_text_file, arguments: {{{path}}}}}, \
             {{name: write_file, arguments: {{{path}, content: agent}}}}"
        )
    };
    let list: Vec<String> = FILES.iter().map(at).collect();
    let replies = format!(
        "- when: {{system: \"{FINAL}\", lacks: nothing, last: Write}}\n  calls: [{}]\n\
         - when: {{system: \"{FINAL}\"}}\n  text: presented\n  repeat: true\n\
         - calls: [{{name: new_answer, arguments: {{content: done}}}}]\n  repeat: true\n",
        list.join(", ")
    );
    let project = Project::new()
        .file(
            "pipeline.yaml",
            pipeline_config("stages: [implementer]", &agents, ""),
        )
        .config(&team(&[agent("a", "cwd: w", &replies)], ""));
    let root = project.path(top);
    make_repository(&root);
    set_all(&root, outside.path());
    (project, outside)
}

/// Each way in which massgen starts git in a project, or may look as if it did.
fn run_all(project: Project) -> Project {
    let finished = project.args(["doctor"]).run();
    let finished = finished
        .then(["--config", "pipeline.yaml", "change it"])
        .success()
        .then(["diff", "last"])
        .success()
        .then(["apply", "last"])
        .success();
    let logged = finished.then(["pipeline", "log", "last"]).run();
    let taken_back = logged.then(["undo", "last"]).run();
    let plain = taken_back
        .then(["--cwd-context", "rw", "Write it"])
        .success()
        .then(["diff"])
        .success()
        .then(["undo"])
        .success();
    let again = plain.then(["apply", "--yes"]).success();
    let typed = again
        .then(["--cwd-context", "rw"])
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    let mut terminal = Terminal::open(typed, 80);
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("Review @cle");
    terminal.wait_for_output("clean.txt");
    terminal.type_keys(CTRL_C);
    terminal.type_keys(CTRL_D);
    terminal.wait_for_end(0)
}

#[test]
fn massgen_runs_none_of_it() {
    let (project, outside) = project("");
    let project = run_all(project);
    assert_eq!(take_triggered(outside.path()), Vec::<String>::new());
    // The control: git was at work, and the traps are set.
    let root = project.path("");
    let log = [
        "-c",
        "core.fsmonitor=false",
        "log",
        "--format=%s",
        "--first-parent",
    ];
    assert_eq!(git_in(&root, &log), "change it\nfirst\n");
    shell(&root, "git status", "", outside.path());
    assert_ne!(take_triggered(outside.path()), Vec::<String>::new());
}

#[test]
fn massgen_runs_none_of_what_a_repository_around_the_project_names() {
    let outside = tempfile::tempdir().unwrap();
    let project = Project::new();
    let inner = project.path("");
    let outer = inner.parent().unwrap();
    make_repository(outer);
    set_all(outer, outside.path());
    let agents = [agent("implementer", "", &role_replies("", "did it"))];
    let project = project.file(
        "pipeline.yaml",
        pipeline_config("stages: [implementer]", &agents, ""),
    );
    let finished = project.args(["doctor"]).run();
    assert!(
        finished.stdout().contains("repository `"),
        "{}",
        finished.stdout()
    );
    let finished = finished
        .then(["--config", "pipeline.yaml", "change it"])
        .run();
    let _applied = finished.then(["apply", "last"]).run();
    assert_eq!(take_triggered(outside.path()), Vec::<String>::new());
    shell(outer, "git status", "", outside.path());
    assert_ne!(take_triggered(outside.path()), Vec::<String>::new());
}

/// A git in front of the machine's own that runs the hooks which settings name, as git does from 2.54 on.
const NEW_GIT: &str = r#"#!/bin/sh
verb=
skip=
for word; do
    if [ -n "$skip" ]; then skip=; continue; fi
    case "$word" in -c) skip=1 ;; -*) ;; *) verb=$word; break ;; esac
done
case "$verb" in
update-ref) event=reference-transaction ;;
update-index) event=post-index-change ;;
*) exec $REAL "$@" ;;
esac
# The same settings, and another command.
arguments=$(mktemp)
( while [ "$1" = -c ]; do printf '%s\0%s\0' "$1" "$2"; shift 2; done > "$arguments" )
ask() { xargs -0 -a "$arguments" sh -c 'last=$1; real=$2; shift 2; exec "$real" "$@" config --get-regexp "$last"' sh "$1" $REAL; }
ask '^hook\..*\.event$' 2> /dev/null | while read -r key value; do
    [ "$value" = "$event" ] || continue
    name=${key#hook.}; name=${name%.event}
    enabled=$(ask '^hook\..*\.enabled$' | while read -r k v; do [ "$k" = "hook.$name.enabled" ] && echo "$v"; done | tail -n 1)
    [ "$enabled" = false ] && continue
    command=$(ask '^hook\..*\.command$' | while read -r k v; do [ "$k" = "hook.$name.command" ] && echo "$v"; done | tail -n 1)
    sh -c "$command" < /dev/null > /dev/null
done
rm -f "$arguments"
exec $REAL "$@"
"#;

#[test]
fn no_hook_runs_that_settings_name() {
    let outside = tempfile::tempdir().unwrap();
    let project = crate::pipeline_repository::project();
    let root = project.path("");
    let real = shell(&root, "command -v git", "", outside.path());
    let script = NEW_GIT.replace("$REAL", real.trim());
    let bin = outside.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("git"), script).unwrap();
    make_program(&bin.join("git"));
    // With an index in parts, massgen runs `update-index` too.
    git_in(&root, &["update-index", "--split-index"]);
    let program = create_trap(outside.path(), "hook");
    shell(&root, CONFIGURED_HOOKS, &program, outside.path());
    // The control.
    for line in [
        "git update-ref refs/heads/y HEAD",
        "git update-index --refresh",
    ] {
        shell(
            &root,
            &format!("PATH=$D/bin:$PATH; {line}"),
            &program,
            outside.path(),
        );
        assert_eq!(take_triggered(outside.path()), ["ran-hook"], "{line}");
    }
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let applied = project
        .env("PATH", path)
        .args(["change it"])
        .success()
        .then(["apply", "last"])
        .success();
    assert_eq!(take_triggered(outside.path()), Vec::<String>::new());
    let log = ["log", "--format=%s", "--first-parent", "HEAD"];
    assert_eq!(
        git_in(&applied.project().path(""), &log),
        "change it\nfirst\n"
    );
}
