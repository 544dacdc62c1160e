//! Checks `permissions`: parses every rule, adds those of a role and of MassGen's settings about
//! risk, and compares every example with all of them.

use crate::call_rules::rule_syntax::parse_rule;
use crate::call_rules::{CallRule, CallRules};
use crate::config::agent::PermissionsConfig;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, scalar_text};
use crate::config::diagnostic::{Span, quote};
use crate::config::keys::shape::NodeList;
use crate::config::keys::{TypedKey, permissions};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::permissions::path_rules::RuleAction;
use crate::text::list_names;

/// The maximum number of rules in one list, and of examples.
const RULES_MAX: usize = 256;
/// The roles that change nothing.
const READ_ONLY_ROLES: &[&str] = &["read-only", "researcher"];
/// The calls that are denied to them.
const DENIED_TO_READ_ONLY_ROLES: &[&str] = &["write_file", "command", "tool(execute_code)"];
/// Commands that MassGen considers dangerous.
pub(super) const DANGEROUS_COMMANDS: &[&str] = &[
    "command(sudo *)",
    "command(su *)",
    "command(rm -*r* *)",
    "command(rm --recursive *)",
    "command(chmod *)",
    "command(chown *)",
    "command(dd *)",
    "command(mkfs* *)",
    "command(fdisk *)",
    "command(kill *)",
    "command(killall *)",
    "command(shutdown *)",
    "command(reboot *)",
    "command(crontab *)",
    "command(systemctl *)",
    "command(launchctl *)",
    "command(git push * --force*)",
    "command(git push --force* *)",
    "command(git push * -f *)",
    "command(git push -f *)",
    "command(git reset --hard *)",
    "command(git clean -*f* *)",
    "command(npm publish *)",
    "command(yarn publish *)",
    "command(twine upload *)",
    "command(gh release create *)",
    "command(docker push *)",
    "command(curl *)",
    "command(wget *)",
    "command(nc *)",
    "command(netcat *)",
    "command(ssh *)",
    "command(scp *)",
    "command(sftp *)",
    "command(rsync *)",
    "command(telnet *)",
];
/// Calls of which MassGen does not know that they are harmless.
pub(super) const CALLS_OF_UNKNOWN_RISK: &[&str] = &["command", "mcp(*)"];

/// What `*` matches at the end of a pattern of commands.
#[derive(Clone, Copy)]
enum FinalWildcard {
    /// The rest of the word, as in massgen.
    Word,
    /// The rest of the line, as in MassGen.
    Line,
}

impl FinalWildcard {
    /// Returns a rule in massgen's syntax.
    fn to_massgen_syntax(self, rule: &str) -> String {
        let rule = rule.trim();
        let ends_in_word =
            |start: &&str| start.starts_with("command(") && !start.ends_with([' ', '(']);
        match (self, rule.strip_suffix("*)").filter(ends_in_word)) {
            (Self::Line, Some(start)) => format!("{start}* *)"),
            (Self::Line | Self::Word, _) => rule.to_owned(),
        }
    }
}

