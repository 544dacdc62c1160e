//! The tools of MCP servers as values: their names, who may use which, and what a call requests.
//! Nothing here starts a server. What a server reports about itself is data: it is bounded and
//! sanitized, and never changes what an agent may do.

pub mod arguments;
pub mod elicitation_form;
pub mod offer;
pub mod schema_check;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::permissions::grant::Permission;
use crate::permissions::path_rules::RuleAction;
use crate::tools::call::{FinalSymlink, RequestedAccess, UserPath};
use crate::tools::parse::without_function_prefix;
use crate::tools::spec::ToolOffer;

/// The prefix of the full names of all servers' tools.
pub const SERVED_PREFIX: &str = "mcp__";
/// The prefix of the names of the user's own tools.
pub const CUSTOM_PREFIX: &str = "custom_tool__";
/// The separator between the parts of a full name.
pub const SEPARATOR: &str = "__";
/// The longest name of a server, in bytes.
pub const SERVER_NAME_BYTES_MAX: usize = 100;

/// The name of a server: letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerName(String);

impl ServerName {
    /// Parses a name; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let fits = !text.is_empty() && text.len() <= SERVER_NAME_BYTES_MAX;
        (fits && text.bytes().all(is_name_byte)).then(|| Self(text.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether `name` has the form of the full name of a served tool.
pub fn is_served_name(name: &str) -> bool {
    name.starts_with(SERVED_PREFIX) || name.starts_with(CUSTOM_PREFIX)
}

/// How the tools of a server are named for models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolNaming {
    /// `mcp__SERVER__TOOL`.
    #[default]
    OfServer,
    /// `custom_tool__TOOL`: they are the user's own.
    Custom,
}

/// The user's rules for the tools of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedToolRules {
    /// How its tools are named for models.
    pub naming: ToolNaming,
    /// The name of the server.
    pub server: ServerName,
    /// If set, only these tools.
    pub allowed: Option<Vec<String>>,
    /// Tools that are excluded.
    pub excluded: Vec<String>,
    /// The rules for single tools; a tool that is denied is not offered either.
    pub tool_rules: BTreeMap<String, RuleAction>,
    /// The permission that its tools need for the paths that they are given.
    pub permission: Permission,
    /// Arguments that are content and not paths: `argument`, or `tool.argument`.
    pub content: Vec<String>,
    /// Whether its tools have effects outside the agent's directories.
    pub outside: OutsideEffects,
    /// Tools without effects outside, whatever holds for the rest of the server.
    pub harmless: Vec<String>,
    /// How an agent that works by programs calls its tools.
    pub caller: ToolCaller,
}

/// What calls the tools of a server, for an agent that works by programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolCaller {
    /// The agent's programs.
    #[default]
    Programs,
    /// The model itself (`direct_mcp_servers`).
    Model,
}

/// Whether a tool has effects outside the agent's directories, such as on a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutsideEffects {
    /// It may: while agents only plan, it has to wait for the final phase.
    #[default]
    Some,
    /// The tool has no such effects.
    None,
}

/// The operation that a call requests from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerOperation {
    /// Call one of its tools.
    Tool,
    /// List its resources.
    ListResources,
    /// Read a resource.
    ReadResource,
    /// List its prompts.
    ListPrompts,
    /// Get a prompt.
    GetPrompt,
}

/// One tool of a server, as an agent may use it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedTool {
    /// Its server.
    pub server: ServerName,
    /// Its name at the server.
    pub name: String,
    /// The operation.
    pub operation: ServerOperation,
    /// Its offer to models, under its full name.
    pub offer: ToolOffer,
    /// The permission that it needs for the paths that it is given.
    pub permission: Permission,
    /// Whether it has effects outside the agent's directories.
    pub outside: OutsideEffects,
    /// What calls it, for an agent that works by programs.
    pub caller: ToolCaller,
    /// Arguments that are content and not paths.
    content: Vec<String>,
}

/// A path that a call of a server's tool names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedPath<P> {
    /// The path.
    pub path: P,
    /// The access that the server may have there.
    pub permission: Permission,
}

/// A call of a server's tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCall<P = UserPath> {
    /// The server.
    pub server: ServerName,
    /// The tool's name at the server.
    pub tool: String,
    /// The tool's name for models.
    pub full_name: String,
    /// The operation.
    pub operation: ServerOperation,
    /// Whether it has effects outside the agent's directories.
    pub outside: OutsideEffects,
    /// The arguments, as the model wrote them.
    pub arguments: Map<String, Value>,
    /// The paths in the arguments.
    pub paths: Vec<TouchedPath<P>>,
}

impl ServerCall {
    /// Drops relative paths that do not contain `..`, for an agent without directories: there is
    /// nothing that they could be relative to.
    pub fn drop_relative_paths(&mut self) {
        let leaves_base = |path: &UserPath| {
            let path = path.as_str();
            path.starts_with('/') || path.split('/').any(|name| name == "..")
        };
        self.paths.retain(|touched| leaves_base(&touched.path));
    }

    /// Returns every path that the call names, with the access that the server may have there.
    pub fn accesses(&self) -> Vec<RequestedAccess<'_>> {
        let paths = self.paths.iter();
        paths
            .map(|touched| RequestedAccess {
                path: &touched.path,
                permission: touched.permission,
                // The server would open what a symlink leads to.
                link: FinalSymlink::Followed,
            })
            .collect()
    }
}

impl<P> ServerCall<P> {
    /// Replaces every path with the result of `map_path`. Returns the first error.
    pub fn try_map<Q, E>(
        self,
        mut map_path: impl FnMut(P) -> Result<Q, E>,
    ) -> Result<ServerCall<Q>, E> {
        let paths = self.paths.into_iter().map(|touched| {
            Ok(TouchedPath {
                path: map_path(touched.path)?,
                permission: touched.permission,
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

/// The server tools that one agent may use, by full name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCatalogue(BTreeMap<String, Arc<ServedTool>>);

impl ToolCatalogue {
    /// Adds the tools of a server. A tool whose name is already in use is left out; returns a note
    /// for each.
    pub fn add(&mut self, tools: Vec<ServedTool>) -> Vec<String> {
        let mut notes = Vec::new();
        for tool in tools {
            let full_name = tool.offer.name.to_string();
            if let Some(other_tool) = self.0.get(&full_name) {
                let (server, name) = (&tool.server, &other_tool.name);
                notes.push(format!(
                    "a tool of `{server}` is not offered: its name `{full_name}` is taken by \
                     `{name}` of `{}`; give one of the servers another name",
                    other_tool.server
                ));
            } else {
                self.0.insert(full_name, Arc::new(tool));
            }
        }
        notes
    }

    /// Returns the tool of this full name.
    pub fn find(&self, full_name: &str) -> Option<&ServedTool> {
        let full_name = without_function_prefix(full_name);
        self.0.get(full_name).map(AsRef::as_ref)
    }

    /// Returns the offers of all tools, sorted by name.
    pub fn offers(&self) -> impl Iterator<Item = ToolOffer> {
        self.0.values().map(|tool| tool.offer.clone())
    }

    /// Returns the offers of the tools that `caller` calls, for an agent that works by programs.
    pub fn offers_to(&self, caller: ToolCaller) -> impl Iterator<Item = ToolOffer> {
        let tools = self.0.values().filter(move |tool| tool.caller == caller);
        tools.map(|tool| tool.offer.clone())
    }

    /// Returns the full names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
