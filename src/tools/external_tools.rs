//! Translates tools of other programs into massgen's calls: Claude Code's names and parameters,
//! which other programs have adopted. An unknown tool is an error; nothing is guessed. Also the
//! names of massgen's tools in other programs.

use std::path::{Component, Path};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::tools::call::{
    CaseSensitivity, EditMode, FileEdit, FileSelection, GrepQuery, LineRange, ReadForm, ToolCall,
    UserPath,
};

/// What another program's tool would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalToolAction {
    /// The equivalent of this call.
    Call(ToolCall),
    /// Run this command line in this directory.
    Command {
        /// The command line for the shell.
        line: String,
        /// The directory.
        dir: UserPath,
        /// The tool's other arguments, which may change what is run.
        options: Map<String, Value>,
    },
    /// Nothing that concerns files, processes or the network.
    Nothing,
}

/// The argument with which models describe a command in their own words. It changes nothing.
const DESCRIPTION_KEY: &str = "description";

/// Returns the arguments in `input` that may change what a command does, in addition to those that
/// are named in `known_keys`.
pub fn command_options(input: &Value, known_keys: &[&str]) -> Map<String, Value> {
    let is_option = |name: &str| name != DESCRIPTION_KEY && !known_keys.contains(&name);
    let arguments = input.as_object().into_iter().flatten();
    arguments
        .filter(|(name, _)| is_option(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Tools that manage lists or plans, ask the user, find other tools, or refer to something that was
/// started earlier. The calls of a subagent are checked when it makes them.
const HARMLESS: &[&str] = &[
    "TodoWrite",
    "TodoRead",
    "BashOutput",
    "KillBash",
    "KillShell",
    "EnterPlanMode",
    "ExitPlanMode",
    "AskUserQuestion",
    "Agent",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "ToolSearch",
];

#[derive(Deserialize)]
struct FileInput {
    file_path: String,
}

#[derive(Deserialize)]
struct WriteInput {
    file_path: String,
    content: String,
}

#[derive(Deserialize)]
struct ReplacementInput {
    old_string: String,
    new_string: String,
}

#[derive(Deserialize)]
struct EditInput {
    file_path: String,
    #[serde(flatten)]
    edit: ReplacementInput,
}

#[derive(Deserialize)]
struct MultiEditInput {
    file_path: String,
    edits: Vec<ReplacementInput>,
}

#[derive(Deserialize)]
struct NotebookInput {
    notebook_path: String,
}

#[derive(Deserialize)]
struct SearchInput {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
}

#[derive(Deserialize)]
struct DirectoryInput {
    path: Option<String>,
}

#[derive(Deserialize)]
struct BashInput {
    command: String,
}

/// Returns what the tool `name` would do with `input`; relative paths start at `cwd`. If that is
/// unknown, the error gives the reason as a sentence.
pub fn parse_external_tool(
    name: &str,
    input: &Value,
    cwd: &Path,
) -> Result<ExternalToolAction, String> {
    let external_call = ExternalToolCall { name, input, cwd };
    let call = match name {
        "Read" | "NotebookRead" | "Glob" | "Grep" | "LS" => external_call.parse_reading_call()?,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => external_call.parse_writing_call()?,
        "Bash" => {
            let BashInput { command: line } = external_call.parse_input()?;
            let dir = external_call.path("")?;
            let options = command_options(input, &["command"]);
            return Ok(ExternalToolAction::Command { line, dir, options });
        }
        name if HARMLESS.contains(&name) => return Ok(ExternalToolAction::Nothing),
        _ => return Err(external_call.unknown_tool()),
    };
    Ok(ExternalToolAction::Call(call))
}

/// A call of a tool that another program asks about.
struct ExternalToolCall<'a> {
    name: &'a str,
    input: &'a Value,
    cwd: &'a Path,
}

impl ExternalToolCall<'_> {
    fn parse_reading_call(&self) -> Result<ToolCall, String> {
        let path_of = |text: Option<&String>| self.path(text.map_or("", String::as_str));
        Ok(match self.name {
            "Read" => ToolCall::ReadTextFile {
                path: self.path(&self.parse_input::<FileInput>()?.file_path)?,
                lines: LineRange::All,
                form: ReadForm::Plain,
            },
            "NotebookRead" => ToolCall::ReadTextFile {
                path: self.path(&self.parse_input::<NotebookInput>()?.notebook_path)?,
                lines: LineRange::All,
                form: ReadForm::Plain,
            },
            "Glob" => {
                let search: SearchInput = self.parse_input()?;
                let (root, pattern) = self.search_root(search.path.as_ref(), &search.pattern)?;
                ToolCall::SearchFiles {
                    path: root,
                    pattern,
                    exclude: Vec::new(),
                }
            }
            "Grep" => {
                let search: SearchInput = self.parse_input()?;
                let glob = search.glob.as_deref().unwrap_or_default();
                let (root, _) = self.search_root(search.path.as_ref(), glob)?;
                grep_call(root, search.pattern)
            }
            "LS" => ToolCall::ListDirectory {
                path: path_of(self.parse_input::<DirectoryInput>()?.path.as_ref())?,
            },
            _ => return Err(self.unknown_tool()),
        })
    }

    fn parse_writing_call(&self) -> Result<ToolCall, String> {
        match self.name {
            "Write" => {
                let write: WriteInput = self.parse_input()?;
                Ok(ToolCall::WriteFile {
                    path: self.path(&write.file_path)?,
                    content: write.content,
                })
            }
            "Edit" => {
                let single_edit: EditInput = self.parse_input()?;
                self.edit_call(&single_edit.file_path, vec![single_edit.edit])
            }
            "MultiEdit" => {
                let multi_edit: MultiEditInput = self.parse_input()?;
                self.edit_call(&multi_edit.file_path, multi_edit.edits)
            }
            // Only the path matters for the decision.
            "NotebookEdit" => self.edit_call(
                &self.parse_input::<NotebookInput>()?.notebook_path,
                Vec::new(),
            ),
            _ => Err(self.unknown_tool()),
        }
    }

    fn edit_call(&self, file: &str, edits: Vec<ReplacementInput>) -> Result<ToolCall, String> {
        let edit = |replacement: ReplacementInput| FileEdit::Replacement {
            old: replacement.old_string,
            new: replacement.new_string,
        };
        Ok(ToolCall::EditFile {
            path: self.path(file)?,
            edits: edits.into_iter().map(edit).collect(),
            mode: EditMode::Apply,
        })
    }

    /// Returns the directory that a search with `glob` is confined to (`path` joined with the
    /// literal components that the glob starts with), and the rest of the glob.
    fn search_root(&self, path: Option<&String>, glob: &str) -> Result<(UserPath, String), String> {
        check_glob_root(self.name, glob)?;
        let names: Vec<&str> = glob.split('/').collect();
        let is_name = |name: &&&str| !name.contains(['*', '?', '[', '{', '\\']);
        let last_index = names.len().saturating_sub(1);
        let plain_count = names.iter().take(last_index).take_while(is_name).count();
        let (literal_names, rest) = names.split_at(plain_count);
        let mut root = self.path(path.map_or("", String::as_str))?;
        if !literal_names.is_empty() {
            let joined_path = Path::new(root.as_str()).join(literal_names.join("/"));
            root = self.path(&joined_path.to_string_lossy())?;
        }
        Ok((root, rest.join("/")))
    }

    /// Resolves a path. A path that the other program could interpret differently is refused: it
    /// may expand `~` or trim blanks.
    fn path(&self, text: &str) -> Result<UserPath, String> {
        if text.starts_with('~') || text.trim() != text {
            return Err(format!(
                "`{}` takes no path here that begins with `~`, or with blanks around it: write the whole path",
                self.name
            ));
        }
        let joined_path = self.cwd.join(text);
        UserPath::parse(joined_path.to_string_lossy())
            .map_err(|error| format!("`{}`: {error}", self.name))
    }

    fn parse_input<T: DeserializeOwned>(&self) -> Result<T, String> {
        let name = self.name;
        T::deserialize(self.input).map_err(|error| format!("`{name}` is not called so: {error}"))
    }

    fn unknown_tool(&self) -> String {
        format!("no tool `{}` is known here", self.name.escape_debug())
    }
}

/// Returns a search call. Only its path matters for the decision, not what it finds.
fn grep_call(path: UserPath, pattern: String) -> ToolCall {
    ToolCall::GrepFiles {
        path,
        grep: GrepQuery {
            pattern,
            case: CaseSensitivity::Sensitive,
            context_lines: 0,
            selection: FileSelection {
                include: Vec::new(),
                exclude: Vec::new(),
            },
            results_max: 1,
            ranking: Vec::new(),
        },
    }
}

/// Rejects a glob that can match outside of the directory that is searched, also through
/// alternatives: `{.,x}{.,y}/*`.
fn check_glob_root(name: &str, glob: &str) -> Result<(), String> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let starts_elsewhere = glob.starts_with('~') || glob.trim() != glob || glob.contains('\\');
    let leaves_root = starts_elsewhere || glob.contains("..") || may_leave_root(glob);
    if leaves_root || !Path::new(glob).components().all(is_plain) {
        return Err(format!(
            "`{name}` takes no pattern here that is absolute or can come to `..`: name the directory in `path`"
        ));
    }
    Ok(())
}

