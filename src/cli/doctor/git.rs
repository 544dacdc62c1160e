//! Doctor checks of git, which pipelines need and with which the user can restore files.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::path::AbsPath;
use crate::world::diagnostics::probe::ProgramReply;
use crate::world::diagnostics::probe::toolchain::GitProbe;
use crate::world::git::ownership::{LinkedRepository, linked_repository};

/// Reports what git can be used for here. `breadth_reason` is the reason why the current directory
/// is more than a project, such as a home directory: its files should not be committed as a whole.
pub(crate) fn check(git: &GitProbe, breadth_reason: Option<&str>) -> DoctorFinding {
    let finding = |verdict, message: String| DoctorArea::Git.finding(verdict, "git", message);
    match git {
        GitProbe::Missing => finding(
            FindingVerdict::Warning,
            "not found in `PATH`: runs work without it, but you cannot revert deliveries with git"
                .to_owned(),
        )
        .with_remedy("sudo apt-get install git"),
        GitProbe::Found {
            program,
            version: ProgramReply::Failed(reason),
            ..
        } => finding(
            FindingVerdict::Warning,
            format!("`{program}` does not work: {reason}"),
        )
        .with_remedy("sudo apt-get install --reinstall git"),
        GitProbe::Found {
            version: ProgramReply::Succeeded(version),
            repository: ProgramReply::Succeeded(root),
            ..
        } => {
            let repository = format!("{version}; repository `{root}`");
            match AbsPath::new(root).map(|root| linked_repository(&root)) {
                Some(Ok(Some(LinkedRepository::Foreign(dir)))) => finding(
                    FindingVerdict::Warning,
                    format!("{repository}: agents cannot use git, `{dir}` does not refer to it or contains it"),
                )
                .with_remedy(format!("git config core.worktree '{root}'")),
                Some(_) | None => finding(FindingVerdict::Ok, repository),
            }
        }
        GitProbe::Found {
            version: ProgramReply::Succeeded(version),
            repository: ProgramReply::Failed(reason),
            ..
        } => {
            let reason = reason.trim_start_matches("fatal: ");
            match breadth_reason {
                None => finding(FindingVerdict::Warning, format!("{version}; {reason}"))
                    .with_remedy(
                        "git init && git add -A && git commit --allow-empty -m 'before massgen'",
                    ),
                Some(breadth_reason) => finding(
                    FindingVerdict::Warning,
                    format!("{version}; {reason}; this directory is {breadth_reason}"),
                )
                .with_remedy("start massgen in the directory of a project"),
            }
        }
    }
}
