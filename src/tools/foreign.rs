//! Owns what the tools of other programs mean as calls of massgen's own: Claude Code's names and
//! parameters, which others have taken over. A tool that is not known is an error; nothing is guessed.

use std::path::{Component, Path};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tools::call::{Case, Edit, EditMode, Grep, Lines, Selection, ToolCall, UserPath};

/// What another program's tool would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// What this call does.
    Call(ToolCall),
    /// It runs this command line, beginning in this directory.
    Command {
        /// For the shell.
        line: String,
        /// The directory.
        dir: UserPath,
    },
    /// Nothing to files, processes or the network.
    Nothing,
}

/// Tools that keep lists, plan, or speak of what was started before. What an agent below does is asked
/// about when it does it.
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
struct File {
    file_path: String,
}

#[derive(Deserialize)]
struct Write {
    file_path: String,
    content: String,
}

#[derive(Deserialize)]
struct Replacement {
    old_string: String,
    new_string: String,
}

#[derive(Deserialize)]
struct OneEdit {
    file_path: String,
    #[serde(flatten)]
    edit: Replacement,
}

#[derive(Deserialize)]
struct Edits {
    file_path: String,
    edits: Vec<Replacement>,
}

#[derive(Deserialize)]
struct Notebook {
    notebook_path: String,
}

#[derive(Deserialize)]
struct Search {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    glob: Option<String>,
}

#[derive(Deserialize)]
struct Directory {
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize)]
struct Bash {
    command: String,
}

/// What the tool `name` would do with `input`; relative paths begin at `cwd`. The error says why that is
/// not known, as a sentence.
pub fn read(name: &str, input: &Value, cwd: &Path) -> Result<Foreign, String> {
    let asked = Asked { name, input, cwd };
    let call = match name {
        "Read" | "NotebookRead" | "Glob" | "Grep" | "LS" => asked.reading()?,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => asked.writing()?,
        "Bash" => {
            let Bash { command: line } = asked.taken()?;
            let dir = asked.path("")?;
            return Ok(Foreign::Command { line, dir });
        }
        name if HARMLESS.contains(&name) => return Ok(Foreign::Nothing),
        _ => return Err(asked.unknown()),
    };
    Ok(Foreign::Call(call))
}

/// A tool that another program asks about.
struct Asked<'a> {
    name: &'a str,
    input: &'a Value,
    cwd: &'a Path,
}

impl Asked<'_> {
    fn reading(&self) -> Result<ToolCall, String> {
        let here = |text: Option<&String>| self.path(text.map_or("", String::as_str));
        Ok(match self.name {
            "Read" => ToolCall::ReadTextFile {
                path: self.path(&self.taken::<File>()?.file_path)?,
                lines: Lines::All,
            },
            "NotebookRead" => ToolCall::ReadTextFile {
                path: self.path(&self.taken::<Notebook>()?.notebook_path)?,
                lines: Lines::All,
            },
            "Glob" => {
                let search: Search = self.taken()?;
                stays_below(self.name, &search.pattern)?;
                ToolCall::SearchFiles {
                    path: here(search.path.as_ref())?,
                    pattern: search.pattern,
                    exclude: Vec::new(),
                }
            }
            "Grep" => {
                let search: Search = self.taken()?;
                stays_below(self.name, search.glob.as_deref().unwrap_or_default())?;
                grep(here(search.path.as_ref())?, search.pattern)
            }
            "LS" => ToolCall::ListDirectory {
                path: here(self.taken::<Directory>()?.path.as_ref())?,
            },
            _ => return Err(self.unknown()),
        })
    }

    fn writing(&self) -> Result<ToolCall, String> {
        match self.name {
            "Write" => {
                let write: Write = self.taken()?;
                Ok(ToolCall::WriteFile {
                    path: self.path(&write.file_path)?,
                    content: write.content,
                })
            }
            "Edit" => {
                let one: OneEdit = self.taken()?;
                self.edit(&one.file_path, vec![one.edit])
            }
            "MultiEdit" => {
                let several: Edits = self.taken()?;
                self.edit(&several.file_path, several.edits)
            }
            "NotebookEdit" => self.edit(&self.taken::<Notebook>()?.notebook_path, Vec::new()),
            _ => Err(self.unknown()),
        }
    }

    fn edit(&self, file: &str, edits: Vec<Replacement>) -> Result<ToolCall, String> {
        let edit = |replaced: Replacement| Edit {
            old: replaced.old_string,
            new: replaced.new_string,
        };
        Ok(ToolCall::EditFile {
            path: self.path(file)?,
            edits: edits.into_iter().map(edit).collect(),
            mode: EditMode::Apply,
        })
    }

    fn path(&self, text: &str) -> Result<UserPath, String> {
        let whole = self.cwd.join(text);
        UserPath::parse(whole.to_string_lossy()).map_err(|why| format!("`{}`: {why}", self.name))
    }

    fn taken<T: DeserializeOwned>(&self) -> Result<T, String> {
        let name = self.name;
        T::deserialize(self.input).map_err(|error| format!("`{name}` is not called so: {error}"))
    }

    fn unknown(&self) -> String {
        format!("no tool `{}` is known here", self.name.escape_debug())
    }
}

/// Where a search looks decides, and not what it finds.
fn grep(path: UserPath, pattern: String) -> ToolCall {
    ToolCall::GrepFiles {
        path,
        grep: Grep {
            pattern,
            case: Case::Sensitive,
            context_lines: 0,
            selection: Selection {
                include: Vec::new(),
                exclude: Vec::new(),
            },
            results_max: 1,
        },
    }
}

/// A glob that leads elsewhere than below the directory that is searched is about that place.
fn stays_below(name: &str, glob: &str) -> Result<(), String> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let leads_away = glob.starts_with('~') || glob.contains("..");
    if leads_away || !Path::new(glob).components().all(is_plain) {
        return Err(format!(
            "`{name}` takes no pattern here that is absolute or holds `..`: name the directory in `path`"
        ));
    }
    Ok(())
}
