//! Checks Go programs on the syntax tree: they import only packages for data work, and call nothing
//! that opens files. This tells a model early what cannot work; it does not look for ways around
//! it.

use tree_sitter::Node;

use crate::code_mode::TOOLS_PACKAGE;
use crate::code_mode::lint::{LintFinding, LintRefusal, excerpt};
use crate::code_mode::source::{NodeWithParent, ProgramSource};

/// The advice for anything that opens files.
const FILE_ADVICE: &str = "use `workspace_tools.ReadTextFile` and `workspace_tools.WriteFile`";
/// The advice for anything that reaches other processes or code outside the program.
pub(super) const COMMAND_ADVICE: &str = "use `workspace_tools.ExecuteCommand`";
/// The advice for packages of the network.
const NETWORK_ADVICE: &str = "programs have no network";
/// The advice for anything that bypasses the type system.
const UNSAFE_ADVICE: &str = "work with values; files are reached by `workspace_tools` alone";
/// The advice for packages that are not listed.
const IMPORT_ADVICE: &str = "use the packages for data (`strings`, `encoding/json`, \
                               `encoding/csv`, `sort`, `regexp`, …); what touches files is in \
                               `workspace_tools`";

/// The packages that programs may import besides `workspace_tools`.
#[rustfmt::skip]
const ALLOWED_PACKAGES: &[&str] = &[
    "bufio", "bytes", "cmp", "container/heap", "container/list", "container/ring", "context",
    "crypto/md5", "crypto/sha1", "crypto/sha256", "crypto/sha512", "encoding/base64",
    "encoding/binary", "encoding/csv", "encoding/hex", "encoding/json", "encoding/xml", "errors",
    "fmt", "hash/crc32", "hash/fnv", "html", "html/template", "io", "iter", "maps", "math",
    "math/big", "math/bits", "math/cmplx", "math/rand", "net/url", "path", "regexp", "slices",
    "sort", "strconv", "strings", "sync", "sync/atomic", "text/tabwriter", "text/template", "time",
    "unicode", "unicode/utf16", "unicode/utf8",
];

/// Functions and methods of templates that read files.
const FILE_METHODS: &[&str] = &["ParseFS", "ParseFiles", "ParseGlob"];

/// Checks a program.
pub(super) fn lint_go(program: &str) -> Result<(), LintRefusal> {
    let source = ProgramSource::parse(program, &tree_sitter_go::LANGUAGE.into())?;
    let nodes = source.nodes();
    // The parents are there for the checks of Python; a node of Go is judged by itself.
    let check = |entry: &NodeWithParent<'_>| check_node(&source, entry.node);
    let findings: Vec<LintFinding> = nodes.iter().filter_map(check).collect();
    if findings.is_empty() {
        Ok(())
    } else {
        Err(LintRefusal { findings })
    }
}

/// Returns the finding about a node, if there is one.
fn check_node(source: &ProgramSource<'_>, node: Node<'_>) -> Option<LintFinding> {
    match node.kind() {
        "package_clause" => {
            let name = source.text(node.named_child(0)?);
            let problem = format!("the package is called {}", excerpt(name));
            (name != "main").then(|| LintFinding::at_node(node, problem, "write `package main`"))
        }
        "import_spec" => {
            let literal = node.child_by_field_name("path")?;
            let path = source.text(literal).trim_matches(['"', '`']);
            let problem = format!("the package {} is not allowed", excerpt(path));
            let is_listed = ALLOWED_PACKAGES.contains(&path) || path == TOOLS_PACKAGE;
            (!is_listed).then(|| LintFinding::at_node(literal, problem, import_advice(path)))
        }
        "selector_expression" => {
            let field = node.child_by_field_name("field")?;
            let problem = format!("{} is not allowed", excerpt(source.text(node)));
            let is_file_method = FILE_METHODS.contains(&source.text(field));
            is_file_method.then(|| LintFinding::at_node(field, problem, FILE_ADVICE))
        }
        _ => None,
    }
}

/// Returns the advice for a package that programs may not import.
fn import_advice(path: &str) -> &'static str {
    match path {
        "os" | "io/fs" | "io/ioutil" | "path/filepath" | "embed" | "archive/zip"
        | "archive/tar" | "debug/elf" => FILE_ADVICE,
        "os/exec" | "os/signal" | "plugin" | "syscall" => COMMAND_ADVICE,
        "unsafe" | "reflect" | "runtime" | "runtime/debug" | "C" => UNSAFE_ADVICE,
        _ if path == "net" || path.starts_with("net/") => NETWORK_ADVICE,
        _ => IMPORT_ADVICE,
    }
}
