//! Owns the forms in which rules are written: `command(…)`, `read_file(…)`, `write_file(…)`,
//! `mcp(server/tool)` and `tool(…)`.

use crate::call_rules::command_pattern::CommandPattern;
use crate::call_rules::{CallMatcher, CallRule};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::{PathGlob, RuleAction};
use crate::tools::parse::canonical_name;

/// The forms, as messages name them.
pub const FORMS: &str = "`command(git push *)`, `read_file(GLOB)`, `write_file(GLOB)`, \
                         `mcp(server/tool)` or `tool(NAME)`";

/// What stands for all calls of a kind.
const ALL: &str = "*";

/// A kind of calls, and what stands in its brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleForm<'t> {
    /// Command lines.
    Command(&'t str),
    /// What is done to paths.
    Path(Permission, &'t str),
    /// Tools of servers.
    Server(&'t str),
    /// Tools by their name.
    Tool(&'t str),
}

/// What a text is about, if it has one of the forms; a kind without brackets is all of it.
pub(super) fn rule_form(text: &str) -> Option<RuleForm<'_>> {
    let text = text.trim();
    if text == ALL {
        return Some(RuleForm::Tool(ALL));
    }
    let (kind, inner) = match text.split_once('(') {
        Some((kind, rest)) => (kind, Some(rest.strip_suffix(')')?.trim())),
        None => (text, None),
    };
    Some(match kind {
        "command" => RuleForm::Command(inner.unwrap_or(ALL)),
        "read_file" => RuleForm::Path(Permission::Read, inner.unwrap_or("**")),
        "write_file" => RuleForm::Path(Permission::Write, inner.unwrap_or("**")),
        "mcp" => RuleForm::Server(inner.unwrap_or(ALL)),
        "tool" => RuleForm::Tool(inner.unwrap_or(ALL)),
        _ => return None,
    })
}

/// Reads a rule; `~/` in a glob stands for `home`. The error says what is wrong, as the end of a
/// sentence.
pub fn parse_rule(
    ruling: RuleAction,
    text: &str,
    home: Option<&AbsPath>,
) -> Result<CallRule, String> {
    let form = rule_form(text).ok_or_else(|| format!("expected {FORMS}"))?;
    let about = match form {
        RuleForm::Command(pattern) => CallMatcher::Command(CommandPattern::parse(pattern)?),
        RuleForm::Path(wanted, glob) => CallMatcher::Path(wanted, PathGlob::parse(glob, home)?),
        RuleForm::Server(name) => CallMatcher::Tool(server_tool_name(name)?),
        RuleForm::Tool("") => return Err("expected the name of a tool".to_owned()),
        RuleForm::Tool(name) => CallMatcher::Tool(canonical_name(name).to_owned()),
    };
    Ok(CallRule {
        action: ruling,
        matcher: about,
        written: text.trim().to_owned(),
    })
}

/// The full name of a server's tool: `server/tool`; a server alone is all of its tools.
pub(super) fn server_tool_name(name: &str) -> Result<String, String> {
    let (server, tool) = name.split_once('/').unwrap_or((name, ALL));
    if server.is_empty() || tool.is_empty() || tool.contains('/') {
        return Err("expected `server/tool`".to_owned());
    }
    Ok(full_name(server, tool))
}

/// What models call the tool of a server.
pub(super) fn full_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}

/// What a rule names that may be nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTarget<'t> {
    /// A command of one word, without arguments.
    Command(&'t str),
    /// A server, in which `*` stands for any text.
    Server(&'t str),
    /// A tool, in which `*` stands for any text.
    Tool(&'t str),
}

/// What a rule names that may be nowhere; `None` if it names all of a kind, or something else.
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
        RuleForm::Path(..) => None,
    }
}
