//! Owns the check of `permissions`: every rule is read, and every example is held against the rules.

use crate::call_rules::written::rule;
use crate::call_rules::{CallRule, CallRules};
use crate::config::check::Checker;
use crate::config::check::view::{View, text_of};
use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::node::{Node, Value};
use crate::config::permissions::Permissions;
use crate::permissions::path_rules::Ruling;
use crate::wording::listed;

/// The most rules of one list, and the most examples.
const RULES_MAX: usize = 256;
/// The roles that change nothing, and what is denied to them.
const READERS: &[&str] = &["read-only", "researcher"];
const DENIED_TO_READERS: &[&str] = &["write_file", "command", "tool(execute_code)"];
/// A form for tools that massgen does not have.
const ABOUT_URLS: &str = "read_url";

impl Checker<'_> {
    /// What the `permissions` of all `holders` say together. Their examples are held against it and
    /// `shared`.
    pub(super) fn permissions(
        &mut self,
        holders: &[&View<'_>],
        shared: &Permissions,
    ) -> Permissions {
        let sections = holders
            .iter()
            .filter_map(|holder| holder.section("permissions"));
        let sections: Vec<View<'_>> = sections
            .filter(|section| section.flag("enabled") != Some(false))
            .collect();
        let mut own = Permissions::default();
        for section in &sections {
            let seconds = section.integer("ask_timeout_seconds");
            own = own.with(&Permissions {
                rules: self.rules(section),
                ask_timeout_seconds: seconds,
            });
        }
        let all = own.rules.with(&shared.rules);
        for section in &sections {
            self.examples(section, &all);
        }
        own
    }

    /// Says what commands are not held to.
    pub(super) fn rules_beside_commands(&mut self, view: &View<'_>, rules: &CallRules) {
        let loose = rules.not_held_for_commands();
        let loose: Vec<&str> = loose.map(|rule| rule.written.as_str()).collect();
        if loose.is_empty() {
            return;
        }
        let message = format!(
            "the agent's commands are not held to {} for new files in its workspace",
            listed(&loose, "and")
        );
        let warning = Diagnostic::warning(view.path_of("permissions"), message)
            .at(view.span_of("permissions"));
        self.findings
            .push(warning.suggest("what stands there already, and your own paths, are held"));
    }

    fn rules(&mut self, section: &View<'_>) -> CallRules {
        let lists = [
            ("deny", Ruling::Deny),
            ("ask", Ruling::Ask),
            ("allow", Ruling::Allow),
        ];
        let mut rules = self.rules_of_role(section);
        for (key, ruling) in lists {
            for (path, item) in self.bounded(section, key) {
                let Some(text) = text_of(item, path.clone()) else {
                    let message = format!("a rule is {}", item.describe());
                    let error = Diagnostic::error(path, message).at(&item.span);
                    self.findings.push(error.suggest("put it in quotes"));
                    continue;
                };
                if text.written.trim().starts_with(ABOUT_URLS) {
                    let message = format!("{} has no effect", quote(text.written));
                    let warning = Diagnostic::warning(path, message).at(&item.span);
                    self.findings
                        .push(warning.suggest("no tool of massgen reads URLs"));
                    continue;
                }
                match rule(ruling, text.written, self.context.home) {
                    Ok(rule) => rules.push(rule),
                    Err(why) => {
                        let message = format!("{} is no rule: {why}", quote(text.written));
                        self.findings
                            .push(Diagnostic::error(path, message).at(&item.span));
                    }
                }
            }
        }
        CallRules::new(rules)
    }

    /// The rules that the role of a section stands for. Whatever else a section says, they hold.
    fn rules_of_role(&self, section: &View<'_>) -> Vec<CallRule> {
        let role = section.text("role");
        let is_reader = role.is_some_and(|role| READERS.contains(&role.written));
        let denied = if is_reader { DENIED_TO_READERS } else { &[] };
        let rules = denied.iter();
        rules
            .filter_map(|form| rule(Ruling::Deny, form, self.context.home).ok())
            .collect()
    }

    fn examples(&mut self, section: &View<'_>, rules: &CallRules) {
        for (path, item) in self.bounded(section, "examples") {
            let pair = match &item.value {
                Value::Mapping(entries) => match entries.as_slice() {
                    [entry] => text_of(&entry.value, path.clone())
                        .map(|expected| (entry.key.as_str(), expected.written, &entry.key_span)),
                    _ => None,
                },
                Value::Null | Value::Scalar(_) | Value::List(_) => None,
            };
            let Some((call, expected, span)) = pair else {
                let message = format!("an example is {}", item.describe());
                let error = Diagnostic::error(path, message).at(&item.span);
                let way_out = "write `- write_file(src/x.lock): deny`";
                self.findings.push(error.suggest(way_out));
                continue;
            };
            self.example(rules, (call, expected), (path, span));
        }
    }

    fn example(
        &mut self,
        rules: &CallRules,
        (call, expected): (&str, &str),
        (path, span): (String, &Span),
    ) {
        let rulings = [Ruling::Deny, Ruling::Ask, Ruling::Allow];
        let known = rulings.iter().any(|ruling| ruling.to_string() == expected);
        let message = match rules.of_example(call) {
            Err(why) => format!("{} is no call: {why}", quote(call)),
            Ok(_) if !known => {
                format!(
                    "{} is {}: expected `deny`, `ask` or `allow`",
                    quote(call),
                    quote(expected)
                )
            }
            Ok(got) if got.to_string() == expected => return,
            Ok(got) => format!("{} is {got}, and the example says {expected}", quote(call)),
        };
        let error = Diagnostic::error(path, message).at(span);
        self.findings
            .push(error.suggest("correct the rules, or the example"));
    }

    /// The items of a list, as far as they are looked at.
    fn bounded<'n>(&mut self, section: &View<'n>, key: &str) -> Vec<(String, &'n Node)> {
        let mut items = section.items(key);
        if items.len() > RULES_MAX {
            let message = format!("{} are too many: at most {RULES_MAX}", items.len());
            let error = Diagnostic::error(section.path_of(key), message).at(section.span_of(key));
            self.findings.push(error);
            items.truncate(RULES_MAX);
        }
        items
    }
}
