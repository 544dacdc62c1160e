//! Doctor checks of the sandbox: the gate, the level for commands, what it does not promise, why no
//! stronger one is available, and whether resource limits hold for whole commands.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::config::Config;
use crate::error::Result;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::diagnostics::probe::sandbox::{
    CgroupAccess, LandlockSupport, SandboxCapabilities, SandboxSelection,
};

/// Levels that also work without Landlock.
const LEVELS_WITHOUT_LANDLOCK: &[SandboxLevel] = &[SandboxLevel::Overlay, SandboxLevel::Namespaces];

/// Returns the sandbox levels that the config chooses for local commands, each once; without any,
/// the default.
pub(crate) fn requested_sandbox_levels(config: Option<&Config>) -> Vec<SandboxLevelChoice> {
    let mut choices = Vec::new();
    for choice in config.map(config_choices).unwrap_or_default() {
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    if choices.is_empty() {
        choices.push(SandboxLevelChoice::Auto);
    }
    choices
}

fn config_choices(config: &Config) -> Vec<SandboxLevelChoice> {
    let local = config
        .commands()
        .filter(|commands| commands.mode.is_local());
    local.map(|commands| commands.sandbox).collect()
}

/// Checks what the machine supports. A missing sandbox is an error only if the commands of `config`
/// ask for it.
pub(crate) fn check(
    capabilities: &SandboxCapabilities,
    config: Option<&Config>,
) -> Vec<DoctorFinding> {
    let needed_choices = config.map(config_choices).unwrap_or_default();
    let mut findings = vec![check_gate(capabilities.gate.as_deref())];
    for (choice, selection_result) in &capabilities.levels {
        let level_finding = check_commands(*choice, selection_result);
        let finding = match level_finding.verdict() {
            FindingVerdict::Unusable if !needed_choices.contains(choice) => {
                level_finding.warning_if_missing()
            }
            FindingVerdict::Unusable
            | FindingVerdict::Warning
            | FindingVerdict::Skipped
            | FindingVerdict::Ok => level_finding,
        };
        findings.push(finding);
        findings.extend(
            selection_result
                .iter()
                .filter_map(|selection| weak_level_finding(selection, capabilities)),
        );
    }
    let selections = capabilities
        .levels
        .iter()
        .filter_map(|(_, selection_result)| selection_result.as_ref().ok());
    if capabilities.landlock == LandlockSupport::Missing
        && let Some(level) = selections
            .map(|selection| selection.level)
            .find(|level| LEVELS_WITHOUT_LANDLOCK.contains(level))
    {
        findings.push(missing_landlock(level, capabilities));
    }
    findings.push(check_cgroups(capabilities));
    findings
}

fn check_gate(obstacle: Option<&str>) -> DoctorFinding {
    match obstacle {
        None => DoctorArea::Sandbox.finding(
            FindingVerdict::Ok,
            "gate",
            "files are opened beneath directory handles without following symlinks (openat2)",
        ),
        Some(reason) => DoctorArea::Sandbox.finding(
                FindingVerdict::Unusable,
                "gate",
                format!("the kernel lacks what it needs: {reason}"),
            )
            .with_remedy("use Linux 5.6 or later with `/proc` mounted; in a container, its seccomp profile must allow `openat2`"),
    }
}

/// Reports the level for commands, and what it does not promise.
fn check_commands(
    choice: SandboxLevelChoice,
    selection_result: &Result<SandboxSelection>,
) -> DoctorFinding {
    let subject = match choice {
        SandboxLevelChoice::Auto => "commands".to_owned(),
        SandboxLevelChoice::Only(level) => format!("commands with `command_line_sandbox: {level}`"),
    };
    let level = match selection_result {
        Ok(selection) => selection.level,
        Err(error) => return DoctorArea::Sandbox.error_finding(subject, error),
    };
    let finding = |verdict, message: &str| DoctorArea::Sandbox.finding(verdict, &subject, message);
    match level {
        SandboxLevel::Overlay => finding(
            FindingVerdict::Ok,
            "level `overlay`: a command cannot access anything outside its directories. Agents work in attempts, \
             each on a layer over your write paths; after a single call your own paths change, without protected \
             names. Your edits in the meantime are kept",
        ),
        SandboxLevel::Namespaces => finding(
            FindingVerdict::Ok,
            "level `namespaces`: a command cannot access anything outside its directories. Agents work in \
             attempts, on copies of your write paths where no layer can be mounted",
        ),
        SandboxLevel::Landlock => finding(
            FindingVerdict::Warning,
            "level `landlock`: a command cannot write outside its workspace, nor read what is not granted. Agents \
             work in attempts, on copies of your write paths that commands find at other paths. A command can see \
             that other files and processes exist, and programs fail that need Unix sockets, a server on this \
             machine or `/tmp`",
        )
        .with_remedy("see below why no stronger level is available"),
        SandboxLevel::Unavailable => finding(
            FindingVerdict::Unusable,
            "no sandbox level works on this machine, so all commands are refused; the file tools still work",
        )
        .with_remedy("see below why no level is available, or run commands in a container: `command_line_execution_mode: docker`"),
        SandboxLevel::Off => finding(
            FindingVerdict::Warning,
            "the sandbox is off: commands run with your own rights, and agents that run them have no attempts",
        )
        .with_remedy("remove `command_line_sandbox`, or set it to `auto`"),
    }
}

/// Reports why no stronger level is available; `None` if the level is the strongest one.
fn weak_level_finding(
    selection: &SandboxSelection,
    capabilities: &SandboxCapabilities,
) -> Option<DoctorFinding> {
    if selection.reasons.is_empty() {
        return None;
    }
    let message = selection.reasons.join("; ");
    let finding = DoctorArea::Sandbox.finding(FindingVerdict::Warning, "stronger levels", message);
    Some(match capabilities.obstacles.as_slice() {
        [] => finding.with_remedy("use Linux 6.7 or later with namespaces and Landlock; in a container, this depends on its host: see `--security-opt` of Docker"),
        obstacles => {
            let remedies = obstacles.iter().map(|obstacle| obstacle.remedy.clone());
            remedies.fold(finding, DoctorFinding::with_remedy)
        }
    })
}

/// Reports that a level has only one layer of isolation instead of two.
fn missing_landlock(level: SandboxLevel, capabilities: &SandboxCapabilities) -> DoctorFinding {
    let message = format!(
        "not available in this kernel: level `{level}` relies on namespaces and seccomp alone. Landlock \
         would add a second layer behind the mounts and between processes"
    );
    let finding = DoctorArea::Sandbox.finding(FindingVerdict::Warning, "Landlock", message);
    let landlock_obstacles = capabilities
        .obstacles
        .iter()
        .filter(|obstacle| obstacle.cause.contains("Landlock"));
    let remedies: Vec<&str> = landlock_obstacles
        .map(|obstacle| obstacle.remedy.as_str())
        .collect();
    match remedies.as_slice() {
        [] => finding.with_remedy("use Linux 5.13 or later with Landlock enabled"),
        remedies => remedies
            .iter()
            .copied()
            .fold(finding, DoctorFinding::with_remedy),
    }
}

/// Reports whether resource limits apply to a whole command.
fn check_cgroups(capabilities: &SandboxCapabilities) -> DoctorFinding {
    let finding = |verdict, message: &str| DoctorArea::Sandbox.finding(verdict, "cgroups", message);
    let loose_limits = match (
        capabilities.shared_limits.memory,
        capabilities.shared_limits.processes,
    ) {
        (true, true) => {
            let message = "memory and processes are limited for each command as a whole";
            return finding(FindingVerdict::Ok, message);
        }
        (false, true) => "memory is limited only per process, not for the whole command",
        (true, false) => "processes are limited only per user, and not at all for root",
        (false, false) => {
            "limits are loose: memory is limited only per process, and processes only per user, not at \
             all for root"
        }
    };
    let boot =
        "boot with `systemd.unified_cgroup_hierarchy=1`; in a container, this depends on its host";
    let (reason, remedy) = match capabilities.cgroups {
        CgroupAccess::Delegated => ("no cgroup with limits can be created", boot),
        CgroupAccess::Foreign => (
            "the cgroup of this process is not yours",
            "systemd-run --user --scope -p Delegate=yes massgen …",
        ),
        CgroupAccess::NoControllers => ("cgroup v2 has no controllers for them here", boot),
        CgroupAccess::Absent => ("cgroup v2 is not mounted", boot),
    };
    finding(
        FindingVerdict::Warning,
        &format!("{loose_limits}, because {reason}"),
    )
    .with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::diagnostics::probe::sandbox::SharedLimits;

    /// `expected` are the findings about a machine that sandboxes commands at this level, one per
    /// line.
    #[track_caller]
    fn check(
        level: SandboxLevel,
        landlock: LandlockSupport,
        shared_limits: SharedLimits,
        expected: &[(&str, &str)],
    ) {
        let selection = SandboxSelection {
            level,
            reasons: Vec::new(),
        };
        let capabilities = SandboxCapabilities {
            gate: None,
            levels: vec![(SandboxLevelChoice::Auto, Ok(selection))],
            obstacles: Vec::new(),
            cgroups: CgroupAccess::Absent,
            shared_limits,
            landlock,
        };
        let findings = serde_json::to_value(super::check(&capabilities, None)).unwrap();
        let findings = findings.as_array().unwrap().iter();
        let warnings: Vec<(String, String)> = findings
            .filter(|finding| finding["verdict"] == "warning")
            .map(|finding| {
                let text = |key: &str| finding[key].as_str().unwrap().to_owned();
                assert!(!finding["remedy"].as_array().unwrap().is_empty());
                (text("subject"), text("message"))
            })
            .collect();
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for ((subject, message), (expected, words)) in warnings.iter().zip(expected) {
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
    fn per_process_limits_are_reported() {
        let there = LandlockSupport::Available;
        check(SandboxLevel::Overlay, there, ALL, &[]);
        check(
            SandboxLevel::Namespaces,
            there,
            NONE,
            &[("cgroups", "limits are loose")],
        );
        let processes = SharedLimits {
            memory: false,
            ..ALL
        };
        let alone = [("cgroups", "memory is limited only per process")];
        check(SandboxLevel::Overlay, there, processes, &alone);
    }

    #[test]
    fn a_missing_layer_is_reported_when_another_protects() {
        let missing = LandlockSupport::Missing;
        check(
            SandboxLevel::Overlay,
            missing,
            ALL,
            &[("Landlock", "level `overlay` relies on namespaces")],
        );
        check(
            SandboxLevel::Namespaces,
            missing,
            ALL,
            &[("Landlock", "level `namespaces` relies on namespaces")],
        );
        check(
            SandboxLevel::Off,
            missing,
            ALL,
            &[("commands", "the sandbox is off")],
        );
    }
}
