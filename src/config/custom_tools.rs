//! The user's own tools (`custom_tools` and `tools`): functions of Python files, and programs.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::path::AbsPath;
use crate::tools::served::CUSTOM_PREFIX;

/// How massgen uses the program of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ProgramInterface {
    /// It is an MCP server.
    #[default]
    Mcp,
    /// It is massgen's host of these Python functions, an MCP server too.
    PythonFunctions(Arc<PythonFunctions>),
    /// It is one tool: it is started for each call, with the arguments on its standard input.
    SingleTool(Arc<ProgramTool>),
}

/// The Python functions that one host offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PythonFunctions {
    /// The functions.
    pub functions: Vec<PythonFunction>,
    /// Set if the tools of MassGen's own package are offered too: the names of its directories that
    /// are left out.
    pub discovery_exclusions: Option<Vec<String>>,
}

/// A Python function that is a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonFunction {
    /// The name of the tool, without the prefix.
    pub name: String,
    /// The name of the function.
    pub function: String,
    /// Its file; without one, it is looked up in MassGen's package.
    pub file: Option<NamedFile>,
    /// The description for models; without one, the docstring is used.
    pub description: Option<String>,
    /// Arguments that the config sets, hidden from models.
    pub preset_args: Map<String, Value>,
}

/// A file that the config names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The path as the config gives it.
    pub config_path: String,
    /// The paths that it may mean; the first that exists counts.
    pub candidates: Vec<AbsPath>,
}

impl NamedFile {
    /// Returns whether it is named like a file of Python code, and not like a module.
    pub fn is_python_file(&self) -> bool {
        let extension = Path::new(&self.config_path).extension();
        extension.is_some_and(|extension| extension == "py")
    }
}

/// A program that is a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramTool {
    /// The name of the tool, without the prefix.
    pub name: String,
    /// The program, as the config gives it.
    pub program: String,
    /// The description for models.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    /// Those words of the command that may name a file, by their index.
    pub files: Vec<(usize, NamedFile)>,
}

impl PythonFunctions {
    /// Returns whether the config names none of the functions itself.
    pub fn is_discovery_only(&self) -> bool {
        self.functions.is_empty()
    }
}

impl ProgramInterface {
    /// Describes each tool by its full name and what it runs, as far as the config names the tools.
    pub fn describe_tools(&self) -> Vec<String> {
        let names = self.tool_names().into_iter();
        match self {
            Self::Mcp => Vec::new(),
            Self::PythonFunctions(python) => {
                let functions = names.zip(&python.functions);
                functions
                    .map(|(name, function)| {
                        let file = function.file.as_ref().map(|file| file.config_path.as_str());
                        let origin = file.unwrap_or("the package `massgen`");
                        format!("{name}: `{}` of {origin}", function.function)
                    })
                    .collect()
            }
            Self::SingleTool(tool) => names
                .map(|name| format!("{name}: {}", tool.program))
                .collect(),
        }
    }

    /// Returns the full names of the tools, as far as the config names the tools.
    pub fn tool_names(&self) -> Vec<String> {
        let full_name = |name: &str| format!("{CUSTOM_PREFIX}{name}");
        match self {
            Self::Mcp => Vec::new(),
            Self::PythonFunctions(python) => {
                let functions = python.functions.iter();
                functions
                    .map(|function| full_name(&function.name))
                    .collect()
            }
            Self::SingleTool(tool) => vec![full_name(&tool.name)],
        }
    }
}
