//! Doctor checks of the disk: the file system features that a run uses, and what it does without
//! them.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::config::storage_path::STATE_DIR;
use crate::error::Result;
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::diagnostics::probe::disk::{
    DiskProbe, FileSystemFeature, FreeSpace, check_config_dir,
};

/// Free space below which a run with a few agents may run out, in bytes.
const FREE_BYTES_GOOD: u64 = 1024 * MIB;
/// Free space below which a run cannot work, in bytes.
const FREE_BYTES_MIN: u64 = 16 * MIB;
/// Number of free files (inodes) below which snapshots of a large workspace may run out.
const FREE_FILES_GOOD: u64 = 100_000;
/// Number of free files below which a run cannot work: roughly what each run creates.
const FREE_FILES_MIN: u64 = 100;
const MIB: u64 = 1024 * 1024;

/// Checks the file system of the state directory.
pub(crate) fn check(state_dir: &AbsPath, disk: Result<DiskProbe>) -> Vec<DoctorFinding> {
    let disk = match disk {
        Ok(disk) => disk,
        Err(error) => return vec![DoctorArea::Disk.error_finding("state directory", &error)],
    };
    let works = |(_, reason): &&(FileSystemFeature, Option<String>)| reason.is_none();
    let working_features: Vec<&str> = disk
        .features
        .iter()
        .filter(works)
        .map(|(feature, _)| feature_name(*feature))
        .collect();
    let mut findings = Vec::new();
    if !working_features.is_empty() {
        let kind = disk.free_space.map_or("unknown", |space| space.kind);
        let working_list = working_features.join(", ");
        let message = format!("`{state_dir}` ({kind}): {working_list} work");
        findings.push(DoctorArea::Disk.finding(FindingVerdict::Ok, "state directory", message));
    }
    let failures = disk
        .features
        .iter()
        .filter_map(|(feature, reason)| Some(feature_failure(*feature, reason.as_ref()?)));
    findings.extend(failures);
    findings.extend(disk.free_space.iter().flat_map(check_space));
    findings
}

fn feature_name(feature: FileSystemFeature) -> &'static str {
    match feature {
        FileSystemFeature::Write => "writing",
        FileSystemFeature::Sync => "fsync",
        FileSystemFeature::Rename => "renaming",
        FileSystemFeature::UnnamedFile => "unnamed temporary files",
        FileSystemFeature::HardLink => "hard links",
        FileSystemFeature::SharedCopy => "shared copies",
        FileSystemFeature::Lock => "locks",
    }
}

fn feature_failure(feature: FileSystemFeature, reason: &str) -> DoctorFinding {
    let (verdict, consequence, remedy) = match feature {
        FileSystemFeature::Write | FileSystemFeature::Sync | FileSystemFeature::Rename => (
            FindingVerdict::Unusable,
            "a run cannot store its state here",
            Some("run massgen in a directory on another file system"),
        ),
        FileSystemFeature::UnnamedFile => (
            FindingVerdict::Ok,
            "a killed run may leave a hidden temporary file",
            None,
        ),
        FileSystemFeature::HardLink => (FindingVerdict::Ok, "each snapshot is a full copy", None),
        FileSystemFeature::SharedCopy => (
            FindingVerdict::Ok,
            "changes between snapshots are copied",
            None,
        ),
        FileSystemFeature::Lock => (
            FindingVerdict::Warning,
            "two concurrent runs in one workspace are not detected",
            Some("do not start two runs in this directory at the same time"),
        ),
    };
    let message = format!("not supported ({reason}): {consequence}");
    let finding = DoctorArea::Disk.finding(verdict, feature_name(feature), message);
    match remedy {
        Some(remedy) => finding.with_remedy(remedy),
        None => finding,
    }
}

fn check_space(space: &FreeSpace) -> Vec<DoctorFinding> {
    let verdict = space_verdict(space.free_bytes, FREE_BYTES_GOOD, FREE_BYTES_MIN);
    let message = format!("{} MiB free", space.free_bytes / MIB);
    let space_finding = DoctorArea::Disk.finding(verdict, "space", message);
    let mut findings = vec![with_space_remedy(space_finding)];
    if let Some(files) = space.free_files {
        let verdict = space_verdict(files, FREE_FILES_GOOD, FREE_FILES_MIN);
        let message = format!("{files} more can be created");
        let files_finding = DoctorArea::Disk.finding(verdict, "files", message);
        findings.push(with_space_remedy(files_finding));
    }
    findings
}

fn space_verdict(amount: u64, good: u64, min: u64) -> FindingVerdict {
    if amount < min {
        FindingVerdict::Unusable
    } else if amount < good {
        FindingVerdict::Warning
    } else {
        FindingVerdict::Ok
    }
}

fn with_space_remedy(finding: DoctorFinding) -> DoctorFinding {
    match finding.verdict() {
        FindingVerdict::Ok | FindingVerdict::Skipped => finding,
        FindingVerdict::Warning | FindingVerdict::Unusable => finding.with_remedy(
            "du -sh .massgen   # or remove old runs: massgen sessions prune --older-than 30d",
        ),
    }
}

/// Reports directories that may contain configs and cannot be read.
pub(crate) fn check_config_directories(host: &Host) -> Vec<DoctorFinding> {
    let home_directories = host.home.iter().flat_map(|home| {
        [
            home.join(STATE_DIR),
            home.join(STATE_DIR).join("configs"),
            home.join(".config").join("massgen"),
        ]
    });
    let findings = home_directories.filter_map(|dir| {
        let reason = check_config_dir(&dir).err()?;
        let message = format!("`{dir}` is skipped: {reason}");
        let finding = DoctorArea::Disk.finding(FindingVerdict::Warning, "configs", message);
        Some(finding.with_remedy(format!("ls -ld {dir}")))
    });
    findings.collect()
}
