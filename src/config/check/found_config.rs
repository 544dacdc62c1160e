//! Finds the uses of a config that are allowed only if the user named it, and not if massgen found
//! it. The tree before variable expansion is walked alongside: it shows which values come from the
//! user's environment.

use crate::config::check::context_paths::is_url;
use crate::config::check::key_walk::is_default;
use crate::config::check::paths::resolve;
use crate::config::keys::found_config::{
    FoundConfigUse, KeySetting, PathPurpose, PathUseAccess, RestrictedUse, is_empty, items, text,
    text_of_key,
};
use crate::config::keys::root::ROOT;
use crate::config::keys::{ConfigKey, KeySection, KeyStatus, ValueShape, agents, context_paths};
use crate::config::storage_path::StoragePath;
use crate::config::yaml::{YamlEntry, YamlNode, YamlValue};
use crate::config::{ConfigContext, ConfigOrigin};
use crate::path::AbsPath;
use crate::text::single_line;

/// The longest part of an unknown key or of a URL that is quoted, in characters.
const KEY_CHARS_MAX: usize = 80;
/// Values for the project of a pipeline that are not paths.
const PROJECT_KEYWORDS: &[&str] = &["auto", "none"];

/// Returns the uses that only a named config may have, in the order of the file. `unexpanded` and
/// `expanded` are the tree before and after variable expansion.
pub(super) fn restricted_uses(
    unexpanded: &YamlNode,
    expanded: &YamlNode,
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> Vec<RestrictedUse> {
    let mut walk = FoundConfigWalk {
        origin,
        context,
        uses: Vec::new(),
    };
    let top = MappingContext {
        agent: "",
        mapping: None,
    };
    walk.walk_section(unexpanded, expanded, &ROOT, top);
    walk.uses
}

struct FoundConfigWalk<'a> {
    origin: &'a ConfigOrigin,
    context: &'a ConfigContext<'a>,
    uses: Vec<RestrictedUse>,
}

/// The surroundings of a mapping.
#[derive(Clone, Copy)]
struct MappingContext<'a> {
    agent: &'a str,
    mapping: Option<&'a YamlNode>,
}

