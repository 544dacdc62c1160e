//! Root's record of sandbox levels in `/run`: where it is written, and what is believed. Each test has
//! a `/run` of its own, in a mount namespace of its own.
#![expect(clippy::print_stdout, reason = "a test says why it has nothing to do")]

use std::process::Command;

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use rustix::process::geteuid;

use crate::command_runs::is_supported;
use crate::project::{Project, binary};

/// Functions for the scripts: `call` runs a command in a sandbox, and the two after it also look
/// whether that has checked the level and so replaced the record.
const FUNCTIONS: &str = r#"
set -e
massgen=$0
own=/run/massgen
record=$own/sandbox_levels.json
call() { "$massgen" sandbox -- true; }
number() { stat -c %i "$record"; }
is_believed() { was=$(number) && call && test "$was" = "$(number)"; }
is_replaced() { was=$(number) && call && test "$was" != "$(number)"; }
"#;

/// Runs the script as root of the machine, on a `/run` that is empty and in memory. Every line of it must
/// succeed.
fn check(script: &str) {
    if !geteuid().is_root() || !is_supported(SandboxLevel::Namespaces) {
        println!("skipped: this needs root and namespaces");
        return;
    }
    let project = Project::new().dir("elsewhere");
    let mounted = "mount -t tmpfs -o mode=755 tmpfs /run";
    let ran = Command::new("unshare")
        .args(["-m", "sh", "-c"])
        .arg(format!("{FUNCTIONS}\n{mounted}\nset -x\n{script}"))
        .arg(binary())
        .current_dir(project.path(""))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", project.home(""))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{script}\n{errors}");
}

#[test]
fn a_level_that_held_is_recorded_for_root_alone_and_believed() {
    check(
        r#"
call
test "$(stat -c '%a %u' $own)" = '700 0'
test "$(stat -c '%a %u' $record)" = '600 0'
is_believed
"#,
    );
}

#[test]
fn a_record_of_another_boot_is_replaced() {
    check(
        r#"
call
sed -i "s/$(cat /proc/sys/kernel/random/boot_id)/00000000-0000-4000-8000-000000000000/" $record
is_replaced
is_believed
"#,
    );
}

#[test]
fn a_record_that_others_may_access_or_own_is_replaced() {
    check(
        r#"
call
for mode in 604 640 602; do
    chmod $mode $record
    is_replaced
    test "$(stat -c %a $record)" = 600
done
chown 65533 $record
is_replaced
mv $record elsewhere/record
ln -s "$PWD/elsewhere/record" $record
call
test -f $record -a ! -L $record
is_believed
"#,
    );
}

#[test]
fn a_directory_that_others_may_access_or_own_is_left_alone() {
    for line in [
        "mkdir -m 755 $own",
        "mkdir -m 700 $own; chown 65533 $own",
        "chmod 700 elsewhere; ln -s \"$PWD/elsewhere\" $own",
    ] {
        check(&format!("{line}\ncall\ntest -z \"$(ls -A $own/)\""));
    }
}

#[test]
fn a_mount_over_the_directory_is_left_alone() {
    check(
        r#"
call
mount -t tmpfs -o mode=700 tmpfs $own
call
test -z "$(ls -A $own)"
umount $own
is_believed
"#,
    );
}

#[test]
fn level_records_are_not_written_where_others_may_write() {
    for line in ["chmod 1777 /run", "chmod 775 /run", "chown 65533 /run"] {
        check(&format!("{line}\ncall\ntest ! -e $own"));
    }
}

#[test]
fn the_root_of_a_user_namespace_has_no_record_there() {
    check("unshare -r \"$massgen\" sandbox -- true\ntest ! -e $own\ncall\ntest -e $own");
}

#[test]
fn on_a_disk_a_record_is_believed_until_the_boot_or_the_first_process_is_another() {
    check(
        r#"
mkdir -m 755 disk
mount --bind disk /run
call
is_believed
sed -i "s/$(cat /proc/sys/kernel/random/boot_id)/00000000-0000-4000-8000-000000000000/" $record
is_replaced
sed -i 's/first process Some(/&9/' $record
is_replaced
is_believed
"#,
    );
}

#[test]
fn a_runtime_directory_of_the_user_comes_first() {
    check(
        r#"
mkdir -m 700 runtime
export XDG_RUNTIME_DIR="$PWD/runtime"
call
test -e runtime/massgen/sandbox_levels.json -a ! -e $own
chown 65533 runtime
call
test -e $own
"#,
    );
}
