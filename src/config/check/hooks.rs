//! Owns the check of `hooks`: every group and command is read, and their number is bounded.

use crate::config::check::Checker;
use crate::config::check::view::{Text, View, text_of};
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::node::{Node, Value};
use crate::hooks::matcher::Matcher;
use crate::hooks::{HOOKS_MAX, Hook, HookEvent, Hooks, TIMEOUT_SECONDS_DEFAULT};

/// The longest command, in bytes.
const COMMAND_BYTES_MAX: usize = 8 * 1024;

impl Checker<'_> {
    /// What the `hooks` of all `holders` and `shared` add up to.
    pub(super) fn hooks(&mut self, holders: &[&View<'_>], shared: &Hooks) -> Hooks {
        let mut all = shared.clone();
        for holder in holders {
            let Some(section) = holder.section("hooks") else {
                continue;
            };
            for event in HookEvent::ALL {
                let own = Hooks::new(self.hooks_of(&section, event));
                all = all.with(&own);
                let count = all.of(event, None).len();
                if !own.is_empty() && count > HOOKS_MAX {
                    let message =
                        format!("{count} hooks of `{event}` are too many: at most {HOOKS_MAX}");
                    let error = Diagnostic::error(section.path_of(event.name()), message);
                    let error = error.at(section.span_of(event.name()));
                    self.findings
                        .push(error.suggest("let one command ask the others"));
                }
            }
        }
        all
    }

    fn hooks_of(&mut self, section: &View<'_>, event: HookEvent) -> Vec<Hook> {
        let mut hooks = Vec::new();
        for (path, item) in section.items(event.name()) {
            if let Value::Scalar(_) = item.value {
                hooks.extend(self.hook(event, Matcher::All, (path, item)));
                continue;
            }
            let group = View { node: item, path };
            let matcher = self.matcher(event, &group);
            for entry in group.items("hooks") {
                hooks.extend(self.hook(event, matcher.clone(), entry));
            }
        }
        hooks
    }

    fn matcher(&mut self, event: HookEvent, group: &View<'_>) -> Matcher {
        if group.get("matcher").is_none() {
            return Matcher::All;
        }
        let Some(text) = self.text_in(group, "matcher") else {
            return Matcher::All;
        };
        let is_about_tools = matches!(event, HookEvent::PreToolUse | HookEvent::PostToolUse);
        let parsed = Matcher::parse(text.written);
        let message = match &parsed {
            Ok(Matcher::Named(_)) if !is_about_tools => {
                format!("`{event}` is about no tool, so that no `matcher` fits it")
            }
            Ok(_) => return parsed.unwrap_or(Matcher::All),
            Err(why) => format!("{} is no regular expression: {why}", quote(text.written)),
        };
        let error = Diagnostic::error(&text.path, message).at(text.span);
        self.findings
            .push(error.suggest("write names of tools, as in `write_file|mcp__git__.*`"));
        Matcher::All
    }

    fn hook(
        &mut self,
        event: HookEvent,
        matcher: Matcher,
        (path, item): (String, &Node),
    ) -> Option<Hook> {
        let view = View {
            node: item,
            path: path.clone(),
        };
        let command = match item.value {
            Value::Scalar(_) => text_of(item, path)?,
            Value::Null | Value::List(_) | Value::Mapping(_) => self.text_in(&view, "command")?,
        };
        let command = self.command_of_hook(&command)?;
        Some(Hook {
            event,
            matcher,
            command,
            timeout_seconds: view.integer("timeout").unwrap_or(TIMEOUT_SECONDS_DEFAULT),
            network: self.network_of(&view, "network"),
        })
    }

    /// The text of a key that is taken to the letter, whose shape nobody has looked at yet.
    fn text_in<'n>(&mut self, view: &View<'n>, key: &str) -> Option<Text<'n>> {
        let text = view.text(key);
        if let (None, Some(node)) = (&text, view.get(key)) {
            let message = format!("`{key}` is {}: expected text", node.describe());
            let error = Diagnostic::error(view.path_of(key), message);
            self.findings.push(error.at(&node.span));
        }
        text
    }

    fn command_of_hook(&mut self, text: &Text<'_>) -> Option<String> {
        let written = text.written.trim();
        let fault = if written.is_empty() || written.contains('\0') {
            "a hook is a command for the shell".to_owned()
        } else if written.len() > COMMAND_BYTES_MAX {
            format!("the command has more than {COMMAND_BYTES_MAX} bytes")
        } else {
            return Some(written.to_owned());
        };
        let error = Diagnostic::error(&text.path, fault).at(text.span);
        self.findings
            .push(error.suggest("write one, such as `./check.sh`"));
        None
    }
}
