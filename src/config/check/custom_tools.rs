//! Checks the keys about the user's own tools. Each program is a server of its agent, and Python
//! functions with the same rights share one. So do the tools that are discovered in MassGen's own
//! package.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, scalar_text};
use crate::config::check::paths::resolve;
use crate::config::custom_tools::{
    NamedFile, ProgramInterface, ProgramTool, PythonFunction, PythonFunctions,
};
use crate::config::diagnostic::quote;
use crate::config::keys::shape::{NodeList, Tree};
use crate::config::keys::{TypedKey, commands, custom_tools};
use crate::config::servers::{
    CALL_SECONDS_DEFAULT, InstanceSharing, ProgramPlace, ServerConfig, ServerDirectory, ServerNeed,
    ServerProgram, ServerTransport,
};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::tools::served::offer::{FULL_NAME_BYTES_MAX, clean_tool_schema};
use crate::tools::served::{
    CUSTOM_PREFIX, OutsideEffects, ServedToolRules, ServerName, ToolCaller, ToolNaming,
};

/// The maximum number of entries of `custom_tools` and of `tools`, and of functions of an entry.
const TOOLS_MAX: usize = 64;
/// The longest description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 2048;
/// The largest `preset_args` of a function, in bytes of JSON.
const PRESET_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of words of a command, and the longest one, in characters.
const WORDS_MAX: usize = 50;
const WORD_CHARS_MAX: usize = 500;
/// Characters with a meaning for a shell; no shell parses the command.
const METACHARACTERS: &[char] = &[
    ';', '&', '|', '`', '$', '(', ')', '<', '>', '"', '\'', '\n', '\r', '\0',
];

