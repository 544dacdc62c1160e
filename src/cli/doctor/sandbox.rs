//! Doctor checks of the sandbox: the tier that is in force for commands, what it does not promise,
//! and why no stronger one is available.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingLevel};
use crate::config::Config;
use crate::error::Result;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::diagnostics::probe::sandbox::{
    CgroupAccess, LandlockSupport, SandboxCapabilities, SandboxSelection,
};

/// Tiers that also work without Landlock.
const STANDS_ALONE: &[SandboxLevel] = &[SandboxLevel::A, SandboxLevel::B];

/// Returns the sandboxes that the local commands of a team ask for, each once; without any, the one
/// that a team gets by default.
pub(crate) fn requested_levels(config: Option<&Config>) -> Vec<SandboxLevelChoice> {
    let mut choices = Vec::new();
    for choice in config.map(config_levels).unwrap_or_default() {
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    if choices.is_empty() {
        choices.push(SandboxLevelChoice::Auto);
    }
    choices
}

fn config_levels(config: &Config) -> Vec<SandboxLevelChoice> {
    let commands = config
        .agents
        .iter()
        .filter_map(|agent| agent.commands.as_ref());
    let local = commands.filter(|commands| commands.mode.is_local());
    local.map(|commands| commands.sandbox).collect()
}

/// Checks what the machine supports. A missing sandbox is an error only if the commands of `config`
/// ask for it.
pub(crate) fn check(found: &SandboxCapabilities, config: Option<&Config>) -> Vec<DoctorFinding> {
    let needs = config.map(config_levels).unwrap_or_default();
    let mut findings = vec![check_gate(found.gate.as_deref())];
    for (choice, tried) in &found.tiers {
        let finding = check_commands(*choice, tried);
        let finding = match finding.verdict() {
            FindingLevel::Missing if !needs.contains(choice) => finding.warning_if_missing(),
            FindingLevel::Missing
            | FindingLevel::Warning
            | FindingLevel::Skipped
            | FindingLevel::Ok => finding,
        };
        findings.push(finding);
        findings.extend(tried.iter().flat_map(|tried| stronger_levels(tried, found)));
    }
    let tried = found
        .tiers
        .iter()
        .filter_map(|(_, tried)| tried.as_ref().ok());
    if found.landlock == LandlockSupport::Missing
        && let Some(tier) = tried
            .map(|tried| tried.tier)
            .find(|tier| STANDS_ALONE.contains(tier))
    {
        findings.push(missing_landlock(tier, found));
    }
    findings.push(check_cgroups(found));
    findings
}

fn check_gate(fault: Option<&str>) -> DoctorFinding {
    match fault {
        None => DoctorArea::Sandbox.finding(
            FindingLevel::Ok,
            "gate",
            "files are opened beneath handles, with no link followed (openat2)",
        ),
        Some(why) => DoctorArea::Sandbox.finding(
                FindingLevel::Missing,
                "gate",
                format!("the kernel does not offer what it needs: {why}"),
            )
            .with_remedy("use Linux 5.6 or later with `/proc` mounted; in a container, one that lets `openat2` pass"),
    }
}

/// Reports the tier in force for commands.
fn check_commands(choice: SandboxLevelChoice, tried: &Result<SandboxSelection>) -> DoctorFinding {
    let subject = match choice {
        SandboxLevelChoice::Auto => "commands".to_owned(),
        SandboxLevelChoice::Only(tier) => format!("commands with `command_line_sandbox: {tier}`"),
    };
    let tier = match tried {
        Ok(found) => found.tier,
        Err(error) => return DoctorArea::Sandbox.error_finding(subject, error),
    };
    let finds = |verdict, message: &str| DoctorArea::Sandbox.finding(verdict, &subject, message);
    match tier {
        SandboxLevel::A => finds(
            FindingLevel::Ok,
            "tier A: a command could not leave its directories; your own paths change only after it \
             has ended, without protected names. What you edit meanwhile is kept, and not merged",
        ),
        SandboxLevel::B => finds(
            FindingLevel::Ok,
            "tier B: a command could not leave its directories. A protected name that a command makes \
             in a write path is there until the command has ended",
        ),
        SandboxLevel::C => finds(
            FindingLevel::Warning,
            "tier C: a command could not write outside its workspace, nor read what it was not given. \
             It can see that other files and processes exist; your own paths are read-only for it, and \
             programs fail that need Unix sockets, a server on this machine or `/tmp` by name",
        )
        .with_remedy("see why no stronger tier is in force"),
        SandboxLevel::D => finds(
            FindingLevel::Missing,
            "tier D: nothing could hold a command to its grants, so all commands are refused; the file \
             tools work",
        )
        .with_remedy("see why no stronger tier is in force, or run commands in a container: `command_line_execution_mode: docker`"),
        SandboxLevel::Off => finds(
            FindingLevel::Warning,
            "the sandbox is switched off: commands may do all that you may",
        )
        .with_remedy("leave `command_line_sandbox` out, or set it to `auto`"),
    }
}

/// Reports why no stronger tier is in force.
fn stronger_levels(tried: &SandboxSelection, found: &SandboxCapabilities) -> Vec<DoctorFinding> {
    if tried.reasons.is_empty() {
        return Vec::new();
    }
    let message = tried.reasons.join("; ");
    let finding = DoctorArea::Sandbox.finding(FindingLevel::Warning, "stronger tiers", message);
    let finding = match found.obstacles.as_slice() {
        [] => finding.with_remedy("use Linux 6.7 or later with namespaces and Landlock; in a container, its host decides: see `--security-opt` of Docker"),
        obstacles => {
            let remedies = obstacles.iter().map(|obstacle| obstacle.remedy.clone());
            remedies.fold(finding, DoctorFinding::with_remedy)
        }
    };
    vec![finding]
}

/// Reports that a tier has only one layer of isolation instead of two.
fn missing_landlock(tier: SandboxLevel, found: &SandboxCapabilities) -> DoctorFinding {
    let message = format!(
        "the kernel does not offer it: in tier {tier} namespaces and seccomp hold alone. It would be \
         a second wall behind what is mounted, and between processes"
    );
    let finding = DoctorArea::Sandbox.finding(FindingLevel::Warning, "Landlock", message);
    let known = found.obstacles.iter();
    let known = known.filter(|obstacle| obstacle.found.contains("Landlock"));
    let remedies: Vec<&str> = known.map(|obstacle| obstacle.remedy.as_str()).collect();
    match remedies.as_slice() {
        [] => finding.with_remedy("use Linux 5.13 or later, with Landlock switched on"),
        remedies => remedies
            .iter()
            .copied()
            .fold(finding, DoctorFinding::with_remedy),
    }
}

/// Reports whether resource limits apply to a whole command.
fn check_cgroups(found: &SandboxCapabilities) -> DoctorFinding {
    let finds = |verdict, message: &str| DoctorArea::Sandbox.finding(verdict, "cgroups", message);
    let loose = match (found.together.memory, found.together.processes) {
        (true, true) => {
            let message = "memory and processes are limited for all of a command together";
            return finds(FindingLevel::Ok, message);
        }
        (false, true) => "memory is limited for each process of a command alone",
        (true, false) => {
            "processes are limited by the number that the user has, and root's are not"
        }
        (false, false) => {
            "limits are loose: of memory for each process of a command alone, and of processes by \
             the number that the user has; root's are not limited"
        }
    };
    let boot = "boot with `systemd.unified_cgroup_hierarchy=1`; in a container, its host decides";
    let (why, remedy) = match found.cgroups {
        CgroupAccess::Delegated => ("no group with limits can be made", boot),
        CgroupAccess::Foreign => (
            "this process's group is not yours",
            "systemd-run --user --scope -p Delegate=yes massgen …",
        ),
        CgroupAccess::NoControllers => ("the second version does not count them here", boot),
        CgroupAccess::Absent => ("the second version is not mounted", boot),
    };
    finds(FindingLevel::Warning, &format!("{loose}, because {why}")).with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::diagnostics::probe::sandbox::SharedLimits;

    /// `expected` are the findings about a machine that sandboxes commands in `tier`, one per line.
    #[track_caller]
    fn check(
        tier: SandboxLevel,
        landlock: LandlockSupport,
        together: SharedLimits,
        expected: &[(&str, &str)],
    ) {
        let found = SandboxSelection {
            tier,
            reasons: Vec::new(),
        };
        let holds = SandboxCapabilities {
            gate: None,
            tiers: vec![(SandboxLevelChoice::Auto, Ok(found))],
            obstacles: Vec::new(),
            cgroups: CgroupAccess::Absent,
            together,
            landlock,
        };
        let said = serde_json::to_value(super::check(&holds, None)).unwrap();
        let said = said.as_array().unwrap().iter();
        let said: Vec<(String, String)> = said
            .filter(|finding| finding["verdict"] == "warning")
            .map(|finding| {
                let text = |key: &str| finding[key].as_str().unwrap().to_owned();
                assert!(!finding["remedy"].as_array().unwrap().is_empty());
                (text("subject"), text("message"))
            })
            .collect();
        assert_eq!(said.len(), expected.len(), "{said:?}");
        for ((subject, message), (expected, words)) in said.iter().zip(expected) {
            assert_eq!(subject, expected);
            assert!(message.contains(words), "{message}");
        }
    }

    const ALL: SharedLimits = SharedLimits {
        memory: true,
        processes: true,
    };
    const NONE: SharedLimits = SharedLimits {
        memory: false,
        processes: false,
    };

    #[test]
    fn limits_that_hold_for_each_process_alone_are_told() {
        let there = LandlockSupport::Available;
        check(SandboxLevel::A, there, ALL, &[]);
        check(
            SandboxLevel::B,
            there,
            NONE,
            &[("cgroups", "limits are loose")],
        );
        let processes = SharedLimits {
            memory: false,
            ..ALL
        };
        let alone = [("cgroups", "memory is limited for each process")];
        check(SandboxLevel::A, there, processes, &alone);
    }

    #[test]
    fn a_wall_that_is_missing_is_told_where_another_stands() {
        let missing = LandlockSupport::Missing;
        check(
            SandboxLevel::A,
            missing,
            ALL,
            &[("Landlock", "in tier A namespaces")],
        );
        check(
            SandboxLevel::B,
            missing,
            ALL,
            &[("Landlock", "in tier B namespaces")],
        );
        check(
            SandboxLevel::Off,
            missing,
            ALL,
            &[("commands", "switched off")],
        );
    }
}
