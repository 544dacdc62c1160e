//! Owns what is said about the disk: what a run does there, and what it does without.

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::config::place::STATE_DIR;
use crate::error::Result;
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::probe::disk::{Ability, Disk, Room, unusable};

/// Less room than this may not last for a run with a few agents, in bytes.
const FREE_BYTES_GOOD: u64 = 1024 * MIB;
/// With less room than this a run is not begun in earnest, in bytes.
const FREE_BYTES_MIN: u64 = 16 * MIB;
/// Fewer files than this may not last for snapshots of a large workspace.
const FREE_FILES_GOOD: u64 = 100_000;
/// Each run makes about as many files of its own.
const FREE_FILES_MIN: u64 = 100;
const MIB: u64 = 1024 * 1024;

/// What the file system of the state directory is good for.
pub(crate) fn judge(state: &AbsPath, disk: Result<Disk>) -> Vec<Finding> {
    let disk = match disk {
        Ok(disk) => disk,
        Err(error) => return vec![Area::Disk.lacks("state directory", &error)],
    };
    let works = |(_, fault): &&(Ability, Option<String>)| fault.is_none();
    let names: Vec<&str> = disk
        .tried
        .iter()
        .filter(works)
        .map(|(what, _)| name(*what))
        .collect();
    let kind = disk.room.map_or("unknown", |room| room.kind);
    let message = format!("`{state}` ({kind}): {} tried, all well", names.join(", "));
    let mut findings = vec![Area::Disk.finds(Verdict::Ok, "state directory", message)];
    let failed = disk.tried.iter();
    findings.extend(failed.filter_map(|(ability, fault)| Some(failure(*ability, fault.as_ref()?))));
    findings.extend(disk.room.iter().flat_map(room));
    findings
}

fn name(ability: Ability) -> &'static str {
    match ability {
        Ability::Write => "writing",
        Ability::Sync => "fsync",
        Ability::Rename => "renaming",
        Ability::Nameless => "files without a name",
        Ability::HardLink => "hard links",
        Ability::SharedCopy => "shared copies",
        Ability::Lock => "locks",
    }
}

fn failure(ability: Ability, fault: &str) -> Finding {
    let (verdict, consequence, remedy) = match ability {
        Ability::Write | Ability::Sync | Ability::Rename => (
            Verdict::Missing,
            "a run cannot keep its state here",
            Some("run massgen in a directory on another disk"),
        ),
        Ability::Nameless => (
            Verdict::Ok,
            "a run that is killed may leave a file with a hidden name",
            None,
        ),
        Ability::HardLink => (Verdict::Ok, "each snapshot is a whole copy", None),
        Ability::SharedCopy => (
            Verdict::Ok,
            "what changes between snapshots is copied",
            None,
        ),
        Ability::Lock => (
            Verdict::Warning,
            "two runs at once in one workspace are not noticed",
            Some("do not start two runs at once in this directory"),
        ),
    };
    let message = format!("not here ({fault}): {consequence}");
    let finding = Area::Disk.finds(verdict, name(ability), message);
    remedy.into_iter().fold(finding, Finding::remedy)
}

fn room(room: &Room) -> Vec<Finding> {
    let bytes = graded(room.free_bytes, FREE_BYTES_GOOD, FREE_BYTES_MIN);
    let message = format!("{} MiB free", room.free_bytes / MIB);
    let mut findings = vec![short_of(Area::Disk.finds(bytes, "space", message))];
    if let Some(files) = room.free_files {
        let verdict = graded(files, FREE_FILES_GOOD, FREE_FILES_MIN);
        let message = format!("{files} more can be made");
        findings.push(short_of(Area::Disk.finds(verdict, "files", message)));
    }
    findings
}

fn graded(free: u64, good: u64, min: u64) -> Verdict {
    if free < min {
        Verdict::Missing
    } else if free < good {
        Verdict::Warning
    } else {
        Verdict::Ok
    }
}

fn short_of(finding: Finding) -> Finding {
    match finding.verdict() {
        Verdict::Ok | Verdict::Skipped => finding,
        Verdict::Warning | Verdict::Missing => finding.remedy(
            "du -sh .massgen   # old runs under .massgen may be removed when none is running",
        ),
    }
}

/// Directories that may hold configs and cannot be read.
pub(crate) fn config_directories(host: &Host) -> Vec<Finding> {
    let of_home = host.home.iter().flat_map(|home| {
        [
            home.join(STATE_DIR),
            home.join(STATE_DIR).join("configs"),
            home.join(".config").join("massgen"),
        ]
    });
    let faults = of_home.filter_map(|dir| {
        let why = unusable(&dir).err()?;
        let message = format!("`{dir}` is passed over: {why}");
        let finding = Area::Disk.finds(Verdict::Warning, "configs", message);
        Some(finding.remedy(format!("ls -ld {dir}")))
    });
    faults.collect()
}
