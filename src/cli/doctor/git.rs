//! Doctor checks of git, which pipelines need and with which the user can restore files.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::world::diagnostics::probe::ProgramReply;
use crate::world::diagnostics::probe::git::GitProbe;

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
        } => finding(
            FindingVerdict::Ok,
            format!("{version}; repository `{root}`"),
        ),
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
