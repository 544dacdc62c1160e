//! A parsed command line: its simple commands with their words and redirections, how each is
//! reached, and why a line could not be parsed. Whatever is known only at run time is marked as
//! unknown, never guessed.

use std::fmt;

use crate::commands::syntax_nodes::NEGATION;
use crate::text::single_line;

/// The longest part of a command that messages quote, in characters.
const QUOTED_CHARS_MAX: usize = 160;

/// A parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedCommandLine {
    /// Every simple command anywhere in it, in the order of the source.
    pub commands: Vec<SimpleCommand>,
    /// The reason why the line could not be parsed, or not completely.
    pub unparsed_reason: Option<UnparsedReason>,
}

/// The reason why a command line could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnparsedReason {
    /// It is not valid shell syntax, or the parser does not know it.
    Syntax,
    /// Shells differ about what it means, or from the parser.
    Ambiguous,
    /// It is too long or too complex.
    TooLarge,
    /// Commands are nested too deeply.
    TooDeep,
}

impl fmt::Display for UnparsedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnparsedReason::Syntax => "its syntax is not understood",
            UnparsedReason::Ambiguous => "shells differ about what it means",
            UnparsedReason::TooLarge => "it is too long to be parsed",
            UnparsedReason::TooDeep => "its commands are nested too deep",
        })
    }
}

/// A simple command: a name with arguments, or assignments and redirections alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// Its name and arguments; empty if there are only assignments or redirections.
    pub words: Vec<ShellWord>,
    /// Its variable assignments.
    pub assignments: Vec<ShellWord>,
    /// Its redirections.
    pub redirections: Vec<Redirection>,
    /// How it is reached, from the outermost step inwards.
    pub steps: Vec<NestingStep>,
    /// The commands that it runs through its arguments or its input.
    pub wrapped_kind: WrappedKind,
    /// Whether it recursively calls the function around it, concurrently with other commands.
    pub fork_bomb: ForkBomb,
    /// Whether it gets more arguments than are written.
    pub extra_arguments: ExtraArguments,
}

/// Whether a command gets more arguments than are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExtraArguments {
    /// It gets only the written arguments.
    #[default]
    None,
    /// More follow that are known only at run time (`xargs`).
    Unknown,
}

/// The commands that a command runs through its arguments or its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WrappedKind {
    /// It runs no other command.
    #[default]
    Nothing,
    /// It runs commands that are listed after it.
    Commands,
    /// It runs one command that is listed after it, and does nothing else (`timeout`, `env`).
    OneCommand,
    /// It runs commands that are known only at run time (`eval "$X"`, `… | sh`).
    Unknown,
}

impl WrappedKind {
    /// Returns the kind of a command that runs all of these: unknown if one of them is, otherwise
    /// the first that is not `Nothing`.
    pub(super) fn combine(all: impl Iterator<Item = Self>) -> Self {
        all.fold(WrappedKind::Nothing, |first, next| match (first, next) {
            (WrappedKind::Unknown, _) | (_, WrappedKind::Unknown) => WrappedKind::Unknown,
            (WrappedKind::Nothing, kind) | (kind, _) => kind,
        })
    }
}

/// Whether a command recursively calls the function around it, concurrently with other commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForkBomb {
    /// The command is not a fork bomb.
    #[default]
    No,
    /// Each call starts further concurrent calls, without end.
    Yes,
}

impl SimpleCommand {
    /// Creates a command from these words. Leading `!` and variable assignments are not part of its
    /// name.
    pub(super) fn from_words(words: Vec<ShellWord>) -> Self {
        let negations = words.iter().take_while(|word| word.raw == NEGATION).count();
        let words: Vec<ShellWord> = words.into_iter().skip(negations).collect();
        let assignments = words.iter().take_while(|word| word.sets_variable()).count();
        let mut words = words.into_iter();
        let assignment_words = words.by_ref().take(assignments);
        Self {
            assignments: assignment_words.collect(),
            words: words.collect(),
            ..Self::default()
        }
    }

    /// Returns its name as written, without quotes; `None` if there is none or it is known only at
    /// run time.
    pub fn name(&self) -> Option<String> {
        self.words.first()?.known_text()
    }

    /// Returns the last component of its name in lower case, by which programs are identified.
    pub fn program(&self) -> Option<String> {
        let name = self.words.first()?.known_suffix()?;
        let program = name.rsplit('/').next()?;
        Some(program.to_ascii_lowercase())
    }

    /// Iterates over the known arguments, without quotes.
    pub fn arguments(&self) -> impl DoubleEndedIterator<Item = String> {
        self.words.iter().skip(1).filter_map(ShellWord::known_text)
    }

    /// Iterates over the arguments that do not begin with `-`: the operands, and values of options.
    pub fn operands(&self) -> impl DoubleEndedIterator<Item = String> {
        self.arguments()
            .filter(|argument| !argument.starts_with('-'))
    }

    /// Returns name and arguments without quotes, joined by spaces; unknown parts appear as
    /// written.
    pub fn text(&self) -> String {
        let words: Vec<String> = self.words.iter().map(ShellWord::display_text).collect();
        words.join(" ")
    }
}

/// Writes the command as messages show it.
impl fmt::Display for SimpleCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redirections = self.redirections.iter().map(ToString::to_string);
        let words = self
            .assignments
            .iter()
            .chain(&self.words)
            .map(|word| word.raw.clone());
        let parts: Vec<String> = words.chain(redirections).collect();
        f.write_str(&single_line(&parts.join(" "), QUOTED_CHARS_MAX))
    }
}

