//! Owns the tools that list names: one directory, a tree, or what a glob finds. What is hidden from
//! the agent is left out as if it were not there.

use std::fmt::Write as _;
use std::iter::Peekable;

use serde_json::{Map, Value};

use crate::brief::foreign::note;
use crate::permissions::grant::Permission;
use crate::world::exec::Observation;
use crate::world::exec::answer::{Answer, Bounded, LISTING_BYTES_MAX, Stop, shown, shown_path};
use crate::world::exec::selection::Globs;
use crate::world::gate::{Gate, Place};
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Kind;
use crate::world::sys::survey::{Found, Keep, Survey};

/// `list_directory`
pub(super) fn list_directory(gate: &Gate, place: &Place) -> Answer {
    let stop = |fault: Fault| Stop::at(gate, "list", place, fault);
    let survey = readable(gate, place, &mut |_| Keep::Shallow).map_err(stop)?;
    let mut lines = Bounded::new(LISTING_BYTES_MAX);
    for found in &survey.found {
        let name = shown(found.rel.as_path().as_os_str(), ".");
        lines.push(&format!("[{}] {name}", found.kind.word().to_uppercase()));
    }
    let text = lines.finish("the directory is empty\n", "use search_files with a glob");
    Ok(Observation::done(text))
}

/// `search_files`: a pattern without a wildcard is searched for within names.
pub(super) fn search_files(
    gate: &Gate,
    place: &Place,
    pattern: &str,
    exclude: &[String],
) -> Answer {
    let within_names = !pattern.contains(['*', '?', '[', '{']);
    let wanted = if within_names {
        format!("*{pattern}*")
    } else {
        pattern.to_owned()
    };
    let (wanted, excluded) = (Globs::new(&[wanted])?, Globs::new(exclude)?);
    let survey = readable(gate, place, &mut |found| keep_unless(&excluded, found))
        .map_err(|fault| Stop::at(gate, "search", place, fault))?;
    let mut lines = Bounded::new(LISTING_BYTES_MAX);
    for found in survey
        .found
        .iter()
        .filter(|found| wanted.match_name(&found.rel))
    {
        lines.push(&shown_path(gate, place.at(&found.rel).real()));
    }
    let text = lines.finish("nothing matches\n", "narrow the pattern or the path");
    Ok(Observation::done(text + &limits(&survey)))
}

/// `directory_tree`: JSON as `{name, type, children}`.
pub(super) fn directory_tree(gate: &Gate, place: &Place, exclude: &[String]) -> Answer {
    let excluded = Globs::new(exclude)?;
    let survey = readable(gate, place, &mut |found| keep_unless(&excluded, found))
        .map_err(|fault| Stop::at(gate, "list", place, fault))?;
    let mut room = LISTING_BYTES_MAX;
    let mut found = survey.found.iter().peekable();
    let mut shown_entries = 0;
    let tree = Value::Array(children(&mut found, 1, &mut room, &mut shown_entries));
    let mut text = format!("{tree}\n");
    let left_out = survey.found.len() - shown_entries;
    if left_out > 0 {
        let cut = note(format_args!(
            "cut: {left_out} more; ask for a directory below, or use excludePatterns"
        ));
        let _written = writeln!(text, "{cut}");
    }
    Ok(Observation::done(text + &limits(&survey)))
}

/// What is below `place` and may be read; a place that is no directory is a fault.
pub(super) fn readable(
    gate: &Gate,
    place: &Place,
    keep: &mut dyn FnMut(&Found) -> Keep,
) -> Result<Survey, Fault> {
    let start = place.dir().dir(&place.below())?;
    let mut survey = Survey::of(&start, &mut |found| {
        if gate.allows(&place.real().join(&found.rel), Permission::Read) {
            keep(found)
        } else {
            Keep::Not
        }
    });
    match survey.unreadable.iter().position(|(rel, _)| rel.is_root()) {
        Some(at) => Err(survey.unreadable.swap_remove(at).1),
        None => Ok(survey),
    }
}

/// One line for each thing that a walk could not see.
pub(super) fn limits(survey: &Survey) -> String {
    let mut text = String::new();
    if let Some(cut) = survey.cut {
        let cut = note(format_args!("cut: {cut}; ask for a directory below"));
        let _written = writeln!(text, "{cut}");
    }
    if let Some((first, fault)) = survey.unreadable.first() {
        let number = survey.unreadable.len();
        let first = shown(first.as_path().as_os_str(), ".");
        let unread = note(format_args!(
            "{number} directories could not be read; {first}: {fault}"
        ));
        let _written = writeln!(text, "{unread}");
    }
    text
}

fn keep_unless(excluded: &Globs, found: &Found) -> Keep {
    if excluded.match_name(&found.rel) {
        Keep::Not
    } else {
        Keep::Deep
    }
}

/// What JSON adds to a name: `{"name":"","type":"directory","children":[]},`.
const NODE_BYTES: usize = 48;

/// The entries at `depth`, each with what is below it, as far as `room` lasts.
fn children<'f>(
    found: &mut Peekable<impl Iterator<Item = &'f Found>>,
    depth: usize,
    room: &mut usize,
    taken: &mut usize,
) -> Vec<Value> {
    let mut nodes = Vec::new();
    while let Some(next) = found.next_if(|next| next.rel.names().count() == depth) {
        let name = shown(next.rel.name().unwrap_or_default(), ".");
        let Some(left) = room.checked_sub(name.len() + NODE_BYTES) else {
            *room = 0;
            let _rest = found.by_ref().count();
            break;
        };
        *room = left;
        *taken += 1;
        let mut node = Map::new();
        node.insert("name".to_owned(), name.into());
        node.insert("type".to_owned(), next.kind.word().into());
        if next.kind == Kind::Directory {
            let below = children(found, depth + 1, room, taken);
            node.insert("children".to_owned(), below.into());
        }
        nodes.push(Value::Object(node));
    }
    nodes
}
