//! Parses a command line into its simple commands, by the grammar of bash. Parsing is bounded in
//! bytes, nodes, depth and work. Where the grammar and the shell would disagree, the result is
//! [`UnparsedReason::Ambiguous`], never a guess. If only a script that a command of the line runs
//! cannot be parsed, that command is recorded as [`WrappedKind::Unknown`], and the rest of the line
//! is still parsed.

use std::rc::Rc;

use tree_sitter::{Node, Parser};

use crate::bounded_parse::parse_bounded;
use crate::commands::line::{
    ExtraArguments, ForkBomb, NestingStep, ParsedCommandLine, Redirection, ShellWord,
    SimpleCommand, UnparsedReason, WrappedKind,
};
use crate::commands::substitutions::NodeContext;
use crate::commands::syntax_nodes::{command_at, has_escape, is_ambiguous, variable_setting_at};
use crate::commands::variables::wrapped_by_variables;
use crate::commands::words::text_of;
use crate::commands::wrappers::{WrappedCommand, wrapped_command};

/// The longest line that is parsed, in bytes: the longest argument of a program on Linux
/// (`MAX_ARG_STRLEN`), and so the longest that a shell can be given.
pub const LINE_BYTES_MAX: usize = 128 * 1024;
/// The most text that is parsed for a line including what its commands run, in bytes: a string
/// passed to `eval` or `-c` is parsed as well.
const PARSED_BYTES_MAX: usize = 2 * LINE_BYTES_MAX;
/// The maximum number of words in all commands of a line, including those that they run.
const WORDS_MAX: usize = 50_000;
/// The maximum number of nodes of a line's syntax tree.
const NODES_MAX: usize = 200_000;
/// The maximum number of simple commands of a line, including those that they run.
const COMMANDS_MAX: usize = 5_000;
/// The maximum nesting of a command in loops, functions, substitutions and arguments.
const STEPS_MAX: usize = 48;
/// The maximum number of here-documents in a line: the parser keeps a list of them.
const HERE_DOCUMENTS_MAX: usize = 32;
/// The maximum number of array assignments in a line: nested ones get slower to parse with their
/// depth.
const ARRAYS_MAX: usize = 64;
/// The maximum number of progress reports from the parser, which makes one every 100 operations.
/// Some 40 KiB of code need that many; the text of a quoted here-document needs none.
const REPORTS_MAX: usize = 500;

/// Parses a command line. One that cannot be parsed has no commands, because those found could be
/// others than the shell would run; one that is too large or too deep has those parsed until then.
pub fn parse(text: &str) -> ParsedCommandLine {
    let mut line_parser = CommandLineParser {
        parser: Parser::new(),
        parsed_bytes: 0,
        word_count: 0,
        node_count: 0,
        line: ParsedCommandLine::default(),
    };
    let language = tree_sitter_bash::LANGUAGE.into();
    let outcome = match line_parser.parser.set_language(&language) {
        Ok(()) => line_parser.parse_script(text, &ParseContext::default()),
        // The grammar does not fit the version of the parser library.
        Err(_) => Err(UnparsedReason::Syntax),
    };
    if let Err(reason) = outcome {
        if matches!(reason, UnparsedReason::Syntax | UnparsedReason::Ambiguous) {
            line_parser.line.commands.clear();
        }
        line_parser.line.unparsed_reason = Some(reason);
    }
    line_parser.line
}

/// The parser, what it has parsed so far, and how much of the limits that takes.
struct CommandLineParser {
    parser: Parser,
    parsed_bytes: usize,
    word_count: usize,
    node_count: usize,
    line: ParsedCommandLine,
}

/// What the surroundings of a node say about the commands in it.
#[derive(Clone, Debug, Default)]
struct ParseContext {
    steps: Vec<NestingStep>,
    /// The names of the functions in whose bodies it is.
    functions: Vec<String>,
    /// Whether other commands run concurrently, within the innermost function.
    runs_concurrently: bool,
    /// Whether its input is the output of another command.
    has_piped_input: bool,
}

impl ParseContext {
    fn nest(&self, step: NestingStep) -> Result<Self, UnparsedReason> {
        if self.steps.len() >= STEPS_MAX {
            return Err(UnparsedReason::TooDeep);
        }
        let mut nested_context = self.clone();
        nested_context.steps.push(step);
        Ok(nested_context)
    }
}

