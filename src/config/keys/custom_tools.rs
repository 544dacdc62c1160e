//! The keys of the user's own tools: Python functions and programs.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{
    self, Flag, Integer, NamesOrPairs, NodeList, Text, TextList, TextOrList, Tree,
};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape,
};

/// What a found config with such a tool would do.
const RUNS_A_PROGRAM: &str = "runs its own program as a tool";

pub(crate) const CUSTOM_TOOLS: TypedKey<NodeList> = TypedKey::optional(
    &["custom_tools"],
    shape::nodes(const { &ValueShape::Mapping(&CUSTOM_TOOL) }),
    "Functions of Python files as tools of this agent, called `custom_tool__NAME`.",
    NeedsNamedConfig(RUNS_A_PROGRAM),
)
.with_default("[]");

pub(crate) const TOOLS: TypedKey<NodeList> = TypedKey::optional(
    &["tools"],
    shape::nodes(const { &ValueShape::Mapping(&PROGRAM_TOOL) }),
    "Programs as tools of this agent, called `custom_tool__NAME`. They need no Python.",
    NeedsNamedConfig(RUNS_A_PROGRAM),
)
.with_default("[]");

pub(crate) const AUTO_DISCOVER: TypedKey<Flag> = TypedKey::optional(
    &["auto_discover_custom_tools"],
    shape::flag(),
    "With `enable_code_based_tools`: whether programs may also call the tools that the Python \
     package `massgen` describes in `TOOL.md` files, if it is installed.",
    Harmless,
)
.with_default("false");

pub(crate) const EXCLUDE: TypedKey<TextList> = TypedKey::optional(
    &["exclude_custom_tools"],
    shape::texts(&ValueShape::Text),
    "Directories of that package whose tools are left out, such as `_computer_use`.",
    Harmless,
)
.with_default("[]");

pub(crate) const FUNCTION: TypedKey<Tree> = TypedKey::optional(
    &["function", "func"],
    shape::tree(),
    "The name of the function, or a list of names; an entry needs it.",
    Harmless,
);

pub(crate) const NAME: TypedKey<Tree> = TypedKey::optional(
    &["name"],
    shape::tree(),
    "The name of the tool, or a list with one for each function. Default: the function's.",
    Harmless,
);

pub(crate) const PATH: TypedKey<Text> = TypedKey::optional(
    &["path"],
    shape::text(),
    "The file, relative to the directory of the config or, if it is not there, to the current \
     directory. `massgen/tool/…` is also looked up in the Python package `massgen`, and so is a \
     function without a path.",
    Harmless,
);

pub(crate) const DESCRIPTION: TypedKey<Tree> = TypedKey::optional(
    &["description"],
    shape::tree(),
    "What models read about the tool, or a list with one text for each function. Default: the \
     docstring.",
    Harmless,
);

pub(crate) const PRESET_ARGS: TypedKey<Tree> = TypedKey::optional(
    &["preset_args"],
    shape::verbatim_tree(),
    "Arguments that models neither see nor set, as a mapping, or a list with one for each function. \
     `${NAME}` is not expanded: a key belongs in `env`.",
    Harmless,
);

pub(crate) const TOOL_NAME: TypedKey<Text> = TypedKey::required(
    &["name"],
    shape::text(),
    "The name of the tool: letters, digits, `_` and `-`.",
    Harmless,
);

pub(crate) const COMMAND: TypedKey<Tree> = TypedKey::required(
    &["command"],
    shape::tree(),
    "The program and its arguments, as a list or as words separated by spaces; no shell reads \
     them. A word with `/` that names a file is opened for reading to this tool; relative paths \
     start as in `path` of `custom_tools`.",
    Harmless,
);

pub(crate) const TOOL_DESCRIPTION: TypedKey<Text> = TypedKey::required(
    &["description"],
    shape::text(),
    "What models read about the tool.",
    Harmless,
);

