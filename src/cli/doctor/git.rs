//! Owns what is said about git. This version never starts it for a run; it is the user's way back.

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::world::probe::Said;
use crate::world::probe::git::Git;

/// What git is good for here.
pub(crate) fn judge(git: &Git) -> Finding {
    let finds = |verdict, message: String| Area::Git.finds(verdict, "git", message);
    match git {
        Git::Missing => finds(
            Verdict::Warning,
            "not found in `PATH`: a run works without it, and you could not undo what it delivers"
                .to_owned(),
        )
        .remedy("sudo apt-get install git"),
        Git::Found {
            program,
            version: Said::Badly(why),
            ..
        } => finds(
            Verdict::Warning,
            format!("`{program}` does not work: {why}"),
        )
        .remedy("sudo apt-get install --reinstall git"),
        Git::Found {
            version: Said::Well(version),
            repository: Said::Well(root),
            ..
        } => finds(Verdict::Ok, format!("{version}; repository `{root}`")),
        Git::Found {
            version: Said::Well(version),
            repository: Said::Badly(why),
            ..
        } => finds(
            Verdict::Warning,
            format!("{version}; {}", why.trim_start_matches("fatal: ")),
        )
        .remedy("git init && git add -A && git commit -m 'before massgen'"),
    }
}
