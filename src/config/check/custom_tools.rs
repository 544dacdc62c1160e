//! Checks the keys about the user's own tools. Each program is a server of its agent, and Python
//! functions with the same rights share one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, scalar_text};
use crate::config::check::paths::resolve;
use crate::config::custom_tools::{
    NamedFile, ProgramInterface, ProgramTool, PythonFunction, PythonFunctions,
};
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::keys::shape::{NodeList, Text, Tree};
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
    CUSTOM_PREFIX, OutsideEffects, ServerName, ServerRules, ToolCaller, ToolNaming,
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
    /// Returns the servers of an agent's own tools; their names differ from those of `others`.
    pub(super) fn custom_tool_servers(
        &mut self,
        backend: &MappingView<'_>,
        others: &[Arc<ServerConfig>],
    ) -> Vec<ServerConfig> {
        let mut names = CustomToolNames {
            servers: others.iter().map(|other| other.name().clone()).collect(),
            tools: Vec::new(),
        };
        let mut groups: Vec<(ServerConfig, PythonFunctions)> = Vec::new();
        for view in self.tool_entries(backend, &custom_tools::CUSTOM_TOOLS) {
            let functions = self.python_functions(&view, &mut names);
            let Some(wanted) = self.tool_server(&view, "custom_tools") else {
                continue;
            };
            self.warn_about_package_tools(&view, &functions, &wanted);
            let known_index = groups
                .iter()
                .position(|(server, _)| has_same_rights(server, &wanted));
            let index = known_index.unwrap_or_else(|| {
                groups.push((names.with_own_name(wanted), PythonFunctions::default()));
                groups.len().saturating_sub(1)
            });
            let Some((server, python)) = groups.get_mut(index) else {
                continue;
            };
            let content = content_arguments(&view);
            for function in &functions {
                let of_function = |argument: &String| format!("{}.{argument}", function.name);
                server.rules.content.extend(content.iter().map(of_function));
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
        let is_discovering = backend.flag(&custom_tools::AUTO_DISCOVER) == Some(true)
            && backend.flag(&commands::CODE) == Some(true);
        if is_discovering {
            let excluded = backend
                .texts(&custom_tools::EXCLUDE)
                .into_iter()
                .map(|text| text.value.to_owned());
            let python = PythonFunctions {
                functions: Vec::new(),
                discovered_without: Some(excluded.collect()),
            };
            // No entry says more about these tools.
            let nothing = MappingView {
                node: &YamlNode {
                    span: backend.node.span.clone(),
                    value: YamlValue::Null,
                },
                path: String::new(),
            };
            let server = self
                .tool_server(&nothing, "discovered_tools")
                .map(|server| with_python(names.with_own_name(server), python));
            servers.extend(server);
        }
        servers
    }

    fn tool_entries<'n>(
        &mut self,
        backend: &MappingView<'n>,
        key: &TypedKey<NodeList>,
    ) -> Vec<MappingView<'n>> {
        let items = backend.items(key);
        if items.len() > TOOLS_MAX {
            let message = format!("{} tools are too many: at most {TOOLS_MAX}", items.len());
            self.refuse_key(backend, key, &message, "leave some out");
        }
        let items = items.into_iter().take(TOOLS_MAX);
        items
            .filter_map(|(path, node)| MappingView::new(node, path))
            .collect()
    }

    /// Returns the server of a tool, without its program.
    fn tool_server(&mut self, view: &MappingView<'_>, name: &str) -> Option<ServerConfig> {
        let server = ServerName::parse(name)?;
        let is = |key: &TypedKey<Text>, word: &str| {
            view.text(key).is_some_and(|text| text.value == word)
        };
        let permission = if is(&custom_tools::PERMISSION, "write") {
            Permission::Write
        } else {
            Permission::Read
        };
        let outside = if is(&custom_tools::SIDE_EFFECTS, "none") {
            OutsideEffects::None
        } else {
            OutsideEffects::Some
        };
        let seconds = view.integer(&custom_tools::TIMEOUT_SECONDS);
        Some(ServerConfig {
            rules: ServerRules {
                naming: ToolNaming::Custom,
                server,
                allowed: None,
                excluded: Vec::new(),
                ruled: BTreeMap::new(),
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
        let wanted = text_list(view, &custom_tools::FUNCTION);
        let Some(function_names) =
            wanted.filter(|wanted| !wanted.is_empty() && wanted.len() <= TOOLS_MAX)
        else {
            let message = format!("`function` is not a name or a list of 1 to {TOOLS_MAX} names");
            let hint = "write `function: add`, or `function: [add, multiply]`";
            self.refuse_key(view, &custom_tools::FUNCTION, &message, hint);
            return Vec::new();
        };
        let count = function_names.len();
        let tool_names = self.one_each(view, &custom_tools::NAME, count);
        let descriptions = self.one_each(view, &custom_tools::DESCRIPTION, count);
        let presets = self.presets(view, count);
        let path = view.text(&custom_tools::PATH);
        let file = path.as_ref().and_then(|text| {
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
                let error = Diagnostic::error(&function.path, message).with_span(function.span);
                self.findings.push(error);
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
        written: &str,
        names: &mut CustomToolNames,
    ) -> Option<String> {
        let name = written.strip_prefix(CUSTOM_PREFIX).unwrap_or(written);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let bytes_max = FULL_NAME_BYTES_MAX.saturating_sub(CUSTOM_PREFIX.len());
        let fault = if name.is_empty() || name.len() > bytes_max || !name.bytes().all(is_part) {
            Some(format!("{} is not the name of a tool", quote(written)))
        } else if names.tools.iter().any(|taken| taken == name) {
            Some(format!("the name {} is taken by another tool", quote(name)))
        } else {
            None
        };
        let Some(message) = fault else {
            names.tools.push(name.to_owned());
            return Some(name.to_owned());
        };
        let error = Diagnostic::error(view.key_path(&custom_tools::NAME), message);
        let hint = format!(
            "give each tool a unique `name` with letters, digits, `_` and `-`, at most {bytes_max}"
        );
        let error = error.with_span(view.key_span(&custom_tools::NAME));
        self.findings.push(error.with_suggestion(hint));
        None
    }

    /// Returns the text of a key for each of `count` functions: one text alone is for all of them,
    /// but a name is for one.
    fn one_each(
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
        let listed_texts = text_list(view, key);
        let texts = listed_texts.filter(|texts| {
            let is_for_all = !is_list && (!is_name || count == 1);
            is_for_all || (is_list && texts.len() == count)
        });
        let Some(texts) = texts else {
            let message = format!("`{}` does not match the {count} functions", key.name());
            let hint = "write a list with one entry for each function";
            self.refuse_key(view, key, &message, hint);
            return Vec::new();
        };
        let texts = texts.iter().map(|text| Some(text.value.to_owned()));
        texts.cycle().take(count).collect()
    }

    /// Returns the arguments that the config sets for each of `count` functions.
    fn presets(&mut self, view: &MappingView<'_>, count: usize) -> Vec<Map<String, Value>> {
        let Some(node) = view.get(&custom_tools::PRESET_ARGS) else {
            return Vec::new();
        };
        let preset_list: Vec<Option<Map<String, Value>>> = match (&node.value, node.to_json()) {
            (YamlValue::Mapping(_), Value::Object(one)) => vec![Some(one); count],
            (YamlValue::List(_), Value::Array(list)) => list
                .into_iter()
                .map(|one| match one {
                    Value::Object(one) => Some(one),
                    Value::Null => Some(Map::new()),
                    Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        let is_short = node.to_json().to_string().len() <= PRESET_BYTES_MAX;
        let presets: Option<Vec<_>> = preset_list.into_iter().collect();
        let presets = presets.filter(|presets| presets.len() == count && is_short);
        if presets.is_none() {
            let message = format!(
                "`preset_args` is not a mapping, or a list with one for each of the {count} \
                 functions, of at most {PRESET_BYTES_MAX} bytes"
            );
            let hint = "write `preset_args: {unit: metres}`";
            self.refuse_key(view, &custom_tools::PRESET_ARGS, &message, hint);
        }
        presets.unwrap_or_default()
    }

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
            if word.value.contains('/') {
                files.extend(self.named_file(word).map(|file| (index, file)));
            }
        }
        let server = self.tool_server(view, &format!("tool_{name}"))?;
        let mut server = names.with_own_name(server);
        server.rules.content = content_arguments(view);
        if let ServerTransport::Program(program) = &mut server.transport {
            program.command = command.iter().map(|word| word.value.to_owned()).collect();
            program.interface = ProgramInterface::SingleTool(Arc::new(ProgramTool {
                name,
                program: command.first().map_or("", |word| word.value).to_owned(),
                description: description.value.to_owned(),
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
        let fault = match (clean_tool_schema(&schema), fields_fault(&schema)) {
            (Ok(schema), None) => return Some(schema),
            (Err(why), _) | (Ok(_), Some(why)) => why,
        };
        let hint = "write `schema: {type: object, properties: {path: {type: string}}, required: \
                    [path]}`";
        let message = format!("`schema` is not the schema of a tool: {fault}");
        self.refuse_key(view, &custom_tools::SCHEMA, &message, hint);
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
        self.refuse_key(view, &custom_tools::COMMAND, &message, hint);
        None
    }

    /// Returns the file that a path names: next to the config, or in the current directory if the
    /// config is in it too.
    fn named_file(&self, text: &TextValue<'_>) -> Option<NamedFile> {
        let from_base = resolve(text.value, self.context).ok()?;
        let is_relative = !text.value.starts_with(['/', '~']);
        let config_directory = self.origin.directory.as_ref().filter(|_| is_relative);
        let candidates = match config_directory {
            None => vec![from_base],
            Some(directory) => {
                let next_to_config = AbsPath::resolve(directory, text.value);
                let base = self.context.base;
                let is_inside = directory.is_within(base) && next_to_config != from_base;
                let from_base = is_inside.then_some(from_base);
                std::iter::once(next_to_config).chain(from_base).collect()
            }
        };
        Some(NamedFile {
            written: text.value.to_owned(),
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
        self.refuse_key(view, key, &message, "shorten it");
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
fn has_same_rights(server: &ServerConfig, wanted: &ServerConfig) -> bool {
    let rights = |server: &ServerConfig| {
        let rules = &server.rules;
        (rules.permission, rules.outside, server.call_seconds)
    };
    let (ServerTransport::Program(one), ServerTransport::Program(other)) =
        (&server.transport, &wanted.transport)
    else {
        return false;
    };
    rights(server) == rights(wanted) && one.env == other.env && one.network == other.network
}

fn with_python(mut server: ServerConfig, python: PythonFunctions) -> ServerConfig {
    if let ServerTransport::Program(program) = &mut server.transport {
        program.command = vec![PYTHON.to_owned()];
        program.interface = ProgramInterface::PythonFunctions(Arc::new(python));
    }
    server
}

/// The user's Python.
const PYTHON: &str = "python3";

/// Returns what is wrong with the properties of a schema.
fn fields_fault(schema: &Value) -> Option<String> {
    let properties = schema.get("properties");
    let fields = match properties {
        None => None,
        Some(Value::Object(fields)) => Some(fields),
        Some(_) => return Some("`properties` is not a mapping".to_owned()),
    };
    let mut all_fields = fields.into_iter().flatten();
    if let Some((name, _)) = all_fields.find(|(_, field)| !field.is_object()) {
        return Some(format!("the property {} is not a mapping", quote(name)));
    }
    let required_names = match schema.get("required") {
        None => return None,
        Some(Value::Array(required)) => required,
        Some(_) => return Some("`required` is not a list".to_owned()),
    };
    let is_property = |name: &&Value| {
        let name = name.as_str();
        name.is_some_and(|name| fields.is_some_and(|fields| fields.contains_key(name)))
    };
    let unknown_name = required_names.iter().find(|name| !is_property(name))?;
    Some(format!(
        "{} in `required` is not a property",
        quote(&unknown_name.to_string())
    ))
}

/// Returns the texts of a value that is one or a list of them.
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

fn content_arguments(view: &MappingView<'_>) -> Vec<String> {
    let texts = view.texts(&custom_tools::CONTENT_ARGUMENTS).into_iter();
    texts.map(|text| text.value.to_owned()).collect()
}
