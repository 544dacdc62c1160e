//! Owns what a Python program must not do: it imports what is listed, calls nothing that opens files
//! or runs texts as code, and does not walk from objects to what lies behind them. All of it is read
//! off the tree.

pub(super) mod names;
mod libraries;
mod modules;
mod members;
mod tables;
mod imports;

#[cfg(test)]
mod tests;

use tree_sitter::Node;

use crate::programs::dialect::Libraries;
use crate::programs::finding::{Finding, Refusal, excerpt};
use crate::programs::python::imports::{Imports, is_buffer};
use crate::programs::python::members::{Objection, Owner, attribute, is_special, member};
use crate::programs::python::modules::{find, is_module};
use crate::programs::python::names::{BY_NAME, MODULES_LISTED, NAMES, PLAIN, TEXTS, WALKS};
use crate::programs::python::tables::{Arguments, Care, fault, of_function, of_method};
use crate::programs::source::{Placed, Source};

/// How many names lead from a module to one within it at most; a program can chain any number.
const MODULE_DEPTH_MAX: usize = 8;

/// Looks through a program that may import these libraries.
pub(super) fn judge(libraries: Libraries, program: &str) -> Result<(), Refusal> {
    let source = Source::parse(program, &tree_sitter_python::LANGUAGE.into())?;
    let nodes = source.nodes();
    let (imports, findings) = Imports::read(&source, &nodes, libraries);
    let mut reading = Reading {
        source: &source,
        imports,
        findings,
    };
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
    imports: Imports<'p>,
    findings: Vec<Finding>,
}

impl<'p> Reading<'_, 'p> {
    fn refuse(&mut self, node: Node<'_>, found: impl Into<String>, instead: &str) {
        self.findings.push(Finding::at(node, found, instead));
    }

    fn object_to(&mut self, node: Node<'_>, wrong: Option<Objection>) {
        if let Some(Objection { found, instead }) = wrong {
            self.refuse(node, found, instead);
        }
    }

    fn text(&self, node: Node<'_>) -> &'p str {
        self.source.text(node)
    }

    fn is_module(&self, name: &str) -> bool {
        is_module(self.imports.libraries(), name)
    }

    fn look(&mut self, placed: Placed<'_>) {
        let node = placed.node;
        match node.kind() {
            "identifier" => self.identifier(node, role(placed)),
            "attribute" => self.attribute(placed),
            "call" => self.call(node),
            "case_pattern" => self.capture(node),
            "keyword_pattern" => {
                if let Some(name) = node.named_child(0) {
                    self.attribute_by_name(name, self.text(name));
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
        if self.imports.module_named(name).is_some()
            && !matches!(role, Role::Object | Role::Keyword)
        {
            let message = format!("the module {} is used as a value", excerpt(name));
            self.refuse(
                node,
                message,
                "use its members, or name the variable otherwise",
            );
        }
        if self.imports.bind_buffer(name) && !matches!(role, Role::Called | Role::Keyword) {
            self.buffer_as_value(node);
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

    fn attribute(&mut self, placed: Placed<'_>) {
        let (node, role) = (placed.node, role(placed));
        let (Some(object), Some(name)) = (
            node.child_by_field_name("object"),
            node.child_by_field_name("attribute"),
        ) else {
            return;
        };
        let named = self.text(name);
        let call = placed.parent.filter(|_| role == Role::Called);
        let Some(module) = self.module_of(object) else {
            let own = ["self", "cls"].contains(&self.text(object));
            let owner = if own { Owner::Itself } else { Owner::Other };
            self.object_to(name, attribute(named, owner));
            self.take_care(name, of_method(named), call);
            return;
        };
        let inner = format!("{module}.{named}");
        if self.is_module(&inner) {
            if role != Role::Object {
                let message = format!("the module {} is used as a value", excerpt(&inner));
                self.refuse(node, message, "use its members");
            }
        } else if find(self.imports.libraries(), &module).is_none() {
            let message = format!("{} is not open to programs", excerpt(&inner));
            self.refuse(name, message, MODULES_LISTED);
        } else {
            self.object_to(name, member(self.imports.libraries(), &module, named));
            self.take_care(name, of_function(&module, named), call);
            if is_buffer(&inner) && role != Role::Called {
                self.buffer_as_value(node);
            }
        }
    }

    /// An attribute that is named where it is not used.
    fn attribute_by_name(&mut self, node: Node<'_>, name: &str) {
        self.object_to(node, attribute(name, Owner::Other));
        self.take_care(node, of_method(name), None);
    }

    /// Looks at what needs it in programs with tables: at how it is called, or that it is not.
    fn take_care(&mut self, name: Node<'_>, care: Option<Care>, call: Option<Node<'_>>) {
        let Some(care) = care.filter(|_| self.imports.have_tables()) else {
            return;
        };
        let text = |node| self.text(node);
        let literal = |node| self.literal(node);
        let arguments = call.map(|call| Arguments::of(call, text, literal));
        if let Some(wrong) = fault(care, arguments.as_ref(), |node| self.makes_buffer(node)) {
            let message = format!("{} {}", excerpt(self.text(name)), wrong.does);
            self.refuse(name, message, wrong.instead);
        }
    }

    /// Whether an expression makes a text or bytes in memory.
    fn makes_buffer(&self, node: Node<'_>) -> bool {
        let called = node.child_by_field_name("function");
        let Some(class) = called.filter(|_| node.kind() == "call") else {
            return false;
        };
        let parts = (
            class.child_by_field_name("object"),
            class.child_by_field_name("attribute"),
        );
        match parts {
            (Some(object), Some(name)) => self
                .module_of(object)
                .is_some_and(|module| is_buffer(&format!("{module}.{}", self.text(name)))),
            _ => class.kind() == "identifier" && self.imports.bind_buffer(self.text(class)),
        }
    }

    /// What readers are given must be what it seems.
    fn buffer_as_value(&mut self, node: Node<'_>) {
        if self.imports.have_tables() {
            let message = format!("{} is used as a value", excerpt(self.text(node)));
            self.refuse(
                node,
                message,
                "call it where it is needed: `io.StringIO(text)`",
            );
        }
    }

    /// A pattern that is nothing but a name gives that name another meaning.
    fn capture(&mut self, node: Node<'_>) {
        let name = self.text(node);
        if self.imports.module_named(name).is_some() || self.imports.bind_buffer(name) {
            let message = format!("{} is imported, and bound by a pattern", excerpt(name));
            self.refuse(node, message, "name the variable otherwise");
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
        let mut module = self.imports.module_named(self.text(first))?.to_owned();
        for member in members.into_iter().rev() {
            module = format!("{module}.{member}");
            if !self.is_module(&module) {
                return None;
            }
        }
        Some(module)
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
            self.attribute_by_name(name, literal);
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
                    .all(|byte| byte.is_ascii_alphanumeric() || [b'_', b'.'].contains(&byte))
                    .then_some(text)
            }
            _ => None,
        }
    }
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
