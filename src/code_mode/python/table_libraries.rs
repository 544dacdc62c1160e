//! Owns how programs use what the libraries for tables bring and files could be reached by: readers
//! take texts in memory, writers give texts, and functions that a text names get no arguments. It
//! saves a model time; what values hold cannot be read off a program, so the sandbox is what holds.

use tree_sitter::Node;

/// What has to be looked at where something is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableUsageCheck {
    /// It opens what its first argument names, unless that is a text or bytes in memory.
    Reads,
    /// It writes to what its first argument names, and gives a text without one.
    Writes,
    /// It calls what a text names, with the arguments that it does not take itself.
    CallsByName,
    /// It calls what a text names, with what its keywords hold that it does not take itself.
    CallsByKeyword,
    /// It sets an option, and some options name modules that are imported.
    SetsOption,
    /// It is never used; what to do instead.
    Closed(&'static str),
}

/// What is wrong with a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableUsageFault {
    /// What it does, after its name.
    pub(super) does: &'static str,
    /// What to write instead.
    pub(super) instead: &'static str,
}

/// What is said instead of methods that write files.
const NO_FILES: &str =
    "make a text by `to_csv()` or `to_json()`, and write it by `workspace_tools.write_file`";
/// What is said instead of methods that run texts.
const NO_TEXTS: &str = "select by values: `table[table[\"x\"] > 1]`";
/// What is said instead of methods that draw.
const NO_PICTURES: &str = "write the values themselves";

/// Methods that are never used, by what is said instead.
const CLOSED: &[(&str, &[&str])] = &[
    (
        NO_FILES,
        &[
            "dump",
            "to_clipboard",
            "to_excel",
            "to_feather",
            "to_gbq",
            "to_hdf",
            "to_iceberg",
            "to_latex",
            "to_orc",
            "to_parquet",
            "to_pickle",
            "to_sql",
            "to_stata",
            "to_xml",
            "tofile",
        ],
    ),
    (NO_TEXTS, &["eval", "query"]),
    (NO_PICTURES, &["boxplot", "hist", "plot", "style"]),
    ("work with values", &["cffi"]),
];

/// Methods that give a text.
const GIVING: &[&str] = &["to_csv", "to_html", "to_json", "to_markdown", "to_string"];
/// What their first parameter is called.
const TARGETS: &[&str] = &["buf", "path_or_buf"];

/// What is given to methods that take functions, beside a function.
const OF_FUNCTIONS: &[&str] = &["axis", "by_row", "convert_dtype", "raw", "result_type"];
/// What is given to pivot tables.
const OF_PIVOTS: &[&str] = &[
    "aggfunc",
    "columns",
    "data",
    "dropna",
    "fill_value",
    "index",
    "margins",
    "margins_name",
    "observed",
    "sort",
    "values",
];
/// Keywords by which methods that take functions take them, or arguments for them.
const FUNCTION_KEYWORDS: &[&str] = &["arg", "args", "engine", "engine_kwargs", "func", "kwargs"];

/// Options that change nothing but what is printed begin so.
const DISPLAY: &str = "display.";

/// What has to be looked at in a member of a module.
pub(super) fn function_check(module: &str, member: &str) -> Option<TableUsageCheck> {
    match (module, member) {
        ("pandas", "read_csv" | "read_fwf" | "read_json" | "read_table")
        | ("numpy", "genfromtxt" | "loadtxt") => Some(TableUsageCheck::Reads),
        ("pandas", "set_option") => Some(TableUsageCheck::SetsOption),
        ("pandas", "pivot_table") => Some(TableUsageCheck::CallsByKeyword),
        _ => None,
    }
}

/// What has to be looked at in an attribute of any value.
pub(super) fn method_check(name: &str) -> Option<TableUsageCheck> {
    let closed = CLOSED.iter().find(|(_, names)| names.contains(&name));
    match name {
        _ if GIVING.contains(&name) => Some(TableUsageCheck::Writes),
        "agg" | "aggregate" | "apply" | "transform" => Some(TableUsageCheck::CallsByName),
        "pivot_table" => Some(TableUsageCheck::CallsByKeyword),
        _ => closed.map(|(instead, _)| TableUsageCheck::Closed(instead)),
    }
}

