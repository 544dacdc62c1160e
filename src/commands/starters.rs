//! Owns the programs that start other programs which their arguments or their input name: shells,
//! `env`, `xargs`, `sudo` and the like. A program that is not in the table starts nothing.

use crate::commands::line::{Piece, SimpleCommand, Starts, Word};

/// What a command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Started {
    /// Nothing.
    Nothing,
    /// Commands with these words.
    Commands(Vec<Vec<Word>>),
    /// A command with these words, and with arguments that its input gives.
    Given(Vec<Word>),
    /// This one command, and the starter does nothing else.
    OneInstead(Vec<Word>),
    /// What a shell reads in this text.
    Script {
        /// The text; what only the run shows stands in it as written.
        text: String,
        /// Whether all of it is known.
        is_whole: bool,
    },
    /// Something that only the run shows.
    Unknown,
}

impl Started {
    /// What is kept of it with the command.
    pub(super) fn kind(&self) -> Starts {
        match self {
            Started::Nothing => Starts::Nothing,
            Started::Commands(_) | Started::Given(_) | Started::Script { is_whole: true, .. } => {
                Starts::Commands
            }
            Started::OneInstead(_) => Starts::OneInstead,
            Started::Unknown
            | Started::Script {
                is_whole: false, ..
            } => Starts::Unknown,
        }
    }
}

/// Programs that start others in the same way.
struct Starter {
    names: &'static [&'static str],
    how: How,
    /// Letters of options that take a value.
    letters: &'static str,
    /// Long options that take a value in the next word.
    long: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
    /// Options whose value is a command line, by letter and by name.
    script: (&'static str, &'static [&'static str]),
    /// Letters of options with which nothing is started.
    asks: &'static str,
}

/// How a program starts others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// The words after its options are the command, and it does nothing else.
    Instead,
    /// The words after its options are the command.
    Words,
    /// As `Words`, and its input gives further arguments, or what stands for a mark in them.
    Given,
    /// As `Instead`, and the command may be the first one in braces, with a name before them.
    Coprocess,
    /// It is a shell: `-c`, a file, or its input.
    Shell,
    /// The words after its options, joined by spaces, are read by a shell.
    Joined,
    /// As `Joined`, with more words that only the run shows.
    JoinedWithMore,
    /// The first word after its options is read by a shell.
    First,
    /// `-exec` and its like.
    Find,
}

const BASE: Starter = Starter {
    names: &[],
    how: How::Instead,
    letters: "",
    long: &[],
    operands: 0,
    script: ("", &[]),
    asks: "",
};

