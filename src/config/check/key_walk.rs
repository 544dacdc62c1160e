//! Compares the tree with the table of keys and reports unknown keys, unsupported keys, values of a
//! wrong shape and missing keys. It also expands variables, and replaces values of MassGen.

use crate::config::check::commands::is_variable_mapping;
use crate::config::check::expand::{ExpandedText, expand, is_whole_variable};
use crate::config::check::mapping_view::join_key;
use crate::config::check::{ConfigChecker, KEYS_MAX};
use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::execution_mode::ELSEWHERE_HINT;
use crate::config::keys::{
    COMMAND_LINE_PREFIX, ConfigKey, ForeignValue, IgnoredEffect, KeySection, KeyStatus, SECTIONS,
    ValueShape, backend, commands, nearest, root, servers,
};
use crate::config::servers::CWD_PLACEHOLDER;
use crate::config::size;
use crate::config::vendors::is_key_variable;
use crate::config::yaml::{YamlEntry, YamlLiteral, YamlNode, YamlScalar, YamlValue};
use crate::text::list_names;

/// Keys whose value is useless if it contains a variable that is not set.
const KEYS_REQUIRING_VARIABLES: &[&str] = &[backend::API_KEY.name(), backend::BASE_URL.name()];
/// Keys whose values may contain a vendor's API key; the values of others can reach a prompt.
const KEYS_WITH_API_KEYS: &[&str] = &[
    backend::API_KEY.name(),
    commands::ENV.name(),
    servers::HEADERS.name(),
];
/// The suggestion for the transport `sse` of an MCP server.
const SSE_HINT: &str = "HTTP+SSE is not supported: use the streamable HTTP transport";
/// The key in whose values every variable must be set: otherwise a server would receive its name.
const SERVERS: &str = servers::KEY.name();
/// The key of a workspace, and the variable with its path.
const CWD: &str = backend::CWD.name();
/// The keys of a server in which that variable is the program's working directory, which is known
/// only when it is started.
const SERVER_CWD_KEYS: &[&str] = &[servers::ARGS.name(), servers::CWD.name()];
/// The prefix of keys that only hold YAML anchors.
const ANCHOR_PREFIX: &str = "x-";
/// The longest value after variable expansion, in bytes.
const EXPANDED_BYTES_MAX: usize = 256 * 1024;

