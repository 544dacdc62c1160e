//! Owns what a parsed command line is: its simple commands, each with how it is reached. What can
//! only be known when the line runs is marked, never guessed.

use crate::commands::syntax_nodes::NOT;
use std::fmt;

use crate::text::single_line;

/// The longest text of a command that messages repeat, in characters.
const SHOWN_CHARS_MAX: usize = 160;

/// A parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedCommandLine {
    /// Every simple command anywhere in it, in the order of the text.
    pub commands: Vec<SimpleCommand>,
    /// Why nothing, or not all of it, could be read.
    pub unread: Option<UnparsedReason>,
}

/// Why a command line could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnparsedReason {
    /// It is no shell grammar, or none that the parser knows.
    Syntax,
    /// The shell would read it differently from the parser.
    Ambiguous,
    /// It is longer, or has more in it, than is looked at.
    TooLarge,
    /// Commands stand in commands too deep.
    TooDeep,
}

impl fmt::Display for UnparsedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnparsedReason::Syntax => "its syntax is not understood",
            UnparsedReason::Ambiguous => "shells differ about what it means",
            UnparsedReason::TooLarge => "it is too long to be looked through",
            UnparsedReason::TooDeep => "its commands are nested too deep",
        })
    }
}

/// A command without its surroundings: a name with arguments, or redirections alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// Its name and arguments; none if there are only redirections.
    pub words: Vec<ShellWord>,
    /// Variables that are set for it.
    pub assignments: Vec<ShellWord>,
    /// Files that its input and output are connected to.
    pub redirections: Vec<Redirection>,
    /// How it is reached, from the outside in.
    pub steps: Vec<NestingStep>,
    /// What it starts by its arguments or its input.
    pub wraps: WrappedKind,
    /// Whether it calls, beside other commands, the function that it stands in.
    pub fork_bomb: ForkBomb,
    /// Whether it is given more arguments than are written.
    pub extra_arguments: ExtraArguments,
}

/// Whether a command is given more arguments than are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExtraArguments {
    /// It has those that are written.
    #[default]
    None,
    /// Others follow that only the run shows (`xargs`).
    Unknown,
}

/// What a command starts by its arguments or its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WrappedKind {
    /// Nothing that is a command line.
    #[default]
    Nothing,
    /// Commands that are listed after it.
    Commands,
    /// One command that is listed after it; it does nothing else (`timeout`, `env`).
    Only,
    /// Commands that only the run shows (`eval "$X"`, `… | sh`).
    Unknown,
}

impl WrappedKind {
    /// What a command starts that starts all of these.
    pub(super) fn combined(all: impl Iterator<Item = Self>) -> Self {
        all.fold(WrappedKind::Nothing, |known, next| match (known, next) {
            (WrappedKind::Unknown, _) | (_, WrappedKind::Unknown) => WrappedKind::Unknown,
            (WrappedKind::Nothing, starts) | (starts, _) => starts,
        })
    }
}

/// Whether a command calls the function that it stands in, beside other commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForkBomb {
    /// It does not.
    #[default]
    No,
    /// Each call starts more calls at the same time, without an end.
    Yes,
}

impl SimpleCommand {
    /// The command of these words; what sets variables at its beginning is no part of its name.
    pub(super) fn from_words(words: Vec<ShellWord>) -> Self {
        let negations = words.iter().take_while(|word| word.raw == NOT).count();
        let words: Vec<ShellWord> = words.into_iter().skip(negations).collect();
        let assignments = words.iter().take_while(|word| word.sets_variable()).count();
        let mut words = words.into_iter();
        let set = words.by_ref().take(assignments);
        Self {
            assignments: set.collect(),
            words: words.collect(),
            ..Self::default()
        }
    }

    /// Its name as written, without quotes; `None` if only the run shows it, or there is none.
    pub fn name(&self) -> Option<String> {
        self.words.first()?.known_text()
    }

    /// The last part of its name in lower case, as programs are found.
    pub fn program(&self) -> Option<String> {
        let name = self.words.first()?.known_suffix()?;
        let program = name.rsplit('/').next()?;
        Some(program.to_ascii_lowercase())
    }

    /// The arguments that are known, without quotes.
    pub fn arguments(&self) -> impl DoubleEndedIterator<Item = String> {
        self.words.iter().skip(1).filter_map(ShellWord::known_text)
    }

    /// The arguments that are no options.
    pub fn operands(&self) -> impl DoubleEndedIterator<Item = String> {
        self.arguments()
            .filter(|argument| !argument.starts_with('-'))
    }

