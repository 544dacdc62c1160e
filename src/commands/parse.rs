//! Owns the step from a text to its simple commands, by the grammar of bash. It is bounded in
//! bytes, nodes, depth and work, and where the grammar and the shell would read different things it
//! says so instead of choosing.

use std::ops::ControlFlow;
use std::rc::Rc;

use tree_sitter::{Node, ParseOptions, ParseState, Parser};

use crate::commands::line::{
    Line, Multiplies, Redirection, SimpleCommand, Starts, Step, Unread, Word,
};
use crate::commands::starters::{Started, started};
use crate::commands::word::{join, text_of, word};

/// The longest line that is looked at, in bytes: the longest argument of a program on Linux
/// (`MAX_ARG_STRLEN`), and so the longest that a shell can be given.
pub const LINE_BYTES_MAX: usize = 128 * 1024;
/// The most nodes of a line's tree.
const NODES_MAX: usize = 200_000;
/// The most simple commands of a line, with all that they start.
const COMMANDS_MAX: usize = 5_000;
/// In how many loops, functions, substitutions and arguments a command may stand.
const STEPS_MAX: usize = 48;
/// The most here-documents of a line: the parser keeps a list of them.
const HERE_DOCUMENTS_MAX: usize = 32;
/// The most often that the parser reports on its work; it does so each 100 operations.
const REPORTS_MAX: usize = 20_000;

/// Reads a command line. One that is not understood has no commands; of one that is too large there
/// are those that were read until then.
pub fn parse(text: &str) -> Line {
    let mut reading = Reading {
        parser: Parser::new(),
        nodes: 0,
        line: Line::default(),
    };
    let language = tree_sitter_bash::LANGUAGE.into();
    let read = match reading.parser.set_language(&language) {
        Ok(()) => reading.script(text, &Context::default()),
        Err(_) => Err(Unread::Syntax),
    };
    if let Err(unread) = read {
        if matches!(unread, Unread::Syntax | Unread::Ambiguous) {
            reading.line.commands.clear();
        }
        reading.line.unread = Some(unread);
    }
    reading.line
}

/// What is read so far.
struct Reading {
    parser: Parser,
    nodes: usize,
    line: Line,
}

/// Where something stands.
#[derive(Clone, Debug, Default)]
struct Context {
    steps: Vec<Step>,
    /// The functions around it.
    functions: Vec<String>,
    /// Whether other commands run beside it, as far as the innermost function goes.
    beside_others: bool,
    /// Whether its input is the output of another command.
    is_fed: bool,
}

impl Context {
    fn inside(&self, step: Step) -> Result<Self, Unread> {
        if self.steps.len() >= STEPS_MAX {
            return Err(Unread::TooDeep);
        }
        let mut inner = self.clone();
        inner.steps.push(step);
        Ok(inner)
    }
}

impl Reading {
    /// Reads a text that a shell would run.
    fn script(&mut self, text: &str, context: &Context) -> Result<(), Unread> {
        let is_binary = text
            .chars()
            .any(|c| c.is_control() && c != '\n' && c != '\t');
        if is_binary {
            return Err(Unread::Syntax);
        }
        if text.len() > LINE_BYTES_MAX || text.matches("<<").count() > HERE_DOCUMENTS_MAX {
            return Err(Unread::TooLarge);
        }
        let mut reports = 0_usize;
        let mut report = |_: &ParseState| {
            reports = reports.saturating_add(1);
            if reports > REPORTS_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut report);
        let bytes = text.as_bytes();
        let mut rest = |from: usize, _| bytes.get(from..).unwrap_or_default();
        let parsed = self
            .parser
            .parse_with_options(&mut rest, None, Some(options));
        let Some(tree) = parsed else {
            self.parser.reset();
            return Err(Unread::TooLarge);
        };
        if tree.root_node().has_error() {
            return Err(Unread::Syntax);
        }
        self.walk(tree.root_node(), text, context)
    }

    /// Looks at all nodes, in the order of the text and without recursion: trees are as deep as
    /// lists are long.
    fn walk(&mut self, root: Node<'_>, source: &str, context: &Context) -> Result<(), Unread> {
        let ahead = source.get(..root.start_byte()).unwrap_or_default();
        if has_escape(ahead) {
            return Err(Unread::Ambiguous);
        }
        let mut waiting = vec![Waiting {
            node: root,
            parent: None,
            context: Rc::new(context.clone()),
        }];
        while let Some(Waiting {
            node,
            parent,
            context,
        }) = waiting.pop()
        {
            self.nodes = self.nodes.saturating_add(1);
            if self.nodes > NODES_MAX {
                return Err(Unread::TooLarge);
            }
            let mut cursor = node.walk();
            let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
            if is_ambiguous(node, &children, source) {
                return Err(Unread::Ambiguous);
            }
            if let Some(command) = command_at(node, parent, &children, source) {
                self.take(command, &context)?;
            }
            let first = waiting.len();
            for (place, child) in children.iter().enumerate() {
                let around = Around {
                    parent: node,
                    before: place.checked_sub(1).and_then(|place| children.get(place)),
                    after: children.get(place.saturating_add(1)),
                };
                if child.is_named() && child.kind() != "comment" {
                    waiting.push(Waiting {
                        node: *child,
                        parent: Some(node),
                        context: around.context(*child, source, &context)?,
                    });
                }
            }
            if let Some(added) = waiting.get_mut(first..) {
                added.reverse();
            }
        }
        Ok(())
    }