impl ConfigChecker<'_> {
    /// Compares the whole tree with a table and expands its variables. `${cwd}` is the `cwd` in the
    /// same or an enclosing mapping, or else the user's current directory. Returns whether the tree
    /// is a mapping; if not, adds an error with `hint`.
    pub(super) fn walk(
        &mut self,
        tree: &mut YamlNode,
        table: &'static KeySection,
        hint: &str,
    ) -> bool {
        let is_mapping = matches!(tree.value, YamlValue::Mapping(_));
        if is_mapping {
            let base = self.context.base.to_string();
            self.walk_section(tree, table, "", &base);
        } else {
            let error = Diagnostic::error("", format!("the file is {}", tree.describe()));
            self.findings.push(error.with_suggestion(hint));
        }
        is_mapping
    }

    fn walk_section(
        &mut self,
        node: &mut YamlNode,
        section: &'static KeySection,
        path: &str,
        cwd: &str,
    ) {
        let span = node.span.clone();
        let inner_cwd = self.effective_cwd(node, cwd);
        let YamlValue::Mapping(entries) = &mut node.value else {
            return self.wrong_shape(node, &ValueShape::Mapping(section), path);
        };
        let hint = "list fewer";
        let count = (entries.len(), KEYS_MAX);
        self.limit_count((path, &span), count, "keys", hint);
        for entry in entries.iter_mut().take(KEYS_MAX) {
            let cwd = match entry.key.as_str() {
                key if path.contains(SERVERS) && SERVER_CWD_KEYS.contains(&key) => CWD_PLACEHOLDER,
                CWD => cwd,
                _ => &inner_cwd,
            };
            self.walk_entry(entry, section, path, cwd);
        }
        let required_keys = section
            .keys
            .iter()
            .filter(|key| key.status == KeyStatus::Required);
        for name in required_keys.filter_map(|key| key.names.first().copied()) {
            let entry = entries.iter().find(|entry| entry.key == name);
            let (state, span) = match entry {
                Some(entry) if entry.value.value != YamlValue::Null => continue,
                Some(entry) => ("empty", &entry.key_span),
                None => ("missing", &span),
            };
            let message = format!("`{name}` is {state}");
            let hint = format!("write `{name}: …` here");
            self.refuse((join_key(path, name), span), message, hint);
        }
    }

    fn walk_entry(
        &mut self,
        entry: &mut YamlEntry,
        section: &'static KeySection,
        path: &str,
        cwd: &str,
    ) {
        let path = join_key(path, &entry.key);
        let Some(key) = section.find(&entry.key) else {
            return self.walk_unknown_key(entry, section, &path, cwd);
        };
        if !key.foreign_values.is_empty() {
            self.read_foreign_value(entry, key, &path, cwd);
        }
        match key.status {
            KeyStatus::Required | KeyStatus::Supported | KeyStatus::PassedOn => {
                self.walk_value(&mut entry.value, &key.shape, &path, cwd);
            }
            KeyStatus::Unsupported(ignored) => {
                self.walk_unsupported(entry, key, ignored, &path, cwd);
            }
            KeyStatus::Refused => {
                let message = format!("`{}` cannot be used here", entry.key);
                self.refuse((path, &entry.key_span), message, key.doc);
            }
        }
    }

    /// Replaces a value that only MassGen has by the one that it is read as. It may come from a
    /// variable.
    fn read_foreign_value(
        &mut self,
        entry: &mut YamlEntry,
        key: &ConfigKey,
        path: &str,
        cwd: &str,
    ) {
        let YamlValue::Scalar(scalar) = &mut entry.value.value else {
            return;
        };
        let text = self.expand_text(&scalar.text, last_key(path), cwd).text;
        let mut values = key.foreign_values.iter();
        let Some(value) = values.find(|value| value.massgen_value == text) else {
            return;
        };
        let ForeignValue {
            massgen_value,
            read_as,
            doc,
        } = value;
        let message = format!(
            "`{}: {massgen_value}` is read as `{read_as}`: {doc}",
            entry.key
        );
        self.add_warning((path, &entry.value.span), message);
        (*read_as).clone_into(&mut scalar.text);
    }

    /// Reports that a key is not supported, unless its value asks for the default behaviour anyway.
    /// That is an error if the user relies on a restriction by the key.
    fn walk_unsupported(
        &mut self,
        entry: &mut YamlEntry,
        key: &'static ConfigKey,
        ignored: IgnoredEffect,
        path: &str,
        cwd: &str,
    ) {
        let loses_effect = ignored != IgnoredEffect::Nothing
            && !is_default(&entry.value, key.default)
            && !is_disabled(&entry.value);
        if entry.value.value == YamlValue::Null || !loses_effect {
            return;
        }
        // Each key in it gets its own report.
        if let ValueShape::Mapping(_) = key.shape {
            return self.walk_value(&mut entry.value, &key.shape, path, cwd);
        }
        if !matches_shape(&entry.value, &key.shape) {
            self.wrong_shape(&entry.value, &key.shape, path);
        } else if is_restriction(&entry.value, ignored) {
            let message = format!(
                "`{}` would restrict the run, and is not supported",
                entry.key
            );
            self.refuse((path, &entry.key_span), message, key.doc);
        } else if ignored != IgnoredEffect::Restricts {
            let message = format!("`{}` is not supported: {}", entry.key, key.doc);
            self.add_warning((path, &entry.key_span), message);
        }
    }

    /// Handles a key that the section does not list.
    fn walk_unknown_key(
        &mut self,
        entry: &mut YamlEntry,
        section: &KeySection,
        path: &str,
        cwd: &str,
    ) {
        let similar_key = section.nearest(&entry.key);
        let is_passed_on = section.passes_on(&entry.key);
        if is_passed_on && similar_key.is_none() {
            return self.walk_value(&mut entry.value, &ValueShape::Any, path, cwd);
        }
        if !is_passed_on && entry.key.starts_with(ANCHOR_PREFIX) {
            return;
        }
        let hint = match (similar_key, section_of_key(&entry.key)) {
            (Some(similar_key), _) => format!("did you mean `{similar_key}`?"),
            (None, Some(owner)) => format!("it belongs in `{owner}`"),
            (None, None) => {
                let mut names = supported_names(section);
                if entry.key.starts_with(COMMAND_LINE_PREFIX) {
                    names.retain(|name| name.starts_with(COMMAND_LINE_PREFIX));
                }
                format!("keys here are {}", list_names(&names, "and"))
            }
        };
        let message = format!("unknown key {}", quote(&entry.key));
        self.refuse((path, &entry.key_span), message, hint);
    }

    fn walk_value(
        &mut self,
        node: &mut YamlNode,
        shape: &'static ValueShape,
        path: &str,
        cwd: &str,
    ) {
        match (shape, &mut node.value) {
            (_, YamlValue::Null) | (ValueShape::Verbatim, _) => {}
            (ValueShape::Mapping(section), _)
            | (ValueShape::TextOr(section), YamlValue::Mapping(_)) => {
                self.walk_section(node, section, path, cwd);
            }
            (ValueShape::Named(section), YamlValue::List(items)) => {
                for (index, node) in items.iter_mut().enumerate() {
                    self.walk_section(node, section, &format!("{path}[{index}]"), cwd);
                }
            }
            (ValueShape::Named(section), YamlValue::Mapping(entries)) => {
                for entry in entries {
                    self.walk_section(&mut entry.value, section, &join_key(path, &entry.key), cwd);
                }
            }
            (ValueShape::OneOfOrList(_), YamlValue::List(_)) => {
                self.walk_value(node, &ValueShape::List(&ValueShape::Text), path, cwd);
            }
            (ValueShape::List(item), YamlValue::List(items)) => {
                for (index, node) in items.iter_mut().enumerate() {
                    let path = format!("{path}[{index}]");
                    if node.value == YamlValue::Null {
                        self.wrong_shape(node, item, &path);
                    }
                    self.walk_value(node, item, &path, cwd);
                }
            }
            _ => {
                self.expand_variables(node, path, cwd);
                if !matches_shape(node, shape) {
                    self.wrong_shape(node, shape, path);
                }
            }
        }
    }

    /// Expands the variables in every scalar from this node down.
    fn expand_variables(&mut self, node: &mut YamlNode, path: &str, cwd: &str) {
        match &mut node.value {
            YamlValue::Null => {}
            YamlValue::List(items) => {
                for item in items {
                    self.expand_variables(item, path, cwd);
                }
            }
            YamlValue::Mapping(entries) => {
                for entry in entries {
                    self.expand_variables(&mut entry.value, path, cwd);
                }
            }
            YamlValue::Scalar(scalar) => {
                if let Some(expanded_scalar) = self.expand_scalar(scalar, &node.span, path, cwd) {
                    *scalar = expanded_scalar;
                }
            }
        }
    }

    fn expand_scalar(
        &mut self,
        scalar: &YamlScalar,
        span: &Span,
        path: &str,
        cwd: &str,
    ) -> Option<YamlScalar> {
        if !scalar.text.contains("${") {
            return None;
        }
        let name = last_key(path);
        let expansion = self.expand_text(&scalar.text, name, cwd);
        // A variable that is set counts as unset where its API key could reach a prompt.
        for unset in expansion.unset {
            let (message, hint) = if self.context.env.get(&unset).is_some() {
                let message = format!("variable `{unset}` contains an API key");
                let hint = "use API keys only in `api_key`, in `env` for commands, and in `headers` of \
                     servers";
                (message, hint.to_owned())
            } else {
                let file = if is_key_variable(&unset) {
                    ".env"
                } else {
                    "~/.massgen/.env"
                };
                let hint = format!("export {unset}, or set it in `{file}` as `{unset}=…`");
                (format!("variable `{unset}` is not set"), hint)
            };
            let diagnostic = if KEYS_REQUIRING_VARIABLES.contains(&name) || path.contains(SERVERS) {
                Diagnostic::error(path, message)
            } else {
                Diagnostic::warning(path, format!("{message}: it is not expanded"))
            };
            self.findings
                .push(diagnostic.with_span(span).with_suggestion(hint));
        }
        if expansion.text.len() > EXPANDED_BYTES_MAX {
            let message = format!("the expanded value is longer than {EXPANDED_BYTES_MAX} bytes");
            self.add_error((path, span), message);
            return None;
        }
        // A variable alone may hold a number or a boolean; with other text around it, it is text.
        Some(if is_whole_variable(&scalar.text) {
            YamlScalar::infer(expansion.text)
        } else {
            YamlScalar {
                text: expansion.text,
                literal: YamlLiteral::Text,
            }
        })
    }

    /// Expands the variables in `text`, the value of the key `key`.
    fn expand_text(&self, text: &str, key: &str, cwd: &str) -> ExpandedText {
        let env = self.context.env;
        expand(text, |name| match name {
            CWD => Some(cwd),
            name if is_key_variable(name) && !KEYS_WITH_API_KEYS.contains(&key) => None,
            name => env.get(name),
        })
    }

    /// Returns the value of `${cwd}` in a mapping: its own `cwd`, or else that of the enclosing
    /// mapping.
    fn effective_cwd(&self, node: &YamlNode, outer_cwd: &str) -> String {
        match node.entry(CWD).map(|entry| &entry.value.value) {
            Some(YamlValue::Scalar(scalar)) => self.expand_text(&scalar.text, CWD, outer_cwd).text,
            _ => outer_cwd.to_owned(),
        }
    }

    /// Reports a value of a wrong shape, without expanded variables: one may contain an API key.
    fn wrong_shape(&mut self, node: &YamlNode, shape: &ValueShape, path: &str) {
        let name = last_key(path);
        let value = match &node.value {
            YamlValue::Scalar(_) => quote(self.text.get(node.span.clone()).unwrap_or_default()),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => node.describe(),
        };
        let message = format!("`{name}` is {value}");
        let error = Diagnostic::error(path, message)
            .with_span(&node.span)
            .with_expected(format!("expected {}", shape.describe()));
        let similar_name = match (shape, &node.value) {
            (
                ValueShape::OneOf(names) | ValueShape::OneOfOrList(names),
                YamlValue::Scalar(scalar),
            ) => nearest(&scalar.text, names.iter().copied()),
            (_, YamlValue::List(_)) if path == root::AGENT.name() => Some(root::AGENTS.name()),
            _ => None,
        };
        self.findings.push(match similar_name {
            Some(name) => error.with_suggestion(format!("did you mean `{name}`?")),
            None if name == commands::MODE.name() => error.with_suggestion(ELSEWHERE_HINT),
            None if name == servers::TYPE.name() && value == quote("sse") => {
                error.with_suggestion(SSE_HINT)
            }
            None => error,
        });
    }
}

