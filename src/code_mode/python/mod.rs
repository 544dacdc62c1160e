//! Checks Python programs on the syntax tree: they import only modules for data work, and call
//! nothing that opens files or runs strings as code. This tells a model early what cannot work; it
//! does not look for ways around it.

pub(super) mod forbidden_names;
mod modules;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tree_sitter::Node;

use crate::code_mode::language::PythonLibraries;
use crate::code_mode::lint::{LintFinding, LintRefusal, excerpt};
use crate::code_mode::python::forbidden_names::{
    EVAL_ADVICE, INTERNAL_ADVICE, function_advice, member_advice, method_advice, name_advice,
};
use crate::code_mode::python::modules::{import_advice, is_importable};
use crate::code_mode::source::{NodeWithParent, ProgramSource};

/// The maximum number of attributes that are followed from a module to a member; a program can
/// chain any number.
const NAME_DEPTH_MAX: usize = 8;

/// Checks a program that may import these libraries.
pub(super) fn lint_python(libraries: PythonLibraries, program: &str) -> Result<(), LintRefusal> {
    let source = ProgramSource::parse(program, &tree_sitter_python::LANGUAGE.into())?;
    let nodes = source.nodes();
    let mut linter = PythonLinter {
        source: &source,
        libraries,
        imported_names: BTreeMap::new(),
        findings: Vec::new(),
    };
    // All names that imports bind must be known first: a function may use one from further down.
    for node_with_parent in &nodes {
        linter.check_import(node_with_parent.node);
    }
    for node_with_parent in &nodes {
        linter.check_use(*node_with_parent);
    }
    let mut findings = linter.findings;
    if findings.is_empty() {
        return Ok(());
    }
    // One finding per place is enough to correct it.
    findings.sort_by_key(|finding| (finding.line, finding.column));
    findings.dedup_by_key(|finding| (finding.line, finding.column));
    Err(LintRefusal { findings })
}

/// A program that is checked, with what it imports and what was found so far.
struct PythonLinter<'s, 'p> {
    source: &'s ProgramSource<'p>,
    libraries: PythonLibraries,
    /// The full dotted name of what each imported name refers to.
    imported_names: BTreeMap<&'p str, String>,
    findings: Vec<LintFinding>,
}

