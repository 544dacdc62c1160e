//! Owns the comparison of the tree with the table of keys: unknown keys, keys that are not served,
//! values of a wrong shape, missing keys. On its way it fills in variables.

use crate::config::check::commands::names_variables;
use crate::config::check::expand::{Expansion, expand, is_whole_variable};
use crate::config::check::view::join;
use crate::config::check::{Checker, KEYS_MAX};
use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::keys::{
    ABOUT_COMMANDS, Ignored, Key, SECTIONS, Section, Shape, Status, nearest,
};
use crate::config::node::{Entry, Literal, Node, Scalar, Value};
use crate::config::servers::CWD_OF_SERVER;
use crate::config::size;
use crate::config::vendors::VENDORS;
use crate::wording::listed;

/// Keys whose value is useless with a variable that is not set in it.
const NEEDS_VARIABLES: &[&str] = &["api_key", "base_url"];
/// Keys that a vendor's key may stand in: what stands in others can end in what models are told.
const MAY_HOLD_KEYS: &[&str] = &["api_key", "env", "headers"];
/// The key in whose values every variable has to be set: a server would be sent its name.
const SERVERS: &str = "mcp_servers";
/// The key of a workspace, and the variable that stands for it.
const CWD: &str = "cwd";
/// The keys of a server in which that variable stands for the directory that its program begins in,
/// which is known when it is started.
const OF_STARTS: &[&str] = &["args", CWD];
/// What a key begins with that is a place for anchors and nothing else.
const ANCHOR_PREFIX: &str = "x-";
/// The longest value that variables can make, in bytes.
const EXPANDED_BYTES_MAX: usize = 256 * 1024;

