//! Parses a program into its syntax tree, bounded in bytes, nodes and the parser's work. A program
//! that does not parse has no tree.

use tree_sitter::{Language as Grammar, Node, Parser, Tree};

use crate::bounded_parse::parse_bounded;
use crate::code_mode::PROGRAM_BYTES_MAX;
use crate::code_mode::lint::{LintFinding, LintRefusal, excerpt};

/// The maximum number of nodes in a program's tree.
const NODES_MAX: usize = 400_000;
/// The maximum number of progress reports from the parser, which makes one every 100 operations: a
/// few hundred per KiB of ordinary code.
const PROGRESS_REPORTS_MAX: usize = 100_000;

/// A node and its parent. Finding the parent through the tree itself would need a search.
#[derive(Clone, Copy)]
pub(super) struct NodeWithParent<'t> {
    pub(super) node: Node<'t>,
    pub(super) parent: Option<Node<'t>>,
}

/// A program with its syntax tree, which contains no error.
pub(super) struct ProgramSource<'p> {
    text: &'p str,
    tree: Tree,
}

impl<'p> ProgramSource<'p> {
    /// Parses a program.
    pub(super) fn parse(text: &'p str, grammar: &Grammar) -> Result<Self, LintRefusal> {
        let refuse = |problem: &str, advice: &str| {
            LintRefusal::from(LintFinding::for_whole_program(problem, advice))
        };
        if text.len() > PROGRAM_BYTES_MAX {
            let problem = format!("the program is longer than {PROGRAM_BYTES_MAX} bytes");
            return Err(refuse(&problem, "divide the work into several programs"));
        }
        if text.contains('\0') {
            return Err(refuse("the program holds a NUL byte", "write it without"));
        }
        let parse_failure = || refuse("the program cannot be parsed", "write it more simply");
        let mut parser = Parser::new();
        parser.set_language(grammar).map_err(|_| parse_failure())?;
        let tree = parse_bounded(&mut parser, text.as_bytes(), PROGRESS_REPORTS_MAX);
        let source = Self {
            text,
            tree: tree.ok_or_else(parse_failure)?,
        };
        let nodes = source.nodes();
        if nodes.len() > NODES_MAX {
            return Err(refuse("the program is too large", "divide the work"));
        }
        let first_error = nodes
            .iter()
            .find(|entry| entry.node.is_error() || entry.node.is_missing());
        match first_error {
            Some(entry) => Err(source.syntax_error(entry.node).into()),
            None => Ok(source),
        }
    }

    /// Returns all nodes, each before its descendants; one more than the maximum if there are too
    /// many.
    pub(super) fn nodes(&self) -> Vec<NodeWithParent<'_>> {
        let mut cursor = self.tree.walk();
        let mut parents: Vec<Node<'_>> = Vec::new();
        let mut nodes = Vec::new();
        loop {
            let node = cursor.node();
            let parent = parents.last().copied();
            nodes.push(NodeWithParent { node, parent });
            if nodes.len() > NODES_MAX {
                return nodes;
            }
            if cursor.goto_first_child() {
                parents.push(node);
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return nodes;
                }
                parents.pop();
            }
        }
    }

    /// Returns the text of a node.
    pub(super) fn text(&self, node: Node<'_>) -> &'p str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn syntax_error(&self, node: Node<'_>) -> LintFinding {
        let problem = if node.is_missing() {
            format!("`{}` is missing", node.kind())
        } else {
            format!("{} is not valid syntax", excerpt(self.text(node)))
        };
        LintFinding::at_node(node, problem, "correct it")
    }
}
