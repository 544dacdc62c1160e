//! Owns what a Go program must not do: it imports what is listed, under names that can be followed,
//! and tells neither the compiler nor the linker anything. All of it is read off the tree.

use std::collections::BTreeMap;

use tree_sitter::Node;

use crate::code_mode::go_packages::{FROM_FILES, closed_members};
use crate::code_mode::lint::{LintFinding, LintRefusal, excerpt};
use crate::code_mode::source::ProgramSource;

/// What is said instead of things that open files.
const FILES: &str = "use `workspace_tools.ReadTextFile` and `workspace_tools.WriteFile`";
/// What is said instead of things that start processes.
pub(super) const COMMANDS: &str = "use `workspace_tools.ExecuteCommand`";
/// What is said of the network.
const NETWORK: &str = "programs have no network";
/// What is said of what passes by the types.
const BEHIND: &str = "work with values; files are reached by `workspace_tools` alone";
/// What is said of packages that are not listed.
const PACKAGES_LISTED: &str = "use the packages for data (`strings`, `encoding/json`, \
                               `encoding/csv`, `sort`, `regexp`, …); what touches files is in \
                               `workspace_tools`";

/// What a comment begins with that is meant for the compiler.
const DIRECTIVES: &[&str] = &[
    "//go:",
    "//line ",
    "/*line ",
    "// +build",
    "//+build",
    "//export ",
];

/// Looks through a program.
pub(super) fn lint_go(program: &str) -> Result<(), LintRefusal> {
    let source = ProgramSource::parse(program, &tree_sitter_go::LANGUAGE.into())?;
    let nodes = source.nodes();
    let mut reading = GoLinter {
        source: &source,
        packages: BTreeMap::new(),
        findings: Vec::new(),
    };
    for placed in &nodes {
        reading.visit(placed.node);
    }
    if reading.findings.is_empty() {
        Ok(())
    } else {
        let findings = reading.findings;
        Err(LintRefusal { findings })
    }
}

struct GoLinter<'s, 'p> {
    source: &'s ProgramSource<'p>,
    /// What the names of imports stand for.
    packages: BTreeMap<&'p str, &'p str>,
    findings: Vec<LintFinding>,
}

impl GoLinter<'_, '_> {
    fn refuse(&mut self, node: Node<'_>, found: impl Into<String>, instead: &str) {
        self.findings
            .push(LintFinding::at_node(node, found, instead));
    }

    /// Imports come first in a program, so that what they bind is known when it is used.
    fn visit(&mut self, node: Node<'_>) {
        match node.kind() {
            "package_clause" => self.check_package(node),
            "import_spec" => self.check_import(node),
            "comment" => self.check_comment(node),
            "selector_expression" => {
                self.check_member(node, ("operand", "field"));
            }
            "qualified_type" => self.check_member(node, ("package", "name")),
            _ => {}
        }
    }

    fn check_package(&mut self, node: Node<'_>) {
        let name = node.named_child(0);
        let name = name.map(|name| self.source.text(name)).unwrap_or_default();
        if name != "main" {
            let message = format!("the package is called {}", excerpt(name));
            self.refuse(node, message, "write `package main`");
        }
    }

    fn check_import(&mut self, node: Node<'_>) {
        let Some(literal) = node.child_by_field_name("path") else {
            return;
        };
        let path = self.source.text(literal).trim_matches(['"', '`']);
        if closed_members(path).is_none() {
            let instead = match path {
                "os" | "io/fs" | "io/ioutil" | "path/filepath" | "embed" | "archive/zip"
                | "archive/tar" | "debug/elf" => FILES,
                "os/exec" | "os/signal" | "plugin" | "syscall" => COMMANDS,
                "unsafe" | "reflect" | "runtime" | "runtime/debug" | "C" => BEHIND,
                _ if path == "net" || path.starts_with("net/") => NETWORK,
                _ => PACKAGES_LISTED,
            };
            let message = format!("the package {} is not open to programs", excerpt(path));
            self.refuse(literal, message, instead);
        }
        let last = path.rsplit('/').next().unwrap_or(path);
        match node.child_by_field_name("name") {
            None => drop(self.packages.insert(last, path)),
            Some(name) if name.kind() == "package_identifier" => {
                self.packages.insert(self.source.text(name), path);
            }
            Some(name) => {
                let message = format!("an import as {}", excerpt(self.source.text(name)));
                self.refuse(name, message, "import the package by its name");
            }
        }
    }

    fn check_comment(&mut self, node: Node<'_>) {
        let text = self.source.text(node);
        if DIRECTIVES.iter().any(|begins| text.starts_with(begins)) {
            let message = format!("{} is meant for the compiler", excerpt(text));
            self.refuse(node, message, "write the program without it");
        }
    }

    /// Judges what is taken of something, by the names of the two fields.
    fn check_member(&mut self, node: Node<'_>, (of, taken): (&str, &str)) {
        let (Some(of), Some(taken)) = (
            node.child_by_field_name(of),
            node.child_by_field_name(taken),
        ) else {
            return;
        };
        let name = self.source.text(taken);
        let package = self.packages.get(self.source.text(of));
        let closed = package
            .and_then(|path| closed_members(path))
            .unwrap_or_default();
        if closed.contains(&name) || FROM_FILES.contains(&name) {
            let message = format!("{} is closed", excerpt(self.source.text(node)));
            self.refuse(taken, message, FILES);
        }
    }
}
