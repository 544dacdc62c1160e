//! Owns what is said about the terminal. A run needs none.

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::cli::output::ColourChoice;
use crate::host::{Host, Stream};
use crate::world::probe::terminal::Size;

/// What the two streams lead to and what can be shown there.
pub(crate) fn judge(host: &Host, size: Option<Size>) -> Vec<Finding> {
    let colours = match ColourChoice::of(host) {
        ColourChoice::Terminals => "colours",
        ColourChoice::Never => "no colours (`NO_COLOR` or `TERM`)",
    };
    let stream = |name: &str, stream| {
        let message = match (stream, size) {
            (Stream::Plain, _) => "a file or a pipe: plain text".to_owned(),
            (Stream::Terminal, None) => format!("a terminal of unknown size, {colours}"),
            (Stream::Terminal, Some(Size { columns, rows })) => {
                format!("a terminal of {columns} by {rows} characters, {colours}")
            }
        };
        Area::Terminal.finds(Verdict::Ok, name, message)
    };
    vec![
        stream("standard output", host.stdout),
        stream("standard error", host.stderr),
        letters(host),
    ]
}

/// Whether letters beyond ASCII can be shown: the first variable that is set says so (locale(7)).
fn letters(host: &Host) -> Finding {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| Some((name, host.env(name)?)));
    let is_utf8 = |value: &str| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    };
    match set {
        Some((name, value)) if is_utf8(value) => {
            let message = format!("UTF-8 (`{name}={value}`)");
            Area::Terminal.finds(Verdict::Ok, "letters", message)
        }
        Some((name, value)) => unclear(&format!("`{name}={value}` does not name UTF-8")),
        None => unclear("neither `LC_ALL`, `LC_CTYPE` nor `LANG` is set"),
    }
}

fn unclear(why: &str) -> Finding {
    let message = format!("{why}; massgen writes UTF-8 all the same");
    Area::Terminal
        .finds(Verdict::Warning, "letters", message)
        .remedy("export LANG=C.UTF-8")
}
