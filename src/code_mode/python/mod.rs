//! Checks Python programs: they import only listed modules, call nothing that opens files or runs
//! strings as code, and do not walk from objects to their internals. Everything is decided from the
//! syntax tree.

pub(super) mod names;
mod libraries;
mod modules;
mod attributes;
mod table_libraries;
mod imports;

#[cfg(test)]
mod tests;

use tree_sitter::Node;

use crate::code_mode::language::PythonLibraries;
use crate::code_mode::lint::{LintFinding, LintRefusal, excerpt};
use crate::code_mode::python::attributes::{
    AttributeOwner, LintObjection, attribute_objection, is_special, member_objection,
};
use crate::code_mode::python::imports::{ImportBindings, is_buffer};
use crate::code_mode::python::modules::{find_module, is_module};
use crate::code_mode::python::names::{BY_NAME, MODULES_LISTED, NAMES, PLAIN, TEXTS, WALKS};
use crate::code_mode::python::table_libraries::{
    PythonCallArguments, TableUsageCheck, function_check, method_check, usage_fault,
};
use crate::code_mode::source::{NodeWithParent, ProgramSource};

/// The maximum number of names that lead from a module to a submodule; a program can chain any
/// number.
const MODULE_DEPTH_MAX: usize = 8;

/// Checks a program that may import these libraries.
pub(super) fn lint_python(libraries: PythonLibraries, program: &str) -> Result<(), LintRefusal> {
    let source = ProgramSource::parse(program, &tree_sitter_python::LANGUAGE.into())?;
    let nodes = source.nodes();
    let (imports, findings) = ImportBindings::collect(&source, &nodes, libraries);
    let mut reading = PythonLinter {
        source: &source,
        imports,
        findings,
    };
    for placed in &nodes {
        reading.visit(*placed);
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
    Err(LintRefusal {
        findings: reading.findings,
    })
}

struct PythonLinter<'s, 'p> {
    source: &'s ProgramSource<'p>,
    imports: ImportBindings<'p>,
    findings: Vec<LintFinding>,
}

impl<'p> PythonLinter<'_, 'p> {
    fn refuse(&mut self, node: Node<'_>, found: impl Into<String>, instead: &str) {
        self.findings
            .push(LintFinding::at_node(node, found, instead));
    }

    fn report_objection(&mut self, node: Node<'_>, wrong: Option<LintObjection>) {
        if let Some(LintObjection { found, instead }) = wrong {
            self.refuse(node, found, instead);
        }
    }

    fn text(&self, node: Node<'_>) -> &'p str {
        self.source.text(node)
    }

    fn is_module(&self, name: &str) -> bool {
        is_module(self.imports.libraries(), name)
    }

    fn visit(&mut self, placed: NodeWithParent<'_>) {
        let node = placed.node;
        match node.kind() {
            "identifier" => self.check_identifier(node, role(placed)),
            "attribute" => self.check_attribute(placed),
            "call" => self.check_call(node),
            "case_pattern" => self.check_capture(node),
            "keyword_pattern" => {
                if let Some(name) = node.named_child(0) {
                    self.check_attribute_name(name, self.text(name));
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

    fn check_identifier(&mut self, node: Node<'_>, role: ExpressionRole) {
        let name = self.text(node);
        if !name.is_ascii() {
            // Python normalizes such letters to the ASCII letters that they resemble.
            let message = format!("the name {} has letters outside ASCII", excerpt(name));
            self.refuse(node, message, "name it otherwise");
            return;
        }
        if is_special(name) && !PLAIN.contains(&name) {
            let message = format!("{} leads to what lies behind objects", excerpt(name));
            self.refuse(node, message, WALKS);
            return;
        }
        if matches!(role, ExpressionRole::Attribute | ExpressionRole::Import) {
            return;
        }
        if self.imports.module_named(name).is_some()
            && !matches!(role, ExpressionRole::Object | ExpressionRole::Keyword)
        {
            let message = format!("the module {} is used as a value", excerpt(name));
            self.refuse(
                node,
                message,
                "use its members, or name the variable otherwise",
            );
        }
        if self.imports.is_buffer_class(name)
            && !matches!(role, ExpressionRole::Called | ExpressionRole::Keyword)
        {
            self.check_buffer_value(node);
        }
        if role == ExpressionRole::Keyword {
            return;
        }
        if let Some((_, instead)) = NAMES.iter().find(|(closed, _)| *closed == name) {
            let message = format!("{} is closed", excerpt(name));
            self.refuse(node, message, instead);
        }
        if BY_NAME.contains(&name) && role != ExpressionRole::Called {
            let message = format!("{} is used as a value", excerpt(name));
            self.refuse(node, message, WALKS);
        }
    }

    fn check_attribute(&mut self, placed: NodeWithParent<'_>) {
        let (node, role) = (placed.node, role(placed));
        let (Some(object), Some(name)) = (
            node.child_by_field_name("object"),
            node.child_by_field_name("attribute"),
        ) else {
            return;
        };
        let named = self.text(name);
        let call = placed.parent.filter(|_| role == ExpressionRole::Called);
        let Some(module) = self.module_of(object) else {
            let own = ["self", "cls"].contains(&self.text(object));
            let owner = if own {
                AttributeOwner::SelfObject
            } else {
                AttributeOwner::Other
            };
            self.report_objection(name, attribute_objection(named, owner));
            self.check_table_usage(name, method_check(named), call);
            return;
        };
        let inner = format!("{module}.{named}");
        if self.is_module(&inner) {
            if role != ExpressionRole::Object {
                let message = format!("the module {} is used as a value", excerpt(&inner));
                self.refuse(node, message, "use its members");
            }
        } else if find_module(self.imports.libraries(), &module).is_none() {
            let message = format!("{} is not open to programs", excerpt(&inner));
            self.refuse(name, message, MODULES_LISTED);
        } else {
            self.report_objection(
                name,
                member_objection(self.imports.libraries(), &module, named),
            );
            self.check_table_usage(name, function_check(&module, named), call);
            if is_buffer(&inner) && role != ExpressionRole::Called {
                self.check_buffer_value(node);
            }
        }
    }

    /// Checks an attribute that is named without being accessed.
    fn check_attribute_name(&mut self, node: Node<'_>, name: &str) {
        self.report_objection(node, attribute_objection(name, AttributeOwner::Other));
        self.check_table_usage(node, method_check(name), None);
    }

    /// Checks a use that is restricted in programs with tables: the call and its arguments, or the
    /// use without a call.
    fn check_table_usage(
        &mut self,
        name: Node<'_>,
        care: Option<TableUsageCheck>,
        call: Option<Node<'_>>,
    ) {
        let Some(care) = care.filter(|_| self.imports.have_tables()) else {
            return;
        };
        let text = |node| self.text(node);
        let literal = |node| self.plain_literal(node);
        let arguments = call.map(|call| PythonCallArguments::from_call(call, text, literal));
        if let Some(wrong) = usage_fault(care, arguments.as_ref(), |node| self.makes_buffer(node)) {
            let message = format!("{} {}", excerpt(self.text(name)), wrong.does);
            self.refuse(name, message, wrong.instead);
        }
    }

    /// Returns whether an expression creates an in-memory file.
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
            _ => class.kind() == "identifier" && self.imports.is_buffer_class(self.text(class)),
        }
    }

    /// Refuses an in-memory file class as a value: readers must be given what they seem to be
    /// given.
    fn check_buffer_value(&mut self, node: Node<'_>) {
        if self.imports.have_tables() {
            let message = format!("{} is used as a value", excerpt(self.text(node)));
            self.refuse(
                node,
                message,
                "call it where it is needed: `io.StringIO(text)`",
            );
        }
    }

    /// Checks a pattern that is only a name: it binds that name to something else.
    fn check_capture(&mut self, node: Node<'_>) {
        let name = self.text(node);
        if self.imports.module_named(name).is_some() || self.imports.is_buffer_class(name) {
            let message = format!("{} is imported, and bound by a pattern", excerpt(name));
            self.refuse(node, message, "name the variable otherwise");
        }
    }

    /// Returns the module that an expression refers to.
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

    /// Checks a call of a function that takes the name of an attribute: the name must be a literal.
    fn check_call(&mut self, node: Node<'_>) {
        let function = node.child_by_field_name("function");
        let Some(function) = function.filter(|function| {
            function.kind() == "identifier" && BY_NAME.contains(&self.text(*function))
        }) else {
            return;
        };
        let arguments = node.child_by_field_name("arguments");
        let name = arguments.and_then(|arguments| arguments.named_child(1));
        let literal = name.and_then(|name| self.plain_literal(name));
        if let (Some(name), Some(literal)) = (name, literal) {
            self.check_attribute_name(name, literal);
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

    /// Returns the content of a plain string literal: no prefix, no escape, no interpolation.
    fn plain_literal(&self, node: Node<'_>) -> Option<&'p str> {
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

/// The role of an expression in its context.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpressionRole {
    /// It is the name of an attribute.
    Attribute,
    /// The object of an attribute access.
    Object,
    /// It is in an import.
    Import,
    /// The name of a keyword argument.
    Keyword,
    /// The function of a call.
    Called,
    /// Anything else.
    Value,
}

fn role(placed: NodeWithParent<'_>) -> ExpressionRole {
    let NodeWithParent {
        node,
        parent: Some(parent),
    } = placed
    else {
        return ExpressionRole::Value;
    };
    let is = |field: &str| parent.child_by_field_name(field) == Some(node);
    match parent.kind() {
        "attribute" if is("attribute") => ExpressionRole::Attribute,
        "attribute" if is("object") => ExpressionRole::Object,
        "keyword_argument" if is("name") => ExpressionRole::Keyword,
        "call" if is("function") => ExpressionRole::Called,
        "dotted_name" | "aliased_import" => ExpressionRole::Import,
        _ => ExpressionRole::Value,
    }
}
