//! What opens files, starts processes or runs strings without an import that is refused, with the
//! advice for each.

/// The advice for anything that opens files.
pub(super) const FILES: &str =
    "use `workspace_tools.read_text_file` and `workspace_tools.write_file`";
/// The advice for anything that starts processes.
pub(in crate::code_mode) const COMMANDS: &str = "use `workspace_tools.execute_command`";
/// The advice for anything that runs strings as code.
pub(super) const TEXTS: &str =
    "write the code itself, or take data apart with `json` or `ast.literal_eval`";
/// The advice for anything that waits for a person.
const NO_INPUT: &str = "write the values into the program: it has no input";
/// The advice for what a program has no use for.
pub(super) const INTERNAL: &str = "files are reached by `workspace_tools` alone";
/// The advice for functions that read tables from files.
const READ_TABLE: &str =
    "read the text by `workspace_tools.read_text_file(path)`, and give `io.StringIO(text)`";
/// The advice for methods that write tables to files.
const WRITE_TABLE: &str = "make a text by `to_csv()` or `to_json()` without a path, and write it by \
                           `workspace_tools.write_file`";

/// Closed built-in names.
const NAMES: &[(&str, &str)] = &[
    ("__builtins__", INTERNAL),
    ("__import__", TEXTS),
    ("breakpoint", NO_INPUT),
    ("compile", TEXTS),
    ("eval", TEXTS),
    ("exec", TEXTS),
    ("input", NO_INPUT),
    ("open", FILES),
];

/// Closed members of modules.
const MEMBERS: &[(&str, &str)] = &[
    ("concurrent.futures.ProcessPoolExecutor", COMMANDS),
    ("io.FileIO", FILES),
    ("io.open", FILES),
    ("io.open_code", FILES),
    ("numpy.ctypeslib", INTERNAL),
    ("numpy.f2py", INTERNAL),
    ("pandas.eval", TEXTS),
];

/// Functions of `numpy` that read the file that their first argument names.
const NUMPY_READERS: &[&str] = &["fromfile", "genfromtxt", "load", "loadtxt"];

/// Functions of `numpy` that write to the file that their first argument names.
const NUMPY_WRITERS: &[&str] = &["memmap", "save", "savetxt", "savez", "savez_compressed"];

/// Methods of tables and arrays that write to the file that their first argument names.
const METHODS: &[&str] = &[
    "to_csv",
    "to_excel",
    "to_feather",
    "to_html",
    "to_json",
    "to_latex",
    "to_markdown",
    "to_orc",
    "to_parquet",
    "to_pickle",
    "to_stata",
    "to_string",
    "to_xml",
    "tofile",
];

/// Returns the advice for a closed built-in name.
pub(super) fn name_advice(name: &str) -> Option<&'static str> {
    find(NAMES, name)
}

/// Returns the advice for a closed member of a module, by its full dotted name.
pub(super) fn member_advice(name: &str) -> Option<&'static str> {
    find(MEMBERS, name)
}

/// Returns the advice for a function, by its full dotted name, that opens the file that its first
/// argument names.
pub(super) fn function_advice(name: &str) -> Option<&'static str> {
    let (module, function) = name.rsplit_once('.')?;
    match module {
        "numpy" if NUMPY_READERS.contains(&function) => Some(READ_TABLE),
        "numpy" if NUMPY_WRITERS.contains(&function) => Some(FILES),
        "pandas" if function.starts_with("read_") => Some(READ_TABLE),
        _ => None,
    }
}

/// Returns the advice for a method that writes to the file that its first argument names.
pub(super) fn method_advice(name: &str) -> Option<&'static str> {
    METHODS.contains(&name).then_some(WRITE_TABLE)
}

fn find(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let found = list.iter().find(|(closed, _)| *closed == name);
    found.map(|(_, advice)| *advice)
}
