//! Owns what is said about what holds agents to their grants: the tier that is in force for their
//! commands, what it does not promise, and why no stronger one is.

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::config::Config;
use crate::config::command_line::ExecutionMode;
use crate::confinement::tier::{Tier, TierChoice};
use crate::error::Result;
use crate::world::probe::sandbox::{Cgroups, Found, Holds};

/// The sandboxes that the local commands of a team ask for, each once; without any, what a team
/// would get that does not say.
pub(crate) fn choices(config: Option<&Config>) -> Vec<TierChoice> {
    let mut choices = Vec::new();
    for choice in config.map(wanted).unwrap_or_default() {
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    if choices.is_empty() {
        choices.push(TierChoice::Auto);
    }
    choices
}

fn wanted(config: &Config) -> Vec<TierChoice> {
    let commands = config
        .agents
        .iter()
        .filter_map(|agent| agent.commands.as_ref());
    let local = commands.filter(|commands| matches!(commands.mode, ExecutionMode::Local));
    local.map(|commands| commands.sandbox).collect()
}

/// What the machine is good for. The commands of `config`, if it has any, need what it asks for.
pub(crate) fn judge(found: &Holds, config: Option<&Config>) -> Vec<Finding> {
    let needs = config.map(wanted).unwrap_or_default();
    let mut findings = vec![gate(found.gate.as_deref())];
    for (choice, tried) in &found.tiers {
        let finding = commands(*choice, tried);
        let finding = match finding.verdict() {
            Verdict::Missing if !needs.contains(choice) => finding.not_needed(),
            Verdict::Missing | Verdict::Warning | Verdict::Skipped | Verdict::Ok => finding,
        };
        findings.push(finding);
        findings.extend(tried.iter().flat_map(|tried| stronger(tried, found)));
    }
    findings.push(cgroups(found.cgroups));
    findings
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

/// The tier in force for commands.
fn commands(choice: TierChoice, tried: &Result<Found>) -> Finding {
    let subject = match choice {
        TierChoice::Auto => "commands".to_owned(),
        TierChoice::Only(tier) => format!("commands with `command_line_sandbox: {tier}`"),
    };
    let tier = match tried {
        Ok(found) => found.tier,
        Err(error) => return Area::Sandbox.lacks(subject, error),
    };
    let finds = |verdict, message: &str| Area::Sandbox.finds(verdict, &subject, message);
    match tier {
        Tier::A => finds(
            Verdict::Ok,
            "tier A: a command could not leave its directories; your own paths change only after it \
             has ended, without protected names. What you edit meanwhile is kept, and not merged",
        ),
        Tier::B => finds(
            Verdict::Ok,
            "tier B: a command could not leave its directories. A protected name that a command makes \
             in a write path is there until the command has ended",
        ),
        Tier::C => finds(
            Verdict::Warning,
            "tier C: a command could not write outside its workspace, nor read what it was not given. \
             It can see that other files and processes exist; your own paths are read-only for it, and \
             programs fail that need Unix sockets, a server on this machine or `/tmp` by name",
        )
        .remedy("see why no stronger tier is in force"),
        Tier::D => finds(
            Verdict::Missing,
            "tier D: nothing could hold a command to its grants, so all commands are refused; the file \
             tools work",
        )
        .remedy("see why no stronger tier is in force, or run commands in a container: `command_line_execution_mode: docker`"),
        Tier::Off => finds(
            Verdict::Warning,
            "the sandbox is switched off: commands may do all that you may",
        )
        .remedy("leave `command_line_sandbox` out, or set it to `auto`"),
    }
}

/// Why no stronger tier than the one in force is.
fn stronger(tried: &Found, found: &Holds) -> Vec<Finding> {
    if tried.reasons.is_empty() {
        return Vec::new();
    }
    let message = tried.reasons.join("; ");
    let finding = Area::Sandbox.finds(Verdict::Warning, "stronger tiers", message);
    let finding = match found.obstacles.as_slice() {
        [] => finding.remedy("use Linux 6.7 or later with namespaces and Landlock; in a container, its host decides: see `--security-opt` of Docker"),
        obstacles => {
            let remedies = obstacles.iter().map(|obstacle| obstacle.remedy.clone());
            remedies.fold(finding, Finding::remedy)
        }
    };
    vec![finding]
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