static STARTERS: &[Starter] = &[
    Starter {
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
    Starter {
        names: &["setarch"],
        operands: 1,
        ..BASE
    },
    Starter {
        names: &["compgen"],
        how: How::Words,
        letters: "oAGWFCXPS",
        script: ("C", &[]),
        operands: usize::MAX,
        ..BASE
    },
    Starter {
        names: &["entr", "tsp"],
        how: How::Words,
        letters: "LNE",
        ..BASE
    },
    Starter {
        names: &["coproc"],
        how: How::Coprocess,
        ..BASE
    },
    Starter {
        names: &["prlimit"],
        letters: "po",
        long: &["pid", "output"],
        ..BASE
    },
    Starter {
        names: &["mapfile", "readarray"],
        how: How::Words,
        letters: "dnOsuCc",
        script: ("C", &[]),
        operands: usize::MAX,
        ..BASE
    },
    Starter {
        names: &["command"],
        asks: "vV",
        ..BASE
    },
    Starter {
        names: &["exec"],
        letters: "a",
        ..BASE
    },
    Starter {
        names: &["env"],
        letters: "uCS",
        long: &["unset", "chdir"],
        script: ("S", &["split-string"]),
        ..BASE
    },
    Starter {
        names: &["timeout"],
        letters: "ks",
        long: &["kill-after", "signal"],
        operands: 1,
        ..BASE
    },
    Starter {
        names: &["nice"],
        letters: "n",
        long: &["adjustment"],
        ..BASE
    },
    Starter {
        names: &["ionice"],
        letters: "cn",
        long: &["class", "classdata"],
        ..BASE
    },
    Starter {
        names: &["taskset", "chrt"],
        operands: 1,
        ..BASE
    },
    Starter {
        names: &["stdbuf"],
        letters: "ioe",
        long: &["input", "output", "error"],
        ..BASE
    },
    Starter {
        names: &["time"],
        letters: "fo",
        long: &["format", "output"],
        ..BASE
    },
    Starter {
        names: &["xargs"],
        how: How::Given,
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
    Starter {
        names: &["strace", "ltrace"],
        how: How::Words,
        letters: "abeEIlnoOpPsSuX",
        ..BASE
    },
    Starter {
        names: &["flock"],
        how: How::Words,
        letters: "wEc",
        long: &["timeout", "wait", "conflict-exit-code"],
        operands: 1,
        script: ("c", &["command"]),
        ..BASE
    },
    Starter {
        names: &["script"],
        how: How::Words,
        letters: "cEIOBTmo",
        script: ("c", &["command"]),
        operands: usize::MAX,
        ..BASE
    },
    Starter {
        names: &["sudo", "doas", "run0"],
        how: How::Words,
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
    Starter {
        names: &["pkexec", "unshare", "nsenter", "setpriv"],
        how: How::Words,
        letters: "StG",
        long: &["user", "target", "reuid", "regid", "groups"],
        ..BASE
    },
    Starter {
        names: &["chroot", "gosu", "su-exec"],
        how: How::Words,
        operands: 1,
        ..BASE
    },
    Starter {
        names: &["su"],
        letters: "cgGsw",
        long: &["group", "supp-group", "shell", "whitelist-environment"],
        script: ("c", &["command", "session-command"]),
        operands: usize::MAX,
        ..BASE
    },
    Starter {
        names: &["runuser"],
        how: How::Words,
        letters: "cgGsuw",
        long: &["user", "group", "supp-group", "shell"],
        script: ("c", &["command", "session-command"]),
        ..BASE
    },
    Starter {
        names: &[
            "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish",
        ],
        how: How::Shell,
        letters: "oO",
        long: &["rcfile", "init-file"],
        ..BASE
    },
    Starter {
        names: &["eval"],
        how: How::Joined,
        ..BASE
    },
    Starter {
        names: &["watch"],
        how: How::Joined,
        letters: "nq",
        long: &["interval", "equexit"],
        ..BASE
    },
    Starter {
        names: &["parallel"],
        how: How::JoinedWithMore,
        letters: "jIaNnsLdEPS",
        long: &[
            "jobs", "arg-file", "max-args", "delay", "timeout", "results", "joblog", "colsep",
        ],
        ..BASE
    },
    Starter {
        names: &["trap"],
        how: How::First,
        asks: "lp",
        ..BASE
    },
    Starter {
        names: &["find", "gfind"],
        how: How::Find,
        ..BASE
    },
];

/// What a command starts, given whether its input is the output of another.
pub(super) fn started(command: &SimpleCommand, is_fed: bool) -> Started {
    let Some(program) = command.program() else {
        return Started::Nothing;
    };
    let starter = STARTERS
        .iter()
        .find(|starter| starter.names.contains(&program.as_str()));
    let (Some(starter), Some((_, words))) = (starter, command.words.split_first()) else {
        return Started::Nothing;
    };
    if starter.how == How::Find {
        return executed(words);
    }
    let rest = Rest::of(starter, words);
    if let Some(script) = &rest.script {
        return script_of(std::slice::from_ref(script));
    }
    if rest
        .letters
        .chars()
        .any(|letter| starter.asks.contains(letter))
    {
        return Started::Nothing;
    }
    match (starter.how, rest.words) {
        (How::Shell, words) => shell(command, &rest.letters, words, is_fed),
        (_, []) | (How::Find, _) => Started::Nothing,
        (How::Instead, words) => Started::OneInstead(words.to_vec()),
        (How::Coprocess, words) => {
            let is_open = |word: &Word| matches!(word.raw.as_str(), "{" | "(");
            let begin = words.iter().take(2).position(is_open);
            let inner = begin.map_or(words, |begin| words.get(begin + 1..).unwrap_or_default());
            Started::OneInstead(inner.to_vec())
        }
        (How::Words, words) => Started::Commands(vec![words.to_vec()]),
        (How::Given, words) => match rest.mark {
            Some(mark) => Started::Commands(vec![filled(words, &mark)]),
            None => Started::Given(words.to_vec()),
        },
        (How::First, [first, ..]) => script_of(std::slice::from_ref(first)),
        (How::Joined, words) => script_of(words),
        (How::JoinedWithMore, words) => {
            let is_list = |word: &Word| word.raw.starts_with(":::");
            match script_of(words.split(is_list).next().unwrap_or_default()) {
                Started::Script { text, .. } => Started::Script {
                    text,
                    is_whole: false,
                },
                other @ (Started::Nothing
                | Started::Commands(_)
                | Started::Given(_)
                | Started::OneInstead(_)
                | Started::Unknown) => other,
            }
        }
    }
}

/// What is left of a starter's words after its options.
struct Rest<'a> {
    /// The letters of its options.
    letters: String,
    /// The command line that an option holds.
    script: Option<Word>,
    /// What `xargs` puts its input in the place of, if not behind the other words.
    mark: Option<String>,
    /// The words after options and operands.
    words: &'a [Word],
}

impl<'a> Rest<'a> {
    fn of(starter: &Starter, words: &'a [Word]) -> Self {
        let mut rest = Self {
            letters: String::new(),
            script: None,
            mark: None,
            words,
        };
        let mut operands = starter.operands;
        while let Some((first, after)) = rest.words.split_first() {
            let value = first.value().unwrap_or_default();
            let is_option = value.len() > 1 && value.starts_with(['-', '+']);
            if value == "--" {
                rest.words = after.get(operands..).unwrap_or_default();
                break;
            }
            if is_option {
                rest.words = after;
                rest.option(starter, &value);
            } else if operands > 0 {
                operands = operands.saturating_sub(1);
                rest.words = after;
            } else {
                break;
            }
        }
        rest
    }

    /// Takes an option, and its value if that is in the next word.
    fn option(&mut self, starter: &Starter, written: &str) {
        if let Some(long) = written.strip_prefix("--") {
            let (name, value) = long.split_once('=').unwrap_or((long, ""));
            let is_script = starter.script.1.contains(&name);
            if starter.how == How::Given && name == "replace" {
                self.mark = Some(mark(value));
            }
            if is_script && long.contains('=') {
                self.script = Some(Word::literal(value));
            } else if is_script {
                self.script = self.next();
            } else if starter.long.contains(&long) {
                let _value = self.next();
            }
            return;
        }
        let mut letters = written.chars().skip(1);
        while let Some(letter) = letters.next() {
            self.letters.push(letter);
            let is_mark = starter.how == How::Given && matches!(letter, 'I' | 'i');
            if is_mark && letter == 'i' {
                self.mark = Some(mark(&letters.collect::<String>()));
                return;
            }
            if !starter.letters.contains(letter) {
                continue;
            }
            let glued: String = letters.by_ref().collect();
            let value = if glued.is_empty() {
                self.next()
            } else {
                Some(Word::literal(&glued))
            };
            if is_mark {
                self.mark = Some(mark(&value.as_ref().map(Word::shown).unwrap_or_default()));
            }
            if starter.script.0.contains(letter) {
                self.script = value;
            }
        }
    }

    fn next(&mut self) -> Option<Word> {
        let (first, after) = self.words.split_first()?;
        self.words = after;
        Some(first.clone())
    }
}

/// What `find` and `xargs` put something in the place of, unless another mark is named.
const MARK: &str = "{}";

/// The mark that an option of `xargs` names.
fn mark(named: &str) -> String {
    Some(named)
        .filter(|named| !named.is_empty())
        .unwrap_or(MARK)
        .to_owned()
}

/// The words with what only the run shows in the place of each mark.
fn filled(words: &[Word], mark: &str) -> Vec<Word> {
    words.iter().map(|word| word.clone().filled(mark)).collect()
}

/// What a shell runs: the text of `-c`, or its input if it is given no file.
fn shell(command: &SimpleCommand, letters: &str, words: &[Word], is_fed: bool) -> Started {
    if letters.contains('c') {
        return match words.first() {
            Some(first) => script_of(std::slice::from_ref(first)),
            None => Started::Nothing,
        };
    }
    let file = words.first().filter(|_| !letters.contains('s'));
    if let Some(file) = file.filter(|file| !is_input(file)) {
        // A substitution stands for what its commands print.
        return if file.raw.starts_with("<(") {
            Started::Unknown
        } else {
            Started::Nothing
        };
    }
    let input = command.redirections.iter().rev();
    let mut input = input.filter(|redirection| redirection.operator.starts_with('<'));
    match input.next() {
        Some(text) if text.operator.starts_with("<<") => {
            script_of(std::slice::from_ref(&text.target))
        }
        Some(_) => Started::Unknown,
        None if is_fed => Started::Unknown,
        None => Started::Nothing,
    }
}

/// Whether a shell that is given this file reads its input.
fn is_input(file: &Word) -> bool {
    const NAMES: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
    file.value()
        .is_some_and(|value| NAMES.contains(&value.as_str()))
}

/// The words as a shell reads them, joined by spaces.
pub(super) fn script_of(words: &[Word]) -> Started {
    let texts: Vec<String> = words.iter().map(Word::shown).collect();
    let mut pieces = words.iter().flat_map(|word| &word.pieces);
    let is_whole = pieces.all(|piece| matches!(piece, Piece::Text(_)));
    let text = texts.join(" ");
    if is_whole || texts.iter().any(|text| text.contains(' ')) {
        Started::Script { text, is_whole }
    } else {
        Started::Unknown
    }
}

/// The commands of `find`: from `-exec` to `;` or `+`.
fn executed(words: &[Word]) -> Started {
    let is =
        |word: &Word, names: &[&str]| names.contains(&word.value().unwrap_or_default().as_str());
    let mut commands = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if is(word, &["-exec", "-execdir", "-ok", "-okdir"]) {
            let command = rest.by_ref().take_while(|word| !is(word, &[";", "+"]));
            let command: Vec<Word> = command.cloned().collect();
            commands.push(filled(&command, MARK));
        }
    }
    if commands.is_empty() {
        Started::Nothing
    } else {
        Started::Commands(commands)
    }
}
