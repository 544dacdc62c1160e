//! The modules that Python programs may import, and which of their members are closed. A module is
//! listed if data work needs it and nothing in it opens files, starts processes, reaches the
//! network or runs a string as code; single members that do are closed.

use crate::code_mode::PACKAGE;
use crate::code_mode::language::PythonLibraries;
use crate::code_mode::python::libraries::{FFT, LINALG, NUMPY, PANDAS, RANDOM, TYPES};

/// A module that programs may import.
#[derive(Debug)]
pub(super) struct AllowedModule {
    /// Its full dotted name.
    pub(super) name: &'static str,
    members: ModuleMembers,
    /// The smallest set of libraries that includes it.
    pub(super) library: PythonLibraries,
}

/// The open members of a module. Names that begin with `_` never are.
#[derive(Debug)]
enum ModuleMembers {
    All,
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

use ModuleMembers::{All, AllBut, Only};

const fn module(name: &'static str, members: ModuleMembers) -> AllowedModule {
    library_module(PythonLibraries::Standard, name, members)
}

const fn library_module(
    library: PythonLibraries,
    name: &'static str,
    members: ModuleMembers,
) -> AllowedModule {
    AllowedModule {
        name,
        members,
        library,
    }
}

/// The modules, by name.
const MODULES: &[AllowedModule] = &[
    module("__future__", All),
    module("abc", All),
    module("array", All),
    module("ast", Only(&["literal_eval"])),
    module("base64", AllBut(&["main", "test"])),
    module("binascii", All),
    module("bisect", All),
    module("calendar", AllBut(&["main"])),
    module("cmath", All),
    module("collections", All),
    module("collections.abc", All),
    module("colorsys", All),
    // It starts processes.
    module(
        "concurrent.futures",
        AllBut(&["ProcessPoolExecutor", "process"]),
    ),
    module("contextlib", All),
    module("copy", All),
    module("csv", All),
    // It builds code from its arguments and runs it.
    module("dataclasses", AllBut(&["make_dataclass"])),
    module("datetime", All),
    module("decimal", All),
    module("difflib", All),
    module("enum", All),
    module("fnmatch", All),
    module("fractions", All),
    // They run annotations as code.
    module(
        "functools",
        AllBut(&["singledispatch", "singledispatchmethod"]),
    ),
    module("graphlib", All),
    module("hashlib", All),
    module("heapq", All),
    module("hmac", All),
    module("html", All),
    module("html.parser", All),
    module("io", Only(&["BytesIO", "StringIO"])),
    module("itertools", All),
    module("json", All),
    module("math", All),
    module("numbers", All),
    library_module(PythonLibraries::Numpy, "numpy", Only(NUMPY)),
    library_module(PythonLibraries::Numpy, "numpy.fft", Only(FFT)),
    library_module(PythonLibraries::Numpy, "numpy.linalg", Only(LINALG)),
    library_module(PythonLibraries::Numpy, "numpy.random", Only(RANDOM)),
    // They access attributes by name.
    module("operator", AllBut(&["attrgetter", "methodcaller"])),
    library_module(PythonLibraries::Pandas, "pandas", Only(PANDAS)),
    library_module(PythonLibraries::Pandas, "pandas.api.types", Only(TYPES)),
    module("pprint", All),
    module("queue", All),
    module("random", All),
    module("re", All),
    module("secrets", All),
    module("statistics", All),
    // It accesses attributes by name.
    module("string", AllBut(&["Formatter"])),
    module("struct", All),
    module("textwrap", All),
    module("threading", AllBut(&["setprofile", "settrace"])),
    module("time", All),
    // They run annotations as code.
    module(
        "typing",
        AllBut(&["ForwardRef", "evaluate_forward_ref", "get_type_hints"]),
    ),
    module("unicodedata", All),
    module("urllib.parse", All),
    module(
        "uuid",
        Only(&[
            "NAMESPACE_DNS",
            "NAMESPACE_OID",
            "NAMESPACE_URL",
            "NAMESPACE_X500",
            "UUID",
            "uuid3",
            "uuid4",
            "uuid5",
        ]),
    ),
    module(PACKAGE, All),
];

/// Returns the modules that programs with these libraries may import.
fn importable_modules(libraries: PythonLibraries) -> impl Iterator<Item = &'static AllowedModule> {
    let is_open = move |module: &&AllowedModule| module.library <= libraries;
    MODULES.iter().filter(is_open)
}

/// Returns the module of this name, if programs with these libraries may import it.
pub(super) fn find_module(
    libraries: PythonLibraries,
    name: &str,
) -> Option<&'static AllowedModule> {
    importable_modules(libraries).find(|module| module.name == name)
}

/// Returns whether this is such a module, or a package that contains one.
pub(super) fn is_module(libraries: PythonLibraries, name: &str) -> bool {
    importable_modules(libraries).any(|module| {
        let inside = module.name.strip_prefix(name);
        inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('.'))
    })
}

impl AllowedModule {
    /// Returns whether a member is open.
    pub(super) fn has_open_member(&self, member: &str) -> bool {
        match self.members {
            All => true,
            Only(open) => open.contains(&member),
            AllBut(closed) => !closed.contains(&member),
        }
    }
}
