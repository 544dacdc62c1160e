//! Owns what a Python program must not do: it imports what is listed, calls nothing that opens files
//! or runs texts as code, and does not walk from objects to what lies behind them. All of it is read
//! off the tree.

use std::collections::BTreeMap;

use tree_sitter::Node;

use crate::programs::finding::{Finding, Refusal, excerpt};
use crate::programs::python_modules::{find, is_package};
use crate::programs::python_names::{
    BY_NAME, COMMANDS, FILES, HELD, LEADING_AWAY, MODULES_LISTED, NAMES, NETWORK, PLAIN, PUBLIC,
    TEXTS, WALKS,
};
use crate::programs::source::{Placed, Source};

/// How many names lead from a module to one within it at most; a program can chain any number.
const MODULE_DEPTH_MAX: usize = 8;

/// Looks through a program.
pub(super) fn judge(program: &str) -> Result<(), Refusal> {
    let source = Source::parse(program, &tree_sitter_python::LANGUAGE.into())?;
    let nodes = source.nodes();
    let mut reading = Reading {
        source: &source,
        modules: BTreeMap::new(),
        findings: Vec::new(),
    };
    for placed in &nodes {
        reading.import(placed.node);
    }
    for placed in &nodes {
        reading.look(*placed);
    }
    if reading.findings.is_empty() {
        return Ok(());
    }
    reading
        .findings
        .sort_by_key(|finding| (finding.line, finding.column));
    reading
        .findings
        .dedup_by_key(|finding| (finding.line, finding.column));
    Err(Refusal {
        findings: reading.findings,
    })
}

struct Reading<'s, 'p> {
    source: &'s Source<'p>,
    /// What names stand for that imports bind to modules.
    modules: BTreeMap<&'p str, &'p str>,
    findings: Vec<Finding>,
}

