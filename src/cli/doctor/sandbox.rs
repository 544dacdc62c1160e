//! Owns what is said about what could confine commands. This version runs none: agents reach files
//! through the gate alone, and only what the gate needs is needed.

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::world::probe::sandbox::{Cgroups, Landlock, Namespaces, Sandbox, Worked};

/// What the mechanisms of this machine are good for.
pub(crate) fn judge(sandbox: &Sandbox) -> Vec<Finding> {
    vec![
        gate(sandbox.gate.as_deref()),
        Area::Sandbox.finds(
            Verdict::Ok,
            "commands",
            "this version runs none, so no run needs what follows",
        ),
        landlock(&sandbox.landlock),
        namespaces(&sandbox.namespaces),
        bubblewrap(&sandbox.bubblewrap),
        seccomp(sandbox.seccomp),
        cgroups(sandbox.cgroups),
    ]
}

fn gate(fault: Option<&str>) -> Finding {
    match fault {
        None => Area::Sandbox.finds(
            Verdict::Ok,
            "gate",
            "files are opened beneath handles, with no link followed (openat2)",
        ),
        Some(why) => Area::Sandbox
            .finds(
                Verdict::Missing,
                "gate",
                format!("the kernel does not offer what it needs: {why}"),
            )
            .remedy("use Linux 5.6 or later with `/proc` mounted; in a container, one that lets `openat2` pass"),
    }
}

fn landlock(found: &Landlock) -> Finding {
    let finds = |verdict, message: String| Area::Sandbox.finds(verdict, "Landlock", message);
    match found {
        Landlock::Holds { version } => finds(
            Verdict::Ok,
            format!("version {version}: a confined thread could not leave its directory"),
        ),
        Landlock::Absent(why) => finds(Verdict::Warning, format!("not there: {why}"))
            .remedy("use a kernel from 5.13 on, with `landlock` in its `lsm=` parameter"),
        Landlock::Fails { how } => finds(Verdict::Warning, format!("does not hold: {how}"))
            .remedy("report this to whoever provides the kernel or the container"),
    }
}

fn namespaces(found: &Namespaces) -> Finding {
    let finds = |verdict, message: String| Area::Sandbox.finds(verdict, "user namespaces", message);
    match &found.made {
        Worked::Yes => finds(Verdict::Ok, "one was made".to_owned()),
        Worked::NoProgram => finds(
            Verdict::Warning,
            "not tried: `unshare` is not in `PATH`".to_owned(),
        )
        .remedy("sudo apt-get install util-linux"),
        Worked::No(why) => {
            let finding = finds(Verdict::Warning, format!("none can be made: {why}"));
            let forbidding = found.forbidding.iter();
            let finding =
                forbidding.fold(finding, |finding, switch| finding.remedy(allowing(switch)));
            if found.forbidding.is_empty() {
                finding.remedy("in a container, its host decides: see `--security-opt` of Docker")
            } else {
                finding
            }
        }
    }
}

/// The command that turns a switch of the kernel the other way.
fn allowing(switch: &str) -> String {
    let allowed = match switch.rsplit_once('=') {
        Some((name, "1")) => format!("{name}=0"),
        Some(("user.max_user_namespaces", _)) => "user.max_user_namespaces=16384".to_owned(),
        Some((name, _)) => format!("{name}=1"),
        None => switch.to_owned(),
    };
    format!("sudo sysctl -w {allowed}")
}

fn bubblewrap(found: &Worked) -> Finding {
    let finds = |verdict, message: String| Area::Sandbox.finds(verdict, "bubblewrap", message);
    match found {
        Worked::Yes => finds(Verdict::Ok, "it starts".to_owned()),
        Worked::NoProgram => finds(
            Verdict::Skipped,
            "`bwrap` is not in `PATH`, and massgen does without it".to_owned(),
        ),
        Worked::No(why) => finds(Verdict::Warning, format!("it does not start: {why}"))
            .remedy("see what is said about user namespaces"),
    }
}

fn seccomp(is_there: bool) -> Finding {
    if is_there {
        return Area::Sandbox.finds(Verdict::Ok, "seccomp", "system calls can be filtered");
    }
    let message = "system calls cannot be filtered";
    let finding = Area::Sandbox.finds(Verdict::Warning, "seccomp", message);
    finding.remedy("use a kernel that is built with CONFIG_SECCOMP_FILTER")
}

fn cgroups(found: Cgroups) -> Finding {
    let finds = |verdict, message| Area::Sandbox.finds(verdict, "cgroups", message);
    let boot = "boot with `systemd.unified_cgroup_hierarchy=1`; in a container, its host decides";
    let remedy = "systemd-run --user --scope -p Delegate=yes massgen …";
    match found {
        Cgroups::Delegated => finds(Verdict::Ok, "this process's group can be divided"),
        Cgroups::Foreign => finds(
            Verdict::Warning,
            "this process's group is not yours: memory could not be limited",
        )
        .remedy(remedy),
        Cgroups::Bare => finds(
            Verdict::Warning,
            "the second version does not count memory here: it could not be limited",
        )
        .remedy(boot),
        Cgroups::Absent => finds(
            Verdict::Warning,
            "the second version is not mounted: memory could not be limited",
        )
        .remedy(boot),
    }
}