/// Returns whether an alternative of a glob could match dots or slashes: a `[…]` that is not made
/// of letters and digits, or a `{…}` with an alternative that is empty, only dots, or starts like a
/// path elsewhere.
fn may_leave_root(glob: &str) -> bool {
    let leaves_root = |alternative: &str| {
        alternative.trim_matches('.').is_empty()
            || alternative.starts_with('/')
            || alternative.starts_with("./")
    };
    let is_plain = |class: &str| {
        let has_no_open_range = class.split('-').all(|part| !part.is_empty());
        has_no_open_range && class.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let mut classes = glob
        .split('[')
        .skip(1)
        .map(|class| class.split_once(']').map_or("", |(inside, _)| inside));
    let (mut depth, mut alternative) = (0_usize, String::new());
    for letter in glob.chars() {
        let ends_alternative = matches!(letter, ',' | '}') && depth > 0;
        if ends_alternative && leaves_root(&alternative) {
            return true;
        }
        match letter {
            '{' => depth = depth.saturating_add(1),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match letter {
            '{' | '}' | ',' => alternative.clear(),
            _ => alternative.push(letter),
        }
    }
    depth > 0 || classes.any(|class| !is_plain(class))
}

/// Each tool with its names in other programs.
const ALIASES: &[(&str, &[&str])] = &[
    ("read_text_file", &["Read"]),
    ("read_multiple_files", &["Read"]),
    ("write_file", &["Write"]),
    ("edit_file", &["Edit", "MultiEdit"]),
    ("apply_patch", &["Write", "Edit", "MultiEdit"]),
    ("grep_files", &["Grep"]),
    ("search_files", &["Glob"]),
    ("list_directory", &["LS"]),
    ("directory_tree", &["LS"]),
    ("execute_command", &["Bash"]),
    ("start_background_command", &["Bash"]),
];

/// Returns whether `tool` is a tool of massgen with an alias in another program, or such an alias.
pub fn is_known_tool(tool: &str) -> bool {
    names_of(tool).nth(1).is_some()
}

/// Returns all names of a tool, given its name in massgen or in another program.
pub fn names_of(tool: &str) -> impl Iterator<Item = &str> {
    let aliases = ALIASES
        .iter()
        .filter(move |(own_name, others)| *own_name == tool || others.contains(&tool));
    let aliases = aliases.flat_map(move |(own_name, others)| {
        let others = others.iter().copied().filter(move |_| *own_name == tool);
        std::iter::once(*own_name).chain(others)
    });
    std::iter::once(tool).chain(aliases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::spec::{COMMANDS, TOOLS, ToolSpec};

    #[test]
    fn every_alias_names_an_existing_tool() {
        for (own_name, _) in ALIASES {
            let is_own = |tool: &ToolSpec| tool.name == *own_name;
            assert!(TOOLS.iter().chain(COMMANDS).any(is_own), "{own_name}");
        }
    }
}
