//! Owns the walk over a config by the marks that say what its keys may do in a found config. The tree
//! before variables goes along: it tells what came from the user's environment.

use crate::config::check::paths::resolve;
use crate::config::check::walk::is_default;
use crate::config::found::{Access, Reach};
use crate::config::keys::agents::AGENT;
use crate::config::keys::found::{FoundUse, PathUse, Setting, is_empty, items, text};
use crate::config::keys::root::ROOT;
use crate::config::keys::{Key, Section, Shape, Status};
use crate::config::node::{Entry, Node, Value};
use crate::config::place::Place;
use crate::config::{Context, Origin};
use crate::path::AbsPath;
use crate::wording::one_line;

/// How much of an unknown key is repeated, in characters.
const KEY_CHARS_MAX: usize = 80;
/// Words in the place of the project of a pipeline.
const NO_PROJECT: &[&str] = &["auto", "none"];

/// What only a named config may say, in the order of the file. `written` and `filled` are the same
/// tree before and after its variables were filled in.
pub(super) fn reaches(
    (written, filled): (&Node, &Node),
    origin: &Origin,
    context: &Context<'_>,
) -> Vec<Reach> {
    let mut walk = Walk {
        origin,
        context,
        reaches: Vec::new(),
    };
    let top = Around {
        agent: "",
        mapping: None,
    };
    walk.section((written, filled), &ROOT, top);
    walk.reaches
}

struct Walk<'a> {
    origin: &'a Origin,
    context: &'a Context<'a>,
    reaches: Vec<Reach>,
}

/// What stands around a mapping.
#[derive(Clone, Copy)]
struct Around<'a> {
    agent: &'a str,
    mapping: Option<&'a Node>,
}

impl Walk<'_> {
    fn section<'t>(
        &mut self,
        (written, filled): (&'t Node, &'t Node),
        section: &'static Section,
        around: Around<'t>,
    ) {
        let id = filled.entry("id").and_then(|id| text(&id.value));
        let agent = match id {
            Some(id) if std::ptr::eq(section, &raw const AGENT) => id,
            Some(_) | None => around.agent,
        };
        for (written, entry) in written.entries().iter().zip(filled.entries()) {
            let setting = Setting {
                written: &written.value,
                value: &entry.value,
                beside: filled,
                around: around.mapping,
                agent,
            };
            self.entry(setting, entry, section);
        }
    }

    fn entry(&mut self, setting: Setting<'_>, entry: &Entry, section: &'static Section) {
        let Some(key) = section.find(&entry.key) else {
            if section.passes_on(&entry.key) && entry.value.value != Value::Null {
                self.reaches.push(Reach::Beyond(format!(
                    "sends `{}` to the model's API, which massgen does not know",
                    one_line(&entry.key, KEY_CHARS_MAX)
                )));
            }
            return;
        };
        let counts = key.is_acted_on() || key.status == Status::Passed;
        if !counts || entry.value.value == Value::Null {
            return;
        }
        self.judge(&setting, key);
        let around = Around {
            agent: setting.agent,
            mapping: Some(setting.beside),
        };
        self.below((setting.written, setting.value), &key.shape, around);
    }

    fn judge(&mut self, setting: &Setting<'_>, key: &Key) {
        match key.found {
            FoundUse::Harmless => {}
            FoundUse::Named(what) => {
                let is_set = !is_empty(setting.value) && !is_default(setting.value, key.default);
                self.reaches
                    .extend(is_set.then(|| Reach::Beyond(what.to_owned())));
            }
            FoundUse::ByValue(judged) => {
                self.reaches.extend(judged(setting).map(Reach::Beyond));
            }
            FoundUse::Inside(usage) => {
                let listed = items(setting.value).iter();
                for path in listed.chain([setting.value]).filter_map(text) {
                    self.path(path, usage, setting);
                }
            }
        }
    }

    /// A path that cannot be read is an error of the config, and names nothing here.
    fn path(&mut self, written: &str, usage: PathUse, setting: &Setting<'_>) {
        let from_base = || resolve(written, self.context).ok();
        let is_relative = !written.starts_with(['/', '~']);
        let beside = self.origin.directory.as_ref().filter(|_| is_relative);
        let beside = beside.map(|directory| AbsPath::resolve(directory, written));
        let access = match setting.text_beside("permission") {
            Some("write") => Access::AgentWrites,
            Some(_) | None => Access::Read,
        };
        let (path, access) = match usage {
            PathUse::Opened => (from_base(), access),
            PathUse::OpenedForWriting => (from_base(), Access::AgentWrites),
            PathUse::ReadByMassgen => (beside.or_else(from_base), Access::Read),
            PathUse::WrittenByMassgen => (beside.or_else(from_base), Access::MassgenWrites),
            PathUse::State => {
                let place = Place::parse(written);
                let path = place.and_then(|place| place.absolute().cloned());
                (path, Access::MassgenWrites)
            }
            PathUse::Project if NO_PROJECT.contains(&written) => (None, Access::Read),
            PathUse::OpenedForReading | PathUse::Project => (from_base(), Access::Read),
        };
        self.reaches
            .extend(path.map(|path| Reach::Path { path, access }));
    }

    /// The sections below a value, as the shape of its key says.
    fn below<'t>(
        &mut self,
        (written, filled): (&'t Node, &'t Node),
        shape: &'static Shape,
        around: Around<'t>,
    ) {
        match (shape, &written.value, &filled.value) {
            (Shape::Mapping(section) | Shape::TextOr(section), Value::Mapping(_), _) => {
                self.section((written, filled), section, around);
            }
            (Shape::Named(section), Value::Mapping(before), Value::Mapping(after)) => {
                for (before, after) in before.iter().zip(after) {
                    self.section((&before.value, &after.value), section, around);
                }
            }
            (Shape::Named(section), Value::List(before), Value::List(after)) => {
                for pair in before.iter().zip(after) {
                    self.section(pair, section, around);
                }
            }
            (Shape::List(item), Value::List(before), Value::List(after)) => {
                for pair in before.iter().zip(after) {
                    self.below(pair, item, around);
                }
            }
            _ => {}
        }
    }
}