impl Checker<'_> {
    /// Compares the whole tree with a table, and fills in its variables. `${cwd}` stands for the
    /// `cwd` beside or above it, or else the directory that the user stands in. Says with `hint`
    /// where the tree is no mapping at all; otherwise there are keys to look at.
    pub(super) fn walk(&mut self, tree: &mut Node, table: &'static Section, hint: &str) -> bool {
        let is_mapping = matches!(tree.value, Value::Mapping(_));
        if is_mapping {
            let base = self.context.base.to_string();
            self.walk_section(tree, table, "", &base);
        } else {
            let error = Diagnostic::error("", format!("the file is {}", tree.describe()));
            self.findings.push(error.suggest(hint));
        }
        is_mapping
    }

    fn walk_section(&mut self, node: &mut Node, section: &'static Section, path: &str, cwd: &str) {
        let span = node.span.clone();
        let inner_cwd = self.cwd_of(node, cwd);
        let Value::Mapping(entries) = &mut node.value else {
            return self.wrong_shape(node, &Shape::Mapping(section), path);
        };
        if entries.len() > KEYS_MAX {
            let message = format!("{} keys are too many: at most {KEYS_MAX}", entries.len());
            self.findings
                .push(Diagnostic::error(path, message).at(&span));
        }
        for entry in entries.iter_mut().take(KEYS_MAX) {
            let cwd = match entry.key.as_str() {
                key if path.contains(SERVERS) && OF_STARTS.contains(&key) => CWD_OF_SERVER,
                CWD => cwd,
                _ => &inner_cwd,
            };
            self.walk_entry(entry, section, path, cwd);
        }
        let required = section
            .keys
            .iter()
            .filter(|key| key.status == Status::Required);
        for name in required.filter_map(|key| key.names.first().copied()) {
            let entry = entries.iter().find(|entry| entry.key == name);
            let (state, span) = match entry {
                Some(entry) if entry.value.value != Value::Null => continue,
                Some(entry) => ("empty", &entry.key_span),
                None => ("missing", &span),
            };
            let error = Diagnostic::error(join(path, name), format!("`{name}` is {state}"));
            self.findings
                .push(error.at(span).suggest(format!("write `{name}: …` here")));
        }
    }

    fn walk_entry(&mut self, entry: &mut Entry, section: &'static Section, path: &str, cwd: &str) {
        let path = join(path, &entry.key);
        let Some(key) = section.find(&entry.key) else {
            return self.walk_other(entry, section, &path, cwd);
        };
        match key.status {
            Status::Required | Status::Served | Status::Passed => {
                self.walk_value(&mut entry.value, &key.shape, &path, cwd);
            }
            Status::Unserved(ignored) => self.walk_unserved(entry, (key, ignored), &path, cwd),
            Status::Refused => {
                let message = format!("`{}` cannot be used here", entry.key);
                self.findings.push(
                    Diagnostic::error(path, message)
                        .at(&entry.key_span)
                        .suggest(key.doc),
                );
            }
        }
    }

    /// Says once that a key is not served, unless what it asks for happens anyway. It is an error if the
    /// user relies on what it restricts.
    fn walk_unserved(
        &mut self,
        entry: &mut Entry,
        (key, ignored): (&'static Key, Ignored),
        path: &str,
        cwd: &str,
    ) {
        if entry.value.value == Value::Null || is_default(&entry.value, key.default) {
            return;
        }
        if let Shape::Mapping(_) = key.shape {
            return self.walk_value(&mut entry.value, &key.shape, path, cwd);
        }
        if !fits(&entry.value, &key.shape) {
            self.wrong_shape(&entry.value, &key.shape, path);
        } else if restricts(&entry.value, ignored) {
            let message = format!(
                "`{}` would restrict the run, and is not supported",
                entry.key
            );
            let error = Diagnostic::error(path, message).at(&entry.key_span);
            self.findings.push(error.suggest(key.doc));
        } else if ignored != Ignored::Restricts {
            let message = format!("`{}` is not supported: {}", entry.key, key.doc);
            self.findings
                .push(Diagnostic::warning(path, message).at(&entry.key_span));
        }
    }

    /// A key that the section does not list.
    fn walk_other(&mut self, entry: &mut Entry, section: &Section, path: &str, cwd: &str) {
        let near = section.nearest(&entry.key);
        let passed = section.passes_on(&entry.key);
        if passed && near.is_none() {
            return self.walk_value(&mut entry.value, &Shape::Any, path, cwd);
        }
        if !passed && entry.key.starts_with(ANCHOR_PREFIX) {
            return;
        }
        let hint = match (near, home_of(&entry.key)) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(home)) => format!("it belongs into `{home}`"),
            (None, None) => {
                let mut names = served_names(section);
                if entry.key.starts_with(ABOUT_COMMANDS) {
                    names.retain(|name| name.starts_with(ABOUT_COMMANDS));
                }
                format!("keys here are {}", listed(&names, "and"))
            }
        };
        let error = Diagnostic::error(path, format!("unknown key {}", quote(&entry.key)));
        self.findings.push(error.at(&entry.key_span).suggest(hint));
    }

    fn walk_value(&mut self, node: &mut Node, shape: &'static Shape, path: &str, cwd: &str) {
        match (shape, &mut node.value) {
            (_, Value::Null) | (Shape::Verbatim, _) => {}
            (Shape::Mapping(section), _) | (Shape::TextOr(section), Value::Mapping(_)) => {
                self.walk_section(node, section, path, cwd);
            }
            (Shape::Named(section), Value::List(items)) => {
                for (index, node) in items.iter_mut().enumerate() {
                    self.walk_section(node, section, &format!("{path}[{index}]"), cwd);
                }
            }
            (Shape::Named(section), Value::Mapping(entries)) => {
                for entry in entries {
                    self.walk_section(&mut entry.value, section, &join(path, &entry.key), cwd);
                }
            }
            (Shape::OneOfOrList(_), Value::List(_)) => {
                self.walk_value(node, &Shape::List(&Shape::Text), path, cwd);
            }
            (Shape::List(item), Value::List(items)) => {
                for (index, node) in items.iter_mut().enumerate() {
                    let path = format!("{path}[{index}]");
                    if node.value == Value::Null {
                        self.wrong_shape(node, item, &path);
                    }
                    self.walk_value(node, item, &path, cwd);
                }
            }
            _ => {
                self.fill_in(node, path, cwd);
                if !fits(node, shape) {
                    self.wrong_shape(node, shape, path);
                }
            }
        }
    }

    /// Fills in the variables of every scalar from here down.
    fn fill_in(&mut self, node: &mut Node, path: &str, cwd: &str) {
        match &mut node.value {
            Value::Null => {}
            Value::List(items) => {
                for item in items {
                    self.fill_in(item, path, cwd);
                }
            }
            Value::Mapping(entries) => {
                for entry in entries {
                    self.fill_in(&mut entry.value, path, cwd);
                }
            }
            Value::Scalar(scalar) => {
                if let Some(filled) = self.filled_in(scalar, &node.span, path, cwd) {
                    *scalar = filled;
                }
            }
        }
    }

    fn filled_in(&mut self, scalar: &Scalar, span: &Span, path: &str, cwd: &str) -> Option<Scalar> {
        if !scalar.text.contains("${") {
            return None;
        }
        let name = path.rsplit('.').next().unwrap_or(path);
        let expansion = self.expanded(&scalar.text, name, cwd);
        for unset in expansion.unset {
            let (message, hint) = if self.context.env.get(&unset).is_some() {
                let message = format!("the variable `{unset}` holds a key");
                let hint =
                    "keys stand in `api_key`, in `env` for commands, and in `headers` of servers";
                (message, hint.to_owned())
            } else {
                let file = if holds_key(&unset) {
                    ".env"
                } else {
                    "~/.massgen/.env"
                };
                let hint = format!("export {unset}, or write it into `{file}` as `{unset}=…`");
                (format!("the variable `{unset}` is not set"), hint)
            };
            let diagnostic = if NEEDS_VARIABLES.contains(&name) || path.contains(SERVERS) {
                Diagnostic::error(path, message)
            } else {
                Diagnostic::warning(path, format!("{message}: the text stays as it is"))
            };
            self.findings.push(diagnostic.at(span).suggest(hint));
        }
        if expansion.text.len() > EXPANDED_BYTES_MAX {
            let message = format!("variables make this longer than {EXPANDED_BYTES_MAX} bytes");
            self.findings
                .push(Diagnostic::error(path, message).at(span));
            return None;
        }
        Some(if is_whole_variable(&scalar.text) {
            Scalar::infer(expansion.text)
        } else {
            Scalar {
                text: expansion.text,
                literal: Literal::Text,
            }
        })
    }

    /// The `text` of the key called `key` with its variables.
    fn expanded(&self, text: &str, key: &str, cwd: &str) -> Expansion {
        let env = self.context.env;
        expand(text, |name| match name {
            CWD => Some(cwd),
            name if holds_key(name) && !MAY_HOLD_KEYS.contains(&key) => None,
            name => env.get(name),
        })
    }

    /// What `${cwd}` stands for in a mapping: the `cwd` that it holds, or else the one around it.
    fn cwd_of(&self, node: &Node, outer: &str) -> String {
        match node.entry(CWD).map(|entry| &entry.value.value) {
            Some(Value::Scalar(scalar)) => self.expanded(&scalar.text, CWD, outer).text,
            _ => outer.to_owned(),
        }
    }

    /// The value is shown as it was written, for a variable may hold a key.
    fn wrong_shape(&mut self, node: &Node, shape: &Shape, path: &str) {
        let name = path.rsplit('.').next().unwrap_or(path);
        let value = match &node.value {
            Value::Scalar(_) => quote(self.text.get(node.span.clone()).unwrap_or_default()),
            Value::Null | Value::List(_) | Value::Mapping(_) => node.describe(),
        };
        let message = format!("`{name}` is {value}");
        let error = Diagnostic::error(path, message)
            .at(&node.span)
            .expected(format!("expected {}", shape.describe()));
        let near = match (shape, &node.value) {
            (Shape::OneOf(names) | Shape::OneOfOrList(names), Value::Scalar(scalar)) => {
                nearest(&scalar.text, names.iter().copied())
            }
            (_, Value::List(_)) if path == "agent" => Some("agents"),
            _ => None,
        };
        self.findings.push(match near {
            Some(known) => error.suggest(format!("did you mean `{known}`?")),
            None => error,
        });
    }
}

