//! Names that open files, start processes or run strings without a forbidden import, each with the
//! advice that the model reads.

/// The advice for anything that opens files.
pub(super) const FILE_ADVICE: &str =
    "use `workspace_tools.read_text_file` and `workspace_tools.write_file`";
/// The advice for anything that starts processes.
pub(in crate::code_mode) const COMMAND_ADVICE: &str = "use `workspace_tools.execute_command`";
/// The advice for anything that runs strings as code.
pub(super) const EVAL_ADVICE: &str =
    "write the code itself, or take data apart with `json` or `ast.literal_eval`";
/// The advice for anything that waits for a person.
const INPUT_ADVICE: &str = "write the values into the program: it has no input";
/// The advice for names that a program has no use for.
pub(super) const INTERNAL_ADVICE: &str = "files are reached by `workspace_tools` alone";
/// The advice for functions that read tables from files.
const TABLE_READ_ADVICE: &str =
    "read the text by `workspace_tools.read_text_file(path)`, and give `io.StringIO(text)`";
/// The advice for methods that write tables to files.
const TABLE_WRITE_ADVICE: &str = "make a text by `to_csv()` or `to_json()` without a path, and write it by \
                           `workspace_tools.write_file`";

/// Forbidden built-in names.
const NAMES: &[(&str, &str)] = &[
    ("__builtins__", INTERNAL_ADVICE),
    ("__import__", EVAL_ADVICE),
    ("breakpoint", INPUT_ADVICE),
    ("compile", EVAL_ADVICE),
    ("eval", EVAL_ADVICE),
    ("exec", EVAL_ADVICE),
    ("input", INPUT_ADVICE),
    ("open", FILE_ADVICE),
];

/// Forbidden members of modules.
const MEMBERS: &[(&str, &str)] = &[
    ("concurrent.futures.ProcessPoolExecutor", COMMAND_ADVICE),
    ("io.FileIO", FILE_ADVICE),
    ("io.open", FILE_ADVICE),
    ("io.open_code", FILE_ADVICE),
    ("numpy.ctypeslib", INTERNAL_ADVICE),
    ("numpy.f2py", INTERNAL_ADVICE),
    ("pandas.eval", EVAL_ADVICE),
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

/// Returns the advice for a forbidden built-in name.
pub(super) fn name_advice(name: &str) -> Option<&'static str> {
    find(NAMES, name)
}

/// Returns the advice for a forbidden member of a module, by its full dotted name.
pub(super) fn member_advice(name: &str) -> Option<&'static str> {
    find(MEMBERS, name)
}

/// Returns the advice for a function, by its full dotted name, that opens the file that its first
/// argument names.
pub(super) fn function_advice(name: &str) -> Option<&'static str> {
    let (module, function) = name.rsplit_once('.')?;
    match module {
        "numpy" if NUMPY_READERS.contains(&function) => Some(TABLE_READ_ADVICE),
        "numpy" if NUMPY_WRITERS.contains(&function) => Some(FILE_ADVICE),
        "pandas" if function.starts_with("read_") => Some(TABLE_READ_ADVICE),
        _ => None,
    }
}

/// Returns the advice for a method that writes to the file that its first argument names.
pub(super) fn method_advice(name: &str) -> Option<&'static str> {
    METHODS.contains(&name).then_some(TABLE_WRITE_ADVICE)
}

fn find(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let entry = list.iter().find(|(forbidden, _)| *forbidden == name);
    entry.map(|(_, advice)| *advice)
}
