//! Programs that run other programs named by their arguments or input: shells, `env`, `xargs`,
//! `sudo` and similar. A program that is not in the table is assumed to run nothing.

use crate::commands::line::{ShellWord, SimpleCommand, WordPiece, WrappedKind, names_long_option};

/// What a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrappedCommand {
    /// Nothing.
    Nothing,
    /// Commands with these words.
    Commands(Vec<Vec<ShellWord>>),
    /// A command with these words, and with further arguments from its input.
    WithExtraArguments(Vec<ShellWord>),
    /// This one command; the wrapper does nothing else.
    OneCommand(Vec<ShellWord>),
    /// This script, in a shell.
    Script {
        /// The source; parts that are known only at run time appear as written.
        text: String,
        /// Whether all of it is known.
        is_whole: bool,
    },
    /// Something that is known only at run time.
    Unknown,
}

impl WrappedCommand {
    /// Returns the kind that is recorded with the command.
    pub(super) fn kind(&self) -> WrappedKind {
        match self {
            WrappedCommand::Nothing => WrappedKind::Nothing,
            WrappedCommand::Commands(_)
            | WrappedCommand::WithExtraArguments(_)
            | WrappedCommand::Script { is_whole: true, .. } => WrappedKind::Commands,
            WrappedCommand::OneCommand(_) => WrappedKind::OneCommand,
            WrappedCommand::Unknown
            | WrappedCommand::Script {
                is_whole: false, ..
            } => WrappedKind::Unknown,
        }
    }
}

/// Programs that run others in the same way.
struct WrapperProgram {
    names: &'static [&'static str],
    style: WrapperStyle,
    /// Short options that take a value.
    value_letters: &'static str,
    /// Long options that take a value in the next word.
    value_options: &'static [&'static str],
    /// The number of operands before the command.
    operand_count: usize,
    /// Short options whose value is a command line.
    script_letters: &'static str,
    /// Long options whose value is a command line.
    script_options: &'static [&'static str],
    /// Short options with which it runs nothing.
    query_letters: &'static str,
}

/// How a program runs others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrapperStyle {
    /// The words after its options are the command, and it does nothing else.
    OnlyWords,
    /// The words after its options are the command.
    Words,
    /// Like `Words`, and its input gives further arguments, or the replacement of a placeholder in
    /// them.
    WordsAndInput,
    /// Like `OnlyWords`, and the command may be the first one in braces, with a name before them.
    Coprocess,
    /// It is a shell: `-c`, a file, or its input.
    Shell,
    /// The words after its options, joined by spaces, are read by a shell.
    JoinedScript,
    /// Like `JoinedScript`, with more words that are known only at run time.
    JoinedScriptAndMore,
    /// The first word after its options is read by a shell.
    FirstWordScript,
    /// `-exec` and similar options.
    Find,
}

/// A wrapper without options or operands of its own.
const WRAPPER_DEFAULTS: WrapperProgram = WrapperProgram {
    names: &[],
    style: WrapperStyle::OnlyWords,
    value_letters: "",
    value_options: &[],
    operand_count: 0,
    script_letters: "",
    script_options: &[],
    query_letters: "",
};

