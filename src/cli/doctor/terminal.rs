//! Doctor checks of the terminal. A run does not need one.

use crate::cli::doctor::finding::{DoctorArea, DoctorFinding, FindingVerdict};
use crate::cli::output::ColourChoice;
use crate::host::{Host, StreamTarget};
use crate::world::diagnostics::probe::terminal::TerminalSize;

/// Reports where the two streams lead and what can be displayed there. The sizes are those of their
/// terminals, as far as they are known.
pub(crate) fn check(
    host: &Host,
    stdout_size: Option<TerminalSize>,
    stderr_size: Option<TerminalSize>,
) -> Vec<DoctorFinding> {
    let colours = match ColourChoice::from_host(host) {
        ColourChoice::Terminals => "colours",
        ColourChoice::Never => "no colours (`NO_COLOR` or `TERM`)",
    };
    let stream_finding = |name: &str, stream, size| {
        let message = match (stream, size) {
            (StreamTarget::Plain, _) => "a file or a pipe: plain text".to_owned(),
            (StreamTarget::Terminal, None) => format!("a terminal of unknown size, {colours}"),
            (StreamTarget::Terminal, Some(TerminalSize { columns, rows })) => {
                format!("a terminal of {columns} by {rows} characters, {colours}")
            }
        };
        DoctorArea::Terminal.finding(FindingVerdict::Ok, name, message)
    };
    vec![
        stream_finding("standard output", host.stdout, stdout_size),
        stream_finding("standard error", host.stderr, stderr_size),
        check_encoding(host),
    ]
}

/// Checks whether characters beyond ASCII can be displayed: the first variable that is set decides
/// (`locale(7)`).
fn check_encoding(host: &Host) -> DoctorFinding {
    let variable = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| Some((name, host.env(name)?)));
    let is_utf8 = |value: &str| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    };
    match variable {
        Some((name, value)) if is_utf8(value) => {
            let message = format!("UTF-8 (`{name}={value}`)");
            DoctorArea::Terminal.finding(FindingVerdict::Ok, "letters", message)
        }
        Some((name, value)) => unknown_encoding(&format!("`{name}={value}` is not UTF-8")),
        None => unknown_encoding("neither `LC_ALL`, `LC_CTYPE` nor `LANG` is set"),
    }
}

fn unknown_encoding(reason: &str) -> DoctorFinding {
    let message = format!("{reason}; massgen writes UTF-8 anyway");
    DoctorArea::Terminal
        .finding(FindingVerdict::Warning, "letters", message)
        .with_remedy("export LANG=C.UTF-8")
}