/// Returns the last key of a path.
fn last_key(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Returns whether a value has a shape. Mappings are walked instead.
fn matches_shape(node: &YamlNode, shape: &ValueShape) -> bool {
    let YamlValue::Scalar(scalar) = &node.value else {
        let names_variables = matches!(shape, ValueShape::Names) && is_variable_mapping(node);
        return names_variables || matches!(shape, ValueShape::Any | ValueShape::Verbatim);
    };
    match (shape, scalar.literal) {
        (ValueShape::Any | ValueShape::Verbatim | ValueShape::Text | ValueShape::TextOr(_), _) => {
            true
        }
        (ValueShape::Flag, _) => scalar.as_flag().is_some(),
        (ValueShape::Integer(min, max), YamlLiteral::Integer(integer)) => {
            (*min..=*max).contains(&integer)
        }
        (ValueShape::Number(min, max), YamlLiteral::Number(number)) => {
            (*min..=*max).contains(&number)
        }
        (ValueShape::Number(min, max), YamlLiteral::Integer(integer)) => {
            i32::try_from(integer).is_ok_and(|integer| (*min..=*max).contains(&f64::from(integer)))
        }
        (ValueShape::OneOf(names) | ValueShape::OneOfOrList(names), _) => {
            names.contains(&scalar.text.as_str())
        }
        (ValueShape::Size(min, max), _) => {
            size::bytes(&scalar.text).is_some_and(|bytes| (*min..=*max).contains(&bytes))
        }
        (
            ValueShape::Integer(..)
            | ValueShape::Number(..)
            | ValueShape::Names
            | ValueShape::List(_)
            | ValueShape::Mapping(_)
            | ValueShape::Named(_),
            _,
        ) => false,
    }
}

/// Returns whether the value of an unsupported key asks for a restriction.
fn is_restriction(node: &YamlNode, ignored: IgnoredEffect) -> bool {
    let is_off = match &node.value {
        YamlValue::Null => true,
        YamlValue::Scalar(scalar) => scalar.as_flag() == Some(false),
        YamlValue::List(items) => items.is_empty(),
        YamlValue::Mapping(entries) => entries.is_empty(),
    };
    match (ignored, &node.value) {
        (IgnoredEffect::Nothing | IgnoredEffect::Convenience, _) => false,
        (IgnoredEffect::RestrictsAs(words), YamlValue::Scalar(scalar)) => {
            words.contains(&scalar.text.as_str())
        }
        (IgnoredEffect::Restricts | IgnoredEffect::RestrictsAs(_), _) => !is_off,
    }
}

/// Returns whether a value is the default, which applies anyway.
pub(super) fn is_default(node: &YamlNode, default: Option<&str>) -> bool {
    match (&node.value, default) {
        (YamlValue::Scalar(scalar), Some(default)) => {
            let flag = scalar.as_flag().map(|flag| flag.to_string());
            flag.as_deref().unwrap_or(&scalar.text) == default
        }
        _ => false,
    }
}

/// Returns whether a mapping contains `enabled: false`.
fn is_disabled(node: &YamlNode) -> bool {
    let is_off = |entry: &YamlEntry| match &entry.value.value {
        YamlValue::Scalar(scalar) => entry.key == "enabled" && scalar.as_flag() == Some(false),
        YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => false,
    };
    match &node.value {
        YamlValue::Mapping(entries) => entries.iter().any(is_off),
        YamlValue::Null | YamlValue::Scalar(_) | YamlValue::List(_) => false,
    }
}

/// Returns the section that lists a key, the outermost if there are several.
fn section_of_key(name: &str) -> Option<&'static str> {
    let sections = SECTIONS.iter().filter(|section| {
        let key = section.find(name);
        key.is_some_and(ConfigKey::is_implemented)
    });
    let paths = sections.map(|section| section.path);
    paths
        .filter(|path| !path.is_empty())
        .min_by_key(|path| path.len())
}

fn supported_names(section: &KeySection) -> Vec<&'static str> {
    let keys = section.keys.iter();
    keys.filter(|key| key.is_implemented())
        .flat_map(|key| key.names.iter().copied())
        .collect()
}
