//! Programs that run other programs named by their arguments or input: shells, `env`, `xargs`,
//! `sudo` and similar. A program that is not in the table is assumed to run nothing.

use crate::commands::line::{ShellWord, SimpleCommand, WordPiece, WrappedKind};

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
    Only(Vec<ShellWord>),
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
            WrappedCommand::Only(_) => WrappedKind::Only,
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
    operands: usize,
    /// Short and long options whose value is a command line.
    script_options: (&'static str, &'static [&'static str]),
    /// Short options with which it runs nothing.
    query_letters: &'static str,
}

/// How a program runs others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrapperStyle {
    /// The words after its options are the command, and it does nothing else.
    Instead,
    /// The words after its options are the command.
    Words,
    /// Like `Words`, and its input gives further arguments, or the replacement of a placeholder in
    /// them.
    WithInput,
    /// Like `Instead`, and the command may be the first one in braces, with a name before them.
    Coprocess,
    /// It is a shell: `-c`, a file, or its input.
    Shell,
    /// The words after its options, joined by spaces, are read by a shell.
    Joined,
    /// Like `Joined`, with more words that are known only at run time.
    JoinedWithMore,
    /// The first word after its options is read by a shell.
    First,
    /// `-exec` and similar options.
    Find,
}

const BASE: WrapperProgram = WrapperProgram {
    names: &[],
    style: WrapperStyle::Instead,
    value_letters: "",
    value_options: &[],
    operands: 0,
    script_options: ("", &[]),
    query_letters: "",
};

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
        ..BASE
    },
    WrapperProgram {
        names: &["setarch"],
        operands: 1,
        ..BASE
    },
    WrapperProgram {
        names: &["compgen"],
        style: WrapperStyle::Words,
        value_letters: "oAGWFCXPS",
        script_options: ("C", &[]),
        operands: usize::MAX,
        ..BASE
    },
    WrapperProgram {
        names: &["entr", "tsp"],
        style: WrapperStyle::Words,
        value_letters: "LNE",
        ..BASE
    },
    WrapperProgram {
        names: &["coproc"],
        style: WrapperStyle::Coprocess,
        ..BASE
    },
    WrapperProgram {
        names: &["prlimit"],
        value_letters: "po",
        value_options: &["pid", "output"],
        ..BASE
    },
    WrapperProgram {
        names: &["mapfile", "readarray"],
        style: WrapperStyle::Words,
        value_letters: "dnOsuCc",
        script_options: ("C", &[]),
        operands: usize::MAX,
        ..BASE
    },
    WrapperProgram {
        names: &["command"],
        query_letters: "vV",
        ..BASE
    },
    WrapperProgram {
        names: &["exec"],
        value_letters: "a",
        ..BASE
    },
    WrapperProgram {
        names: &["env"],
        value_letters: "uCS",
        value_options: &["unset", "chdir"],
        script_options: ("S", &["split-string"]),
        ..BASE
    },
    WrapperProgram {
        names: &["timeout"],
        value_letters: "ks",
        value_options: &["kill-after", "signal"],
        operands: 1,
        ..BASE
    },
    WrapperProgram {
        names: &["nice"],
        value_letters: "n",
        value_options: &["adjustment"],
        ..BASE
    },
    WrapperProgram {
        names: &["ionice"],
        value_letters: "cn",
        value_options: &["class", "classdata"],
        ..BASE
    },
    WrapperProgram {
        names: &["taskset", "chrt"],
        operands: 1,
        ..BASE
    },
    WrapperProgram {
        names: &["stdbuf"],
        value_letters: "ioe",
        value_options: &["input", "output", "error"],
        ..BASE
    },
    WrapperProgram {
        names: &["time"],
        value_letters: "fo",
        value_options: &["format", "output"],
        ..BASE
    },
    WrapperProgram {
        names: &["xargs"],
        style: WrapperStyle::WithInput,
        value_letters: "adEILnPs",
        value_options: &[
            "arg-file",
            "delimiter",
            "max-args",
            "max-chars",
            "max-procs",
            "process-slot-var",
        ],
        ..BASE
    },
    WrapperProgram {
        names: &["strace", "ltrace"],
        style: WrapperStyle::Words,
        value_letters: "abeEIlnoOpPsSuX",
        ..BASE
    },
    WrapperProgram {
        names: &["flock"],
        style: WrapperStyle::Words,
        value_letters: "wEc",
        value_options: &["timeout", "wait", "conflict-exit-code"],
        operands: 1,
        script_options: ("c", &["command"]),
        ..BASE
    },
    WrapperProgram {
        names: &["script"],
        style: WrapperStyle::Words,
        value_letters: "cEIOBTmo",
        script_options: ("c", &["command"]),
        operands: usize::MAX,
        ..BASE
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
        ..BASE
    },
    WrapperProgram {
        names: &["pkexec", "unshare", "nsenter", "setpriv"],
        style: WrapperStyle::Words,
        value_letters: "StG",
        value_options: &["user", "target", "reuid", "regid", "groups"],
        ..BASE
    },
    WrapperProgram {
        names: &["chroot", "gosu", "su-exec"],
        style: WrapperStyle::Words,
        operands: 1,
        ..BASE
    },
    WrapperProgram {
        names: &["su"],
        value_letters: "cgGsw",
        value_options: &["group", "supp-group", "shell", "whitelist-environment"],
        script_options: ("c", &["command", "session-command"]),
        operands: usize::MAX,
        ..BASE
    },
    WrapperProgram {
        names: &["runuser"],
        style: WrapperStyle::Words,
        value_letters: "cgGsuw",
        value_options: &["user", "group", "supp-group", "shell"],
        script_options: ("c", &["command", "session-command"]),
        ..BASE
    },
    WrapperProgram {
        names: &[
            "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish",
        ],
        style: WrapperStyle::Shell,
        value_letters: "oO",
        value_options: &["rcfile", "init-file"],
        ..BASE
    },
    WrapperProgram {
        names: &["eval"],
        style: WrapperStyle::Joined,
        ..BASE
    },
    WrapperProgram {
        names: &["watch"],
        style: WrapperStyle::Joined,
        value_letters: "nq",
        value_options: &["interval", "equexit"],
        ..BASE
    },
    WrapperProgram {
        names: &["parallel"],
        style: WrapperStyle::JoinedWithMore,
        value_letters: "jIaNnsLdEPS",
        value_options: &[
            "jobs", "arg-file", "max-args", "delay", "timeout", "results", "joblog", "colsep",
        ],
        ..BASE
    },
    WrapperProgram {
        names: &["trap"],
        style: WrapperStyle::First,
        query_letters: "lp",
        ..BASE
    },
    WrapperProgram {
        names: &["find", "gfind"],
        style: WrapperStyle::Find,
        ..BASE
    },
];