    /// Name and arguments without quotes, joined by spaces; what is not known stands as written.
    pub fn text(&self) -> String {
        let words: Vec<String> = self.words.iter().map(ShellWord::display_text).collect();
        words.join(" ")
    }
}

/// The command as messages show it.
impl fmt::Display for SimpleCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redirections = self.redirections.iter().map(ToString::to_string);
        let words = self.assignments.iter().chain(&self.words);
        let words = words.map(|word| word.raw.clone());
        let parts: Vec<String> = words.chain(redirections).collect();
        f.write_str(&single_line(&parts.join(" "), SHOWN_CHARS_MAX))
    }
}

/// A name or an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellWord {
    /// As it is written.
    pub raw: String,
    /// What it becomes, piece by piece.
    pub pieces: Vec<WordPiece>,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordPiece {
    /// Text, without its quotes.
    Text(String),
    /// What only the run shows: a variable, a substitution, a pattern of file names.
    Unknown(String),
}

impl ShellWord {
    /// Any number of words that only the run shows.
    pub fn unknown() -> Self {
        Self {
            raw: "…".to_owned(),
            pieces: vec![WordPiece::Unknown("…".to_owned())],
        }
    }

    /// A word that is what it says.
    pub fn literal(text: &str) -> Self {
        Self {
            raw: text.to_owned(),
            pieces: vec![WordPiece::Text(text.to_owned())],
        }
    }

    /// The word without quotes; `None` if only the run shows it.
    pub fn known_text(&self) -> Option<String> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            WordPiece::Text(text) => Some(text.as_str()),
            WordPiece::Unknown(_) => None,
        });
        pieces.collect()
    }

    /// The word without quotes; what only the run shows stands as written.
    pub fn display_text(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            WordPiece::Text(text) | WordPiece::Unknown(text) => text.as_str(),
        });
        pieces.collect()
    }

    /// Whether it has the form `NAME=value`.
    fn sets_variable(&self) -> bool {
        self.assignment().is_some()
    }

    /// The variable that it sets, and to what, if it has the form `NAME=value` or `NAME+=value`.
    pub(super) fn assignment(&self) -> Option<(String, ShellWord)> {
        let (first, rest) = self.pieces.split_first()?;
        let (WordPiece::Text(first), Some((_, raw))) = (first, self.raw.split_once('=')) else {
            return None;
        };
        let (name, begin) = first.split_once('=')?;
        let name = name.strip_suffix('+').unwrap_or(name);
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_letter) {
            return None;
        }
        let begin = Some(begin).filter(|begin| !begin.is_empty());
        let begin = begin.map(|begin| WordPiece::Text(begin.to_owned()));
        let value = ShellWord {
            raw: raw.to_owned(),
            pieces: begin.into_iter().chain(rest.iter().cloned()).collect(),
        };
        Some((name.to_owned(), value))
    }

    /// The word where another program puts something in the place of each `mark` in it: what that is,
    /// only the run shows.
    pub(super) fn with_placeholders(self, mark: &str) -> Self {
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces {
            let WordPiece::Text(text) = piece else {
                pieces.push(piece);
                continue;
            };
            for (place, between) in text.split(mark).enumerate() {
                if place > 0 {
                    pieces.push(WordPiece::Unknown(mark.to_owned()));
                }
                if !between.is_empty() {
                    pieces.push(WordPiece::Text(between.to_owned()));
                }
            }
        }
        let raw = self.raw;
        Self { raw, pieces }
    }

    /// The end of the word that is known: all of it, or what follows the last unknown piece if a
    /// `/` is in that.
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

/// A file that a command's input or output is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// `>`, `>>`, `<`, `<<<` and so on.
    pub operator: String,
    /// The file, the text of `<<<`, or the body of `<<`.
    pub target: ShellWord,
}

impl Redirection {
    /// Whether it writes to its target.
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

/// One step of how a command is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NestingStep {
    /// It is part of `a | b`.
    Pipeline,
    /// It is followed by `&`.
    Background,
    /// It stands in `( … )`.
    Subshell,
    /// It stands in `$( … )`.
    Substitution,
    /// It stands in `<( … )` or `>( … )`.
    ProcessSubstitution,
    /// It stands in the body of this function.
    Function(String),
    /// It stands in `for`, `while`, `until` or `select`.
    Loop,
    /// It stands in `if` or `case`.
    Branch,
    /// It stands in a substitution in the body of `<<`.
    HereDocument,
    /// Another command starts it by its arguments or its input.
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