/// Whether a variable is where a vendor's key is kept.
fn holds_key(variable: &str) -> bool {
    let mut vendors = VENDORS.iter();
    vendors.any(|vendor| vendor.key_variables.contains(&variable))
}

/// Whether a value has a shape. Mappings are walked, not asked.
fn fits(node: &Node, shape: &Shape) -> bool {
    let Value::Scalar(scalar) = &node.value else {
        let names_variables = matches!(shape, Shape::Names) && names_variables(node);
        return names_variables || matches!(shape, Shape::Any | Shape::Verbatim);
    };
    match (shape, scalar.literal) {
        (Shape::Any | Shape::Verbatim | Shape::Text | Shape::TextOr(_), _) => true,
        (Shape::Flag, _) => scalar.as_flag().is_some(),
        (Shape::Integer(least, most), Literal::Integer(integer)) => {
            (*least..=*most).contains(&integer)
        }
        (Shape::Number(least, most), Literal::Number(number)) => (*least..=*most).contains(&number),
        (Shape::Number(least, most), Literal::Integer(integer)) => i32::try_from(integer)
            .is_ok_and(|integer| (*least..=*most).contains(&f64::from(integer))),
        (Shape::OneOf(names) | Shape::OneOfOrList(names), _) => {
            names.contains(&scalar.text.as_str())
        }
        (Shape::Size(least, most), _) => {
            size::bytes(&scalar.text).is_some_and(|bytes| (*least..=*most).contains(&bytes))
        }
        (
            Shape::Integer(..)
            | Shape::Number(..)
            | Shape::Names
            | Shape::List(_)
            | Shape::Mapping(_)
            | Shape::Named(_),
            _,
        ) => false,
    }
}