impl ConfigChecker<'_> {
    /// Returns the combined `permissions` of all `parents`. Their examples are compared with these
    /// rules and those in `shared`.
    pub(super) fn permissions(
        &mut self,
        parents: &[&MappingView<'_>],
        shared: &PermissionsConfig,
    ) -> PermissionsConfig {
        let sections: Vec<MappingView<'_>> = parents
            .iter()
            .filter_map(|parent| parent.section(&permissions::KEY))
            .filter(|section| section.flag(&permissions::ENABLED) != Some(false))
            .collect();
        let mut config = PermissionsConfig::default();
        for section in &sections {
            let seconds = section.integer(&permissions::ASK_TIMEOUT_SECONDS);
            config = config.merged_with(&PermissionsConfig {
                rules: self.rules(section),
                ask_timeout_seconds: seconds,
            });
        }
        let all_rules = config.rules.extended_by(&shared.rules);
        for section in &sections {
            self.check_examples(section, &all_rules);
        }
        config
    }

    /// Warns about rules that are not enforced for commands.
    pub(super) fn warn_unenforced_for_commands(
        &mut self,
        view: &MappingView<'_>,
        rules: &CallRules,
    ) {
        let unenforced_rules: Vec<&str> = rules
            .unenforced_for_commands()
            .map(|rule| rule.written.as_str())
            .collect();
        if unenforced_rules.is_empty() {
            return;
        }
        let message = format!(
            "{} is not enforced for new files that the agent's commands create in its workspace",
            list_names(&unenforced_rules, "and")
        );
        let hint = "existing files and your own paths are protected";
        self.warn(view.at(&permissions::KEY), message, hint);
    }

    fn rules(&mut self, section: &MappingView<'_>) -> CallRules {
        let mut rules = self.role_rules(section);
        rules.extend(self.risk_rules(section));
        rules.extend(self.listed_rules(section, FinalWildcard::Word));
        if let Some(nested_section) = section.section(&permissions::RULES) {
            rules.extend(self.listed_rules(&nested_section, FinalWildcard::Line));
        }
        CallRules::new(rules)
    }

    /// Returns the rules of the lists in `parent`.
    fn listed_rules(
        &mut self,
        parent: &MappingView<'_>,
        final_wildcard: FinalWildcard,
    ) -> Vec<CallRule> {
        let lists = [
            (&permissions::DENY, RuleAction::Deny),
            (&permissions::ASK, RuleAction::Ask),
            (&permissions::ALLOW, RuleAction::Allow),
        ];
        let mut rules = Vec::new();
        for (key, action) in lists {
            for (path, item) in self.bounded_items(parent, key) {
                let Some(text) = scalar_text(item, path.clone()) else {
                    let message = format!("a rule is {}", item.describe());
                    self.refuse((path, &item.span), message, "put it in quotes");
                    continue;
                };
                let rule = final_wildcard.to_massgen_syntax(text.value);
                match parse_rule(action, &rule, self.context.home) {
                    Ok(rule) => rules.push(rule),
                    Err(reason) => {
                        let message = format!("invalid rule {}: {reason}", quote(text.value));
                        self.add_error((path, &item.span), message);
                    }
                }
            }
        }
        rules
    }

    /// Returns the rules of a section's role. Only `enabled: false` lifts them, and no other key of
    /// the section.
    fn role_rules(&self, section: &MappingView<'_>) -> Vec<CallRule> {
        let role = section.word(&permissions::ROLE);
        let is_read_only = role.is_some_and(|role| READ_ONLY_ROLES.contains(&role));
        let patterns: &[&str] = if is_read_only {
            DENIED_TO_READ_ONLY_ROLES
        } else {
            &[]
        };
        self.built_in_rules(RuleAction::Deny, patterns)
    }

    /// Parses built-in patterns, all of which are valid.
    fn built_in_rules(&self, action: RuleAction, patterns: &[&str]) -> Vec<CallRule> {
        let rules = patterns.iter();
        rules
            .filter_map(|pattern| parse_rule(action, pattern, self.context.home).ok())
            .collect()
    }

    /// Returns the rules by which calls need approval that MassGen would ask about because of their
    /// risk. They apply to a section that is written as in MassGen.
    fn risk_rules(&self, section: &MappingView<'_>) -> Vec<CallRule> {
        let patterns = match section.word(&permissions::AUTOMATION_DEFAULT) {
            None if section.get(&permissions::RULES).is_none() => &[],
            None | Some("risk-based") => DANGEROUS_COMMANDS,
            Some("deny-all") => CALLS_OF_UNKNOWN_RISK,
            Some(_) => &[],
        };
        self.built_in_rules(RuleAction::Ask, patterns)
    }

    /// Checks the examples of a section: each is a call and the action that the rules must give.
    fn check_examples(&mut self, section: &MappingView<'_>, rules: &CallRules) {
        for (path, item) in self.bounded_items(section, &permissions::EXAMPLES) {
            let pair = match &item.value {
                YamlValue::Mapping(entries) => match entries.as_slice() {
                    [entry] => scalar_text(&entry.value, path.clone())
                        .map(|expected| (entry.key.as_str(), expected.value, &entry.key_span)),
                    _ => None,
                },
                YamlValue::Null | YamlValue::Scalar(_) | YamlValue::List(_) => None,
            };
            let Some((call, expected, span)) = pair else {
                let message = format!("an example is {}", item.describe());
                let hint = "write `- write_file(src/x.lock): deny`";
                self.refuse((path, &item.span), message, hint);
                continue;
            };
            self.check_example(rules, call, expected, path, span);
        }
    }

    fn check_example(
        &mut self,
        rules: &CallRules,
        call: &str,
        expected: &str,
        path: String,
        span: &Span,
    ) {
        let actions = [RuleAction::Deny, RuleAction::Ask, RuleAction::Allow];
        let is_action = actions.iter().any(|action| action.to_string() == expected);
        let message = match rules.action_for_example(call) {
            Err(reason) => format!("invalid call {}: {reason}", quote(call)),
            Ok(_) if !is_action => {
                format!(
                    "{} is {}: expected `deny`, `ask` or `allow`",
                    quote(call),
                    quote(expected)
                )
            }
            Ok(action) if action.to_string() == expected => return,
            Ok(action) => format!(
                "{} is {action}, but the example expects {expected}",
                quote(call)
            ),
        };
        self.refuse((path, span), message, "correct the rules, or the example");
    }

    /// Returns the items of a list, up to the maximum number.
    fn bounded_items<'n>(
        &mut self,
        section: &MappingView<'n>,
        key: &TypedKey<NodeList>,
    ) -> Vec<(String, &'n YamlNode)> {
        let mut items = section.items(key);
        if items.len() > RULES_MAX {
            let message = format!("{} are too many: at most {RULES_MAX}", items.len());
            self.add_error(section.at(key), message);
            items.truncate(RULES_MAX);
        }
        items
    }
}
