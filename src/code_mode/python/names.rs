//! Names with a meaning for the checks of Python programs: those that are closed, those that lead
//! to the internals of objects, those that are open although they look similar, and the advice for
//! each.

/// The advice for anything that opens files.
pub(super) const FILES: &str =
    "use `workspace_tools.read_text_file` and `workspace_tools.write_file`";
/// The advice for anything that starts processes.
pub(in crate::code_mode) const COMMANDS: &str = "use `workspace_tools.execute_command`";
/// The advice for anything that runs strings as code.
pub(super) const TEXTS: &str =
    "write the code itself, or take data apart with `json` or `ast.literal_eval`";
/// The advice for walks along attributes.
pub(super) const WALKS: &str = "work with values; files are reached by `workspace_tools` alone";
/// The message about the network.
pub(super) const NETWORK: &str = "programs have no network";
/// The advice for modules that are not listed.
pub(super) const MODULES_LISTED: &str = "use the modules for data (`json`, `csv`, `re`, `math`, `datetime`, \
                              `collections`, …); what touches files is in `workspace_tools`";

/// Built-in names that are closed, with the advice for each.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("breakpoint", WALKS),
    ("compile", TEXTS),
    ("eval", TEXTS),
    ("exec", TEXTS),
    ("execfile", TEXTS),
    ("globals", WALKS),
    ("help", WALKS),
    ("input", "write the values into the program: nobody types"),
    ("locals", WALKS),
    ("open", FILES),
    ("vars", WALKS),
];

/// Functions that take the name of an attribute as a string.
pub(super) const BY_NAME: &[&str] = &["delattr", "getattr", "hasattr", "setattr"];

/// Attributes that lead from objects to frames, code and classes.
pub(super) const LEADING_AWAY: &[&str] = &[
    "ag_code",
    "ag_frame",
    "co_code",
    "co_consts",
    "cr_code",
    "cr_frame",
    "f_back",
    "f_builtins",
    "f_code",
    "f_globals",
    "f_locals",
    "func_code",
    "func_globals",
    "gi_code",
    "gi_frame",
    "gi_yieldfrom",
    "mro",
    "tb_frame",
    "tb_next",
];

/// Modules that other modules hold as attributes.
pub(super) const HELD: &[&str] = &[
    "builtins",
    "codecs",
    "ctypes",
    "gc",
    "importlib",
    "inspect",
    "io",
    "linecache",
    "multiprocessing",
    "os",
    "pathlib",
    "posix",
    "pty",
    "shutil",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
];

/// Names with two underscores on both sides that give access to nothing else: those of methods that
/// a class may define.
pub(super) const PLAIN: &[&str] = &[
    "__abs__",
    "__add__",
    "__all__",
    "__and__",
    "__author__",
    "__bool__",
    "__call__",
    "__contains__",
    "__delitem__",
    "__divmod__",
    "__doc__",
    "__enter__",
    "__eq__",
    "__exit__",
    "__float__",
    "__floordiv__",
    "__format__",
    "__future__",
    "__ge__",
    "__getitem__",
    "__gt__",
    "__hash__",
    "__iadd__",
    "__imul__",
    "__index__",
    "__init__",
    "__int__",
    "__invert__",
    "__isub__",
    "__iter__",
    "__le__",
    "__len__",
    "__lt__",
    "__main__",
    "__matmul__",
    "__missing__",
    "__mod__",
    "__mul__",
    "__name__",
    "__ne__",
    "__neg__",
    "__next__",
    "__or__",
    "__pos__",
    "__post_init__",
    "__pow__",
    "__radd__",
    "__repr__",
    "__reversed__",
    "__rmul__",
    "__round__",
    "__rsub__",
    "__rtruediv__",
    "__setitem__",
    "__slots__",
    "__str__",
    "__sub__",
    "__truediv__",
    "__version__",
    "__xor__",
];

/// Public attributes that begin with `_`: those of named tuples.
pub(super) const PUBLIC: &[&str] = &["_asdict", "_fields", "_field_defaults", "_make", "_replace"];
