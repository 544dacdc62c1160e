//! Settings of the machine that only root can read, and commands that root starts: they see the
//! others. Each test has an `/etc` of its own, in a mount namespace of its own.

use std::process::Command;

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

#[test]
fn commands_of_root_see_the_settings_that_all_users_can_read() {
    if !geteuid().is_root() || !is_supported(SandboxLevel::Namespaces) {
        println!("skipped: this needs root and namespaces");
        return;
    }
    let project = Project::new();
    let ran = Command::new("unshare")
        .args(["-m", "sh", "-c", SCRIPT])
        .arg(binary())
        .current_dir(project.path(""))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", project.home(""))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    let printed = String::from_utf8_lossy(&ran.stdout);
    let (outside, inside) = printed.split_once("inside").unwrap();
    assert_eq!(outside.matches("CLOSED").count(), 3, "{outside}");
    assert!(outside.contains("OPEN"), "{outside}");
    assert!(!inside.contains("CLOSED"), "{inside}");
    assert!(inside.contains("OPEN"), "{inside}");
}