/// The programs that run others.
static WRAPPERS: &[WrapperProgram] = &[
    WrapperProgram {
        names: &[
            "nohup",
            "setsid",
            "builtin",
            "noglob",
            "busybox",
            "toybox",
            "fakeroot",
            "unbuffer",
            "linux32",
            "linux64",
            "i386",
            "x86_64",
            "dbus-run-session",
        ],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["setarch"],
        operand_count: 1,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["compgen"],
        style: WrapperStyle::Words,
        value_letters: "oAGWFCXPS",
        script_letters: "C",
        operand_count: usize::MAX,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["entr", "tsp"],
        style: WrapperStyle::Words,
        value_letters: "LNE",
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["coproc"],
        style: WrapperStyle::Coprocess,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["prlimit"],
        value_letters: "po",
        value_options: &["pid", "output"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["mapfile", "readarray"],
        style: WrapperStyle::Words,
        value_letters: "dnOsuCc",
        script_letters: "C",
        operand_count: usize::MAX,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["command"],
        query_letters: "vV",
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["exec"],
        value_letters: "a",
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["env"],
        value_letters: "uCS",
        value_options: &["unset", "chdir"],
        script_letters: "S",
        script_options: &["split-string"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["timeout"],
        value_letters: "ks",
        value_options: &["kill-after", "signal"],
        operand_count: 1,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["nice"],
        value_letters: "n",
        value_options: &["adjustment"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["ionice"],
        value_letters: "cn",
        value_options: &["class", "classdata"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["taskset", "chrt"],
        operand_count: 1,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["stdbuf"],
        value_letters: "ioe",
        value_options: &["input", "output", "error"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["time"],
        value_letters: "fo",
        value_options: &["format", "output"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["xargs"],
        style: WrapperStyle::WordsAndInput,
        value_letters: "adEILnPs",
        value_options: &[
            "arg-file",
            "delimiter",
            "max-args",
            "max-chars",
            "max-procs",
            "process-slot-var",
        ],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["strace", "ltrace"],
        style: WrapperStyle::Words,
        value_letters: "abeEIlnoOpPsSuX",
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["flock"],
        style: WrapperStyle::Words,
        value_letters: "wEc",
        value_options: &["timeout", "wait", "conflict-exit-code"],
        operand_count: 1,
        script_letters: "c",
        script_options: &["command"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["script"],
        style: WrapperStyle::Words,
        value_letters: "cEIOBTmo",
        script_letters: "c",
        script_options: &["command"],
        operand_count: usize::MAX,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["sudo", "doas", "run0"],
        style: WrapperStyle::Words,
        value_letters: "ughpCrtTDRU",
        value_options: &[
            "user",
            "group",
            "host",
            "prompt",
            "close-from",
            "role",
            "type",
            "chdir",
            "chroot",
        ],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["pkexec", "unshare", "nsenter", "setpriv"],
        style: WrapperStyle::Words,
        value_letters: "StG",
        value_options: &["user", "target", "reuid", "regid", "groups"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["chroot", "gosu", "su-exec"],
        style: WrapperStyle::Words,
        operand_count: 1,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["su"],
        value_letters: "cgGsw",
        value_options: &["group", "supp-group", "shell", "whitelist-environment"],
        script_letters: "c",
        script_options: &["command", "session-command"],
        operand_count: usize::MAX,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["runuser"],
        style: WrapperStyle::Words,
        value_letters: "cgGsuw",
        value_options: &["user", "group", "supp-group", "shell"],
        script_letters: "c",
        script_options: &["command", "session-command"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &[
            "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish",
        ],
        style: WrapperStyle::Shell,
        value_letters: "oO",
        value_options: &["rcfile", "init-file"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["eval"],
        style: WrapperStyle::JoinedScript,
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["watch"],
        style: WrapperStyle::JoinedScript,
        value_letters: "nq",
        value_options: &["interval", "equexit"],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["parallel"],
        style: WrapperStyle::JoinedScriptAndMore,
        value_letters: "jIaNnsLdEPS",
        value_options: &[
            "jobs", "arg-file", "max-args", "delay", "timeout", "results", "joblog", "colsep",
        ],
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["trap"],
        style: WrapperStyle::FirstWordScript,
        query_letters: "lp",
        ..WRAPPER_DEFAULTS
    },
    WrapperProgram {
        names: &["find", "gfind"],
        style: WrapperStyle::Find,
        ..WRAPPER_DEFAULTS
    },
];

/// Returns what a command runs; `has_piped_input` says whether its input is the output of another
/// command.
pub(super) fn wrapped_command(command: &SimpleCommand, has_piped_input: bool) -> WrappedCommand {
    let Some(program) = command.program() else {
        return WrappedCommand::Nothing;
    };
    let wrapper = WRAPPERS
        .iter()
        .find(|wrapper| wrapper.names.contains(&program.as_str()));
    let (Some(wrapper), Some((_, words))) = (wrapper, command.words.split_first()) else {
        return WrappedCommand::Nothing;
    };
    if wrapper.style == WrapperStyle::Find {
        return find_commands(words);
    }
    let arguments = WrapperArguments::parse(wrapper, words);
    if let Some(script) = &arguments.script {
        return joined_script(std::slice::from_ref(script));
    }
    if arguments
        .letters
        .chars()
        .any(|letter| wrapper.query_letters.contains(letter))
    {
        return WrappedCommand::Nothing;
    }
    match (wrapper.style, arguments.words) {
        (WrapperStyle::Shell, words) => {
            shell_script(command, &arguments.letters, words, has_piped_input)
        }
        (_, []) | (WrapperStyle::Find, _) => WrappedCommand::Nothing,
        (WrapperStyle::OnlyWords, words) => WrappedCommand::OneCommand(words.to_vec()),
        (WrapperStyle::Coprocess, words) => {
            let is_opening = |word: &ShellWord| matches!(word.raw.as_str(), "{" | "(");
            let opening = words.iter().take(2).position(is_opening);
            let inner_words = opening.map_or(words, |index| {
                words.get(index.saturating_add(1)..).unwrap_or_default()
            });
            WrappedCommand::OneCommand(inner_words.to_vec())
        }
        (WrapperStyle::Words, words) => WrappedCommand::Commands(vec![words.to_vec()]),
        (WrapperStyle::WordsAndInput, words) => match arguments.placeholder {
            Some(placeholder) => {
                WrappedCommand::Commands(vec![replace_placeholders(words, &placeholder)])
            }
            None => WrappedCommand::WithExtraArguments(words.to_vec()),
        },
        (WrapperStyle::FirstWordScript, [first, ..]) => joined_script(std::slice::from_ref(first)),
        (WrapperStyle::JoinedScript, words) => joined_script(words),
        (WrapperStyle::JoinedScriptAndMore, words) => {
            // After `:::`, `parallel` lists the arguments of the command.
            let is_list_mark = |word: &ShellWord| word.raw.starts_with(":::");
            match joined_script(words.split(is_list_mark).next().unwrap_or_default()) {
                WrappedCommand::Script { text, .. } => WrappedCommand::Script {
                    text,
                    is_whole: false,
                },
                other @ (WrappedCommand::Nothing
                | WrappedCommand::Commands(_)
                | WrappedCommand::WithExtraArguments(_)
                | WrappedCommand::OneCommand(_)
                | WrappedCommand::Unknown) => other,
            }
        }
    }
}

/// A wrapper's parsed arguments.
struct WrapperArguments<'a> {
    /// The letters of the short options.
    letters: String,
    /// The command line that is the value of an option.
    script: Option<ShellWord>,
    /// The placeholder that `xargs` replaces with its input, if it does not append the input to the
    /// words.
    placeholder: Option<String>,
    /// The words after options and operands.
    words: &'a [ShellWord],
}

impl<'a> WrapperArguments<'a> {
    fn parse(wrapper: &WrapperProgram, words: &'a [ShellWord]) -> Self {
        let mut arguments = Self {
            letters: String::new(),
            script: None,
            placeholder: None,
            words,
        };
        let mut operands_left = wrapper.operand_count;
        while let Some((first, rest)) = arguments.words.split_first() {
            let text = first.known_text().unwrap_or_default();
            let is_option = text.len() > 1 && text.starts_with(['-', '+']);
            if text == "--" {
                arguments.words = rest.get(operands_left..).unwrap_or_default();
                break;
            }
            if is_option {
                arguments.words = rest;
                arguments.take_option(wrapper, &text);
            } else if operands_left > 0 {
                operands_left = operands_left.saturating_sub(1);
                arguments.words = rest;
            } else {
                break;
            }
        }
        arguments
    }

    /// Adds an option, and takes its value from the words unless the option contains it.
    fn take_option(&mut self, wrapper: &WrapperProgram, option: &str) {
        if let Some(long_option) = option.strip_prefix("--") {
            let (name, value) = match long_option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long_option, None),
            };
            let is_script = names_long_option(name, wrapper.script_options);
            if wrapper.style == WrapperStyle::WordsAndInput && names_long_option(name, &["replace"])
            {
                self.placeholder = Some(placeholder_or_default(value.unwrap_or_default()));
            }
            match value {
                Some(value) if is_script => self.script = Some(ShellWord::literal(value)),
                None if is_script => self.script = self.take_word(),
                None if names_long_option(name, wrapper.value_options) => drop(self.take_word()),
                Some(_) | None => {}
            }
            return;
        }
        let mut letters = option.chars().skip(1);
        while let Some(letter) = letters.next() {
            self.letters.push(letter);
            let names_placeholder =
                wrapper.style == WrapperStyle::WordsAndInput && matches!(letter, 'I' | 'i');
            if names_placeholder && letter == 'i' {
                self.placeholder = Some(placeholder_or_default(&letters.collect::<String>()));
                return;
            }
            if !wrapper.value_letters.contains(letter) {
                continue;
            }
            let attached_value: String = letters.by_ref().collect();
            let value = if attached_value.is_empty() {
                self.take_word()
            } else {
                Some(ShellWord::literal(&attached_value))
            };
            if names_placeholder {
                self.placeholder = Some(placeholder_or_default(
                    &value
                        .as_ref()
                        .map(ShellWord::display_text)
                        .unwrap_or_default(),
                ));
            }
            if wrapper.script_letters.contains(letter) {
                self.script = value;
            }
        }
    }

    fn take_word(&mut self) -> Option<ShellWord> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first.clone())
    }
}

/// The placeholder that `find` and `xargs` replace by default.
const DEFAULT_PLACEHOLDER: &str = "{}";

/// Returns the placeholder that an option of `xargs` names.
fn placeholder_or_default(name: &str) -> String {
    let placeholder = if name.is_empty() {
        DEFAULT_PLACEHOLDER
    } else {
        name
    };
    placeholder.to_owned()
}

/// Marks each placeholder in the words as unknown.
fn replace_placeholders(words: &[ShellWord], placeholder: &str) -> Vec<ShellWord> {
    words
        .iter()
        .map(|word| word.clone().with_placeholders(placeholder))
        .collect()
}

/// Returns what a shell runs: the string of `-c`, or its input if it has no file argument.
fn shell_script(
    command: &SimpleCommand,
    letters: &str,
    words: &[ShellWord],
    has_piped_input: bool,
) -> WrappedCommand {
    if letters.contains('c') {
        return match words.first() {
            Some(first) => joined_script(std::slice::from_ref(first)),
            None => WrappedCommand::Nothing,
        };
    }
    let file = words.first().filter(|_| !letters.contains('s'));
    if let Some(file) = file.filter(|file| !is_standard_input(file)) {
        // The file is the output of a process substitution.
        return if file.raw.starts_with("<(") {
            WrappedCommand::Unknown
        } else {
            WrappedCommand::Nothing
        };
    }
    let mut from_last = command.redirections.iter().rev();
    match from_last.find(|redirection| redirection.operator.starts_with('<')) {
        Some(document) if document.operator.starts_with("<<") => {
            joined_script(std::slice::from_ref(&document.target))
        }
        Some(_) => WrappedCommand::Unknown,
        None if has_piped_input => WrappedCommand::Unknown,
        None => WrappedCommand::Nothing,
    }
}

/// Returns whether a file is the standard input of the shell that reads it.
fn is_standard_input(file: &ShellWord) -> bool {
    const NAMES: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
    file.known_text()
        .is_some_and(|value| NAMES.contains(&value.as_str()))
}

/// Returns the script that the words form for a shell, joined by spaces.
pub(super) fn joined_script(words: &[ShellWord]) -> WrappedCommand {
    let texts: Vec<String> = words.iter().map(ShellWord::display_text).collect();
    let mut pieces = words.iter().flat_map(|word| &word.pieces);
    let is_whole = pieces.all(|piece| matches!(piece, WordPiece::Text(_)));
    let text = texts.join(" ");
    if is_whole || texts.iter().any(|text| text.contains(' ')) {
        WrappedCommand::Script { text, is_whole }
    } else {
        WrappedCommand::Unknown
    }
}

/// Returns the commands of `find`: from `-exec` to `;` or `+`.
fn find_commands(words: &[ShellWord]) -> WrappedCommand {
    let is_one_of = |word: &ShellWord, names: &[&str]| {
        names.contains(&word.known_text().unwrap_or_default().as_str())
    };
    let mut commands = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if is_one_of(word, &["-exec", "-execdir", "-ok", "-okdir"]) {
            let command: Vec<ShellWord> = rest
                .by_ref()
                .take_while(|word| !is_one_of(word, &[";", "+"]))
                .cloned()
                .collect();
            commands.push(replace_placeholders(&command, DEFAULT_PLACEHOLDER));
        }
    }
    if commands.is_empty() {
        WrappedCommand::Nothing
    } else {
        WrappedCommand::Commands(commands)
    }
}