impl CommandLineParser {
    /// Parses a script that a shell would run.
    fn parse_script(&mut self, text: &str, context: &ParseContext) -> Result<(), UnparsedReason> {
        let is_binary = text
            .chars()
            .any(|c| c.is_control() && c != '\n' && c != '\t');
        if is_binary {
            return Err(UnparsedReason::Syntax);
        }
        self.parsed_bytes = self.parsed_bytes.saturating_add(text.len());
        let is_too_large = text.len() > LINE_BYTES_MAX
            || self.parsed_bytes > PARSED_BYTES_MAX
            || text.matches("<<").count() > HERE_DOCUMENTS_MAX
            || text.matches("=(").count() > ARRAYS_MAX;
        if is_too_large {
            return Err(UnparsedReason::TooLarge);
        }
        let Some(tree) = parse_bounded(&mut self.parser, &replace_non_ascii(text), REPORTS_MAX)
        else {
            self.parser.reset();
            return Err(UnparsedReason::TooLarge);
        };
        if tree.root_node().has_error() {
            return Err(UnparsedReason::Syntax);
        }
        self.walk(tree.root_node(), text, context)
    }

    /// Visits all nodes, in the order of the source. It is not recursive, because a long list gives
    /// a tree as deep as the list is long.
    fn walk(
        &mut self,
        root: Node<'_>,
        source: &str,
        context: &ParseContext,
    ) -> Result<(), UnparsedReason> {
        let leading_text = source.get(..root.start_byte()).unwrap_or_default();
        if has_escape(leading_text) {
            return Err(UnparsedReason::Ambiguous);
        }
        let root = NodeContext {
            node: root,
            parent: None,
            is_quoted: false,
        };
        let mut pending_nodes = vec![(root, Rc::new(context.clone()))];
        while let Some((visited_node, context)) = pending_nodes.pop() {
            let NodeContext { node, parent, .. } = visited_node;
            self.node_count = self.node_count.saturating_add(1);
            if self.node_count > NODES_MAX {
                return Err(UnparsedReason::TooLarge);
            }
            let mut cursor = node.walk();
            let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
            if is_ambiguous(node, &children, source) {
                return Err(UnparsedReason::Ambiguous);
            }
            // The step of this substitution was added to the context with the node.
            if let Some(script) = visited_node.unescaped_substitution(source)? {
                self.parse_script(&script, &context)?;
                continue;
            }
            for script in visited_node.scripts(&children, source)? {
                self.parse_script(&script, &context.nest(NestingStep::Substitution)?)?;
            }
            if let Some(command) = command_at(node, parent, &children, source) {
                self.push_command(command, &context)?;
            }
            // A variable is listed as a command only if programs run its value.
            if let Some(command) = variable_setting_at(node, parent, source)
                && !wrapped_by_variables(&command).is_empty()
            {
                self.push_command(command, &context)?;
            }
            let first_child = pending_nodes.len();
            for (index, child) in children.iter().enumerate() {
                let neighbours = NodeNeighbours {
                    parent: node,
                    previous: index.checked_sub(1).and_then(|index| children.get(index)),
                    next: children.get(index.saturating_add(1)),
                };
                if child.is_named() && child.kind() != "comment" {
                    let context = neighbours.child_context(*child, source, &context)?;
                    pending_nodes.push((visited_node.child(*child), context));
                }
            }
            // The last node of the list is visited next, which must be the first child.
            if let Some(added_nodes) = pending_nodes.get_mut(first_child..) {
                added_nodes.reverse();
            }
        }
        Ok(())
    }

    /// Adds a command and then the commands that it runs.
    fn push_command(
        &mut self,
        mut command: SimpleCommand,
        context: &ParseContext,
    ) -> Result<(), UnparsedReason> {
        self.word_count = self.word_count.saturating_add(command.words.len());
        if self.line.commands.len() >= COMMANDS_MAX || self.word_count > WORDS_MAX {
            return Err(UnparsedReason::TooLarge);
        }
        command.steps.clone_from(&context.steps);
        let name = command.name();
        let calls_itself = name.is_some_and(|name| context.functions.contains(&name));
        if calls_itself && context.runs_concurrently {
            command.fork_bomb = ForkBomb::Yes;
        }
        let wrapped_commands: Vec<WrappedCommand> =
            [wrapped_command(&command, context.has_piped_input)]
                .into_iter()
                .chain(wrapped_by_variables(&command))
                .collect();
        command.wrapped_kind =
            WrappedKind::combine(wrapped_commands.iter().map(WrappedCommand::kind));
        // A command without its own input inherits that of the command that runs it.
        let input = command
            .redirections
            .iter()
            .filter(|redirection| redirection.operator.starts_with('<'));
        let wrapper = WrapperCommand {
            index: self.line.commands.len(),
            program: command.program().unwrap_or_default(),
            input: input.cloned().collect(),
        };
        self.line.commands.push(command);
        let mut wrapped_commands = wrapped_commands.into_iter();
        wrapped_commands.try_for_each(|inner| self.push_wrapped(&wrapper, inner, context))
    }