impl ConfigChecker<'_> {
    /// Returns the servers of an agent's own tools; their names differ from those of
    /// `other_servers`.
    pub(super) fn custom_tool_servers(
        &mut self,
        backend: &MappingView<'_>,
        other_servers: &[Arc<ServerConfig>],
    ) -> Vec<ServerConfig> {
        let mut names = CustomToolNames {
            servers: other_servers
                .iter()
                .map(|server| server.name().clone())
                .collect(),
            tools: Vec::new(),
        };
        let mut groups: Vec<(ServerConfig, PythonFunctions)> = Vec::new();
        for view in self.tool_entries(backend, &custom_tools::CUSTOM_TOOLS) {
            let functions = self.python_functions(&view, &mut names);
            let Some(new_server) = self.tool_server(&view, "custom_tools") else {
                continue;
            };
            let shared_index = groups
                .iter()
                .position(|(server, _)| has_same_rights(server, &new_server));
            let index = shared_index.unwrap_or_else(|| {
                groups.push((names.with_own_name(new_server), PythonFunctions::default()));
                groups.len().saturating_sub(1)
            });
            let Some((server, python)) = groups.get_mut(index) else {
                continue;
            };
            let arguments = view.strings(&custom_tools::CONTENT_ARGUMENTS);
            for function in &functions {
                let qualified_name = |argument: &String| format!("{}.{argument}", function.name);
                let qualified_names = arguments.iter().map(qualified_name);
                server.rules.content.extend(qualified_names);
            }
            python.functions.extend(functions);
        }
        let mut servers: Vec<ServerConfig> = groups
            .into_iter()
            .map(|(server, python)| with_python(server, python))
            .collect();
        for view in self.tool_entries(backend, &custom_tools::TOOLS) {
            servers.extend(self.program_tool(&view, &mut names));
        }
        servers.extend(self.discovered_tools_server(backend, &mut names));
        servers
    }

    /// Returns the server of the tools of MassGen's own package, if the config lets massgen
    /// discover them.
    fn discovered_tools_server(
        &mut self,
        backend: &MappingView<'_>,
        names: &mut CustomToolNames,
    ) -> Option<ServerConfig> {
        if backend.flag(&custom_tools::AUTO_DISCOVER) != Some(true)
            || backend.flag(&commands::CODE) != Some(true)
        {
            return None;
        }
        let python = PythonFunctions {
            functions: Vec::new(),
            discovery_exclusions: Some(backend.strings(&custom_tools::EXCLUDE)),
        };
        // No entry of the config describes these tools, so all settings have their defaults.
        let empty_entry = MappingView {
            node: &YamlNode {
                span: backend.node.span.clone(),
                value: YamlValue::Null,
            },
            path: String::new(),
        };
        let server = self.tool_server(&empty_entry, "discovered_tools")?;
        Some(with_python(names.with_own_name(server), python))
    }

    fn tool_entries<'n>(
        &mut self,
        backend: &MappingView<'n>,
        key: &TypedKey<NodeList>,
    ) -> Vec<MappingView<'n>> {
        let items = backend.items(key);
        let hint = "leave some out";
        let count = (items.len(), TOOLS_MAX);
        self.limit_count(backend.at(key), count, "tools", hint);
        let items = items.into_iter().take(TOOLS_MAX);
        items
            .filter_map(|(path, node)| MappingView::new(node, path))
            .collect()
    }

    /// Returns the server of a tool, without its program.
    fn tool_server(&mut self, view: &MappingView<'_>, name: &str) -> Option<ServerConfig> {
        let server = ServerName::parse(name)?;
        let permission = if view.has_text(&custom_tools::PERMISSION, "write") {
            Permission::Write
        } else {
            Permission::Read
        };
        let outside = if view.has_text(&custom_tools::SIDE_EFFECTS, "none") {
            OutsideEffects::None
        } else {
            OutsideEffects::Some
        };
        let seconds = view.integer(&custom_tools::TIMEOUT_SECONDS);
        Some(ServerConfig {
            rules: ServedToolRules {
                naming: ToolNaming::Custom,
                server,
                allowed: None,
                excluded: Vec::new(),
                tool_rules: BTreeMap::new(),
                permission,
                content: Vec::new(),
                outside,
                harmless: Vec::new(),
                caller: ToolCaller::Programs,
            },
            transport: ServerTransport::Program(ServerProgram {
                package: None,
                command: Vec::new(),
                interface: ProgramInterface::Mcp,
                run_in: ProgramPlace::Sandbox,
                directory: ServerDirectory::Workspace,
                env: self.variables(view, &custom_tools::ENV),
                network: self.network_of(view, &custom_tools::NETWORK),
                instances: InstanceSharing::PerAgent,
            }),
            call_seconds: seconds.unwrap_or(CALL_SECONDS_DEFAULT),
            need: ServerNeed::Required,
        })
    }

    fn python_functions(
        &mut self,
        view: &MappingView<'_>,
        names: &mut CustomToolNames,
    ) -> Vec<PythonFunction> {
        let function_names = text_list(view, &custom_tools::FUNCTION);
        let Some(function_names) =
            function_names.filter(|names| !names.is_empty() && names.len() <= TOOLS_MAX)
        else {
            let message = format!("`function` is not a name or a list of 1 to {TOOLS_MAX} names");
            let hint = "write `function: add`, or `function: [add, multiply]`";
            self.refuse(view.at(&custom_tools::FUNCTION), message, hint);
            return Vec::new();
        };
        let count = function_names.len();
        let tool_names = self.texts_of_functions(view, &custom_tools::NAME, count);
        let descriptions = self.texts_of_functions(view, &custom_tools::DESCRIPTION, count);
        let presets = self.preset_arguments(view, count);
        let path = view.text(&custom_tools::PATH);
        let file = path.as_ref().and_then(|text| {
            // Only for its errors: the name may mean a file next to the config.
            self.path(text)?;
            self.named_file(text)
        });
        if path.is_some() && file.is_none() {
            return Vec::new();
        }
        let mut functions = Vec::new();
        for (index, function) in function_names.into_iter().enumerate() {
            let entry_at = |list: &[Option<String>]| list.get(index).cloned().flatten();
            let name = entry_at(&tool_names).unwrap_or_else(|| function.value.to_owned());
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            if function.value.is_empty() || !function.value.chars().all(is_name) {
                let message = format!("{} is not the name of a function", quote(function.value));
                self.add_error(&function, message);
            }
            let Some(name) = self.tool_name(view, &name, names) else {
                continue;
            };
            let description = entry_at(&descriptions);
            let chars = description.as_deref().unwrap_or_default().chars().count();
            if chars > DESCRIPTION_CHARS_MAX {
                self.refuse_long_description(view, &custom_tools::DESCRIPTION, chars);
            }
            functions.push(PythonFunction {
                name,
                function: function.value.to_owned(),
                file: file.clone(),
                description: description.filter(|text| !text.trim().is_empty()),
                preset_args: presets.get(index).cloned().unwrap_or_default(),
            });
        }
        functions
    }

    /// Returns the name of a tool without its prefix, if it is valid and unique.
    fn tool_name(
        &mut self,
        view: &MappingView<'_>,
        config_name: &str,
        names: &mut CustomToolNames,
    ) -> Option<String> {
        let name = config_name
            .strip_prefix(CUSTOM_PREFIX)
            .unwrap_or(config_name);
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let bytes_max = FULL_NAME_BYTES_MAX.saturating_sub(CUSTOM_PREFIX.len());
        let problem =
            if name.is_empty() || name.len() > bytes_max || !name.bytes().all(is_name_byte) {
                Some(format!("{} is not the name of a tool", quote(config_name)))
            } else if names.tools.iter().any(|taken| taken == name) {
                Some(format!("the name {} is taken by another tool", quote(name)))
            } else {
                None
            };
        let Some(message) = problem else {
            names.tools.push(name.to_owned());
            return Some(name.to_owned());
        };
        let hint = format!(
            "give each tool a unique `name` with letters, digits, `_` and `-`, at most {bytes_max}"
        );
        self.refuse(view.at(&custom_tools::NAME), message, hint);
        None
    }

    /// Returns the text of a key for each of `count` functions. One text alone applies to all of
    /// them, except a name.
    fn texts_of_functions(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<Tree>,
        count: usize,
    ) -> Vec<Option<String>> {
        let Some(node) = view.get(key) else {
            return Vec::new();
        };
        let is_list = matches!(node.value, YamlValue::List(_));
        let is_name = key.name() == custom_tools::NAME.name();
        let texts = text_list(view, key).filter(|texts| {
            if is_list {
                texts.len() == count
            } else {
                !is_name || count == 1
            }
        });
        let Some(texts) = texts else {
            let message = format!("`{}` does not match the {count} functions", key.name());
            let hint = "write a list with one entry for each function";
            self.refuse(view.at(key), message, hint);
            return Vec::new();
        };
        let texts = texts.iter().map(|text| Some(text.value.to_owned()));
        texts.cycle().take(count).collect()
    }

    /// Returns the arguments that the config sets for each of `count` functions.
    fn preset_arguments(
        &mut self,
        view: &MappingView<'_>,
        count: usize,
    ) -> Vec<Map<String, Value>> {
        let Some(node) = view.get(&custom_tools::PRESET_ARGS) else {
            return Vec::new();
        };
        let json = node.to_json();
        let is_short = json.to_string().len() <= PRESET_BYTES_MAX;
        let presets: Option<Vec<Map<String, Value>>> = match json {
            Value::Object(arguments) => Some(vec![arguments; count]),
            Value::Array(list) => list
                .into_iter()
                .map(|arguments| match arguments {
                    Value::Object(arguments) => Some(arguments),
                    Value::Null => Some(Map::new()),
                    Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
                })
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        let presets = presets.filter(|presets| presets.len() == count && is_short);
        if presets.is_none() {
            let message = format!(
                "`preset_args` is not a mapping, or a list with one for each of the {count} \
                 functions, of at most {PRESET_BYTES_MAX} bytes"
            );
            let hint = "write `preset_args: {unit: metres}`";
            self.refuse(view.at(&custom_tools::PRESET_ARGS), message, hint);
        }
        presets.unwrap_or_default()
    }

    /// Returns the server of a program that is one tool.
    fn program_tool(
        &mut self,
        view: &MappingView<'_>,
        names: &mut CustomToolNames,
    ) -> Option<ServerConfig> {
        let name = view.text(&custom_tools::TOOL_NAME)?;
        let name = self.tool_name(view, name.value, names)?;
        let description = view.text(&custom_tools::TOOL_DESCRIPTION)?;
        let chars = description.value.chars().count();
        if chars > DESCRIPTION_CHARS_MAX {
            self.refuse_long_description(view, &custom_tools::TOOL_DESCRIPTION, chars);
        }
        let schema = self.tool_schema(view);
        let command = self.tool_command(view)?;
        let mut files = Vec::new();
        for (index, word) in command.iter().enumerate() {
            // Without a slash, it is an argument or a program that is found by its name.
            if word.value.contains('/') {
                files.extend(self.named_file(word).map(|file| (index, file)));
            }
        }
        let server = self.tool_server(view, &format!("tool_{name}"))?;
        let mut server = names.with_own_name(server);
        server.rules.content = view.strings(&custom_tools::CONTENT_ARGUMENTS);
        if let ServerTransport::Program(program) = &mut server.transport {
            program.command = command.iter().map(|word| word.value.to_owned()).collect();
            program.interface = ProgramInterface::SingleTool(Arc::new(ProgramTool {
                name,
                program: command.first().map_or("", |word| word.value).to_owned(),
                description: description.value.to_owned(),
                // Not earlier, so that a wrong command is reported as well.
                schema: schema?,
                files,
            }));
        }
        Some(server)
    }

    fn tool_schema(&mut self, view: &MappingView<'_>) -> Option<Value> {
        let Some(node) = view.get(&custom_tools::SCHEMA) else {
            return Some(json!({"type": "object", "properties": {}}));
        };
        let schema = node.to_json();
        let problem = match (clean_tool_schema(&schema), properties_problem(&schema)) {
            (Ok(schema), None) => return Some(schema),
            (Err(reason), _) | (Ok(_), Some(reason)) => reason,
        };
        let hint = "write `schema: {type: object, properties: {path: {type: string}}, required: \
                    [path]}`";
        let message = format!("`schema` is not the schema of a tool: {problem}");
        self.refuse(view.at(&custom_tools::SCHEMA), message, hint);
        None
    }

    /// Returns the words of the command.
    fn tool_command<'n>(&mut self, view: &MappingView<'n>) -> Option<Vec<TextValue<'n>>> {
        let node = view.get(&custom_tools::COMMAND)?;
        let listed_words = text_list(view, &custom_tools::COMMAND).unwrap_or_default();
        let split = |text: TextValue<'n>| {
            let words = text.value.split_whitespace();
            let word = |word| TextValue {
                value: word,
                path: text.path.clone(),
                span: text.span,
            };
            words.map(word).collect::<Vec<_>>()
        };
        let words: Vec<TextValue<'n>> = if matches!(node.value, YamlValue::List(_)) {
            listed_words
        } else {
            let line = listed_words
                .into_iter()
                .next()
                .filter(|line| !line.value.contains(METACHARACTERS));
            line.map(split).unwrap_or_default()
        };
        let fits = |word: &TextValue<'_>| {
            word.value.chars().count() <= WORD_CHARS_MAX && !word.value.contains('\0')
        };
        let has_program = words.first().is_some_and(|word| !word.value.is_empty());
        if has_program && words.len() <= WORDS_MAX && words.iter().all(fits) {
            return Some(words);
        }
        let message = format!(
            "`command` is not a program with at most {WORDS_MAX} words of {WORD_CHARS_MAX} \
             characters"
        );
        let hint =
            "write `command: ./tools/count.sh --fast`, or a list of words; no shell reads it";
        self.refuse(view.at(&custom_tools::COMMAND), message, hint);
        None
    }

    /// Returns the file that a path names: next to the config, or in the current directory if the
    /// config is in it too.
    fn named_file(&self, text: &TextValue<'_>) -> Option<NamedFile> {
        let path_in_base = resolve(text.value, self.context).ok()?;
        let is_relative = !text.value.starts_with(['/', '~']);
        let config_directory = self.origin.directory.as_ref().filter(|_| is_relative);
        let candidates = match config_directory {
            None => vec![path_in_base],
            Some(directory) => {
                let path_next_to_config = AbsPath::resolve(directory, text.value);
                let is_config_in_base = directory.is_within(self.context.base);
                let has_two_meanings = is_config_in_base && path_next_to_config != path_in_base;
                let second_path = has_two_meanings.then_some(path_in_base);
                std::iter::once(path_next_to_config)
                    .chain(second_path)
                    .collect()
            }
        };
        Some(NamedFile {
            config_path: text.value.to_owned(),
            candidates,
        })
    }

    fn refuse_long_description<V>(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<V>,
        chars: usize,
    ) {
        let message =
            format!("the description has {chars} characters: at most {DESCRIPTION_CHARS_MAX}");
        self.refuse(view.at(key), message, "shorten it");
    }
}