/// Whether the value of a key that is not acted on asks for a restriction.
fn restricts(node: &Node, ignored: Ignored) -> bool {
    let is_off = match &node.value {
        Value::Null => true,
        Value::Scalar(scalar) => scalar.as_flag() == Some(false),
        Value::List(items) => items.is_empty(),
        Value::Mapping(entries) => entries.is_empty(),
    };
    match (ignored, &node.value) {
        (Ignored::Looks, _) => false,
        (Ignored::RestrictsAs(words), Value::Scalar(scalar)) => {
            words.contains(&scalar.text.as_str())
        }
        (Ignored::Restricts | Ignored::RestrictsAs(_), _) => !is_off,
    }
}

/// Whether a value is the default, which holds anyway.
pub(super) fn is_default(node: &Node, default: Option<&str>) -> bool {
    match (&node.value, default) {
        (Value::Scalar(scalar), Some(default)) => {
            let flag = scalar.as_flag().map(|flag| flag.to_string());
            flag.as_deref().unwrap_or(&scalar.text) == default
        }
        _ => false,
    }
}

/// The section that lists a key, the outermost if there are several.
fn home_of(name: &str) -> Option<&'static str> {
    let sections = SECTIONS.iter().filter(|section| {
        let key = section.find(name);
        key.is_some_and(Key::is_acted_on)
    });
    let paths = sections.map(|section| section.path);
    paths
        .filter(|path| !path.is_empty())
        .min_by_key(|path| path.len())
}

fn served_names(section: &Section) -> Vec<&'static str> {
    let keys = section.keys.iter();
    keys.filter(|key| key.is_acted_on())
        .flat_map(|key| key.names.iter().copied())
        .collect()
}
