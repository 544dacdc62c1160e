//! The modules that Python programs may import: those for data work, and the package. What a
//! program needs beyond them is in the package.

use crate::code_mode::TOOLS_PACKAGE;
use crate::code_mode::language::PythonLibraries;
use crate::code_mode::python::forbidden_names::{COMMAND_ADVICE, EVAL_ADVICE, FILE_ADVICE};

/// The advice for modules of the network.
const NETWORK_ADVICE: &str = "programs have no network";
/// The advice for modules that are not listed.
const IMPORT_ADVICE: &str = "use the modules for data (`json`, `csv`, `re`, `math`, `datetime`, \
                              `collections`, …); what touches files is in `workspace_tools`";

/// The modules of the standard library.
#[rustfmt::skip]
const MODULES: &[&str] = &[
    "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "calendar", "cmath",
    "collections", "collections.abc", "colorsys", "concurrent.futures", "contextlib", "copy", "csv",
    "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions", "functools",
    "graphlib", "hashlib", "heapq", "hmac", "html", "html.parser", "io", "itertools", "json", "math",
    "numbers", "operator", "pprint", "queue", "random", "re", "secrets", "statistics", "string",
    "struct", "textwrap", "threading", "time", "typing", "unicodedata", "urllib.parse", "uuid",
];

/// Returns whether programs with these libraries may import a module.
pub(super) fn is_importable(libraries: PythonLibraries, module: &str) -> bool {
    match module.split('.').next() {
        Some("numpy") => libraries >= PythonLibraries::Numpy,
        Some("pandas") => libraries >= PythonLibraries::Pandas,
        _ => MODULES.contains(&module) || module == TOOLS_PACKAGE,
    }
}

/// Returns the advice for a module that programs may not import.
pub(super) fn import_advice(module: &str) -> &'static str {
    match module.split('.').next().unwrap_or(module) {
        "os" | "io" | "pathlib" | "shutil" | "tempfile" | "glob" | "fileinput" | "codecs"
        | "zipfile" | "tarfile" | "sqlite3" | "dbm" | "shelve" | "mmap" | "fcntl" => FILE_ADVICE,
        "subprocess" | "pty" | "multiprocessing" | "signal" | "posix" | "commands" => {
            COMMAND_ADVICE
        }
        "socket" | "urllib" | "http" | "ssl" | "asyncio" | "requests" | "ftplib" | "smtplib"
        | "selectors" | "select" | "socketserver" | "xmlrpc" => NETWORK_ADVICE,
        "importlib" | "runpy" | "code" | "codeop" | "pickle" | "marshal" | "imp" | "zipimport"
        | "pkgutil" | "timeit" | "doctest" => EVAL_ADVICE,
        _ => IMPORT_ADVICE,
    }
}
