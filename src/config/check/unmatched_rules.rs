//! Warns about permission rules that no call can match: such a rule looks as if it restricted
//! something. Names of tools that only a server could list are not checked.

use std::sync::Arc;

use crate::call_rules::matches_wildcard;
use crate::call_rules::rule_syntax::{RuleTarget, rule_target};
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, scalar_text};
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::keys::{nearest, permissions};
use crate::config::servers::ServerConfig;
use crate::tools::served::{CUSTOM_PREFIX, SERVED_PREFIX};
use crate::tools::workflow::tool_tables;

impl ConfigChecker<'_> {
    /// Warns about each rule in the `permissions` of `parents` that matches no call of an agent
    /// with these `servers`.
    pub(super) fn warn_unmatched_rules(
        &mut self,
        parents: &[&MappingView<'_>],
        servers: &[Arc<ServerConfig>],
    ) {
        let sections = parents
            .iter()
            .filter_map(|parent| parent.section(&permissions::KEY))
            .filter(|section| section.flag(&permissions::ENABLED) != Some(false));
        for section in sections.flat_map(|section| {
            let nested_section = section.section(&permissions::RULES);
            std::iter::once(section).chain(nested_section)
        }) {
            for key in [&permissions::DENY, &permissions::ASK, &permissions::ALLOW] {
                for (path, item) in section.items(key) {
                    let Some(text) = scalar_text(item, path.clone()) else {
                        continue;
                    };
                    let unmatched_rule = rule_target(text.value).and_then(|target| match target {
                        // A rule in `allow` that is too narrow opens nothing.
                        RuleTarget::Command(word) if key.name() != permissions::ALLOW.name() => {
                            Some(command_without_arguments(word))
                        }
                        RuleTarget::Command(_) => None,
                        RuleTarget::Server(server) => unknown_server(server, servers),
                        RuleTarget::Tool(tool) => unknown_tool(tool, servers),
                    });
                    if let Some(rule) = unmatched_rule {
                        let warning = Diagnostic::warning(path, rule.message).with_span(&item.span);
                        self.findings.push(match rule.suggestion {
                            Some(suggestion) => warning.with_suggestion(suggestion),
                            None => warning,
                        });
                    }
                }
            }
        }
    }
}

/// A rule that no call can match.
struct UnmatchedRule {
    message: String,
    /// What to write instead, if that is known.
    suggestion: Option<String>,
}

/// Returns the warning about a rule that matches a command only if it has no arguments.
fn command_without_arguments(word: &str) -> UnmatchedRule {
    let message = format!(
        "{} matches only `{word}` without arguments",
        quote(&format!("command({word})"))
    );
    UnmatchedRule {
        message,
        suggestion: Some(format!("use `command({word} *)` for any arguments")),
    }
}

/// Returns the warning about a rule for a server that the agent does not have.
fn unknown_server(server: &str, servers: &[Arc<ServerConfig>]) -> Option<UnmatchedRule> {
    let names = || servers.iter().map(|server| server.name().as_str());
    if names().any(|name| matches_wildcard(server, name)) {
        return None;
    }
    let message = format!("the rule matches nothing: no server {}", quote(server));
    Some(UnmatchedRule {
        message,
        suggestion: did_you_mean(nearest(server, names())),
    })
}

/// Returns the warning about a rule for a tool that the agent cannot have.
fn unknown_tool(tool: &str, servers: &[Arc<ServerConfig>]) -> Option<UnmatchedRule> {
    let built_in_names = || tool_tables().into_iter().flatten().map(|spec| spec.name);
    // Tools of other programs, whose calls `massgen hook` judges, start with a capital letter.
    let is_foreign = tool.starts_with(|first: char| first.is_ascii_uppercase());
    if is_foreign || built_in_names().any(|name| matches_wildcard(tool, name)) {
        return None;
    }
    if let Some((server, _)) = tool
        .strip_prefix(SERVED_PREFIX)
        .and_then(|served| served.split_once("__"))
    {
        return unknown_server(server, servers);
    }
    let custom_tools = servers.iter().flat_map(|server| server.custom_tools());
    let custom_tools: Vec<String> = custom_tools.collect();
    if custom_tools.iter().any(|name| matches_wildcard(tool, name)) {
        return None;
    }
    // A pattern may match tools of servers, whose names are not known here.
    let start = tool.split('*').next().unwrap_or_default();
    let is_pattern = tool.contains('*');
    if is_pattern && (start.starts_with(SERVED_PREFIX) || SERVED_PREFIX.starts_with(start)) {
        return None;
    }
    let is_custom_name = tool.starts_with(CUSTOM_PREFIX) && !custom_tools.is_empty();
    let reason = if is_custom_name {
        "no custom tool is called"
    } else {
        "massgen has no tool"
    };
    let message = format!("the rule matches nothing: {reason} {}", quote(tool));
    let names = built_in_names().chain(custom_tools.iter().map(String::as_str));
    Some(UnmatchedRule {
        message,
        suggestion: did_you_mean(nearest(tool, names)),
    })
}

fn did_you_mean(similar_name: Option<&str>) -> Option<String> {
    similar_name.map(|name| format!("did you mean `{name}`?"))
}
