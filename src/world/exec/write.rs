//! Owns the tools that write one place: a whole file, parts of one, or a directory.

use crate::brief::foreign::as_written;
use crate::tools::call::{Edit, EditMode, Existing};
use crate::world::exec::Observation;
use crate::world::exec::answer::{Answer, LISTING_BYTES_MAX, Stop, shown_path};
use crate::world::exec::care::Intent;
use crate::world::exec::compare::diff;
use crate::world::exec::put::{Manner, Source, put};
use crate::world::exec::text;
use crate::world::gate::{Gate, Place};
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Kind;

/// The longest file that is edited, in bytes.
const EDIT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Lines shown around each difference of an edit.
const DIFF_CONTEXT_LINES: usize = 3;

/// `write_file`
pub(super) fn write_file(gate: &Gate, place: &Place, content: &str) -> Answer {
    let manner = Manner {
        intent: Intent::Overwrite,
        existing: Existing::Overwrite,
    };
    let change = put(gate, place, &Source::Bytes(content.as_bytes()), manner)?;
    let path = shown_path(gate, place.real());
    let bytes = content.len();
    Ok(Observation::done(format!("wrote {bytes} bytes to {path}\n")).with(vec![change]))
}

/// `edit_file`
pub(super) fn edit_file(gate: &Gate, place: &Place, edits: &[Edit], mode: EditMode) -> Answer {
    let (file, meta) = place
        .dir()
        .open_file(&place.below())
        .map_err(|fault| Stop::at(gate, "edit", place, fault))?;
    let old = text::read_whole(file, place.real().as_path(), EDIT_BYTES_MAX)
        .map_err(|no_text| Stop::at(gate, "edit", place, no_text))?;
    let new = edited(&old, edits).map_err(|why| Stop::at(gate, "edit", place, why))?;
    let path = shown_path(gate, place.real());
    let (shown_old, shown_new) = (text::without_mark(&old), text::without_mark(&new));
    let diff = diff(shown_old, shown_new, DIFF_CONTEXT_LINES, LISTING_BYTES_MAX);
    if mode == EditMode::DryRun {
        return Ok(Observation::done(format!("{path} would change:\n{diff}")));
    }
    let manner = Manner {
        intent: Intent::Edit(meta.version),
        existing: Existing::Overwrite,
    };
    let change = put(gate, place, &Source::Bytes(new.as_bytes()), manner)?;
    Ok(Observation::done(format!("edited {path}:\n{diff}")).with(vec![change]))
}

/// `create_directory`
pub(super) fn create_directory(gate: &Gate, place: &Place) -> Answer {
    let stop = |fault: Fault| Stop::at(gate, "create", place, fault);
    let path = shown_path(gate, place.real());
    let below = place.below();
    match place.dir().meta(&below) {
        Ok(meta) if meta.kind == Kind::Directory => {
            Ok(Observation::done(format!("{path} is there already\n")))
        }
        Ok(_) => Err(stop(Fault::Exists)),
        Err(Fault::Missing) => {
            let _made = place.dir().make_dirs(&below).map_err(stop)?;
            Ok(Observation::done(format!("created {path}\n")))
        }
        Err(fault) => Err(stop(fault)),
    }
}

/// Why a replacement cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NoEdit {
    #[error("oldText of edit {0} does not occur; read the file again, every blank counts")]
    Missing(usize),
    #[error("oldText of edit {0} occurs more than once; add lines around it until it is unique")]
    Ambiguous(usize),
}

/// The text after all replacements. Where every line ends with CR LF, the replacements do too.
fn edited(text: &str, edits: &[Edit]) -> Result<String, NoEdit> {
    let mut text = text.to_owned();
    for (number, edit) in (1..).zip(edits) {
        let has_crlf = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
        let fitted = |part: &str| {
            if has_crlf && !part.contains('\r') {
                part.replace('\n', "\r\n")
            } else {
                part.to_owned()
            }
        };
        let (mut old, mut new) = (fitted(&edit.old), fitted(&edit.new));
        if !text.contains(&old) {
            // The model has it from a result, in which some characters are written otherwise.
            (old, new) = (as_written(&old), as_written(&new));
        }
        let (before, after) = text.split_once(&old).ok_or(NoEdit::Missing(number))?;
        if text.rfind(&old) != Some(before.len()) {
            return Err(NoEdit::Ambiguous(number));
        }
        text = [before, &new, after].concat();
    }
    Ok(text)
}