impl<'p> PythonLinter<'_, 'p> {
    fn refuse(&mut self, node: Node<'_>, problem: impl Into<String>, advice: &str) {
        self.findings
            .push(LintFinding::at_node(node, problem, advice));
    }

    fn text(&self, node: Node<'_>) -> &'p str {
        self.source.text(node)
    }

    /// Checks an import, and records the names that it binds.
    fn check_import(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        match node.kind() {
            "import_statement" => {
                for part in node.children_by_field_name("name", &mut cursor) {
                    let name = part.child_by_field_name("name").unwrap_or(part);
                    let module = self.text(name);
                    self.check_module(name, module);
                    let first_name = module.split('.').next().unwrap_or(module);
                    let alias = part.child_by_field_name("alias");
                    let (bound_name, full_name) =
                        alias.map_or((first_name, first_name), |alias| (self.text(alias), module));
                    self.imported_names.insert(bound_name, full_name.to_owned());
                }
            }
            "import_from_statement" => {
                let Some(from) = node.child_by_field_name("module_name") else {
                    return;
                };
                let module = self.text(from);
                self.check_module(from, module);
                for part in node.children_by_field_name("name", &mut cursor) {
                    let name = part.child_by_field_name("name").unwrap_or(part);
                    let bound_name = part.child_by_field_name("alias").unwrap_or(name);
                    self.check_member(name, module, self.text(name));
                    let full_name = format!("{module}.{}", self.text(name));
                    self.imported_names.insert(self.text(bound_name), full_name);
                }
            }
            _ => {}
        }
    }

    fn check_module(&mut self, node: Node<'_>, module: &str) {
        if !is_importable(self.libraries, module) {
            let problem = format!("the module {} is not allowed", excerpt(module));
            self.refuse(node, problem, import_advice(module));
        }
    }

    /// Checks a member of a module that is imported or accessed. Members of what is no module may
    /// begin with `_` and be public, such as `_replace` of a named tuple.
    fn check_member(&mut self, node: Node<'_>, module: &str, member: &str) {
        let full_name = format!("{module}.{member}");
        let is_special = member.starts_with("__") && member.ends_with("__");
        if let Some(advice) = member_advice(&full_name) {
            self.refuse(
                node,
                format!("{} is not allowed", excerpt(&full_name)),
                advice,
            );
        } else if member.starts_with('_') && !is_special && is_importable(self.libraries, module) {
            let problem = format!("{} is private to its module", excerpt(member));
            self.refuse(node, problem, INTERNAL_ADVICE);
        }
    }

    /// Checks a node that may use something forbidden: a name, an attribute, a call, or one of the
    /// statements of Python 2, which the grammar accepts.
    fn check_use(&mut self, node_with_parent: NodeWithParent<'_>) {
        let node = node_with_parent.node;
        match node.kind() {
            "identifier" if is_value(node_with_parent) => {
                let name = self.text(node);
                if let Some(advice) = name_advice(name) {
                    self.refuse(node, format!("{} is not allowed", excerpt(name)), advice);
                }
            }
            "attribute" => {
                if let Some((object, member)) = self.resolve_attribute(node)
                    && let Some(member_node) = node.child_by_field_name("attribute")
                {
                    self.check_member(member_node, &object, member);
                }
            }
            "call" => self.check_call(node),
            "exec_statement" => self.refuse(node, "`exec` runs a text as code", EVAL_ADVICE),
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

    /// Checks a call whose first argument is a string, which may be the path of a file.
    fn check_call(&mut self, node: Node<'_>) {
        let Some(function) = node.child_by_field_name("function") else {
            return;
        };
        let arguments = node.child_by_field_name("arguments");
        let first_argument = arguments.and_then(|arguments| arguments.named_child(0));
        if first_argument.is_none_or(|first| first.kind() != "string") {
            return;
        }
        let name = function
            .child_by_field_name("attribute")
            .unwrap_or(function);
        let full_name = match self.resolve_attribute(function) {
            Some((object, member)) => Some(format!("{object}.{member}")),
            None => self.imported_names.get(self.text(function)).cloned(),
        };
        // Methods that write to files belong to the tables and arrays of these libraries.
        let is_method = function.kind() == "attribute"
            && full_name.is_none()
            && self.libraries > PythonLibraries::Standard;
        let advice = match full_name {
            Some(full_name) => function_advice(&full_name),
            None if is_method => method_advice(self.text(name)),
            None => None,
        };
        if let Some(advice) = advice {
            let problem = format!("{} opens what it is given", excerpt(self.text(name)));
            self.refuse(name, problem, advice);
        }
    }

    /// Returns the full dotted name of the object of an attribute that is accessed, and the
    /// attribute, if the object is something imported.
    fn resolve_attribute(&self, attribute: Node<'_>) -> Option<(String, &'p str)> {
        let mut members = Vec::new();
        let mut root = attribute;
        while root.kind() == "attribute" && members.len() < NAME_DEPTH_MAX {
            members.push(self.text(root.child_by_field_name("attribute")?));
            root = root.child_by_field_name("object")?;
        }
        let imported_name = self.imported_names.get(self.text(root))?;
        let (last_member, inner_members) = members.split_first()?;
        let mut object = imported_name.clone();
        for member in inner_members.iter().rev() {
            object.push('.');
            object.push_str(member);
        }
        Some((object, last_member))
    }
}

/// Returns whether an identifier stands for a value: it is neither an attribute nor the name of a
/// keyword argument or method, and no part of an import.
fn is_value(node_with_parent: NodeWithParent<'_>) -> bool {
    let Some(parent) = node_with_parent.parent else {
        return true;
    };
    let is_field = |field: &str| parent.child_by_field_name(field) == Some(node_with_parent.node);
    match parent.kind() {
        "attribute" => !is_field("attribute"),
        "keyword_argument" | "function_definition" => !is_field("name"),
        "dotted_name" | "aliased_import" => false,
        _ => true,
    }
}
