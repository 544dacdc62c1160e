//! Owns the tools of foreign servers as values: what they are called, who may use which, and what a
//! call of one asks for. Pure: it starts no server. What a server says of itself is data: it is
//! bounded and stripped, and never changes what an agent may do.

pub mod arguments;
pub mod elicitation_form;
pub mod offer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::permissions::grant::Permission;
use crate::permissions::path_rules::RuleAction;
use crate::tools::call::{FinalLink, RequestedAccess, UserPath};
use crate::tools::spec::ToolOffer;

/// What the names of all tools of servers begin with.
pub const SERVED_PREFIX: &str = "mcp__";
/// What stands between the parts of such a name.
const SEPARATOR: &str = "__";
/// The longest name of a server, in bytes.
pub const SERVER_NAME_BYTES_MAX: usize = 100;

/// The name of a server: letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerName(String);

impl ServerName {
    /// Reads a name; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let fits = !text.is_empty() && text.len() <= SERVER_NAME_BYTES_MAX;
        (fits && text.bytes().all(is_part)).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the user says about the tools of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRules {
    /// The server.
    pub server: ServerName,
    /// Only these of its tools, if given.
    pub allowed: Option<Vec<String>>,
    /// Never these.
    pub excluded: Vec<String>,
    /// What is said of single tools; one that is denied is not offered either.
    pub ruled: BTreeMap<String, RuleAction>,
    /// What its tools may do at the paths that they are given.
    pub permission: Permission,
    /// Arguments that are content and no paths: `argument`, or `tool.argument`.
    pub content: Vec<String>,
    /// Whether its tools change anything outside the agent's directories.
    pub outside: OutsideEffects,
    /// Tools that change nothing outside, whatever the server does otherwise.
    pub harmless: Vec<String>,
}

/// Whether a tool changes anything outside the agent's directories, such as a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutsideEffects {
    /// It may: where agents only plan, it waits for the final phase.
    #[default]
    Some,
    /// It does not.
    None,
}

/// What a call of a server's tool asks the server for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerOperation {
    /// One of its own tools.
    Tool,
    /// The list of what can be read there.
    ListResources,
    /// One of these.
    ReadResource,
    /// The list of its prompts.
    ListPrompts,
    /// One of these.
    GetPrompt,
}

/// One tool of a server, as an agent may use it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedTool {
    /// Whose it is.
    pub server: ServerName,
    /// What the server calls it.
    pub name: String,
    /// What is asked of the server.
    pub operation: ServerOperation,
    /// As models are offered it, under its full name.
    pub offer: ToolOffer,
    /// What it may do at the paths that it is given.
    pub permission: Permission,
    /// Whether it changes anything outside the agent's directories.
    pub outside: OutsideEffects,
    /// Its arguments that are content and no paths.
    content: Vec<String>,
}

/// A path that a call of a server's tool names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedPath<P> {
    /// The path.
    pub path: P,
    /// What the server may do there.
    pub wanted: Permission,
}

/// A call of a server's tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCall<P = UserPath> {
    /// Whose tool it is.
    pub server: ServerName,
    /// What the server calls it.
    pub tool: String,
    /// What models call it.
    pub full_name: String,
    /// What is asked of the server.
    pub operation: ServerOperation,
    /// Whether it changes anything outside the agent's directories.
    pub outside: OutsideEffects,
    /// What the server is given, as the model wrote it.
    pub arguments: Map<String, Value>,
    /// The paths in the arguments.
    pub paths: Vec<TouchedPath<P>>,
}

impl ServerCall {
    /// Forgets texts that are paths only where relative ones begin somewhere: for an agent without
    /// directories they begin nowhere.
    pub fn drop_relative_paths(&mut self) {
        let leads_somewhere = |path: &UserPath| {
            let path = path.as_str();
            path.starts_with('/') || path.split('/').any(|name| name == "..")
        };
        self.paths.retain(|touched| leads_somewhere(&touched.path));
    }

    /// Every path that the call names, with what the server may do there.
    pub fn accesses(&self) -> Vec<RequestedAccess<'_>> {
        let paths = self.paths.iter();
        paths
            .map(|touched| RequestedAccess {
                path: &touched.path,
                wanted: touched.wanted,
                link: FinalLink::Followed,
            })
            .collect()
    }
}

impl<P> ServerCall<P> {
    /// The same call with every path replaced by what `place` makes of it. The first error ends it.
    pub fn try_map<Q, E>(
        self,
        mut place: impl FnMut(P) -> Result<Q, E>,
    ) -> Result<ServerCall<Q>, E> {
        let paths = self.paths.into_iter().map(|touched| {
            Ok(TouchedPath {
                path: place(touched.path)?,
                wanted: touched.wanted,
            })
        });
        Ok(ServerCall {
            paths: paths.collect::<Result<_, E>>()?,
            server: self.server,
            tool: self.tool,
            full_name: self.full_name,
            operation: self.operation,
            outside: self.outside,
            arguments: self.arguments,
        })
    }
}

/// The tools of servers that one agent may use, by their full names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCatalogue(BTreeMap<String, Arc<ServedTool>>);

impl ToolCatalogue {
    /// Adds the tools of a server. One whose name is taken stays out, and a note says so.
    pub fn add(&mut self, tools: Vec<ServedTool>) -> Vec<String> {
        let mut notes = Vec::new();
        for tool in tools {
            let full_name = tool.offer.name.to_string();
            if let Some(other) = self.0.get(&full_name) {
                let (server, name) = (&tool.server, &other.name);
                notes.push(format!(
                    "a tool of `{server}` is not offered: its name `{full_name}` is taken by \
                     `{name}` of `{}`",
                    other.server
                ));
            } else {
                self.0.insert(full_name, Arc::new(tool));
            }
        }
        notes
    }

    /// The tool of this full name.
    pub fn find(&self, full_name: &str) -> Option<&ServedTool> {
        self.0.get(full_name).map(AsRef::as_ref)
    }

    /// All tools as models are offered them, in the order of their names.
    pub fn offers(&self) -> impl Iterator<Item = ToolOffer> {
        self.0.values().map(|tool| tool.offer.clone())
    }

    /// The full names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
