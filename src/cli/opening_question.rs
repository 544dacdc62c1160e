//! Asks on a terminal whether a path is opened although a symlink of the project leads it elsewhere
//! or a context path closes it. Without a terminal, such a path is an error.

use tokio_util::sync::CancellationToken;

use crate::cli::deliveries::interactive_review::TerminalLines;
use crate::cli::interrupts::interrupted_before_run;
use crate::cli::output::CliOutput;
use crate::cli::run_frontend::UserPresence;
use crate::config::Config;
use crate::error::Result;
use crate::host::Host;
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::openings::{DoubtfulPath, Openings, confirm_opening};
use crate::permissions::grant::Permission;
use crate::text::escape_name;
use crate::world::io::project_link::UserLocation;

/// Returns where the user is.
pub(crate) fn user_location(host: &Host) -> UserLocation<'_> {
    UserLocation {
        base: &host.cwd,
        home: host.home.as_ref(),
    }
}

/// Asks about each path that `config` or prompts (`opened`) would open and that the user must
/// confirm, and opens the confirmed ones.
///
/// # Errors
/// The user does not confirm one, or is not present.
pub(crate) fn confirm_openings(
    config: &mut Config,
    opened: &mut Vec<OpenedPath>,
    host: &Host,
    user: UserPresence,
    stop: &CancellationToken,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let openings = Openings::examine(config, opened, user_location(host))?;
    for doubt in &openings.doubtful_paths {
        if user == UserPresence::Absent || !is_confirmed(doubt, stop, output)? {
            return Err(doubt.to_error());
        }
        confirm_opening(doubt, config, opened);
    }
    Ok(())
}

/// Asks about one path.
///
/// # Errors
/// The user interrupted massgen, or the input ended.
fn is_confirmed(
    doubt: &DoubtfulPath,
    stop: &CancellationToken,
    output: &mut CliOutput<'_>,
) -> Result<bool> {
    let access = match doubt.permission {
        Permission::Read => "reading",
        Permission::Write => "writing",
    };
    let target = escape_name(&doubt.target.to_string());
    let mut lines = TerminalLines::new(stop.clone());
    output.note(&doubt.reason());
    loop {
        output.ask(&format!(
            "open `{target}` for {access}? [y]es / [N]o (default):"
        ));
        let line = lines.next().ok_or_else(interrupted_before_run)?;
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "" | "n" | "no" => return Ok(false),
            _ => output.note("expected `y` or `n`"),
        }
    }
}