/// The names that are taken among an agent's servers and tools.
#[derive(Debug)]
struct CustomToolNames {
    servers: Vec<ServerName>,
    tools: Vec<String>,
}

impl CustomToolNames {
    /// Gives the server a number if another has its name.
    fn with_own_name(&mut self, mut server: ServerConfig) -> ServerConfig {
        let stem = server.name().to_string();
        let numbers = 2..=self.servers.len().saturating_add(2);
        let numbered_names = numbers.map(|number| format!("{stem}_{number}"));
        let mut names = std::iter::once(stem.clone())
            .chain(numbered_names)
            .filter_map(|name| ServerName::parse(&name));
        if let Some(name) = names.find(|name| !self.servers.contains(name)) {
            server.rules.server = name;
        }
        self.servers.push(server.name().clone());
        server
    }
}

/// Returns whether the Python functions of two entries can share a host.
fn has_same_rights(one: &ServerConfig, other: &ServerConfig) -> bool {
    let rights = |server: &ServerConfig| {
        let rules = &server.rules;
        (rules.permission, rules.outside, server.call_seconds)
    };
    let (ServerTransport::Program(one_program), ServerTransport::Program(other_program)) =
        (&one.transport, &other.transport)
    else {
        return false;
    };
    rights(one) == rights(other)
        && one_program.env == other_program.env
        && one_program.network == other_program.network
}