/// Returns what a command runs; `is_fed` says whether its input is the output of another command.
pub(super) fn wrapped_command(command: &SimpleCommand, is_fed: bool) -> WrappedCommand {
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
        (WrapperStyle::Shell, words) => shell_script(command, &arguments.letters, words, is_fed),
        (_, []) | (WrapperStyle::Find, _) => WrappedCommand::Nothing,
        (WrapperStyle::Instead, words) => WrappedCommand::Only(words.to_vec()),
        (WrapperStyle::Coprocess, words) => {
            let is_open = |word: &ShellWord| matches!(word.raw.as_str(), "{" | "(");
            let begin = words.iter().take(2).position(is_open);
            let inner_words =
                begin.map_or(words, |begin| words.get(begin + 1..).unwrap_or_default());
            WrappedCommand::Only(inner_words.to_vec())
        }
        (WrapperStyle::Words, words) => WrappedCommand::Commands(vec![words.to_vec()]),
        (WrapperStyle::WithInput, words) => match arguments.placeholder {
            Some(placeholder) => {
                WrappedCommand::Commands(vec![replace_placeholders(words, &placeholder)])
            }
            None => WrappedCommand::WithExtraArguments(words.to_vec()),
        },
        (WrapperStyle::First, [first, ..]) => joined_script(std::slice::from_ref(first)),
        (WrapperStyle::Joined, words) => joined_script(words),
        (WrapperStyle::JoinedWithMore, words) => {
            let is_list = |word: &ShellWord| word.raw.starts_with(":::");
            match joined_script(words.split(is_list).next().unwrap_or_default()) {
                WrappedCommand::Script { text, .. } => WrappedCommand::Script {
                    text,
                    is_whole: false,
                },
                other @ (WrappedCommand::Nothing
                | WrappedCommand::Commands(_)
                | WrappedCommand::WithExtraArguments(_)
                | WrappedCommand::Only(_)
                | WrappedCommand::Unknown) => other,
            }
        }
    }
}

