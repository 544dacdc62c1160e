//! Offers `execute_code` to agents that write programs: which tools their programs may call, and
//! how they are described.

use crate::code_mode::language::{ProgramDialect, PythonLibraries};
use crate::code_mode::package::signatures;
use crate::tools::spec::{PROGRAMS, ToolOffer, ToolSpec};
use crate::tools::tool_selection::{DirectoryNaming, EditFormat, ImageOffering, ToolSelection};

/// Returns the tools that an agent's programs may call: those that it would be offered itself, each
/// with its directories.
pub fn callable_tools(selection: ToolSelection<'_>) -> Vec<ToolOffer> {
    ToolSelection {
        directories: DirectoryNaming::Named,
        // Programs read text.
        images: ImageOffering::NotOffered,
        edits: EditFormat::Program,
        ..selection
    }
    .offers()
}

/// The part of the description about numpy.
const NUMPY: &str = " `numpy` can be imported too; it reads texts by \
                     `numpy.loadtxt(io.StringIO(text))` and opens no files.";
/// The part of the description about pandas.
const PANDAS: &str = " `numpy` and `pandas` can be imported too. They open no files: read a table by \
                      `pandas.read_csv(io.StringIO(text))`, and make a text by `table.to_csv()`.";

/// Returns the offer of `execute_code` to a model whose programs may call `tools`.
pub fn offers(dialect: ProgramDialect, tools: &[ToolOffer]) -> Vec<ToolOffer> {
    let language_rules = match dialect {
        ProgramDialect::Python(_) => {
            "Write Python 3. The standard modules for data are open, such as `json`, `csv`, `re` and \
             `datetime`. Import `workspace_tools` for all else: files, commands. Each function \
             returns text, or raises `workspace_tools.ToolError`. Print what you want to read."
        }
        ProgramDialect::Go => {
            "Write Go: `package main` with `func main()`. The standard packages for data are open, \
             such as `encoding/json`, `strings` and `sort`. Import \"workspace_tools\" for all else: \
             files, commands. Each function returns (string, error). Print what you want to read. \
             Parameters with `?` may be left out; `workspace_tools.Bool(false)` makes a `*bool`."
        }
    };
    let libraries = match dialect {
        ProgramDialect::Python(PythonLibraries::Numpy) => NUMPY,
        ProgramDialect::Python(PythonLibraries::Pandas) => PANDAS,
        ProgramDialect::Python(PythonLibraries::Standard) | ProgramDialect::Go => "",
    };
    let functions = signatures(dialect.language(), tools);
    let offer_of = |tool: &ToolSpec| {
        let mut offer = tool.offer();
        offer.description = format!(
            "{} {language_rules}{libraries}\n{functions}",
            offer.description
        );
        offer
    };
    PROGRAMS.iter().map(offer_of).collect()
}