/// Returns the server with massgen's host of these functions as its program.
fn with_python(mut server: ServerConfig, python: PythonFunctions) -> ServerConfig {
    if let ServerTransport::Program(program) = &mut server.transport {
        program.command = vec![PYTHON.to_owned()];
        program.interface = ProgramInterface::PythonFunctions(Arc::new(python));
    }
    server
}

/// The command of the host of Python functions: the user's Python.
const PYTHON: &str = "python3";

/// Returns what is wrong with the properties of a schema.
fn properties_problem(schema: &Value) -> Option<String> {
    let properties = match schema.get("properties") {
        None => None,
        Some(Value::Object(properties)) => Some(properties),
        Some(_) => return Some("`properties` is not a mapping".to_owned()),
    };
    let mut all_properties = properties.into_iter().flatten();
    if let Some((name, _)) = all_properties.find(|(_, property)| !property.is_object()) {
        return Some(format!("the property {} is not a mapping", quote(name)));
    }
    let required_names = match schema.get("required") {
        None => return None,
        Some(Value::Array(required)) => required,
        Some(_) => return Some("`required` is not a list".to_owned()),
    };
    let is_property = |name: &&Value| {
        let name = name.as_str();
        name.is_some_and(|name| properties.is_some_and(|known| known.contains_key(name)))
    };
    let unknown_name = required_names.iter().find(|name| !is_property(name))?;
    Some(format!(
        "{} in `required` is not a property",
        quote(&unknown_name.to_string())
    ))
}

/// Returns the texts of a value that is one text or a list of them.
fn text_list<'n>(view: &MappingView<'n>, key: &TypedKey<Tree>) -> Option<Vec<TextValue<'n>>> {
    let node = view.get(key)?;
    let path = view.key_path(key);
    match &node.value {
        YamlValue::Scalar(_) => Some(vec![scalar_text(node, path)?]),
        YamlValue::List(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| scalar_text(item, format!("{path}[{index}]")))
            .collect(),
        YamlValue::Null | YamlValue::Mapping(_) => None,
    }
}