impl FoundConfigWalk<'_> {
    fn walk_section<'t>(
        &mut self,
        unexpanded: &'t YamlNode,
        expanded: &'t YamlNode,
        section: &'static KeySection,
        enclosing: MappingContext<'t>,
    ) {
        let id = text_of_key(expanded, &agents::ID);
        let agent = match id {
            Some(id) if std::ptr::eq(section, &raw const agents::AGENT) => id,
            Some(_) | None => enclosing.agent,
        };
        let entries = unexpanded.entries().iter().zip(expanded.entries());
        for (unexpanded_entry, entry) in entries {
            let setting = KeySetting {
                unexpanded: &unexpanded_entry.value,
                value: &entry.value,
                mapping: expanded,
                enclosing: enclosing.mapping,
                agent,
            };
            self.walk_entry(setting, entry, section);
        }
    }

    fn walk_entry(
        &mut self,
        setting: KeySetting<'_>,
        entry: &YamlEntry,
        section: &'static KeySection,
    ) {
        let Some(key) = section.find(&entry.key) else {
            if section.passes_on(&entry.key) && entry.value.value != YamlValue::Null {
                self.uses.push(RestrictedUse::Always(format!(
                    "sends `{}` to the model's API, which massgen does not know",
                    single_line(&entry.key, KEY_CHARS_MAX)
                )));
            }
            return;
        };
        let has_effect = key.is_implemented() || key.status == KeyStatus::PassedOn;
        if !has_effect || entry.value.value == YamlValue::Null {
            return;
        }
        self.check_setting(&setting, key);
        let enclosing = MappingContext {
            agent: setting.agent,
            mapping: Some(setting.mapping),
        };
        self.walk_subsections(setting.unexpanded, setting.value, &key.shape, enclosing);
    }

    fn check_setting(&mut self, setting: &KeySetting<'_>, key: &ConfigKey) {
        match key.found_config_use {
            FoundConfigUse::Harmless => {}
            FoundConfigUse::NeedsNamedConfig(effect) => {
                let is_set = !is_empty(setting.value) && !is_default(setting.value, key.default);
                self.uses
                    .extend(is_set.then(|| RestrictedUse::Always(effect.to_owned())));
            }
            FoundConfigUse::ByValue(rule) => {
                self.uses.extend(rule(setting).map(RestrictedUse::Always));
            }
            FoundConfigUse::Inside(usage) => {
                let list_items = items(setting.value).iter();
                for path in list_items.chain([setting.value]).filter_map(text) {
                    self.check_path(path, usage, setting);
                }
            }
        }
    }

    /// Checks a path. One that cannot be resolved is reported as an error of the config elsewhere,
    /// and is not a use here.
    fn check_path(&mut self, text: &str, usage: PathPurpose, setting: &KeySetting<'_>) {
        let in_base = || resolve(text, self.context).ok();
        let is_relative = !text.starts_with(['/', '~']);
        let in_config_dir = self
            .origin
            .directory
            .as_ref()
            .filter(|_| is_relative)
            .map(|directory| AbsPath::resolve(directory, text));
        let access = match setting.text_in_mapping(&context_paths::PERMISSION) {
            Some("write") => PathUseAccess::AgentWrites,
            Some(_) | None => PathUseAccess::Read,
        };
        let (path, access) = match usage {
            PathPurpose::Opened => (in_base(), access),
            PathPurpose::Uploaded if is_url(text) => {
                let url = single_line(text, KEY_CHARS_MAX);
                let effect = format!("gives an agent the file at `{url}`");
                self.uses.push(RestrictedUse::Always(effect));
                return;
            }
            PathPurpose::OpenedForWriting => (in_base(), PathUseAccess::AgentWrites),
            PathPurpose::ReadByMassgen => (in_config_dir.or_else(in_base), PathUseAccess::Read),
            PathPurpose::WrittenByMassgen => {
                (in_config_dir.or_else(in_base), PathUseAccess::MassgenWrites)
            }
            PathPurpose::State => {
                let storage = StoragePath::parse(text);
                let is_in_state = storage.is_some_and(|storage| storage.absolute().is_none());
                let path = if is_in_state && is_relative {
                    None
                } else {
                    in_base()
                };
                (path, PathUseAccess::MassgenWrites)
            }
            PathPurpose::Project if PROJECT_KEYWORDS.contains(&text) => (None, PathUseAccess::Read),
            PathPurpose::OpenedForReading | PathPurpose::Project | PathPurpose::Uploaded => {
                (in_base(), PathUseAccess::Read)
            }
        };
        self.uses
            .extend(path.map(|path| RestrictedUse::Path { path, access }));
    }

    /// Walks the sections below a value, according to the shape of its key.
    fn walk_subsections<'t>(
        &mut self,
        unexpanded: &'t YamlNode,
        expanded: &'t YamlNode,
        shape: &'static ValueShape,
        enclosing: MappingContext<'t>,
    ) {
        match (shape, &unexpanded.value, &expanded.value) {
            (
                ValueShape::Mapping(section) | ValueShape::TextOr(section),
                YamlValue::Mapping(_),
                _,
            ) => {
                self.walk_section(unexpanded, expanded, section, enclosing);
            }
            (
                ValueShape::Named(section),
                YamlValue::Mapping(unexpanded),
                YamlValue::Mapping(expanded),
            ) => {
                for (unexpanded, expanded) in unexpanded.iter().zip(expanded) {
                    self.walk_section(&unexpanded.value, &expanded.value, section, enclosing);
                }
            }
            (
                ValueShape::Named(section),
                YamlValue::List(unexpanded),
                YamlValue::List(expanded),
            ) => {
                for (unexpanded, expanded) in unexpanded.iter().zip(expanded) {
                    self.walk_section(unexpanded, expanded, section, enclosing);
                }
            }
            (ValueShape::List(item), YamlValue::List(unexpanded), YamlValue::List(expanded)) => {
                for (unexpanded, expanded) in unexpanded.iter().zip(expanded) {
                    self.walk_subsections(unexpanded, expanded, item, enclosing);
                }
            }
            _ => {}
        }
    }
}