impl<'p> Reading<'_, 'p> {
    fn refuse(&mut self, node: Node<'_>, found: impl Into<String>, instead: &str) {
        self.findings.push(Finding::at(node, found, instead));
    }

    fn text(&self, node: Node<'_>) -> &'p str {
        self.source.text(node)
    }

    /// Takes an import: what it names must be listed.
    fn import(&mut self, node: Node<'_>) {
        match node.kind() {
            "import_statement" => {
                let mut cursor = node.walk();
                for name in node.children_by_field_name("name", &mut cursor) {
                    self.import_module(name);
                }
            }
            "import_from_statement" => self.import_from(node),
            _ => {}
        }
    }

    fn import_module(&mut self, node: Node<'_>) {
        let name = node.child_by_field_name("name").unwrap_or(node);
        let module = self.text(name);
        self.listed(name, module);
        let first = module.split('.').next().unwrap_or(module);
        let alias = node.child_by_field_name("alias");
        let (bound, stands_for) =
            alias.map_or((first, first), |alias| (self.source.text(alias), module));
        self.modules.insert(bound, stands_for);
    }

    fn import_from(&mut self, node: Node<'_>) {
        let Some(from) = node.child_by_field_name("module_name") else {
            return;
        };
        let module = self.text(from);
        if !self.listed(from, module) {
            return;
        }
        let mut cursor = node.walk();
        let parts: Vec<Node<'_>> = node.children(&mut cursor).collect();
        for part in parts {
            if part.kind() == "wildcard_import" {
                self.refuse(
                    part,
                    "`import *` hides what is imported",
                    "name what you use",
                );
            }
        }
        let mut cursor = node.walk();
        let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
        for part in names {
            let name = part.child_by_field_name("name").unwrap_or(part);
            let inner = format!("{module}.{}", self.text(name));
            if find(&inner).is_some() {
                let bound = part.child_by_field_name("alias").unwrap_or(name);
                let message = format!("{} is a module", excerpt(&inner));
                let instead = format!("write `import {inner}`");
                self.refuse(bound, message, &instead);
            } else {
                self.member(name, module, self.source.text(name));
            }
        }
    }

    /// Whether a module may be imported; says so if not.
    fn listed(&mut self, node: Node<'_>, module: &str) -> bool {
        if find(module).is_some() {
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

    /// Judges `member` of a listed module.
    fn member(&mut self, node: Node<'_>, module: &str, member: &str) {
        let closed = find(module).is_some_and(|module| !module.opens(member));
        if closed {
            let message = format!("{} is closed", excerpt(&format!("{module}.{member}")));
            self.refuse(node, message, WALKS);
        } else {
            self.attribute_name(node, member, Owner::Other);
        }
    }

    fn look(&mut self, placed: Placed<'_>) {
        let node = placed.node;
        match node.kind() {
            "identifier" => self.identifier(node, role(placed)),
            "attribute" => self.attribute(node, role(placed)),
            "call" => self.call(node),
            "keyword_pattern" => {
                if let Some(name) = node.named_child(0) {
                    self.attribute_name(name, self.source.text(name), Owner::Other);
                }
            }
            "exec_statement" => self.refuse(node, "`exec` runs a text as code", TEXTS),
            "print_statement" => {
                self.refuse(
                    node,
                    "`print` is a function",
                    "write `print(…)`: this is Python 3",
                );
            }
            _ => {}
        }
    }

    fn identifier(&mut self, node: Node<'_>, role: Role) {
        let name = self.text(node);
        if !name.is_ascii() {
            // Python reads such letters as the ASCII ones that they resemble.
            let message = format!("the name {} has letters outside ASCII", excerpt(name));
            self.refuse(node, message, "name it otherwise");
            return;
        }
        if is_special(name) && !PLAIN.contains(&name) {
            let message = format!("{} leads to what lies behind objects", excerpt(name));
            self.refuse(node, message, WALKS);
            return;
        }
        if matches!(role, Role::Attribute | Role::Import) {
            return;
        }
        if self.modules.contains_key(name) && !matches!(role, Role::Object | Role::Keyword) {
            let message = format!("the module {} is used as a value", excerpt(name));
            self.refuse(
                node,
                message,
                "use its members, or name the variable otherwise",
            );
        }
        if role == Role::Keyword {
            return;
        }
        if let Some((_, instead)) = NAMES.iter().find(|(closed, _)| *closed == name) {
            let message = format!("{} is closed", excerpt(name));
            self.refuse(node, message, instead);
        }
        if BY_NAME.contains(&name) && role != Role::Called {
            let message = format!("{} is used as a value", excerpt(name));
            self.refuse(node, message, WALKS);
        }
    }

    fn attribute(&mut self, node: Node<'_>, role: Role) {
        let (Some(object), Some(name)) = (
            node.child_by_field_name("object"),
            node.child_by_field_name("attribute"),
        ) else {
            return;
        };
        let member = self.source.text(name);
        let Some(module) = self.module_of(object) else {
            let own = ["self", "cls"].contains(&self.text(object));
            let owner = if own { Owner::Itself } else { Owner::Other };
            self.attribute_name(name, member, owner);
            return;
        };
        let inner = format!("{module}.{member}");
        let is_module = find(&inner).is_some() || is_package(&inner);
        if is_module {
            if role != Role::Object {
                let message = format!("the module {} is used as a value", excerpt(&inner));
                self.refuse(node, message, "use its members");
            }
        } else if find(&module).is_none() {
            let message = format!("{} is not open to programs", excerpt(&inner));
            self.refuse(name, message, MODULES_LISTED);
        } else {
            self.member(name, &module, member);
        }
    }

    /// The module that an expression stands for.
    fn module_of(&self, node: Node<'_>) -> Option<String> {
        let mut members = Vec::new();
        let mut first = node;
        while first.kind() == "attribute" && members.len() < MODULE_DEPTH_MAX {
            members.push(self.text(first.child_by_field_name("attribute")?));
            first = first.child_by_field_name("object")?;
        }
        if first.kind() != "identifier" {
            return None;
        }
        let mut module = (*self.modules.get(self.text(first))?).to_owned();
        for member in members.into_iter().rev() {
            module = format!("{module}.{member}");
            if find(&module).is_none() && !is_package(&module) {
                return None;
            }
        }
        Some(module)
    }

    fn attribute_name(&mut self, node: Node<'_>, name: &str, owner: Owner) {
        let special = is_special(name);
        let why = if special && !PLAIN.contains(&name) || LEADING_AWAY.contains(&name) {
            "leads to what lies behind objects"
        } else if HELD.contains(&name) {
            "is a module that is not open to programs"
        } else if name.starts_with('_')
            && !special
            && owner == Owner::Other
            && !PUBLIC.contains(&name)
        {
            "is private to what it belongs to"
        } else {
            return;
        };
        self.refuse(node, format!("{} {why}", excerpt(name)), WALKS);
    }

    /// A call that takes the name of an attribute must have it written out.
    fn call(&mut self, node: Node<'_>) {
        let function = node.child_by_field_name("function");
        let Some(function) = function.filter(|function| {
            function.kind() == "identifier" && BY_NAME.contains(&self.text(*function))
        }) else {
            return;
        };
        let arguments = node.child_by_field_name("arguments");
        let name = arguments.and_then(|arguments| arguments.named_child(1));
        let literal = name.and_then(|name| self.literal(name));
        if let (Some(name), Some(literal)) = (name, literal) {
            self.attribute_name(name, literal, Owner::Other);
            return;
        }
        let function_name = excerpt(self.text(function));
        let message = format!("{function_name} with a name that is not written out");
        self.refuse(
            function,
            message,
            "write the attribute itself: `value.name`",
        );
    }

    /// The content of a plain text: no prefix, no escape, no part that is computed.
    fn literal(&self, node: Node<'_>) -> Option<&'p str> {
        let mut cursor = node.walk();
        let parts: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        match (node.kind(), parts.as_slice()) {
            ("string", [_, content, _])
                if content.kind() == "string_content" && content.named_child_count() == 0 =>
            {
                let text = self.text(*content);
                text.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    .then_some(text)
            }
            _ => None,
        }
    }
}

/// Whose attribute it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Of the object whose own method asks.
    Itself,
    /// Of any other.
    Other,
}

/// What part an expression plays where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It is the name of an attribute.
    Attribute,
    /// It is what an attribute is taken of.
    Object,
    /// It stands in an import.
    Import,
    /// It names an argument.
    Keyword,
    /// It is called.
    Called,
    /// Anything else.
    Value,
}

fn role(placed: Placed<'_>) -> Role {
    let Placed {
        node,
        parent: Some(parent),
    } = placed
    else {
        return Role::Value;
    };
    let is = |field: &str| parent.child_by_field_name(field) == Some(node);
    match parent.kind() {
        "attribute" if is("attribute") => Role::Attribute,
        "attribute" if is("object") => Role::Object,
        "keyword_argument" if is("name") => Role::Keyword,
        "call" if is("function") => Role::Called,
        "dotted_name" | "aliased_import" => Role::Import,
        _ => Role::Value,
    }
}

/// Whether Python gives a name a meaning of its own.
fn is_special(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}
