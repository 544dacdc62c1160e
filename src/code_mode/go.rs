//! Checks Go programs: they import only listed packages, under names that can be tracked, and
//! contain no directives for the compiler or the linker. Everything is decided from the syntax
//! tree.

use std::collections::BTreeMap;

use tree_sitter::Node;

use crate::code_mode::go_packages::{FROM_FILES, closed_members};
use crate::code_mode::lint::{LintFinding, LintRefusal, excerpt};
use crate::code_mode::source::ProgramSource;

/// The advice for anything that opens files.
const FILES: &str = "use `workspace_tools.ReadTextFile` and `workspace_tools.WriteFile`";
/// The advice for anything that starts processes.
pub(super) const COMMANDS: &str = "use `workspace_tools.ExecuteCommand`";
/// The message about the network.
const NETWORK: &str = "programs have no network";
/// The advice for anything that bypasses the type system.
const BEHIND: &str = "work with values; files are reached by `workspace_tools` alone";
/// The advice for packages that are not listed.
const PACKAGES_LISTED: &str = "use the packages for data (`strings`, `encoding/json`, \
                               `encoding/csv`, `sort`, `regexp`, …); what touches files is in \
                               `workspace_tools`";

/// The prefixes of comments that are compiler directives.
const DIRECTIVES: &[&str] = &[
    "//go:",
    "//line ",
    "/*line ",
    "// +build",
    "//+build",
    "//export ",
];

/// Checks a program.
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
    /// The packages that imported names refer to.
    packages: BTreeMap<&'p str, &'p str>,
    findings: Vec<LintFinding>,
}

impl GoLinter<'_, '_> {
    fn refuse(&mut self, node: Node<'_>, found: impl Into<String>, instead: &str) {
        self.findings
            .push(LintFinding::at_node(node, found, instead));
    }

    /// Visits a node. Imports come first in a program, so that their names are known when they are
    /// used.
    fn visit(&mut self, node: Node<'_>) {
        match node.kind() {
            "package_clause" => self.check_package(node),
            "import_spec" => self.check_import(node),
            "comment" => self.check_comment(node),
            "selector_expression" => {
                self.check_member(node, "operand", "field");
            }
            "qualified_type" => self.check_member(node, "package", "name"),
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

    /// Checks a selector; the two fields hold its operand and the selected name.
    fn check_member(&mut self, node: Node<'_>, operand_field: &str, name_field: &str) {
        let (Some(operand), Some(member)) = (
            node.child_by_field_name(operand_field),
            node.child_by_field_name(name_field),
        ) else {
            return;
        };
        let name = self.source.text(member);
        let package = self.packages.get(self.source.text(operand));
        let closed = package
            .and_then(|path| closed_members(path))
            .unwrap_or_default();
        if closed.contains(&name) || FROM_FILES.contains(&name) {
            let message = format!("{} is closed", excerpt(self.source.text(node)));
            self.refuse(member, message, FILES);
        }
    }
}
