//! Owns the checks of a config: each is a command and a name, by which voters know it.

use crate::config::check::Checker;
use crate::config::check::view::{View, text_of};
use crate::config::checks::{CHECK_SECONDS_DEFAULT, Check, Checks, OnRed};
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::node::{Node, Value};
use crate::evidence::Need;
use crate::wording::one_line;

/// The most checks; every answer waits for all of them.
const CHECKS_MAX: usize = 32;
/// The longest name that a command gives to its check, in characters.
const NAME_CHARS_MAX: usize = 60;

impl Checker<'_> {
    /// The checks of the config; none if it has none.
    pub(super) fn checks(&mut self, root: &View<'_>) -> Checks {
        let items = root.items("checks");
        if items.len() > CHECKS_MAX {
            let message = format!("{} checks are too many", items.len());
            let error = Diagnostic::error("checks", message).at(root.span_of("checks"));
            let way_out = format!("keep at most {CHECKS_MAX}; one can run a script");
            self.findings.push(error.suggest(way_out));
        }
        let mut list: Vec<Check> = Vec::new();
        for (path, item) in items.into_iter().take(CHECKS_MAX) {
            let Some(check) = self.check(path.clone(), item) else {
                continue;
            };
            if list.iter().any(|earlier| earlier.name == check.name) {
                let message = format!("two checks are called {}", quote(&check.name));
                let error = Diagnostic::error(path, message).at(&item.span);
                self.findings
                    .push(error.suggest("give each a `name` of its own"));
                continue;
            }
            list.push(check);
        }
        let on_red = match root.text("on_red").map(|text| text.written) {
            Some("keep") => OnRed::Keep,
            Some("ask") => OnRed::Ask,
            _ => OnRed::Undo,
        };
        Checks {
            list,
            on_red,
            sandbox: None,
        }
    }

    fn check(&mut self, path: String, item: &Node) -> Option<Check> {
        let view = View {
            node: item,
            path: path.clone(),
        };
        let (command, name) = match item.value {
            Value::Scalar(_) => (text_of(item, path)?, None),
            Value::Null | Value::List(_) | Value::Mapping(_) => {
                (view.text("command")?, view.text("name"))
            }
        };
        if command.written.trim().is_empty() || command.written.contains('\0') {
            let message = "a check is a command for the shell";
            let error = Diagnostic::error(command.path, message).at(command.span);
            self.findings
                .push(error.suggest("write one, such as `cargo test -q`"));
            return None;
        }
        let written = command.written.trim();
        let name = name.map_or(written, |name| name.written.trim());
        Some(Check {
            name: one_line(name, NAME_CHARS_MAX),
            command: written.to_owned(),
            need: match view.flag("required") {
                Some(false) => Need::Told,
                Some(true) | None => Need::Required,
            },
            timeout_seconds: view.integer("timeout").unwrap_or(CHECK_SECONDS_DEFAULT),
        })
    }
}
