//! Owns what the imports of a Python program bring: modules that are listed, under names that stand
//! for one thing each.

use std::collections::BTreeMap;

use tree_sitter::Node;

use crate::programs::dialect::Libraries;
use crate::programs::finding::{Finding, excerpt};
use crate::programs::python::members::member;
use crate::programs::python::modules::{find, is_module};
use crate::programs::python::names::{COMMANDS, FILES, MODULES_LISTED, NETWORK, TEXTS};
use crate::programs::python::tables;
use crate::programs::source::{Placed, Source};

/// The module whose classes hold texts and bytes like files.
const BUFFERS: &str = "io";

/// What the imports of a program bind.
#[derive(Debug)]
pub(super) struct Imports<'p> {
    libraries: Libraries,
    /// What names stand for.
    bound: BTreeMap<&'p str, Bound<'p>>,
    has_tables: bool,
    findings: Vec<Finding>,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bound<'p> {
    /// A module.
    Module(&'p str),
    /// A member of one, with all its parts.
    Member(String),
}

impl Bound<'_> {
    /// With all its parts.
    fn whole(&self) -> &str {
        match self {
            Bound::Module(whole) => whole,
            Bound::Member(whole) => whole,
        }
    }
}

impl<'p> Imports<'p> {
    /// Reads those among `nodes`, with what is wrong with them.
    pub(super) fn read(
        source: &Source<'p>,
        nodes: &[Placed<'_>],
        libraries: Libraries,
    ) -> (Self, Vec<Finding>) {
        let mut imports = Self {
            libraries,
            bound: BTreeMap::new(),
            has_tables: false,
            findings: Vec::new(),
        };
        for Placed { node, .. } in nodes {
            match node.kind() {
                "import_statement" => {
                    let mut cursor = node.walk();
                    for name in node.children_by_field_name("name", &mut cursor) {
                        imports.module(source, name);
                    }
                }
                "import_from_statement" => imports.members(source, *node),
                _ => {}
            }
        }
        let findings = std::mem::take(&mut imports.findings);
        (imports, findings)
    }

    /// What the program may import besides.
    pub(super) fn libraries(&self) -> Libraries {
        self.libraries
    }

    /// The module that a name stands for.
    pub(super) fn module_named(&self, name: &str) -> Option<&'p str> {
        match self.bound.get(name)? {
            Bound::Module(module) => Some(module),
            Bound::Member(_) => None,
        }
    }

    /// Whether a library for tables is among them.
    pub(super) fn have_tables(&self) -> bool {
        self.has_tables
    }

    /// Whether a name stands for a class whose values are texts or bytes in memory.
    pub(super) fn bind_buffer(&self, name: &str) -> bool {
        matches!(self.bound.get(name), Some(Bound::Member(whole)) if is_buffer(whole))
    }

    fn module(&mut self, source: &Source<'p>, node: Node<'_>) {
        let name = node.child_by_field_name("name").unwrap_or(node);
        let module = source.text(name);
        self.listed(name, module);
        let first = module.split('.').next().unwrap_or(module);
        let alias = node.child_by_field_name("alias");
        let (bound, stands_for) =
            alias.map_or((first, first), |alias| (source.text(alias), module));
        self.bind(node, bound, Bound::Module(stands_for));
    }

    fn members(&mut self, source: &Source<'p>, node: Node<'_>) {
        let Some(from) = node.child_by_field_name("module_name") else {
            return;
        };
        let module = source.text(from);
        if !self.listed(from, module) {
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
            } else if let Some(wrong) = member(self.libraries, module, source.text(name)) {
                self.refuse(name, wrong.found, wrong.instead);
            } else if tables::of_function(module, source.text(name)).is_some() {
                let message = format!("{} is imported by its name", excerpt(&inner));
                let instead = format!("write `import {module}`, and `{inner}(…)`");
                self.refuse(name, message, &instead);
            }
            self.bind(bound, source.text(bound), Bound::Member(inner));
        }
    }

    /// Takes down what a name stands for, which is one thing: each use is judged by it.
    fn bind(&mut self, node: Node<'_>, bound: &'p str, now: Bound<'p>) {
        let before = self.bound.get(bound).filter(|before| **before != now);
        if let Some(before) = before {
            let message = format!(
                "{} stands for {} and for {}",
                excerpt(bound),
                excerpt(before.whole()),
                excerpt(now.whole())
            );
            self.refuse(node, message, "give each import a name of its own");
        }
        self.bound.insert(bound, now);
    }

    /// Whether a module may be imported; says so if not.
    fn listed(&mut self, node: Node<'_>, module: &str) -> bool {
        if let Some(found) = find(self.libraries, module) {
            self.has_tables |= found.library != Libraries::Standard;
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
        self.findings.push(Finding::at(node, found, instead));
    }
}

/// Whether a member with all its parts is a class of texts or bytes in memory.
pub(super) fn is_buffer(whole: &str) -> bool {
    let parts = whole.split_once('.');
    parts.is_some_and(|(module, _)| module == BUFFERS)
}
