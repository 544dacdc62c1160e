//! Parses the forms of rules: `command(…)`, `read_file(…)`, `write_file(…)`, `read_url(…)`,
//! `mcp(server/tool)` and `tool(…)`. Also finds the names in them that may not exist.

use crate::call_rules::patterns::{CommandPattern, PagePattern};
use crate::call_rules::{CallMatcher, CallRule};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::{PathGlob, RuleAction};
use crate::tools::parse::canonical_name;
use crate::tools::spec::TRANSLATED_TOOLS;

/// The forms, as listed in messages.
pub const FORMS: &str = "`command(git push *)`, `read_file(GLOB)`, `write_file(GLOB)`, \
                         `read_url(DOMAIN)`, `mcp(server/tool)` or `tool(NAME)`";

/// The argument that matches all calls of a kind.
const ALL: &str = "*";

/// The kind of call that a rule is about, with its argument: the text in the parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleForm<'t> {
    /// Command lines.
    Command(&'t str),
    /// Accesses to paths.
    Path(Permission, &'t str),
    /// Pages of the Web.
    Page(&'t str),
    /// Tools of MCP servers.
    Server(&'t str),
    /// Tools by name.
    Tool(&'t str),
}

/// Splits a string into one of the forms; `None` if it has none of them. A kind without parentheses
/// means all calls of that kind.
pub(super) fn rule_form(text: &str) -> Option<RuleForm<'_>> {
    let text = text.trim();
    if text == ALL {
        return Some(RuleForm::Tool(ALL));
    }
    let (kind, argument) = match text.split_once('(') {
        Some((kind, rest)) => (kind, Some(rest.strip_suffix(')')?.trim())),
        None => (text, None),
    };
    Some(match kind {
        "command" => RuleForm::Command(argument.unwrap_or(ALL)),
        "read_file" => RuleForm::Path(Permission::Read, argument.unwrap_or("**")),
        "write_file" => RuleForm::Path(Permission::Write, argument.unwrap_or("**")),
        "read_url" | "fetch_url" => RuleForm::Page(argument.unwrap_or(ALL)),
        "mcp" => RuleForm::Server(argument.unwrap_or(ALL)),
        "tool" => RuleForm::Tool(argument.unwrap_or(ALL)),
        _ => return None,
    })
}

/// Parses a rule; `~/` in a glob expands to `home`. The error gives the cause as the end of a
/// sentence.
pub fn parse_rule(
    action: RuleAction,
    text: &str,
    home: Option<&AbsPath>,
) -> Result<CallRule, String> {
    let form = rule_form(text).ok_or_else(|| format!("expected {FORMS}"))?;
    let matcher = match form {
        RuleForm::Command(pattern) => CallMatcher::Command(CommandPattern::parse(pattern)?),
        RuleForm::Path(permission, glob) => {
            CallMatcher::Path(permission, PathGlob::parse(glob, home)?)
        }
        RuleForm::Page(pattern) => CallMatcher::Page(PagePattern::parse(pattern)?),
        RuleForm::Server(name) => CallMatcher::Tool(server_tool_name(name)?),
        RuleForm::Tool("") => return Err("expected the name of a tool".to_owned()),
        RuleForm::Tool(name) if TRANSLATED_TOOLS.iter().any(|tool| tool.name == name) => {
            return Err(format!(
                "calls of `{name}` become calls of other tools: expected the names of those"
            ));
        }
        RuleForm::Tool(name) => CallMatcher::Tool(canonical_name(name).to_owned()),
    };
    Ok(CallRule {
        action,
        matcher,
        written: text.trim().to_owned(),
    })
}

/// Returns the full name of a server's tool, given as `server/tool`; a server alone means all of
/// its tools.
pub(super) fn server_tool_name(name: &str) -> Result<String, String> {
    let (server, tool) = name.split_once('/').unwrap_or((name, ALL));
    if server.is_empty() || tool.is_empty() || tool.contains('/') {
        return Err("expected `server/tool`".to_owned());
    }
    Ok(full_name(server, tool))
}

/// Returns the name under which models call a server's tool.
pub(super) fn full_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// A name in a rule that may not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTarget<'t> {
    /// A command of one word, without arguments.
    Command(&'t str),
    /// A server; `*` matches any string.
    Server(&'t str),
    /// A tool; `*` matches any string.
    Tool(&'t str),
}

/// Returns the name in a rule that may not exist; `None` if the rule covers all calls of a kind or
/// names something else.
pub fn rule_target(text: &str) -> Option<RuleTarget<'_>> {
    match rule_form(text)? {
        RuleForm::Command(line) => {
            let is_word = !line.is_empty() && !line.contains(['*', ' ']);
            is_word.then_some(RuleTarget::Command(line))
        }
        RuleForm::Server(name) => {
            let (server, _) = name.split_once('/').unwrap_or((name, ALL));
            (server != ALL).then_some(RuleTarget::Server(server))
        }
        RuleForm::Tool(name) => (name != ALL).then_some(RuleTarget::Tool(canonical_name(name))),
        RuleForm::Page(_) | RuleForm::Path(..) => None,
    }
}
