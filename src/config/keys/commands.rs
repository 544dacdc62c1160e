//! The keys of a backend about commands.

use crate::code_mode::ProgramLanguage;
use crate::code_mode::language::PythonLibraries;
use crate::config::execution_mode::ExecutionMode;
use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, Flag, NamesOrPairs, Section, Text, TextList, TextOrList};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, TypedKey, ValueShape, command_limits, value_rules,
};
use crate::sandbox_policy::sandbox_level::CHOICES;

/// The prefix of the keys about commands, those about containers included.
pub(crate) const COMMAND_PREFIX: &str = "command_";
/// The prefix of the keys about programs.
pub(crate) const CODE_PREFIX: &str = "code_";
/// The prefix of the keys about MassGen's `srt` (the Sandbox Runtime).
pub(crate) const SRT_PREFIX: &str = "command_line_srt_";

/// What replaces the keys that open paths in `srt`.
const READABLE_PATHS: &str = "commands read what is granted and what toolchains need of the \
                              system, and nothing else; open more in `context_paths`";

pub(crate) const ENABLED: TypedKey<Flag> = TypedKey::optional(
    &["enable_mcp_command_line"],
    shape::flag(),
    "Whether the agent may run commands, with the same access as its file tools. Requires `cwd`.",
    Harmless,
)
.with_default("false");

pub(crate) const CODE: TypedKey<Flag> = TypedKey::optional(
    &["enable_code_based_tools"],
    shape::flag(),
    "Whether the agent writes programs that call its tools instead of single calls: `execute_code` \
     is its only tool besides those for answers and votes. Requires `cwd`. Programs run at the \
     level of `command_line_sandbox`, with `command_line_limits`, and never without a sandbox.",
    Harmless,
)
.with_default("false");

pub(crate) const CODE_LANGUAGE: TypedKey<Text> = TypedKey::optional(
    &["code_language"],
    shape::one_of(ProgramLanguage::NAMES),
    "The language of the programs. `python` needs `python3`, `go` needs the Go toolchain.",
    Harmless,
)
.with_default("python");

pub(crate) const CODE_LIBRARIES: TypedKey<Text> = TypedKey::optional(
    &["code_libraries"],
    shape::one_of(PythonLibraries::NAMES),
    "Libraries besides the standard library that Python programs may import: none, `numpy`, or \
     `pandas` with `numpy`. They must be installed for the `python3` in `PATH`.",
    Harmless,
)
.with_default("standard");

pub(crate) const MODE: TypedKey<Text> = TypedKey::optional(
    &["command_line_execution_mode"],
    shape::one_of(ExecutionMode::NAMES),
    "Where commands run: on this machine in massgen's sandbox, or in a container. `srt` is treated as \
     `local`.",
    Harmless,
)
.with_default("local");

pub(crate) const ALLOWED: TypedKey<TextList> = TypedKey::optional(
    &["command_line_allowed_commands"],
    shape::texts(&ValueShape::Text),
    "Regular expressions. Every simple command of a line must match one from its start: `pytest.*` \
     is `pytest` with any arguments, and `pytest-3` too.",
    Harmless,
);

pub(crate) const BLOCKED: TypedKey<TextList> = TypedKey::optional(
    &["command_line_blocked_commands"],
    shape::texts(&ValueShape::Text),
    "Regular expressions. No simple command of a line may match one from its start.",
    Harmless,
)
.with_default("[]");

pub(crate) const POLICY: TypedKey<Text> = TypedKey::optional(
    &["command_policy"],
    shape::one_of(&["standard", "strict"]),
    "Which commands are refused before they run. `standard`: becoming root, writing to raw \
     devices, formatting disks, fork bombs. `strict`: also removing files and changing \
     permissions, whatever the target. Without a sandbox level, `strict` applies.",
    Harmless,
)
.with_default("standard");

pub(crate) const SANDBOX: TypedKey<Text> = TypedKey::optional(
    &["command_line_sandbox"],
    shape::one_of(CHOICES),
    "The sandbox level that enforces the grants of local commands: the strongest one that the machine \
     supports, or the named one. With `off`, commands run with your own rights.",
    ByValue(value_rules::sandbox),
)
.with_default("auto");

pub(crate) const NETWORK: TypedKey<TextOrList> = TypedKey::optional(
    &["command_line_network"],
    shape::one_of_or_list(&["off", "on"]),
    "Network access of local commands: none, full, or the hosts of these domains. `example.org` is \
     this host; `.example.org` or `*.example.org` are all hosts below it. Commands can send \
     whatever they read to hosts that they reach.",
    ByValue(value_rules::network),
)
.with_default("off");

pub(crate) const LIMITS: TypedKey<Section> = TypedKey::optional(
    &["command_line_limits"],
    shape::section(&command_limits::COMMAND_LIMITS),
    "Resource limits of one command.",
    Harmless,
);

pub(crate) const ENV: TypedKey<NamesOrPairs> = TypedKey::optional(
    &["env"],
    shape::names_or_pairs(),
    "Additional environment variables of commands: names of yours, or names with values. Every \
     command of the agent can read them.",
    ByValue(value_rules::variables),
)
.with_default("[]");

pub(crate) const SRT_DOMAINS: TypedKey<TextList> = TypedKey::optional(
    &["command_line_srt_network_allowed_domains"],
    shape::texts(&ValueShape::Text),
    "Same as a list in `command_line_network`, which takes precedence.",
    NeedsNamedConfig("opens the network to commands"),
)
.with_default("[]");

/// The read mode of `srt`.
pub(super) const SRT_READ_MODE: ConfigKey = ConfigKey::unsupported(
    &["command_line_srt_read_mode"],
    ValueShape::OneOf(&["confined", "strict", "open"]),
    READABLE_PATHS,
    IgnoredEffect::Convenience,
)
.with_default("confined");

/// Additional readable paths of `srt`.
pub(super) const SRT_ALLOW_READ: ConfigKey = ConfigKey::unsupported(
    &["command_line_srt_allow_read"],
    ValueShape::Any,
    READABLE_PATHS,
    IgnoredEffect::Convenience,
);

/// Hidden paths of `srt`.
pub(super) const SRT_DENY_READ: ConfigKey = ConfigKey::unsupported(
    &["command_line_srt_deny_read"],
    ValueShape::Any,
    "use `hidden_paths` of a context path; what is not granted is closed anyway",
    IgnoredEffect::Restricts,
);

/// The sockets that `srt` opens to commands.
pub(super) const SRT_SOCKETS: ConfigKey = ConfigKey::unsupported(
    &["command_line_srt_allow_unix_sockets"],
    ValueShape::Any,
    "commands cannot connect to sockets of the machine",
    IgnoredEffect::Convenience,
);

/// The prefix that MassGen puts before commands.
pub(super) const PREFIX: ConfigKey = ConfigKey::unsupported(
    &["command_execution_prefix"],
    ValueShape::Any,
    "massgen's sandbox starts commands without a prefix",
    IgnoredEffect::Restricts,
);

/// The Python environment in which MassGen runs commands.
pub(super) const VENV: ConfigKey = ConfigKey::unsupported(
    &["command_execution_venv_path"],
    ValueShape::Any,
    "commands use the `.venv` of their working directory when there is one",
    IgnoredEffect::Convenience,
);
