//! Settings of the machine that only some users can read, and commands that one of them starts: they
//! see what all users see. Each test has an `/etc` of its own, in a mount namespace of its own.

use std::process::{Command, Output};

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use rustix::process::geteuid;

use crate::command_runs::is_supported;
use crate::project::{Project, binary};

/// Mounts an `/etc` with settings of each kind, and prints them outside and inside a sandbox.
const SCRIPT: &str = r#"
set -e
mkdir -p etc/service etc/private
cp -a /etc/passwd /etc/group /etc/ld.so.c* etc || true
echo OPEN > etc/service/open
echo CLOSED > etc/service/closed
echo CLOSED > "etc/service/$(printf 'n\377%%')"
echo CLOSED > etc/private/open
chmod 600 etc/service/closed etc/service/n*
chmod 711 etc/private
mount --bind etc /etc
show='cat /etc/service/* /etc/private/open'
sh -c "$show"
echo inside
"$0" sandbox -- sh -c "$show 2>&1; true"
"#;

/// Mounts an `/etc` with a secret that was deleted where it was mounted from, so that nothing can be
/// mounted over it, and prints it outside and inside a sandbox of the level `$1`.
const DELETED_MOUNT_SCRIPT: &str = r#"
set -e
# Outside of what is open to the command.
outside=$HOME/outside
mkdir -p $outside/etc
cp -a /etc/passwd /etc/group /etc/ld.so.c* $outside/etc || true
touch $outside/etc/secret
echo CLOSED > $outside/file
chmod 600 $outside/file
mount --bind $outside/etc /etc
mount --bind $outside/file /etc/secret
rm $outside/file
show='cat /etc/secret'
sh -c "$show"
echo inside
"$0" sandbox --sandbox "$1" -- sh -c "$show 2>&1; true"
"#;

/// Mounts an `/etc` with settings of a user and of a group, and prints them as that user and as a
/// member of that group, outside and inside a sandbox.
const USER_SCRIPT: &str = r#"
set -e
mkdir -p etc/service etc/members etc/unlisted etc/foreign
cp -a /etc/passwd /etc/group /etc/ld.so.c* etc || true
echo OPEN > etc/service/open
echo OPEN > etc/unlisted/open
echo CLOSED > etc/service/own
echo CLOSED > etc/service/of_group
echo CLOSED > etc/members/key
echo CLOSED > etc/foreign/key
chmod 600 etc/service/own
chown 65533 etc/service/own
chmod 640 etc/service/of_group
chmod 710 etc/members
chgrp 65532 etc/service/of_group etc/members
chmod 711 etc/unlisted
chmod 700 etc/foreign
chown -R 65533:65533 "$HOME" .
chown 0:0 etc etc/service etc/service/open etc/unlisted etc/foreign
chown 65533:65532 etc/members etc/service/of_group
chown 0 etc/members etc/service/of_group
mount --bind etc /etc
show='cat /etc/service/* /etc/members/key /etc/unlisted/open /etc/foreign/key'
user='setpriv --reuid=65533 --regid=65533 --groups=65532'
$user sh -c "$show" || true
echo inside
$user "$0" sandbox --sandbox "$1" -- sh -c "$show; true"
"#;

/// Runs `script` with massgen's binary and `arguments` in a mount namespace of its own.
fn run_in_mount_namespace(script: &str, arguments: &[&str]) -> Output {
    let project = Project::new();
    Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(binary())
        .args(arguments)
        .current_dir(project.path(""))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", project.home(""))
        .output()
        .unwrap()
}

/// Returns whether this machine can run these tests.
fn is_possible() -> bool {
    geteuid().is_root() && is_supported(SandboxLevel::Namespaces)
}

#[test]
fn a_restricted_setting_that_cannot_be_hidden_makes_a_level_unavailable() {
    if !is_possible() {
        println!("skipped: this needs root and namespaces");
        return;
    }
    for level in ["overlay", "namespaces"] {
        let ran = run_in_mount_namespace(DELETED_MOUNT_SCRIPT, &[level]);
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(3), "{errors}");
        assert!(
            errors.contains("`/etc/secret` cannot be hidden"),
            "{errors}"
        );
    }
    // Another level is chosen, and it holds.
    let ran = run_in_mount_namespace(DELETED_MOUNT_SCRIPT, &["auto"]);
    let printed = String::from_utf8_lossy(&ran.stdout);
    let (outside, inside) = printed.split_once("inside").unwrap();
    assert!(outside.contains("CLOSED"), "{outside}");
    assert!(!inside.contains("CLOSED"), "{inside}");
}

#[test]
fn commands_of_root_see_the_settings_that_all_users_can_read() {
    if !is_possible() {
        println!("skipped: this needs root and namespaces");
        return;
    }
    let ran = run_in_mount_namespace(SCRIPT, &[]);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    let printed = String::from_utf8_lossy(&ran.stdout);
    let (outside, inside) = printed.split_once("inside").unwrap();
    assert_eq!(outside.matches("CLOSED").count(), 3, "{outside}");
    assert!(outside.contains("OPEN"), "{outside}");
    assert!(!inside.contains("CLOSED"), "{inside}");
    assert!(inside.contains("OPEN"), "{inside}");
}

#[test]
fn commands_of_a_user_do_not_see_the_settings_of_the_user_and_of_its_groups() {
    if !is_possible() {
        println!("skipped: this needs root and namespaces");
        return;
    }
    for level in ["overlay", "namespaces"] {
        let ran = run_in_mount_namespace(USER_SCRIPT, &[level]);
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{errors}");
        let printed = String::from_utf8_lossy(&ran.stdout);
        let (outside, inside) = printed.split_once("inside").unwrap();
        assert_eq!(outside.matches("CLOSED").count(), 3, "{outside}");
        assert_eq!(outside.matches("OPEN").count(), 2, "{outside}");
        assert!(!inside.contains("CLOSED"), "{inside}");
        assert_eq!(inside.matches("OPEN").count(), 2, "{inside}{errors}");
    }
}
