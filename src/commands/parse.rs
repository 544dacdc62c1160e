//! Parses a command line into its simple commands, by the grammar of bash. Parsing is bounded in
//! bytes, nodes, depth and work. Where the grammar and the shell would disagree, the result is
//! [`UnparsedReason::Ambiguous`], never a guess.

use std::rc::Rc;

use tree_sitter::{Node, Parser};

use crate::bounded_parse::parse_bounded;
use crate::commands::line::{
    ExtraArguments, ForkBomb, NestingStep, ParsedCommandLine, Redirection, ShellWord,
    SimpleCommand, UnparsedReason, WrappedKind,
};
use crate::commands::substitutions::NodeContext;
use crate::commands::syntax_nodes::{command_at, has_escape, is_ambiguous, setting_at};
use crate::commands::variables::wrapped_by_variables;
use crate::commands::words::text_of;
use crate::commands::wrappers::{WrappedCommand, wrapped_command};

/// The longest line that is parsed, in bytes: the longest argument of a program on Linux
/// (`MAX_ARG_STRLEN`), and so the longest that a shell can be given.
pub const LINE_BYTES_MAX: usize = 128 * 1024;
/// The most text that is parsed for a line including what its commands run, in bytes: a string
/// passed to `eval` or `-c` is parsed as well.
const READ_BYTES_MAX: usize = 2 * LINE_BYTES_MAX;
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

/// Parses a command line. One that cannot be parsed has no commands; one that is too large has
/// those parsed until then.
pub fn parse(text: &str) -> ParsedCommandLine {
    let mut reading = CommandLineParser {
        parser: Parser::new(),
        bytes: 0,
        words: 0,
        nodes: 0,
        line: ParsedCommandLine::default(),
    };
    let language = tree_sitter_bash::LANGUAGE.into();
    let outcome = match reading.parser.set_language(&language) {
        Ok(()) => reading.parse_script(text, &ParseContext::default()),
        Err(_) => Err(UnparsedReason::Syntax),
    };
    if let Err(reason) = outcome {
        if matches!(reason, UnparsedReason::Syntax | UnparsedReason::Ambiguous) {
            reading.line.commands.clear();
        }
        reading.line.unread = Some(reason);
    }
    reading.line
}

/// The parser and what it has read so far.
struct CommandLineParser {
    parser: Parser,
    bytes: usize,
    words: usize,
    nodes: usize,
    line: ParsedCommandLine,
}

