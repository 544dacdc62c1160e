//! Walks a config and finds the uses that its keys' marks do not allow in a found config. The tree
//! before variable expansion is walked alongside: it shows which values came from the user's
//! environment.

use crate::config::check::context_paths::is_remote;
use crate::config::check::key_walk::is_default;
use crate::config::check::paths::resolve;
use crate::config::found_config::{PathUseAccess, RestrictedUse};
use crate::config::keys::found_config::{
    FoundConfigUse, KeySetting, PathPurpose, is_empty, items, text, text_of_key,
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
/// Words that stand for the project of a pipeline.
const NO_PROJECT: &[&str] = &["auto", "none"];

/// Returns the uses that only a named config may have, in the order of the file. `written` and
/// `filled` are the same tree before and after variable expansion.
pub(super) fn restricted_uses(
    written: &YamlNode,
    filled: &YamlNode,
    origin: &ConfigOrigin,
    context: &ConfigContext<'_>,
) -> Vec<RestrictedUse> {
    let mut walk = FoundConfigWalk {
        origin,
        context,
        reaches: Vec::new(),
    };
    let top = MappingContext {
        agent: "",
        mapping: None,
    };
    walk.section(written, filled, &ROOT, top);
    walk.reaches
}

struct FoundConfigWalk<'a> {
    origin: &'a ConfigOrigin,
    context: &'a ConfigContext<'a>,
    reaches: Vec<RestrictedUse>,
}

/// The surroundings of a mapping.
#[derive(Clone, Copy)]
struct MappingContext<'a> {
    agent: &'a str,
    mapping: Option<&'a YamlNode>,
}

impl FoundConfigWalk<'_> {
    fn section<'t>(
        &mut self,
        written: &'t YamlNode,
        filled: &'t YamlNode,
        section: &'static KeySection,
        enclosing: MappingContext<'t>,
    ) {
        let id = text_of_key(filled, &agents::ID);
        let agent = match id {
            Some(id) if std::ptr::eq(section, &raw const agents::AGENT) => id,
            Some(_) | None => enclosing.agent,
        };
        for (written, entry) in written.entries().iter().zip(filled.entries()) {
            let setting = KeySetting {
                written: &written.value,
                value: &entry.value,
                mapping: filled,
                enclosing: enclosing.mapping,
                agent,
            };
            self.entry(setting, entry, section);
        }
    }

    fn entry(&mut self, setting: KeySetting<'_>, entry: &YamlEntry, section: &'static KeySection) {
        let Some(key) = section.find(&entry.key) else {
            if section.passes_on(&entry.key) && entry.value.value != YamlValue::Null {
                self.reaches.push(RestrictedUse::Always(format!(
                    "sends `{}` to the model's API, which massgen does not know",
                    single_line(&entry.key, KEY_CHARS_MAX)
                )));
            }
            return;
        };
        let counts = key.is_implemented() || key.status == KeyStatus::PassedOn;
        if !counts || entry.value.value == YamlValue::Null {
            return;
        }
        self.check_setting(&setting, key);
        let enclosing = MappingContext {
            agent: setting.agent,
            mapping: Some(setting.mapping),
        };
        self.walk_subsections(setting.written, setting.value, &key.shape, enclosing);
    }

    fn check_setting(&mut self, setting: &KeySetting<'_>, key: &ConfigKey) {
        match key.found {
            FoundConfigUse::Harmless => {}
            FoundConfigUse::Named(what) => {
                let is_set = !is_empty(setting.value) && !is_default(setting.value, key.default);
                self.reaches
                    .extend(is_set.then(|| RestrictedUse::Always(what.to_owned())));
            }
            FoundConfigUse::ByValue(judged) => {
                self.reaches
                    .extend(judged(setting).map(RestrictedUse::Always));
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
    fn check_path(&mut self, written: &str, usage: PathPurpose, setting: &KeySetting<'_>) {
        let from_base = || resolve(written, self.context).ok();
        let is_relative = !written.starts_with(['/', '~']);
        let in_config_dir = self
            .origin
            .directory
            .as_ref()
            .filter(|_| is_relative)
            .map(|directory| AbsPath::resolve(directory, written));
        let access = match setting.text_in_mapping(&context_paths::PERMISSION) {
            Some("write") => PathUseAccess::AgentWrites,
            Some(_) | None => PathUseAccess::Read,
        };
        let (path, access) = match usage {
            PathPurpose::Opened => (from_base(), access),
            PathPurpose::Uploaded if is_remote(written) => {
                let url = single_line(written, KEY_CHARS_MAX);
                let what = format!("gives an agent the file at `{url}`");
                self.reaches.push(RestrictedUse::Always(what));
                return;
            }
            PathPurpose::OpenedForWriting => (from_base(), PathUseAccess::AgentWrites),
            PathPurpose::ReadByMassgen => (in_config_dir.or_else(from_base), PathUseAccess::Read),
            PathPurpose::WrittenByMassgen => (
                in_config_dir.or_else(from_base),
                PathUseAccess::MassgenWrites,
            ),
            PathPurpose::State => {
                let storage = StoragePath::parse(written);
                let path = storage.and_then(|storage| storage.absolute().cloned());
                (path, PathUseAccess::MassgenWrites)
            }
            PathPurpose::Project if NO_PROJECT.contains(&written) => (None, PathUseAccess::Read),
            PathPurpose::OpenedForReading | PathPurpose::Project | PathPurpose::Uploaded => {
                (from_base(), PathUseAccess::Read)
            }
        };
        self.reaches
            .extend(path.map(|path| RestrictedUse::Path { path, access }));
    }

    /// Walks the sections below a value, according to the shape of its key.
    fn walk_subsections<'t>(
        &mut self,
        written: &'t YamlNode,
        filled: &'t YamlNode,
        shape: &'static ValueShape,
        enclosing: MappingContext<'t>,
    ) {
        match (shape, &written.value, &filled.value) {
            (
                ValueShape::Mapping(section) | ValueShape::TextOr(section),
                YamlValue::Mapping(_),
                _,
            ) => {
                self.section(written, filled, section, enclosing);
            }
            (ValueShape::Named(section), YamlValue::Mapping(before), YamlValue::Mapping(after)) => {
                for (before, after) in before.iter().zip(after) {
                    self.section(&before.value, &after.value, section, enclosing);
                }
            }
            (ValueShape::Named(section), YamlValue::List(before), YamlValue::List(after)) => {
                for (before, after) in before.iter().zip(after) {
                    self.section(before, after, section, enclosing);
                }
            }
            (ValueShape::List(item), YamlValue::List(before), YamlValue::List(after)) => {
                for (before, after) in before.iter().zip(after) {
                    self.walk_subsections(before, after, item, enclosing);
                }
            }
            _ => {}
        }
    }
}
