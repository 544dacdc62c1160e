//! Selects the file and command tools that an agent is offered. This opens nothing: the gate
//! decides what a call may touch.

use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{Grant, Permission};
use crate::tools::parse;
use crate::tools::spec::{
    ANSWER, APPLY_PATCH, COMMANDS, EDIT_FILE, PROGRAMS, READ_MEDIA_FILE, TEXT_EDITOR, TOOLS,
    TRANSLATED_TOOLS, ToolOffer, ToolSpec, WORK_TABLES,
};

/// A tool that models of one maker are trained on.
#[derive(Debug)]
struct TrainedTool {
    name: &'static str,
    format: EditFormat,
    /// The beginnings of the names of the models, by the guides of their maker.
    models: &'static [&'static str],
    /// The tools that are not offered together with it.
    replaced: &'static [&'static str],
}

const TRAINED_TOOLS: [TrainedTool; 2] = [
    TrainedTool {
        name: APPLY_PATCH,
        format: EditFormat::Patch,
        models: &["gpt-4.1", "gpt-5", "gpt-oss", "o3", "o4-", "codex-"],
        replaced: &[EDIT_FILE],
    },
    TrainedTool {
        name: TEXT_EDITOR,
        format: EditFormat::TextEditor,
        models: &["claude-"],
        replaced: TEXT_EDITOR_PARTS,
    },
];

/// The tools that do what several others do, with those. Excluding one of them excludes the tool.
const COMPOSED_TOOLS: &[(&str, &[&str])] = &[
    (
        APPLY_PATCH,
        &["write_file", EDIT_FILE, "move_file", "delete_file"],
    ),
    (TEXT_EDITOR, TEXT_EDITOR_PARTS),
    ("diff_patch_workspace_file", &[EDIT_FILE]),
    ("semantic_search_workspace_files", &["grep_files"]),
];

const TEXT_EDITOR_PARTS: &[&str] = &["read_text_file", "list_directory", "write_file", EDIT_FILE];

/// The maximum number of directories that a description names.
const DIRECTORIES_NAMED_MAX: usize = 8;

/// The inputs that determine which file and command tools an agent is offered.
#[derive(Clone, Copy, Debug)]
pub struct ToolSelection<'a> {
    /// If set, only these tools. Here and in `excluded` a name may have a server's prefix
    /// (`mcp__filesystem__read_file`).
    pub allowed: Option<&'a [String]>,
    /// Tools that are excluded.
    pub excluded: &'a [String],
    /// The agent's permissions in its phase.
    pub permissions: &'a PathPermissionManager,
    /// Whether the descriptions name the directories.
    pub directories: DirectoryNaming,
    /// Whether the agent may run commands.
    pub commands: CommandOffering,
    /// Whether it can look at images.
    pub images: ImageOffering,
    /// How it changes parts of files.
    pub edits: EditFormat,
}

/// How an agent changes parts of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditFormat {
    /// It replaces texts of one file (`edit_file`).
    Replacements,
    /// It changes several files by a patch (`apply_patch`).
    Patch,
    /// It views and changes one file by commands (`str_replace_based_edit_tool`).
    TextEditor,
    /// It is a program, which is offered functions of a single purpose.
    Program,
}

impl EditFormat {
    /// Returns the format that the model with this name is trained on.
    pub fn of_model(name: &str) -> Self {
        // A gateway names the maker before it.
        let name = name.rsplit('/').next().unwrap_or(name);
        let is_trained = |tool: &&TrainedTool| tool.models.iter().any(|it| name.starts_with(it));
        let tool = TRAINED_TOOLS.iter().find(is_trained);
        tool.map_or(Self::Replacements, |tool| tool.format)
    }
}

/// Whether an agent is offered tools whose results are images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageOffering {
    /// It is offered them: its model accepts images.
    Offered,
    /// It is not offered them.
    NotOffered,
}

/// Whether an agent is offered the command tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOffering {
    /// It is offered them.
    Offered,
    /// It is offered them, and may run commands on answers of others.
    WithAnswers,
    /// It is not offered them.
    NotOffered,
}

/// Whether the descriptions of tools name the open directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryNaming {
    /// The agent learns about them elsewhere.
    Unnamed,
    /// Each tool lists its directories, as a folder guard requires.
    Named,
}