/// The context of a node.
#[derive(Clone, Debug, Default)]
struct ParseContext {
    steps: Vec<NestingStep>,
    /// The names of the enclosing functions.
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
        self.bytes = self.bytes.saturating_add(text.len());
        let is_too_much = text.len() > LINE_BYTES_MAX
            || self.bytes > READ_BYTES_MAX
            || text.matches("<<").count() > HERE_DOCUMENTS_MAX
            || text.matches("=(").count() > ARRAYS_MAX;
        if is_too_much {
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
        let text_ahead = source.get(..root.start_byte()).unwrap_or_default();
        if has_escape(text_ahead) {
            return Err(UnparsedReason::Ambiguous);
        }
        let root = NodeContext {
            node: root,
            parent: None,
            is_quoted: false,
        };
        let mut nodes_waiting = vec![(root, Rc::new(context.clone()))];
        while let Some((visited, context)) = nodes_waiting.pop() {
            let NodeContext { node, parent, .. } = visited;
            self.nodes = self.nodes.saturating_add(1);
            if self.nodes > NODES_MAX {
                return Err(UnparsedReason::TooLarge);
            }
            let mut cursor = node.walk();
            let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
            if is_ambiguous(node, &children, source) {
                return Err(UnparsedReason::Ambiguous);
            }
            if let Some(script) = visited.unescaped_substitution(source)? {
                self.parse_script(&script, &context)?;
                continue;
            }
            for script in visited.scripts(&children, source)? {
                self.parse_script(&script, &context.nest(NestingStep::Substitution)?)?;
            }
            if let Some(command) = command_at(node, parent, &children, source) {
                self.push_command(command, &context)?;
            }
            if let Some(command) = setting_at(node, parent, source)
                && !wrapped_by_variables(&command).is_empty()
            {
                self.push_command(command, &context)?;
            }
            let first_child = nodes_waiting.len();
            for (index, child) in children.iter().enumerate() {
                let around = NodeNeighbours {
                    parent: node,
                    before: index.checked_sub(1).and_then(|index| children.get(index)),
                    after: children.get(index.saturating_add(1)),
                };
                if child.is_named() && child.kind() != "comment" {
                    let context = around.context(*child, source, &context)?;
                    nodes_waiting.push((visited.child(*child), context));
                }
            }
            if let Some(added_nodes) = nodes_waiting.get_mut(first_child..) {
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
        self.words = self.words.saturating_add(command.words.len());
        if self.line.commands.len() >= COMMANDS_MAX || self.words > WORDS_MAX {
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
        command.wraps = WrappedKind::combine(wrapped_commands.iter().map(WrappedCommand::kind));
        // A command without its own input inherits that of the command that runs it.
        let input = command
            .redirections
            .iter()
            .filter(|redirection| redirection.operator.starts_with('<'));
        let origin = WrapperContext {
            index: self.line.commands.len(),
            program: command.program().unwrap_or_default(),
            input: input.cloned().collect(),
        };
        self.line.commands.push(command);
        let mut wrapped_commands = wrapped_commands.into_iter();
        wrapped_commands.try_for_each(|one| self.push_wrapped(&origin, one, context))
    }

    /// Adds the commands that a command runs.
    fn push_wrapped(
        &mut self,
        by: &WrapperContext,
        started: WrappedCommand,
        context: &ParseContext,
    ) -> Result<(), UnparsedReason> {
        if started == WrappedCommand::Nothing {
            return Ok(());
        }
        let mut inner_context = context.nest(NestingStep::Through(by.program.clone()))?;
        let inherits = |words: Vec<ShellWord>| SimpleCommand {
            redirections: by.input.clone(),
            ..SimpleCommand::from_words(words)
        };
        inner_context.has_piped_input = context.has_piped_input
            && matches!(
                started,
                WrappedCommand::Only(_) | WrappedCommand::Commands(_)
            );
        match started {
            WrappedCommand::Nothing | WrappedCommand::Unknown => Ok(()),
            WrappedCommand::Only(words) => self.push_command(inherits(words), &inner_context),
            WrappedCommand::WithExtraArguments(words) => self.push_command(
                SimpleCommand {
                    extra_arguments: ExtraArguments::Unknown,
                    ..SimpleCommand::from_words(words)
                },
                &inner_context,
            ),
            WrappedCommand::Commands(commands) => {
                let mut commands = commands.into_iter();
                commands.try_for_each(|words| self.push_command(inherits(words), &inner_context))
            }
            WrappedCommand::Script { text, .. } => {
                let count_before = self.line.commands.len();
                match self.parse_script(&text, &inner_context) {
                    Err(UnparsedReason::Syntax | UnparsedReason::Ambiguous) => {
                        self.line.commands.truncate(count_before);
                        if let Some(command) = self.line.commands.get_mut(by.index) {
                            command.wraps = WrappedKind::Unknown;
                        }
                        Ok(())
                    }
                    read => read,
                }
            }
        }
    }
}

/// The command that runs others.
struct WrapperContext {
    /// Its index among the commands.
    index: usize,
    program: String,
    /// The redirections of its input.
    input: Vec<Redirection>,
}

/// The neighbours of a node, which determine its context.
struct NodeNeighbours<'t, 'a> {
    parent: Node<'t>,
    before: Option<&'a Node<'t>>,
    after: Option<&'a Node<'t>>,
}

impl NodeNeighbours<'_, '_> {
    /// Returns the context of a child, given that of its parent.
    fn context(
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
                inner_context.runs_concurrently = false;
                inner_context.has_piped_input = false;
                return Ok(Rc::new(inner_context));
            }
            _ if self.after.is_some_and(|after| after.kind() == "&") => {
                Some(NestingStep::Background)
            }
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
        let is_fed = self.parent.kind() == "pipeline" && self.before.is_some_and(is_pipe);
        let mut inner_context = context.nest(step)?;
        inner_context.runs_concurrently |= is_concurrent;
        inner_context.has_piped_input |= is_fed;
        Ok(Rc::new(inner_context))
    }
}

/// Replaces each byte outside ASCII with a letter. To the shell such bytes are just parts of words,
/// and the grammar's scanner looks characters up in a table that covers only ASCII.
fn replace_non_ascii(text: &str) -> Vec<u8> {
    let letter = |byte: u8| if byte.is_ascii() { byte } else { b'z' };
    text.bytes().map(letter).collect()
}
