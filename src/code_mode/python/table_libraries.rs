//! Restricts how programs use APIs of the table libraries that can open files: readers take
//! in-memory files, writers return strings, and functions given by name get no arguments. This
//! saves a model a failed run; a program's values cannot be known from its source, so the sandbox
//! is the actual boundary.

use tree_sitter::Node;

/// The check that a use needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableUsageCheck {
    /// It opens its first argument, unless that is an in-memory file.
    Reads,
    /// It writes to its first argument, and without one returns a string.
    Writes,
    /// It calls a function given by name, with the arguments that it does not use itself.
    CallsByName,
    /// It calls a function given by name, with the keyword arguments that it does not use itself.
    CallsByKeyword,
    /// It sets an option; some options name modules that are then imported.
    SetsOption,
    /// It is closed; the text says what to do instead.
    Closed(&'static str),
}

/// The problem with a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableUsageFault {
    /// What it does, to follow its name.
    pub(super) does: &'static str,
    /// What to write instead.
    pub(super) instead: &'static str,
}

/// The advice for methods that write files.
const NO_FILES: &str =
    "make a text by `to_csv()` or `to_json()`, and write it by `workspace_tools.write_file`";
/// The advice for methods that run strings as code.
const NO_TEXTS: &str = "select by values: `table[table[\"x\"] > 1]`";
/// The advice for methods that draw.
const NO_PICTURES: &str = "write the values themselves";

/// Closed methods, grouped by advice.
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

/// Methods that return a string.
const GIVING: &[&str] = &["to_csv", "to_html", "to_json", "to_markdown", "to_string"];
/// The name of their first parameter.
const TARGETS: &[&str] = &["buf", "path_or_buf"];

/// Keyword arguments, other than the function, of methods that take functions.
const OF_FUNCTIONS: &[&str] = &["axis", "by_row", "convert_dtype", "raw", "result_type"];
/// Keyword arguments of pivot tables.
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
/// Keyword arguments through which methods take functions, or pass arguments to them.
const FUNCTION_KEYWORDS: &[&str] = &["arg", "args", "engine", "engine_kwargs", "func", "kwargs"];

/// The prefix of options that affect only what is printed.
const DISPLAY: &str = "display.";

/// Returns the check that a member of a module needs.
pub(super) fn function_check(module: &str, member: &str) -> Option<TableUsageCheck> {
    match (module, member) {
        ("pandas", "read_csv" | "read_fwf" | "read_json" | "read_table")
        | ("numpy", "genfromtxt" | "loadtxt") => Some(TableUsageCheck::Reads),
        ("pandas", "set_option") => Some(TableUsageCheck::SetsOption),
        ("pandas", "pivot_table") => Some(TableUsageCheck::CallsByKeyword),
        _ => None,
    }
}

/// Returns the check that an attribute of any value needs.
pub(super) fn method_check(name: &str) -> Option<TableUsageCheck> {
    let closed = CLOSED.iter().find(|(_, names)| names.contains(&name));
    match name {
        _ if GIVING.contains(&name) => Some(TableUsageCheck::Writes),
        "agg" | "aggregate" | "apply" | "transform" => Some(TableUsageCheck::CallsByName),
        "pivot_table" => Some(TableUsageCheck::CallsByKeyword),
        _ => closed.map(|(instead, _)| TableUsageCheck::Closed(instead)),
    }
}

/// Returns the problem with a use: a call if `arguments` is given, otherwise a value. `is_buffer`
/// returns whether an expression creates an in-memory file.
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

/// The arguments of a call.
#[derive(Debug)]
pub(super) struct PythonCallArguments<'t, 'p> {
    positional: Vec<Node<'t>>,
    /// The names of the keyword arguments.
    keywords: Vec<&'p str>,
    /// The content of the first argument, if it is a plain string literal.
    literal: Option<&'p str>,
    /// Whether a list or a mapping is unpacked into arguments (`*` or `**`).
    has_splat: bool,
}

impl<'t, 'p> PythonCallArguments<'t, 'p> {
    /// Collects the arguments of `call`; `text` and `literal` read nodes.
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

    /// Returns the first positional argument, unless unpacked arguments could precede it.
    fn first(&self) -> Option<Node<'t>> {
        self.positional.first().copied().filter(|_| !self.has_splat)
    }

    fn has_no_target(&self) -> bool {
        let is_target = |name: &&str| TARGETS.contains(name);
        self.positional.is_empty() && !self.has_splat && !self.keywords.iter().any(is_target)
    }

    /// Returns whether a function given by name would get nothing but its data.
    fn has_only_function(&self) -> bool {
        let is_known = |name: &&str| OF_FUNCTIONS.contains(name);
        let passes_on = |name: &&str| FUNCTION_KEYWORDS.contains(name);
        match self.positional.as_slice() {
            _ if self.has_splat => false,
            // Each keyword names a column and gives a function for it.
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