    /// Takes a command and then what it starts.
    fn take(&mut self, mut command: SimpleCommand, context: &Context) -> Result<(), Unread> {
        if self.line.commands.len() >= COMMANDS_MAX {
            return Err(Unread::TooLarge);
        }
        command.steps.clone_from(&context.steps);
        let name = command.name();
        let calls_itself = name.is_some_and(|name| context.functions.contains(&name));
        if calls_itself && context.beside_others {
            command.multiplies = Multiplies::Yes;
        }
        let started = started(&command, context.is_fed);
        command.starts = started.kind();
        let program = command.program().unwrap_or_default();
        let starts = command.starts;
        self.line.commands.push(command);
        let place = self.line.commands.len().saturating_sub(1);
        if starts == Starts::Nothing {
            return Ok(());
        }
        let mut inner = context.inside(Step::Through(program))?;
        inner.is_fed = false;
        match started {
            Started::Nothing | Started::Unknown => Ok(()),
            Started::OneInstead(words) => self.take(of_words(words), &inner),
            Started::Commands(commands) => {
                let mut commands = commands.into_iter();
                commands.try_for_each(|words| self.take(of_words(words), &inner))
            }
            Started::Script { text, .. } => match self.script(&text, &inner) {
                Err(Unread::Syntax | Unread::Ambiguous) => {
                    self.line.commands.truncate(place.saturating_add(1));
                    if let Some(command) = self.line.commands.get_mut(place) {
                        command.starts = Starts::Unknown;
                    }
                    Ok(())
                }
                read => read,
            },
        }
    }
}

/// A node that is to be looked at.
struct Waiting<'t> {
    node: Node<'t>,
    parent: Option<Node<'t>>,
    context: Rc<Context>,
}

/// The simple command at a node, if there is one.
fn command_at(
    node: Node<'_>,
    parent: Option<Node<'_>>,
    children: &[Node<'_>],
    source: &str,
) -> Option<SimpleCommand> {
    if is_simple(node) {
        let mut command = simple(children, source);
        if let Some(outside) = parent.filter(|parent| parent.kind() == REDIRECTED) {
            let mut cursor = outside.walk();
            let around: Vec<Node<'_>> = outside.children(&mut cursor).collect();
            command.redirections.extend(redirections(&around, source));
        }
        return Some(command);
    }
    let is_bare = node.kind() == REDIRECTED && !children.iter().any(|child| is_simple(*child));
    is_bare.then(|| SimpleCommand {
        redirections: redirections(children, source),
        ..SimpleCommand::default()
    })
}

/// A statement with redirections behind it.
const REDIRECTED: &str = "redirected_statement";

/// A node's neighbours, from which follows where it stands.
struct Around<'t, 'a> {
    parent: Node<'t>,
    before: Option<&'a Node<'t>>,
    after: Option<&'a Node<'t>>,
}

impl Around<'_, '_> {
    /// Where a child stands, given where its parent does.
    fn context(
        &self,
        child: Node<'_>,
        source: &str,
        context: &Rc<Context>,
    ) -> Result<Rc<Context>, Unread> {
        let step = match (self.parent.kind(), child.kind()) {
            ("pipeline", _) => Some(Step::Pipeline),
            (_, "subshell") => Some(Step::Subshell),
            (_, "command_substitution") => Some(Step::Substitution),
            (_, "process_substitution") => Some(Step::ProcessSubstitution),
            (_, "for_statement" | "c_style_for_statement" | "while_statement") => Some(Step::Loop),
            (_, "if_statement" | "case_statement") => Some(Step::Branch),
            (_, "heredoc_body") => Some(Step::HereDocument),
            (_, "function_definition") => {
                let name = child.child_by_field_name("name");
                let name = name.map(|name| text_of(name, source)).unwrap_or_default();
                let mut inner = context.inside(Step::Function(name.to_owned()))?;
                inner.functions.push(name.to_owned());
                inner.beside_others = false;
                inner.is_fed = false;
                return Ok(Rc::new(inner));
            }
            _ if self.after.is_some_and(|after| after.kind() == "&") => Some(Step::Background),
            _ => None,
        };
        let Some(step) = step else {
            return Ok(Rc::clone(context));
        };
        let beside = [Step::Pipeline, Step::Background, Step::ProcessSubstitution];
        let is_beside = beside.contains(&step);
        let is_pipe = |node: &Node<'_>| matches!(node.kind(), "|" | "|&");
        let is_fed = self.parent.kind() == "pipeline" && self.before.is_some_and(is_pipe);
        let mut inner = context.inside(step)?;
        inner.beside_others |= is_beside;
        inner.is_fed |= is_fed;
        Ok(Rc::new(inner))
    }
}

fn is_simple(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "command" | "declaration_command" | "unset_command"
    )
}