impl ToolSelection<'_> {
    /// Returns the offered tools, in the order of the tables.
    pub fn offers(&self) -> Vec<ToolOffer> {
        let can_write = self.permissions.can_write();
        let can_read = !self.permissions.grants().is_empty();
        let trained = TRAINED_TOOLS
            .iter()
            .find(|tool| can_write && self.takes(tool));
        let is_taken = |tool: &ToolSpec| match trained {
            Some(trained) if trained.replaced.contains(&tool.name) => false,
            Some(trained) if trained.name == tool.name => true,
            Some(_) | None if TRAINED_TOOLS.iter().any(|other| other.name == tool.name) => false,
            Some(_) | None => {
                let is_translated = TRANSLATED_TOOLS.iter().any(|other| other.name == tool.name);
                !is_translated || self.allowed.is_some()
            }
        };
        let is_open = |tool: &ToolSpec| match tool.permission {
            Permission::Read if tool.name == READ_MEDIA_FILE => {
                can_read && self.images == ImageOffering::Offered
            }
            Permission::Read => can_read,
            Permission::Write => can_write,
        };
        let commands = match self.commands {
            CommandOffering::Offered | CommandOffering::WithAnswers => COMMANDS,
            CommandOffering::NotOffered => &[],
        };
        let file_tools = TOOLS.iter().chain(TRANSLATED_TOOLS);
        let file_tools = file_tools.filter(|tool| is_open(tool) && is_taken(tool));
        let mut offers = Vec::new();
        offers.extend(
            file_tools
                .filter(|tool| self.is_chosen(tool))
                .map(|tool| self.offer(tool)),
        );
        offers.extend(
            commands
                .iter()
                .filter(|tool| self.is_chosen(tool))
                .map(|tool| match self.commands {
                    CommandOffering::WithAnswers => tool.offer(),
                    CommandOffering::Offered | CommandOffering::NotOffered => {
                        tool.offer().without_parameter(ANSWER)
                    }
                }),
        );
        offers
    }

    /// Returns whether the agent is offered `trained`: its model is trained on it, or its list of tools
    /// names it.
    fn takes(&self, trained: &TrainedTool) -> bool {
        let mut tools = TOOLS.iter().chain(TRANSLATED_TOOLS);
        let is_preferred = match self.allowed {
            Some(_) => self.edits != EditFormat::Program,
            None => self.edits == trained.format,
        };
        is_preferred && tools.any(|tool| tool.name == trained.name && self.is_chosen(tool))
    }

    fn is_chosen(&self, tool: &ToolSpec) -> bool {
        let is_excluded = |name: &str| self.excluded.iter().any(|entry| names(entry, name));
        let mut composed = COMPOSED_TOOLS.iter();
        let parts = composed.find(|(name, _)| *name == tool.name);
        let parts = parts.map_or(&[][..], |(_, parts)| *parts);
        let names_this = |list: &[String]| list.iter().any(|entry| names_tool(entry, tool));
        self.allowed.is_none_or(names_this)
            && !is_excluded(tool.name)
            && !parts.iter().any(|part| is_excluded(part))
    }

    fn offer(&self, tool: &ToolSpec) -> ToolOffer {
        let mut offer = tool.offer();
        if self.directories == DirectoryNaming::Named && !tool.parameters.is_empty() {
            let restriction = match tool.permission {
                Permission::Read => "Only in",
                Permission::Write => "Writes only in",
            };
            let directories = self.describe_directories(tool.permission);
            offer.description = format!("{} {restriction} {directories}.", offer.description);
        }
        offer
    }

    fn describe_directories(&self, permission: Permission) -> String {
        let is_open = |grant: &&Grant| self.permissions.allows(&grant.root, permission);
        let mut roots = self.permissions.grants().iter().filter(is_open);
        let mut named_roots: Vec<String> = roots
            .by_ref()
            .take(DIRECTORIES_NAMED_MAX)
            .map(|grant| grant.root.to_string())
            .collect();
        match roots.count() {
            0 => {}
            more => named_roots.push(format!("{more} more (call list_allowed_directories)")),
        }
        named_roots.join(", ")
    }
}

/// Returns massgen's own tools that a list of tools can name.
pub fn own_tools() -> impl Iterator<Item = &'static ToolSpec> {
    let is_program = |tool: &&ToolSpec| PROGRAMS.iter().any(|program| program.name == tool.name);
    let tools = WORK_TABLES.into_iter().flatten();
    tools.filter(move |tool| !is_program(tool))
}

/// Returns whether a built-in tool has this name.
pub fn is_own_tool(name: &str) -> bool {
    own_tools().any(|tool| names_tool(name, tool))
}

/// Returns whether a list of tools names one of `tools`.
pub fn names_any(list: &[String], tools: &[ToolSpec]) -> bool {
    let is_named = |entry: &String| tools.iter().any(|tool| names_tool(entry, tool));
    list.iter().any(is_named)
}

/// Returns whether an entry of a list of tools names this one.
pub(crate) fn names_tool(entry: &str, tool: &ToolSpec) -> bool {
    names(entry, tool.name)
}

fn names(entry: &str, tool: &str) -> bool {
    let name = entry.rsplit("__").next().unwrap_or(entry);
    parse::canonical_name(name) == tool
}
