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
    letters: &'static str,
    /// Long options that take a value in the next word.
    long: &'static [&'static str],
    /// The number of operands before the command.
    operands: usize,
    /// Short and long options whose value is a command line.
    script: (&'static str, &'static [&'static str]),
    /// Short options with which it runs nothing.
    asks: &'static str,
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
    Given,
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
    letters: "",
    long: &[],
    operands: 0,
    script: ("", &[]),
    asks: "",
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
        letters: "oAGWFCXPS",
        script: ("C", &[]),
        operands: usize::MAX,
        ..BASE
    },
    WrapperProgram {
        names: &["entr", "tsp"],
        style: WrapperStyle::Words,
        letters: "LNE",
        ..BASE
    },
    WrapperProgram {
        names: &["coproc"],
        style: WrapperStyle::Coprocess,
        ..BASE
    },
    WrapperProgram {
        names: &["prlimit"],
        letters: "po",
        long: &["pid", "output"],
        ..BASE
    },
    WrapperProgram {
        names: &["mapfile", "readarray"],
        style: WrapperStyle::Words,
        letters: "dnOsuCc",
        script: ("C", &[]),
        operands: usize::MAX,
        ..BASE
    },
    WrapperProgram {
        names: &["command"],
        asks: "vV",
        ..BASE
    },
    WrapperProgram {
        names: &["exec"],
        letters: "a",
        ..BASE
    },
    WrapperProgram {
        names: &["env"],
        letters: "uCS",
        long: &["unset", "chdir"],
        script: ("S", &["split-string"]),
        ..BASE
    },
    WrapperProgram {
        names: &["timeout"],
        letters: "ks",
        long: &["kill-after", "signal"],
        operands: 1,
        ..BASE
    },
    WrapperProgram {
        names: &["nice"],
        letters: "n",
        long: &["adjustment"],
        ..BASE
    },
    WrapperProgram {
        names: &["ionice"],
        letters: "cn",
        long: &["class", "classdata"],
        ..BASE
    },
    WrapperProgram {
        names: &["taskset", "chrt"],
        operands: 1,
        ..BASE
    },
    WrapperProgram {
        names: &["stdbuf"],
        letters: "ioe",
        long: &["input", "output", "error"],
        ..BASE
    },
    WrapperProgram {
        names: &["time"],
        letters: "fo",
        long: &["format", "output"],
        ..BASE
    },
    WrapperProgram {
        names: &["xargs"],
        style: WrapperStyle::Given,
        letters: "adEILnPs",
        long: &[
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
        letters: "abeEIlnoOpPsSuX",
        ..BASE
    },
    WrapperProgram {
        names: &["flock"],
        style: WrapperStyle::Words,
        letters: "wEc",
        long: &["timeout", "wait", "conflict-exit-code"],
        operands: 1,
        script: ("c", &["command"]),
        ..BASE
    },
    WrapperProgram {
        names: &["script"],
        style: WrapperStyle::Words,
        letters: "cEIOBTmo",
        script: ("c", &["command"]),
        operands: usize::MAX,
        ..BASE
    },
    WrapperProgram {
        names: &["sudo", "doas", "run0"],
        style: WrapperStyle::Words,
        letters: "ughpCrtTDRU",
        long: &[
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
        letters: "StG",
        long: &["user", "target", "reuid", "regid", "groups"],
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
        letters: "cgGsw",
        long: &["group", "supp-group", "shell", "whitelist-environment"],
        script: ("c", &["command", "session-command"]),
        operands: usize::MAX,
        ..BASE
    },
    WrapperProgram {
        names: &["runuser"],
        style: WrapperStyle::Words,
        letters: "cgGsuw",
        long: &["user", "group", "supp-group", "shell"],
        script: ("c", &["command", "session-command"]),
        ..BASE
    },
    WrapperProgram {
        names: &[
            "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish",
        ],
        style: WrapperStyle::Shell,
        letters: "oO",
        long: &["rcfile", "init-file"],
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
        letters: "nq",
        long: &["interval", "equexit"],
        ..BASE
    },
    WrapperProgram {
        names: &["parallel"],
        style: WrapperStyle::JoinedWithMore,
        letters: "jIaNnsLdEPS",
        long: &[
            "jobs", "arg-file", "max-args", "delay", "timeout", "results", "joblog", "colsep",
        ],
        ..BASE
    },
    WrapperProgram {
        names: &["trap"],
        style: WrapperStyle::First,
        asks: "lp",
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
    let rest = WrapperArguments::parse(wrapper, words);
    if let Some(script) = &rest.script {
        return joined_script(std::slice::from_ref(script));
    }
    if rest
        .letters
        .chars()
        .any(|letter| wrapper.asks.contains(letter))
    {
        return WrappedCommand::Nothing;
    }
    match (wrapper.style, rest.words) {
        (WrapperStyle::Shell, words) => shell_script(command, &rest.letters, words, is_fed),
        (_, []) | (WrapperStyle::Find, _) => WrappedCommand::Nothing,
        (WrapperStyle::Instead, words) => WrappedCommand::Only(words.to_vec()),
        (WrapperStyle::Coprocess, words) => {
            let is_open = |word: &ShellWord| matches!(word.raw.as_str(), "{" | "(");
            let begin = words.iter().take(2).position(is_open);
            let inner = begin.map_or(words, |begin| words.get(begin + 1..).unwrap_or_default());
            WrappedCommand::Only(inner.to_vec())
        }
        (WrapperStyle::Words, words) => WrappedCommand::Commands(vec![words.to_vec()]),
        (WrapperStyle::Given, words) => match rest.mark {
            Some(mark) => WrappedCommand::Commands(vec![replace_placeholders(words, &mark)]),
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
    mark: Option<String>,
    /// The words after options and operands.
    words: &'a [ShellWord],
}

impl<'a> WrapperArguments<'a> {
    fn parse(wrapper: &WrapperProgram, words: &'a [ShellWord]) -> Self {
        let mut rest = Self {
            letters: String::new(),
            script: None,
            mark: None,
            words,
        };
        let mut operands = wrapper.operands;
        while let Some((first, after)) = rest.words.split_first() {
            let value = first.known_text().unwrap_or_default();
            let is_option = value.len() > 1 && value.starts_with(['-', '+']);
            if value == "--" {
                rest.words = after.get(operands..).unwrap_or_default();
                break;
            }
            if is_option {
                rest.words = after;
                rest.option(wrapper, &value);
            } else if operands > 0 {
                operands = operands.saturating_sub(1);
                rest.words = after;
            } else {
                break;
            }
        }
        rest
    }

    /// Consumes an option, and its value if that is the next word.
    fn option(&mut self, wrapper: &WrapperProgram, written: &str) {
        if let Some(long) = written.strip_prefix("--") {
            let (name, value) = long.split_once('=').unwrap_or((long, ""));
            let is_script = wrapper.script.1.contains(&name);
            if wrapper.style == WrapperStyle::Given && name == "replace" {
                self.mark = Some(placeholder(value));
            }
            if is_script && long.contains('=') {
                self.script = Some(ShellWord::literal(value));
            } else if is_script {
                self.script = self.next();
            } else if wrapper.long.contains(&long) {
                let _value = self.next();
            }
            return;
        }
        let mut letters = written.chars().skip(1);
        while let Some(letter) = letters.next() {
            self.letters.push(letter);
            let is_mark = wrapper.style == WrapperStyle::Given && matches!(letter, 'I' | 'i');
            if is_mark && letter == 'i' {
                self.mark = Some(placeholder(&letters.collect::<String>()));
                return;
            }
            if !wrapper.letters.contains(letter) {
                continue;
            }
            let attached: String = letters.by_ref().collect();
            let value = if attached.is_empty() {
                self.next()
            } else {
                Some(ShellWord::literal(&attached))
            };
            if is_mark {
                self.mark = Some(placeholder(
                    &value
                        .as_ref()
                        .map(ShellWord::display_text)
                        .unwrap_or_default(),
                ));
            }
            if wrapper.script.0.contains(letter) {
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
const MARK: &str = "{}";

/// Returns the placeholder that an option of `xargs` names.
fn placeholder(named: &str) -> String {
    Some(named)
        .filter(|named| !named.is_empty())
        .unwrap_or(MARK)
        .to_owned()
}

/// Marks each placeholder in the words as unknown.
fn replace_placeholders(words: &[ShellWord], mark: &str) -> Vec<ShellWord> {
    words
        .iter()
        .map(|word| word.clone().with_placeholders(mark))
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
            commands.push(replace_placeholders(&command, MARK));
        }
    }
    if commands.is_empty() {
        WrappedCommand::Nothing
    } else {
        WrappedCommand::Commands(commands)
    }
}