pub(crate) const SCHEMA: TypedKey<Tree> = TypedKey::optional(
    &["schema"],
    shape::verbatim_tree(),
    "The JSON schema of the arguments: `type: object` with `properties`. Without it, the tool \
     takes no arguments.",
    Harmless,
);

pub(crate) const PERMISSION: TypedKey<Text> = TypedKey::optional(
    &["permission"],
    shape::one_of(&["read", "write"]),
    "Access of the tool to paths in its arguments. With `read`, it cannot write to the agent's \
     directories.",
    Harmless,
)
.with_default("read");

pub(crate) const NETWORK: TypedKey<TextOrList> = TypedKey::optional(
    &["network"],
    shape::one_of_or_list(&["off", "on"]),
    "Network access of the tool: none, full, or the hosts of these domains, as in \
     `command_line_network`.",
    Harmless,
)
.with_default("off");

pub(crate) const ENV: TypedKey<NamesOrPairs> = TypedKey::optional(
    &["env"],
    shape::names_or_pairs(),
    "Environment variables that the tool is given in addition to those of commands: names of \
     yours, or names with values.",
    Harmless,
)
.with_default("[]");

pub(crate) const TIMEOUT_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["timeout_seconds", "timeout"],
    shape::integer(1, SECONDS_MAX),
    "Timeout of a call, in seconds.",
    Harmless,
)
.with_default("120");

pub(crate) const SIDE_EFFECTS: TypedKey<Text> = TypedKey::optional(
    &["side_effects"],
    shape::one_of(&["some", "none"]),
    "Whether the tool changes anything outside the agent's directories. In planning mode, calls of \
     tools with side effects wait for the final phase.",
    Harmless,
)
.with_default("some");

pub(crate) const CONTENT_ARGUMENTS: TypedKey<TextList> = TypedKey::optional(
    &["content_arguments"],
    shape::texts(&ValueShape::Text),
    "Arguments that are content and never treated as paths.",
    Harmless,
)
.with_default("[]");

/// Functions of one Python file.
pub static CUSTOM_TOOL: KeySection = KeySection {
    path: "agents[].backend.custom_tools[]",
    doc: "Functions of a Python file as tools. A found config, not named with `--config`, cannot \
          have any. See [custom-tools.md](custom-tools.md).",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        FUNCTION.row(),
        NAME.row(),
        PATH.row(),
        DESCRIPTION.row(),
        PRESET_ARGS.row(),
        PERMISSION.row(),
        NETWORK.row(),
        ENV.row(),
        TIMEOUT_SECONDS.row(),
        SIDE_EFFECTS.row(),
        CONTENT_ARGUMENTS.row(),
        ConfigKey::unsupported(
            &["category"],
            ValueShape::Any,
            "tools of all categories are offered, as in MassGen",
            IgnoredEffect::Nothing,
        ),
        ConfigKey::unsupported(
            &["default_params"],
            ValueShape::Any,
            "MassGen does nothing with it either; `preset_args` sets arguments",
            IgnoredEffect::Nothing,
        ),
        ConfigKey::unsupported(
            &["defer_loading", "allowed_callers"],
            ValueShape::Any,
            "the model is offered all its tools from the start, and calls them one by one",
            IgnoredEffect::Convenience,
        )
        .with_default("false"),
    ],
};

/// A program that is a tool.
pub static PROGRAM_TOOL: KeySection = KeySection {
    path: "agents[].backend.tools[]",
    doc: "A program as a tool: it reads the arguments as one JSON object on its standard input, and \
          what it writes to its standard output is the result. A found config, not named with \
          `--config`, cannot have any. See [custom-tools.md](custom-tools.md).",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        TOOL_NAME.row(),
        COMMAND.row(),
        TOOL_DESCRIPTION.row(),
        SCHEMA.row(),
        PERMISSION.row(),
        NETWORK.row(),
        ENV.row(),
        TIMEOUT_SECONDS.row(),
        SIDE_EFFECTS.row(),
        CONTENT_ARGUMENTS.row(),
    ],
};