/// The command that is made of a node's children.
fn simple(children: &[Node<'_>], source: &str) -> SimpleCommand {
    let mut command = SimpleCommand {
        redirections: redirections(children, source),
        ..SimpleCommand::default()
    };
    let mut end = 0;
    for child in children {
        match child.kind() {
            "variable_assignment" if command.words.is_empty() => {
                command.assignments.push(text_of(*child, source).to_owned());
            }
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" | "comment" => {}
            _ => {
                let found = word(*child, source);
                let gap = source.get(end..child.start_byte()).unwrap_or_default();
                match command.words.last_mut() {
                    Some(last) if gap.replace("\\\n", "").is_empty() => join(last, found),
                    _ => command.words.push(found),
                }
                end = child.end_byte();
            }
        }
    }
    command
}

fn of_words(words: Vec<Word>) -> SimpleCommand {
    let is_assignment = |word: &&Word| {
        let value = word.value().unwrap_or_default();
        let name = value.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
    };
    let assignments = words.iter().take_while(is_assignment).count();
    let mut words = words.into_iter();
    let set = words.by_ref().take(assignments);
    SimpleCommand {
        assignments: set.map(|word| word.raw).collect(),
        words: words.collect(),
        ..SimpleCommand::default()
    }
}

/// The redirections among a node's children.
fn redirections(children: &[Node<'_>], source: &str) -> Vec<Redirection> {
    let redirections = children.iter().filter_map(|child| {
        let mut cursor = child.walk();
        let parts: Vec<Node<'_>> = child.children(&mut cursor).collect();
        let operator = parts.iter().find(|part| !part.is_named())?;
        let operator = text_of(*operator, source).to_owned();
        let target = match child.kind() {
            "file_redirect" => word(child.child_by_field_name("destination")?, source),
            "herestring_redirect" => word(*parts.last()?, source),
            "heredoc_redirect" => {
                let body = parts.iter().find(|part| part.kind() == "heredoc_body")?;
                Word::literal(text_of(*body, source))
            }
            _ => return None,
        };
        Some(Redirection { operator, target })
    });
    redirections.collect()
}

/// Whether the shell would read something else here than the grammar. The grammar takes a space
/// after a backslash for a space, and an indented end of a here-document for its end.
fn is_ambiguous(node: Node<'_>, children: &[Node<'_>], source: &str) -> bool {
    let is_text = matches!(
        node.kind(),
        "string" | "translated_string" | "heredoc_body" | "expansion" | "regex"
    );
    let mut pairs = children.iter().zip(children.iter().skip(1));
    let gap = |(left, right): (&Node<'_>, &Node<'_>)| {
        let gap = source.get(left.end_byte()..right.start_byte());
        gap.is_some_and(has_escape)
    };
    if !is_text && node.kind() != "heredoc_redirect" && pairs.any(gap) {
        return true;
    }
    node.kind() == "heredoc_redirect" && !ends_as_in_shells(children, source)
}

/// Whether the end of a here-document stands alone on its line.
fn ends_as_in_shells(children: &[Node<'_>], source: &str) -> bool {
    let Some(end) = children.iter().find(|child| child.kind() == "heredoc_end") else {
        return false;
    };
    let before = source.get(..end.start_byte()).unwrap_or_default();
    let is_dashed = children.iter().any(|child| child.kind() == "<<-");
    let line = before.rsplit('\n').next().unwrap_or_default();
    let text = text_of(*end, source).trim_start_matches('\n');
    let indent = line
        .chars()
        .chain(text.chars().take_while(|c| c.is_whitespace()));
    let after = source.get(end.end_byte()..).unwrap_or_default();
    let mut indent = indent.peekable();
    let is_indented = indent.peek().is_some();
    (after.is_empty() || after.starts_with('\n'))
        && (!is_indented || (is_dashed && indent.all(|c| c == '\t')))
}

/// Whether a text between two words holds a backslash that is no broken line.
fn has_escape(text: &str) -> bool {
    let mut rest = text.split('\\').skip(1);
    rest.any(|after| !after.starts_with('\n'))
}
