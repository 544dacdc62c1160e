//! The keys of the user's own tools: Python functions and programs.

use crate::config::keys::ValueShape;
use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;
use crate::config::keys::limits::SECONDS_MAX;

/// What a found config with such a tool would do.
const RUNS_A_PROGRAM: &str = "runs its own program as a tool";

keys! {
    /// Functions of Python files as tools of this agent, called `custom_tool__NAME`.
    const CUSTOM_TOOLS = ["custom_tools"] nodes(const { &ValueShape::Mapping(&CUSTOM_TOOL) })
        .in_found(NeedsNamedConfig(RUNS_A_PROGRAM)).with_default("[]");

    /// Programs as tools of this agent, called `custom_tool__NAME`. They need no Python.
    const TOOLS = ["tools"] nodes(const { &ValueShape::Mapping(&PROGRAM_TOOL) })
        .in_found(NeedsNamedConfig(RUNS_A_PROGRAM)).with_default("[]");

    /// With `enable_code_based_tools`: whether programs may also call the tools that the Python
    /// package `massgen` describes in `TOOL.md` files, if it is installed.
    const AUTO_DISCOVER = ["auto_discover_custom_tools"] flag().with_default("false");

    /// Directories of that package whose tools are left out, such as `_computer_use`.
    const EXCLUDE = ["exclude_custom_tools"] texts().with_default("[]");
}

section! {
    /// Functions of a Python file as tools. A found config, not named with `--config`, cannot have
    /// any. See [custom-tools.md](custom-tools.md).
    pub static CUSTOM_TOOL = "agents[].backend.custom_tools[]";

    /// The name of the function, or a list of names; an entry needs it.
    const FUNCTION = ["function", "func"] tree();

    /// The name of the tool, or a list with one for each function. Default: the function's.
    const NAME = ["name"] tree();

    /// The file, relative to the directory of the config or, if it is not there, to the current
    /// directory. `massgen/tool/…` is also looked up in the Python package `massgen`, and so is a
    /// function without a path.
    const PATH = ["path"] text();

    /// What models read about the tool, or a list with one text for each function. Default: the
    /// docstring.
    const DESCRIPTION = ["description"] tree();

    /// Arguments that models neither see nor set, as a mapping, or a list with one for each
    /// function. `${NAME}` is not expanded: a key belongs in `env`.
    const PRESET_ARGS = ["preset_args"] verbatim_tree();

    /// Access of the tool to paths in its arguments. With `read`, it cannot write to the agent's
    /// directories.
    const PERMISSION = ["permission"] one_of(&["read", "write"]).with_default("read");

    /// Network access of the tool: none, full, or the hosts of these domains, as in
    /// `command_line_network`.
    const NETWORK = ["network"] one_of_or_list(&["off", "on"]).with_default("off");

    /// Environment variables that the tool is given in addition to those of commands: names of
    /// yours, or names with values.
    const ENV = ["env"] names_or_pairs().with_default("[]");

    /// Timeout of a call, in seconds.
    const TIMEOUT_SECONDS = ["timeout_seconds", "timeout"] integer(1, SECONDS_MAX)
        .with_default("120");

    /// Whether the tool changes anything outside the agent's directories. In planning mode, calls
    /// of tools with side effects wait for the final phase.
    const SIDE_EFFECTS = ["side_effects"] one_of(&["some", "none"]).with_default("some");

    /// Arguments that are content and never treated as paths.
    const CONTENT_ARGUMENTS = ["content_arguments"] texts().with_default("[]");
    unsupported ["category"] Nothing, "tools of all categories are offered, as in MassGen";
    unsupported ["default_params"] Nothing,
        "MassGen does nothing with it either; `preset_args` sets arguments";
    unsupported ["defer_loading", "allowed_callers"] Convenience.with_default("false"),
        "the model is offered all its tools from the start, and calls them one by one";
}

section! {
    /// A program as a tool: it reads the arguments as one JSON object on its standard input, and
    /// what it writes to its standard output is the result. A found config, not named with
    /// `--config`, cannot have any. See [custom-tools.md](custom-tools.md).
    pub static PROGRAM_TOOL = "agents[].backend.tools[]";

    /// The name of the tool: letters, digits, `_` and `-`.
    const TOOL_NAME = ["name"] text().make_required();

    /// The program and its arguments, as a list or as words separated by spaces; no shell reads
    /// them. A word with `/` that names a file is opened for reading to this tool; relative paths
    /// start as in `path` of `custom_tools`.
    const COMMAND = ["command"] tree().make_required();

    /// What models read about the tool.
    const TOOL_DESCRIPTION = ["description"] text().make_required();

    /// The JSON schema of the arguments: `type: object` with `properties`. Without it, the tool
    /// takes no arguments.
    const SCHEMA = ["schema"] verbatim_tree();
    row PERMISSION.row();
    row NETWORK.row();
    row ENV.row();
    row TIMEOUT_SECONDS.row();
    row SIDE_EFFECTS.row();
    row CONTENT_ARGUMENTS.row();
}