/// What is wrong with a use: with `arguments` where it is called, as a value without. `is_buffer`
/// tells what makes a text or bytes in memory.
pub(super) fn usage_fault<'t>(
    care: TableUsageCheck,
    arguments: Option<&PythonCallArguments<'t, '_>>,
    is_buffer: impl Fn(Node<'t>) -> bool,
) -> Option<TableUsageFault> {
    let (is_fine, does, instead) = match care {
        TableUsageCheck::Reads => (
            arguments.is_some_and(|given| given.first().is_some_and(is_buffer)),
            "opens what it is given",
            "write `io.StringIO(…)` of a text where it is called, as its first argument: \
             `pandas.read_csv(io.StringIO(workspace_tools.read_text_file(path)))`",
        ),
        TableUsageCheck::Writes => (
            arguments.is_some_and(PythonCallArguments::has_no_target),
            "writes to what it is given",
            "call it without a path, and write the text by `workspace_tools.write_file`",
        ),
        TableUsageCheck::CallsByName => (
            arguments.is_some_and(PythonCallArguments::has_only_function),
            "calls what a text names, with arguments",
            "write a `lambda` that gives them",
        ),
        TableUsageCheck::CallsByKeyword => (
            arguments.is_some_and(PythonCallArguments::has_pivot_names),
            "calls what a text names, with arguments",
            "write a `lambda` that gives them",
        ),
        TableUsageCheck::SetsOption => (
            arguments.is_some_and(PythonCallArguments::sets_display_option),
            "sets more than what is printed",
            "set one option at a time, with its name written out: `\"display.max_rows\"`",
        ),
        TableUsageCheck::Closed(instead) => (false, "is closed", instead),
    };
    (!is_fine).then_some(TableUsageFault { does, instead })
}

/// What stands in the parentheses of a call.
#[derive(Debug)]
pub(super) struct PythonCallArguments<'t, 'p> {
    positional: Vec<Node<'t>>,
    /// The names of those that are named.
    keywords: Vec<&'p str>,
    /// The content of the first, if it is a plain text.
    literal: Option<&'p str>,
    /// Whether a list or a mapping is taken apart into arguments.
    has_splat: bool,
}

impl<'t, 'p> PythonCallArguments<'t, 'p> {
    /// Those of `call`; `text` and `literal` read nodes.
    pub(super) fn from_call(
        call: Node<'t>,
        text: impl Fn(Node<'t>) -> &'p str,
        literal: impl Fn(Node<'t>) -> Option<&'p str>,
    ) -> Self {
        let mut given = Self {
            positional: Vec::new(),
            keywords: Vec::new(),
            literal: None,
            has_splat: false,
        };
        let Some(list) = call.child_by_field_name("arguments") else {
            return given;
        };
        if list.kind() != "argument_list" {
            given.positional.push(list);
            return given;
        }
        let mut cursor = list.walk();
        for part in list.named_children(&mut cursor) {
            match part.kind() {
                "comment" => {}
                "keyword_argument" => given
                    .keywords
                    .extend(part.child_by_field_name("name").map(&text)),
                "list_splat" | "dictionary_splat" => given.has_splat = true,
                _ => given.positional.push(part),
            }
        }
        given.literal = given.first().and_then(literal);
        given
    }

    /// The first that has no name, unless others may come before it.
    fn first(&self) -> Option<Node<'t>> {
        self.positional.first().copied().filter(|_| !self.has_splat)
    }

    fn has_no_target(&self) -> bool {
        let is_target = |name: &&str| TARGETS.contains(name);
        self.positional.is_empty() && !self.has_splat && !self.keywords.iter().any(is_target)
    }

    /// Whether a function that a text names would get nothing but what it works on.
    fn has_only_function(&self) -> bool {
        let is_known = |name: &&str| OF_FUNCTIONS.contains(name);
        let passes_on = |name: &&str| FUNCTION_KEYWORDS.contains(name);
        match self.positional.as_slice() {
            _ if self.has_splat => false,
            // Each names a column with a function for it.
            [] => !self.keywords.iter().any(passes_on),
            [function, ..] if function.kind() == "lambda" => true,
            [_] => self.keywords.iter().all(is_known),
            _ => false,
        }
    }

    fn has_pivot_names(&self) -> bool {
        let is_known = |name: &&str| OF_PIVOTS.contains(name);
        !self.has_splat && self.keywords.iter().all(is_known)
    }

    fn sets_display_option(&self) -> bool {
        let is_display = self.literal.is_some_and(|name| name.starts_with(DISPLAY));
        is_display && self.positional.len() == 2 && self.keywords.is_empty()
    }
}
