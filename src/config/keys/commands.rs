//! The keys of a backend about commands.

use crate::code_mode::ProgramLanguage;
use crate::code_mode::language::PythonLibraries;
use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::shape::{self, Flag, NamesOrPairs, Section, Text, TextList, TextOrList};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, ServedKey, ValueShape, command_limits, value_rules,
};
use crate::sandbox_policy::sandbox_level::CHOICES;

/// The prefix of the keys about commands, those about containers included.
pub(crate) const COMMAND_PREFIX: &str = "command_";
/// The prefix of the keys about programs.
pub(crate) const CODE_PREFIX: &str = "code_";
/// The prefix of the keys about another sandbox.
pub(crate) const SRT_PREFIX: &str = "command_line_srt_";

/// What is said about keys that belong to another sandbox.
const READING: &str = "commands read what is granted and what toolchains need of the system, and \
                       nothing else; open more in `context_paths`";

pub(crate) const ENABLED: ServedKey<Flag> = ServedKey::optional(
    &["enable_mcp_command_line"],
    shape::flag(),
    "Whether the agent may run commands, with the rights of its file tools. It needs `cwd`.",
    Harmless,
)
.with_default("false");

pub(crate) const CODE: ServedKey<Flag> = ServedKey::optional(
    &["enable_code_based_tools"],
    shape::flag(),
    "Whether the agent works by programs that call its tools, instead of single calls: \
     `execute_code` is its only tool beside those for answers and votes. It needs `cwd`. Programs \
     are held as `command_line_sandbox` and `command_line_limits` say, and always held.",
    Harmless,
)
.with_default("false");

pub(crate) const CODE_LANGUAGE: ServedKey<Text> = ServedKey::optional(
    &["code_language"],
    shape::one_of(ProgramLanguage::NAMES),
    "What the programs are written in. `python` needs `python3`, `go` needs the Go toolchain.",
    Harmless,
)
.with_default("python");

pub(crate) const CODE_LIBRARIES: ServedKey<Text> = ServedKey::optional(
    &["code_libraries"],
    shape::one_of(PythonLibraries::NAMES),
    "What Python programs may import that does not come with Python: nothing, `numpy`, or `pandas` with \
     `numpy`. It must be installed for the `python3` of `PATH`.",
    Harmless,
)
.with_default("standard");

pub(crate) const MODE: ServedKey<Text> = ServedKey::optional(
    &["command_line_execution_mode"],
    shape::one_of(&["local", "docker", "srt"]),
    "Where commands run: on this machine in massgen's sandbox, or in a container. `srt` is taken for \
     `local`.",
    Harmless,
)
.with_default("local");

pub(crate) const ALLOWED: ServedKey<TextList> = ServedKey::optional(
    &["command_line_allowed_commands"],
    shape::texts(&ValueShape::Text),
    "Regular expressions. Every simple command of a line must match one from its start: `pytest.*` \
     is `pytest` with any arguments, and `pytest-3` too.",
    Harmless,
);

pub(crate) const BLOCKED: ServedKey<TextList> = ServedKey::optional(
    &["command_line_blocked_commands"],
    shape::texts(&ValueShape::Text),
    "Regular expressions. No simple command of a line may match one from its start.",
    Harmless,
)
.with_default("[]");

pub(crate) const POLICY: ServedKey<Text> = ServedKey::optional(
    &["command_policy"],
    shape::one_of(&["standard", "strict"]),
    "How much is refused before a command runs. `standard`: becoming root, writing to raw devices, \
     formatting disks, fork bombs. `strict`: also what removes files or changes rights, whatever the \
     target. Where nothing enforces, it is `strict`.",
    Harmless,
)
.with_default("standard");

pub(crate) const SANDBOX: ServedKey<Text> = ServedKey::optional(
    &["command_line_sandbox"],
    shape::one_of(CHOICES),
    "How local commands are held to their grants: the strongest tier that the machine can do, or the \
     one that is named. `off` lets commands do all that you may do.",
    ByValue(value_rules::sandbox),
)
.with_default("auto");

pub(crate) const NETWORK: ServedKey<TextOrList> = ServedKey::optional(
    &["command_line_network"],
    shape::one_of_or_list(&["off", "on"]),
    "What local commands reach of the network: nothing, everything, or hosts of these domains. \
     `example.org` is this host; `.example.org` or `*.example.org` is all below it. Whatever they \
     reach can be sent what they read.",
    ByValue(value_rules::network),
)
.with_default("off");

pub(crate) const LIMITS: ServedKey<Section> = ServedKey::optional(
    &["command_line_limits"],
    shape::section(&command_limits::COMMAND_LIMITS),
    "How much one command may use.",
    Harmless,
);

pub(crate) const ENV: ServedKey<NamesOrPairs> = ServedKey::optional(
    &["env"],
    shape::names_or_pairs(),
    "Variables that commands have besides the usual ones: names of yours, or names with values. \
     Every command of the agent can read them.",
    ByValue(value_rules::variables),
)
.with_default("[]");

pub(crate) const SRT_DOMAINS: ServedKey<TextList> = ServedKey::optional(
    &["command_line_srt_network_allowed_domains"],
    shape::texts(&ValueShape::Text),
    "The same as a list in `command_line_network`, which counts if both are there.",
    Named("opens the network to commands"),
)
.with_default("[]");

/// The read mode of another sandbox.
pub(super) const SRT_READ_MODE: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_read_mode"],
    ValueShape::OneOf(&["confined", "strict", "open"]),
    READING,
    IgnoredEffect::Cosmetic,
)
.with_default("confined");

/// Additional readable paths of another sandbox.
pub(super) const SRT_ALLOW_READ: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_allow_read"],
    ValueShape::Any,
    READING,
    IgnoredEffect::Cosmetic,
);

/// Hidden paths of another sandbox.
pub(super) const SRT_DENY_READ: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_deny_read"],
    ValueShape::Any,
    "list what lies in a context path in its `hidden_paths`; what is not granted is closed anyway",
    IgnoredEffect::Restricts,
);

/// The sockets of another sandbox.
pub(super) const SRT_SOCKETS: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_allow_unix_sockets"],
    ValueShape::Any,
    "commands reach no socket of the machine",
    IgnoredEffect::Cosmetic,
);

/// The prefix that MassGen puts before commands.
pub(super) const PREFIX: ConfigKey = ConfigKey::unserved(
    &["command_execution_prefix"],
    ValueShape::Any,
    "commands are started by massgen's own sandbox and nothing before it",
    IgnoredEffect::Restricts,
);

/// The Python environment in which MassGen runs commands.
pub(super) const VENV: ConfigKey = ConfigKey::unserved(
    &["command_execution_venv_path"],
    ValueShape::Any,
    "commands use the `.venv` of their working directory when there is one",
    IgnoredEffect::Cosmetic,
);
