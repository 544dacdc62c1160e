//! Checks `hooks`: parses every group and command, and limits their number.

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, scalar_text};
use crate::config::diagnostic::quote;
use crate::config::keys::shape::{NodeList, Text};
use crate::config::keys::{TypedKey, hooks};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::hooks::matcher::ToolMatcher;
use crate::hooks::{HOOKS_MAX, Hook, HookEvent, HookList, TIMEOUT_SECONDS_DEFAULT};

/// The longest command, in bytes.
const COMMAND_BYTES_MAX: usize = 8 * 1024;

impl ConfigChecker<'_> {
    /// Returns the hooks of all `parents`, in addition to those in `shared`.
    pub(super) fn hooks(&mut self, parents: &[&MappingView<'_>], shared: &HookList) -> HookList {
        let mut all_hooks = shared.clone();
        for parent in parents {
            let Some(section) = parent.section(&hooks::KEY) else {
                continue;
            };
            for event in HookEvent::ALL {
                let event_hooks = HookList::new(self.event_hooks(&section, event));
                all_hooks = all_hooks.extended_by(&event_hooks);
                let count = all_hooks.matching(event, None).len();
                if !event_hooks.is_empty() && count > HOOKS_MAX {
                    let message =
                        format!("{count} hooks of `{event}` are too many: at most {HOOKS_MAX}");
                    let hint = "let one command call the others";
                    self.refuse(section.at(&event_key(event)), message, hint);
                }
            }
        }
        all_hooks
    }

    fn event_hooks(&mut self, section: &MappingView<'_>, event: HookEvent) -> Vec<Hook> {
        let mut hooks = Vec::new();
        for (path, item) in section.items(&event_key(event)) {
            if let YamlValue::Scalar(_) = item.value {
                hooks.extend(self.hook(event, ToolMatcher::All, path, item));
                continue;
            }
            let group = MappingView { node: item, path };
            let matcher = self.matcher(event, &group);
            for (path, item) in group.items(&hooks::GROUP_HOOKS) {
                hooks.extend(self.hook(event, matcher.clone(), path, item));
            }
        }
        hooks
    }

    fn matcher(&mut self, event: HookEvent, group: &MappingView<'_>) -> ToolMatcher {
        if group.get(&hooks::MATCHER).is_none() {
            return ToolMatcher::All;
        }
        let Some(text) = self.text_in(group, &hooks::MATCHER) else {
            return ToolMatcher::All;
        };
        let is_about_tools = matches!(event, HookEvent::PreToolUse | HookEvent::PostToolUse);
        let matcher = ToolMatcher::parse(text.value);
        let message = match &matcher {
            Ok(ToolMatcher::Named(_)) if !is_about_tools => {
                format!("`{event}` does not concern a tool, so it takes no `matcher`")
            }
            Ok(_) => return matcher.unwrap_or(ToolMatcher::All),
            Err(reason) => format!(
                "{} is not a regular expression: {reason}",
                quote(text.value)
            ),
        };
        let hint = "write names of tools, as in `write_file|mcp__git__.*`";
        self.refuse(&text, message, hint);
        ToolMatcher::All
    }

    fn hook(
        &mut self,
        event: HookEvent,
        matcher: ToolMatcher,
        path: String,
        item: &YamlNode,
    ) -> Option<Hook> {
        let view = MappingView {
            node: item,
            path: path.clone(),
        };
        let command = match item.value {
            YamlValue::Scalar(_) => scalar_text(item, path)?,
            YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => {
                self.text_in(&view, &hooks::COMMAND)?
            }
        };
        let command = self.hook_command(&command)?;
        Some(Hook {
            event,
            matcher,
            command,
            timeout_seconds: view
                .integer(&hooks::TIMEOUT)
                .unwrap_or(TIMEOUT_SECONDS_DEFAULT),
            network: self.network_of(&view, &hooks::NETWORK),
        })
    }

    /// Returns the text of a verbatim key, whose shape has not been checked yet.
    fn text_in<'n>(
        &mut self,
        view: &MappingView<'n>,
        key: &TypedKey<Text>,
    ) -> Option<TextValue<'n>> {
        let text = view.text(key);
        if let (None, Some(node)) = (&text, view.get(key)) {
            let message = format!("`{}` is {}: expected text", key.name(), node.describe());
            self.add_error((view.key_path(key), &node.span), message);
        }
        text
    }

    fn hook_command(&mut self, text: &TextValue<'_>) -> Option<String> {
        let command = text.value.trim();
        let problem = if command.is_empty() || command.contains('\0') {
            "a hook must be a shell command".to_owned()
        } else if command.len() > COMMAND_BYTES_MAX {
            format!("the command has more than {COMMAND_BYTES_MAX} bytes")
        } else {
            return Some(command.to_owned());
        };
        self.refuse(text, problem, "write one, such as `./check.sh`");
        None
    }
}

/// Returns the key of the hooks of an event.
fn event_key(event: HookEvent) -> TypedKey<NodeList> {
    match event {
        HookEvent::PreToolUse => hooks::PRE_TOOL_USE,
        HookEvent::PostToolUse => hooks::POST_TOOL_USE,
        HookEvent::AnswerSubmitted => hooks::ANSWER_SUBMITTED,
        HookEvent::VoteCast => hooks::VOTE_CAST,
        HookEvent::BeforeDelivery => hooks::BEFORE_DELIVERY,
        HookEvent::AfterDelivery => hooks::AFTER_DELIVERY,
    }
}