    /// Adds the commands that `wrapper` runs.
    fn push_wrapped(
        &mut self,
        wrapper: &WrapperCommand,
        inner: WrappedCommand,
        context: &ParseContext,
    ) -> Result<(), UnparsedReason> {
        if inner == WrappedCommand::Nothing {
            return Ok(());
        }
        let mut inner_context = context.nest(NestingStep::Through(wrapper.program.clone()))?;
        let with_input = |words: Vec<ShellWord>| SimpleCommand {
            redirections: wrapper.input.clone(),
            ..SimpleCommand::from_words(words)
        };
        inner_context.has_piped_input = match inner {
            WrappedCommand::OneCommand(_) | WrappedCommand::Commands(_) => context.has_piped_input,
            // Its commands read what the wrapper was to read: a pipe, a file or a document.
            WrappedCommand::Script { .. } => context.has_piped_input || !wrapper.input.is_empty(),
            WrappedCommand::Nothing
            | WrappedCommand::WithExtraArguments(_)
            | WrappedCommand::Unknown => false,
        };
        match inner {
            WrappedCommand::Nothing | WrappedCommand::Unknown => Ok(()),
            WrappedCommand::OneCommand(words) => {
                self.push_command(with_input(words), &inner_context)
            }
            // The input of the wrapper becomes arguments; the command does not read it.
            WrappedCommand::WithExtraArguments(words) => self.push_command(
                SimpleCommand {
                    extra_arguments: ExtraArguments::Unknown,
                    ..SimpleCommand::from_words(words)
                },
                &inner_context,
            ),
            WrappedCommand::Commands(commands) => {
                let mut commands = commands.into_iter();
                commands.try_for_each(|words| self.push_command(with_input(words), &inner_context))
            }
            WrappedCommand::Script { text, .. } => {
                let count_before = self.line.commands.len();
                match self.parse_script(&text, &inner_context) {
                    // Only what this script runs is unknown: the rest of the line is still judged.
                    Err(UnparsedReason::Syntax | UnparsedReason::Ambiguous) => {
                        self.line.commands.truncate(count_before);
                        if let Some(command) = self.line.commands.get_mut(wrapper.index) {
                            command.wrapped_kind = WrappedKind::Unknown;
                        }
                        Ok(())
                    }
                    result => result,
                }
            }
        }
    }
}

/// A command that runs others.
struct WrapperCommand {
    /// Its index among the commands.
    index: usize,
    program: String,
    /// The redirections of its input.
    input: Vec<Redirection>,
}

/// The neighbours of a node, which determine its context.
struct NodeNeighbours<'t, 'a> {
    parent: Node<'t>,
    previous: Option<&'a Node<'t>>,
    next: Option<&'a Node<'t>>,
}

impl NodeNeighbours<'_, '_> {
    /// Returns the context of a child, given that of its parent.
    fn child_context(
        &self,
        child: Node<'_>,
        source: &str,
        context: &Rc<ParseContext>,
    ) -> Result<Rc<ParseContext>, UnparsedReason> {
        let step = match (self.parent.kind(), child.kind()) {
            ("pipeline", _) => Some(NestingStep::Pipeline),
            (_, "subshell") => Some(NestingStep::Subshell),
            (_, "command_substitution") => Some(NestingStep::Substitution),
            (_, "process_substitution") => Some(NestingStep::ProcessSubstitution),
            (_, "for_statement" | "c_style_for_statement" | "while_statement") => {
                Some(NestingStep::Loop)
            }
            (_, "if_statement" | "case_statement") => Some(NestingStep::Branch),
            (_, "heredoc_body") => Some(NestingStep::HereDocument),
            (_, "function_definition") => {
                let name = child
                    .child_by_field_name("name")
                    .map(|name| text_of(name, source))
                    .unwrap_or_default();
                let mut inner_context = context.nest(NestingStep::Function(name.to_owned()))?;
                inner_context.functions.push(name.to_owned());
                // The body runs where the function is called, not where it is defined.
                inner_context.runs_concurrently = false;
                inner_context.has_piped_input = false;
                return Ok(Rc::new(inner_context));
            }
            _ if self.next.is_some_and(|next| next.kind() == "&") => Some(NestingStep::Background),
            _ => None,
        };
        let Some(step) = step else {
            return Ok(Rc::clone(context));
        };
        let concurrent_steps = [
            NestingStep::Pipeline,
            NestingStep::Background,
            NestingStep::ProcessSubstitution,
        ];
        let is_concurrent = concurrent_steps.contains(&step);
        let is_pipe = |node: &Node<'_>| matches!(node.kind(), "|" | "|&");
        let has_piped_input =
            self.parent.kind() == "pipeline" && self.previous.is_some_and(is_pipe);
        let mut inner_context = context.nest(step)?;
        inner_context.runs_concurrently |= is_concurrent;
        inner_context.has_piped_input |= has_piped_input;
        Ok(Rc::new(inner_context))
    }
}

/// Replaces each byte outside ASCII with a letter. To the shell such bytes are just parts of words,
/// and the grammar's scanner looks characters up in a table that covers only ASCII.
fn replace_non_ascii(text: &str) -> Vec<u8> {
    let letter = |byte: u8| if byte.is_ascii() { byte } else { b'z' };
    text.bytes().map(letter).collect()
}