/// A name or an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellWord {
    /// The source of the word.
    pub raw: String,
    /// Its value, piece by piece.
    pub pieces: Vec<WordPiece>,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordPiece {
    /// Literal text, without its quotes.
    Text(String),
    /// Known only at run time: a variable, a substitution or a glob.
    Unknown(String),
}

impl ShellWord {
    /// Returns a placeholder for any number of words that are known only at run time.
    pub fn unknown() -> Self {
        Self {
            raw: "…".to_owned(),
            pieces: vec![WordPiece::Unknown("…".to_owned())],
        }
    }

    /// Returns a word with this literal value.
    pub fn literal(text: &str) -> Self {
        Self {
            raw: text.to_owned(),
            pieces: vec![WordPiece::Text(text.to_owned())],
        }
    }

    /// Returns the word without quotes; `None` if it is known only at run time.
    pub fn known_text(&self) -> Option<String> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            WordPiece::Text(text) => Some(text.as_str()),
            WordPiece::Unknown(_) => None,
        });
        pieces.collect()
    }

    /// Returns the word without quotes; unknown parts appear as written.
    pub fn display_text(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            WordPiece::Text(text) | WordPiece::Unknown(text) => text.as_str(),
        });
        pieces.collect()
    }

    /// Returns whether it is an assignment.
    fn sets_variable(&self) -> bool {
        self.assignment().is_some()
    }

    /// Returns the name and the value if it is an assignment, `NAME=value` or `NAME+=value`.
    pub(super) fn assignment(&self) -> Option<(String, ShellWord)> {
        let (first, rest) = self.pieces.split_first()?;
        let (WordPiece::Text(first), Some((_, raw))) = (first, self.raw.split_once('=')) else {
            return None;
        };
        let (name, value_start) = first.split_once('=')?;
        let name = name.strip_suffix('+').unwrap_or(name);
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name_byte) {
            return None;
        }
        let first_piece =
            (!value_start.is_empty()).then(|| WordPiece::Text(value_start.to_owned()));
        let value = ShellWord {
            raw: raw.to_owned(),
            pieces: first_piece
                .into_iter()
                .chain(rest.iter().cloned())
                .collect(),
        };
        Some((name.to_owned(), value))
    }

    /// Returns the word with each `placeholder` as an unknown piece, because another program
    /// replaces it at run time.
    pub(super) fn with_placeholders(self, placeholder: &str) -> Self {
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces {
            let WordPiece::Text(text) = piece else {
                pieces.push(piece);
                continue;
            };
            for (index, literal) in text.split(placeholder).enumerate() {
                if index > 0 {
                    pieces.push(WordPiece::Unknown(placeholder.to_owned()));
                }
                if !literal.is_empty() {
                    pieces.push(WordPiece::Text(literal.to_owned()));
                }
            }
        }
        let raw = self.raw;
        Self { raw, pieces }
    }

    /// Returns the known end of the word: all of it, or the text after the last unknown piece if it
    /// contains a `/`: the program of `$HOME/bin/rm` is known.
    fn known_suffix(&self) -> Option<String> {
        if let Some(value) = self.known_text() {
            return Some(value);
        }
        match self.pieces.last()? {
            WordPiece::Text(text) if text.contains('/') => Some(text.clone()),
            WordPiece::Text(_) | WordPiece::Unknown(_) => None,
        }
    }
}

/// A redirection of a command's input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// `>`, `>>`, `<`, `<<<` and so on.
    pub operator: String,
    /// The file, the string of `<<<`, or the body of `<<`.
    pub target: ShellWord,
}

impl Redirection {
    /// Returns whether it writes to its target.
    pub fn writes(&self) -> bool {
        self.operator.contains('>')
    }
}

impl fmt::Display for Redirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.operator.starts_with("<<") && self.operator != "<<<" {
            write!(f, "{}…", self.operator)
        } else {
            write!(f, "{}{}", self.operator, self.target.raw)
        }
    }
}

/// One step on the way to a nested command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NestingStep {
    /// It is part of `a | b`.
    Pipeline,
    /// It is followed by `&`, in the background.
    Background,
    /// It is in a subshell, `( … )`.
    Subshell,
    /// It is in `$( … )`.
    Substitution,
    /// It is in `<( … )` or `>( … )`.
    ProcessSubstitution,
    /// It is in the body of this function.
    Function(String),
    /// It is in `for`, `while`, `until` or `select`.
    Loop,
    /// It is in `if` or `case`.
    Branch,
    /// It is in a substitution in the body of a here-document, `<<`.
    HereDocument,
    /// Another command runs it through its arguments or its input.
    Through(String),
}

impl fmt::Display for NestingStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NestingStep::Pipeline => f.write_str("pipeline"),
            NestingStep::Background => f.write_str("background"),
            NestingStep::Subshell => f.write_str("subshell"),
            NestingStep::Substitution => f.write_str("substitution"),
            NestingStep::ProcessSubstitution => f.write_str("process substitution"),
            NestingStep::Function(name) => write!(f, "function `{name}`"),
            NestingStep::Loop => f.write_str("loop"),
            NestingStep::Branch => f.write_str("branch"),
            NestingStep::HereDocument => f.write_str("here-document"),
            NestingStep::Through(program) => write!(f, "through `{program}`"),
        }
    }
}

/// Returns whether `name` is one of these long options or the beginning of one: GNU programs accept
/// abbreviations.
pub(super) fn names_long_option(name: &str, options: &[&str]) -> bool {
    !name.is_empty() && options.iter().any(|option| option.starts_with(name))
}