/// A wrapper's parsed arguments.
struct WrapperArguments<'a> {
    /// The short options given.
    letters: String,
    /// The command line given as the value of an option.
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
        let mut operands = wrapper.operands;
        while let Some((first, after)) = arguments.words.split_first() {
            let value = first.known_text().unwrap_or_default();
            let is_option = value.len() > 1 && value.starts_with(['-', '+']);
            if value == "--" {
                arguments.words = after.get(operands..).unwrap_or_default();
                break;
            }
            if is_option {
                arguments.words = after;
                arguments.option(wrapper, &value);
            } else if operands > 0 {
                operands = operands.saturating_sub(1);
                arguments.words = after;
            } else {
                break;
            }
        }
        arguments
    }

    /// Consumes an option, and its value if that is the next word.
    fn option(&mut self, wrapper: &WrapperProgram, written: &str) {
        if let Some(long_option) = written.strip_prefix("--") {
            let (name, value) = long_option.split_once('=').unwrap_or((long_option, ""));
            let is_script = wrapper.script_options.1.contains(&name);
            if wrapper.style == WrapperStyle::WithInput && name == "replace" {
                self.placeholder = Some(placeholder_or_default(value));
            }
            if is_script && long_option.contains('=') {
                self.script = Some(ShellWord::literal(value));
            } else if is_script {
                self.script = self.next();
            } else if wrapper.value_options.contains(&long_option) {
                let _value = self.next();
            }
            return;
        }
        let mut letters = written.chars().skip(1);
        while let Some(letter) = letters.next() {
            self.letters.push(letter);
            let names_placeholder =
                wrapper.style == WrapperStyle::WithInput && matches!(letter, 'I' | 'i');
            if names_placeholder && letter == 'i' {
                self.placeholder = Some(placeholder_or_default(&letters.collect::<String>()));
                return;
            }
            if !wrapper.value_letters.contains(letter) {
                continue;
            }
            let attached: String = letters.by_ref().collect();
            let value = if attached.is_empty() {
                self.next()
            } else {
                Some(ShellWord::literal(&attached))
            };
            if names_placeholder {
                self.placeholder = Some(placeholder_or_default(
                    &value
                        .as_ref()
                        .map(ShellWord::display_text)
                        .unwrap_or_default(),
                ));
            }
            if wrapper.script_options.0.contains(letter) {
                self.script = value;
            }
        }
    }

    fn next(&mut self) -> Option<ShellWord> {
        let (first, after) = self.words.split_first()?;
        self.words = after;
        Some(first.clone())
    }
}

/// The placeholder that `find` and `xargs` replace by default.
const DEFAULT_PLACEHOLDER: &str = "{}";

/// Returns the placeholder that an option of `xargs` names.
fn placeholder_or_default(name: &str) -> String {
    Some(name)
        .filter(|name| !name.is_empty())
        .unwrap_or(DEFAULT_PLACEHOLDER)
        .to_owned()
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
    is_fed: bool,
) -> WrappedCommand {
    if letters.contains('c') {
        return match words.first() {
            Some(first) => joined_script(std::slice::from_ref(first)),
            None => WrappedCommand::Nothing,
        };
    }
    let file = words.first().filter(|_| !letters.contains('s'));
    if let Some(file) = file.filter(|file| !is_input(file)) {
        // The file is the output of a process substitution.
        return if file.raw.starts_with("<(") {
            WrappedCommand::Unknown
        } else {
            WrappedCommand::Nothing
        };
    }
    let mut input = command
        .redirections
        .iter()
        .rev()
        .filter(|redirection| redirection.operator.starts_with('<'));
    match input.next() {
        Some(text) if text.operator.starts_with("<<") => {
            joined_script(std::slice::from_ref(&text.target))
        }
        Some(_) => WrappedCommand::Unknown,
        None if is_fed => WrappedCommand::Unknown,
        None => WrappedCommand::Nothing,
    }
}

/// Returns whether a shell that is given this file reads its standard input.
fn is_input(file: &ShellWord) -> bool {
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
    let is = |word: &ShellWord, names: &[&str]| {
        names.contains(&word.known_text().unwrap_or_default().as_str())
    };
    let mut commands = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if is(word, &["-exec", "-execdir", "-ok", "-okdir"]) {
            let command: Vec<ShellWord> = rest
                .by_ref()
                .take_while(|word| !is(word, &[";", "+"]))
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
