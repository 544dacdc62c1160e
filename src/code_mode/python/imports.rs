//! Collects the imports of a Python program: listed modules, under names that refer to one thing
//! each.

use std::collections::BTreeMap;

use tree_sitter::Node;

use crate::code_mode::language::PythonLibraries;
use crate::code_mode::lint::{LintFinding, excerpt};
use crate::code_mode::python::attributes::member_objection;
use crate::code_mode::python::modules::{find_module, is_module};
use crate::code_mode::python::names::{COMMANDS, FILES, MODULES_LISTED, NETWORK, TEXTS};
use crate::code_mode::python::table_libraries;
use crate::code_mode::source::{NodeWithParent, ProgramSource};

/// The module with the classes for in-memory files.
const BUFFERS: &str = "io";

/// The names that a program's imports bind.
#[derive(Debug)]
pub(super) struct ImportBindings<'p> {
    libraries: PythonLibraries,
    /// What each name refers to.
    bound: BTreeMap<&'p str, ImportBinding<'p>>,
    has_tables: bool,
    findings: Vec<LintFinding>,
}

/// What a name refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ImportBinding<'p> {
    /// A module.
    Module(&'p str),
    /// A member of a module, by its full dotted name.
    Member(String),
}

impl ImportBinding<'_> {
    /// Returns the full dotted name.
    fn full_name(&self) -> &str {
        match self {
            ImportBinding::Module(whole) => whole,
            ImportBinding::Member(whole) => whole,
        }
    }
}

impl<'p> ImportBindings<'p> {
    /// Collects the imports among `nodes`, and the findings about them.
    pub(super) fn collect(
        source: &ProgramSource<'p>,
        nodes: &[NodeWithParent<'_>],
        libraries: PythonLibraries,
    ) -> (Self, Vec<LintFinding>) {
        let mut imports = Self {
            libraries,
            bound: BTreeMap::new(),
            has_tables: false,
            findings: Vec::new(),
        };
        for NodeWithParent { node, .. } in nodes {
            match node.kind() {
                "import_statement" => {
                    let mut cursor = node.walk();
                    for name in node.children_by_field_name("name", &mut cursor) {
                        imports.check_module(source, name);
                    }
                }
                "import_from_statement" => imports.check_members(source, *node),
                _ => {}
            }
        }
        let findings = std::mem::take(&mut imports.findings);
        (imports, findings)
    }

    /// Returns the additional libraries that the program may import.
    pub(super) fn libraries(&self) -> PythonLibraries {
        self.libraries
    }

    /// Returns the module that a name refers to.
    pub(super) fn module_named(&self, name: &str) -> Option<&'p str> {
        match self.bound.get(name)? {
            ImportBinding::Module(module) => Some(module),
            ImportBinding::Member(_) => None,
        }
    }

    /// Returns whether one of the imports is from a table library.
    pub(super) fn have_tables(&self) -> bool {
        self.has_tables
    }

    /// Returns whether a name refers to a class for in-memory files.
    pub(super) fn is_buffer_class(&self, name: &str) -> bool {
        matches!(self.bound.get(name), Some(ImportBinding::Member(whole)) if is_buffer(whole))
    }

    fn check_module(&mut self, source: &ProgramSource<'p>, node: Node<'_>) {
        let name = node.child_by_field_name("name").unwrap_or(node);
        let module = source.text(name);
        self.check_importable(name, module);
        let first = module.split('.').next().unwrap_or(module);
        let alias = node.child_by_field_name("alias");
        let (bound, stands_for) =
            alias.map_or((first, first), |alias| (source.text(alias), module));
        self.bind(node, bound, ImportBinding::Module(stands_for));
    }

    fn check_members(&mut self, source: &ProgramSource<'p>, node: Node<'_>) {
        let Some(from) = node.child_by_field_name("module_name") else {
            return;
        };
        let module = source.text(from);
        if !self.check_importable(from, module) {
            return;
        }
        let mut cursor = node.walk();
        for part in node.children(&mut cursor) {
            if part.kind() == "wildcard_import" {
                let message = "`import *` hides what is imported";
                self.refuse(part, message, "name what you use");
            }
        }
        let mut cursor = node.walk();
        for part in node.children_by_field_name("name", &mut cursor) {
            let name = part.child_by_field_name("name").unwrap_or(part);
            let bound = part.child_by_field_name("alias").unwrap_or(name);
            let inner = format!("{module}.{}", source.text(name));
            if is_module(self.libraries, &inner) {
                let message = format!("{} is a module", excerpt(&inner));
                self.refuse(bound, message, &format!("write `import {inner}`"));
            } else if let Some(wrong) = member_objection(self.libraries, module, source.text(name))
            {
                self.refuse(name, wrong.found, wrong.instead);
            } else if table_libraries::function_check(module, source.text(name)).is_some() {
                let message = format!("{} is imported by its name", excerpt(&inner));
                let instead = format!("write `import {module}`, and `{inner}(…)`");
                self.refuse(name, message, &instead);
            }
            self.bind(bound, source.text(bound), ImportBinding::Member(inner));
        }
    }

    /// Records what a name refers to. A second meaning is refused, because each use is judged by
    /// a single one.
    fn bind(&mut self, node: Node<'_>, bound: &'p str, now: ImportBinding<'p>) {
        let before = self.bound.get(bound).filter(|before| **before != now);
        if let Some(before) = before {
            let message = format!(
                "{} stands for {} and for {}",
                excerpt(bound),
                excerpt(before.full_name()),
                excerpt(now.full_name())
            );
            self.refuse(node, message, "give each import a name of its own");
        }
        self.bound.insert(bound, now);
    }

    /// Returns whether a module may be imported, and adds a finding if not.
    fn check_importable(&mut self, node: Node<'_>, module: &str) -> bool {
        if let Some(found) = find_module(self.libraries, module) {
            self.has_tables |= found.library != PythonLibraries::Standard;
            return true;
        }
        let first = module.split('.').next().unwrap_or(module);
        let instead = match first {
            "os" | "io" | "pathlib" | "shutil" | "tempfile" | "glob" | "fileinput" | "codecs"
            | "zipfile" | "tarfile" | "sqlite3" | "dbm" | "shelve" | "mmap" | "fcntl" => FILES,
            "subprocess" | "pty" | "multiprocessing" | "signal" | "posix" | "commands" => COMMANDS,
            "socket" | "urllib" | "http" | "ssl" | "asyncio" | "requests" | "ftplib"
            | "smtplib" | "selectors" | "select" | "socketserver" | "xmlrpc" => NETWORK,
            "importlib" | "runpy" | "code" | "codeop" | "pickle" | "marshal" | "imp"
            | "zipimport" | "pkgutil" | "timeit" | "doctest" => TEXTS,
            _ => MODULES_LISTED,
        };
        let message = format!("the module {} is not open to programs", excerpt(module));
        self.refuse(node, message, instead);
        false
    }

    fn refuse(&mut self, node: Node<'_>, found: impl Into<String>, instead: &str) {
        self.findings
            .push(LintFinding::at_node(node, found, instead));
    }
}

/// Returns whether a full dotted name is a class for in-memory files.
pub(super) fn is_buffer(whole: &str) -> bool {
    let parts = whole.split_once('.');
    parts.is_some_and(|(module, _)| module == BUFFERS)
}
