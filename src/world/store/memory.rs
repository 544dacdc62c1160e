//! The notes that agents keep between sessions: Markdown files in `.massgen/memory`, copied from
//! `memory/` in the winner's workspace. Only a directory that massgen created here is believed, and
//! agents never write to it. See `docs/decisions/0049-memory-is-copied-by-massgen.md`.

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::{count_noun, escape_name};
use crate::world::store::directory_seal::{SEAL, create_sealed, is_sealed};
use crate::world::store::redact::Redactor;
use crate::world::store::{prepare_state_dir, reject_symlinks};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::{clear, file};

/// The directory of notes: in the state directory, in the workspace of each agent, and in the copy
/// that a run reads.
pub const MEMORY: &str = "memory";
/// The subdirectory of notes that every agent is shown in full.
pub const SHORT_TERM: &str = "short_term";
/// The subdirectory of notes that agents read when they need them.
pub const LONG_TERM: &str = "long_term";
/// The directories that hold notes, below the directory of notes; it is one itself.
const NOTE_DIRS: [&str; 3] = ["", SHORT_TERM, LONG_TERM];
/// The extension of a note's file name.
const NOTE_EXTENSION: &str = ".md";
/// The message about any other file in the directory of notes.
const NOTE_DESCRIPTION: &str = "a note is a file `NAME.md` in `memory`, `memory/short_term` or \
                           `memory/long_term`";

/// Maximum number of notes.
pub const NOTES_MAX: usize = 64;
/// Maximum size of a note, in bytes.
pub const NOTE_BYTES_MAX: u64 = 16 * 1024;
/// Maximum size of all notes, in bytes.
pub const MEMORY_BYTES_MAX: usize = 256 * 1024;
/// Maximum length of the name of a note's file, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Maximum number of entries of a directory that are read.
const ENTRIES_MAX: usize = 512;

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNote {
    /// The path below the directory of notes, such as `short_term/style.md`.
    pub name: String,
    /// The text.
    pub text: String,
}

impl MemoryNote {
    /// Returns whether agents are shown it in full.
    pub fn is_short_term(&self) -> bool {
        let name_there = self.name.strip_prefix(SHORT_TERM);
        name_there.is_some_and(|name| name.starts_with('/'))
    }
}

/// The notes of a directory, and messages about files there that are no notes.
#[derive(Clone, Debug, Default)]
pub struct MemoryContent {
    /// The notes, sorted by name.
    pub notes: Vec<MemoryNote>,
    /// Messages about the files that are not kept.
    pub refusals: Vec<String>,
}

/// The notes of a project.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    /// The state directory.
    state_dir: AbsPath,
    /// The directory of notes in it.
    dir: AbsPath,
}

impl MemoryStore {
    /// Returns the notes in the state directory `state_dir`. It opens nothing.
    pub fn new(state_dir: &AbsPath) -> Self {
        Self {
            dir: state_dir.join(MEMORY),
            state_dir: state_dir.clone(),
        }
    }

    /// Returns the directory of notes.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Reads all notes.
    ///
    /// # Errors
    /// The directory came with a project, or cannot be read.
    pub fn read(&self) -> Result<MemoryContent> {
        if !self.is_own()? {
            return Ok(MemoryContent::default());
        }
        read_notes(&self.dir)
    }

    /// Adds `notes`, without the secrets that `redactor` knows, and replaces those with the same
    /// names. Returns the names of those that are new or changed, and messages about those for
    /// which there is no room.
    ///
    /// # Errors
    /// The directory came with a project, or cannot be written.
    pub fn save(
        &self,
        notes: &[MemoryNote],
        redactor: &Redactor,
    ) -> Result<(Vec<String>, Vec<String>)> {
        let mut current_notes = self.read()?.notes;
        let mut saved_names = Vec::new();
        let mut refusals = Vec::new();
        for note in notes {
            let text = redactor.text(&note.text);
            let other_notes = current_notes.iter().filter(|old| old.name != note.name);
            let (count, size) = other_notes.fold((0_usize, 0_usize), |(count, size), old| {
                (count.saturating_add(1), size.saturating_add(old.text.len()))
            });
            if count >= NOTES_MAX || size.saturating_add(text.len()) > MEMORY_BYTES_MAX {
                refusals.push(format!(
                    "the note `{}` is not kept: a project has at most {} of {MEMORY_BYTES_MAX} \
                     bytes together; `massgen memory clear NAME` makes room",
                    note.name,
                    count_noun(NOTES_MAX, "note")
                ));
                continue;
            }
            if current_notes
                .iter()
                .any(|old| old.name == note.name && old.text == text)
            {
                continue;
            }
            self.write(&note.name, &text)?;
            current_notes.retain(|old| old.name != note.name);
            current_notes.push(MemoryNote {
                name: note.name.clone(),
                text,
            });
            saved_names.push(note.name.clone());
        }
        Ok((saved_names, refusals))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let parent = self.dir.join(name).parent();
        prepare_state_dir(&self.state_dir, parent.iter().chain([&self.dir]))?;
        if !file::exists(&self.dir)? {
            create_sealed(&self.dir)?;
        }
        write_note(&self.dir, name, text)
    }

    /// Removes the note `name`, or all of them, even if they came with a project. Returns how many
    /// were removed.
    ///
    /// # Errors
    /// There is no such note, or it cannot be removed.
    pub fn clear(&self, name: Option<&str>) -> Result<usize> {
        reject_symlinks(&self.state_dir, [&self.dir])?;
        let notes = read_notes(&self.dir)?.notes;
        let Some(name) = name else {
            if file::exists(&self.dir)? {
                clear::remove(&self.dir)?;
            }
            return Ok(notes.len());
        };
        let note = find_note(&notes, name)?;
        clear::remove(&self.dir.join(&note.name))?;
        Ok(1)
    }

    /// Returns whether the directory exists and massgen created it here.
    fn is_own(&self) -> Result<bool> {
        reject_symlinks(&self.state_dir, [&self.dir])?;
        if !file::exists(&self.dir)? {
            return Ok(false);
        }
        if is_sealed(&self.dir)? {
            return Ok(true);
        }
        let message = format!(
            "`{}` was not created by massgen in this directory: its notes may be a stranger's",
            self.dir
        );
        Err(Error::new(ErrorKind::Environment, message)
            .with_hint("`massgen memory list` shows them, and `massgen memory clear` removes them"))
    }

    /// Reads the notes without believing that they are the user's, for showing them. Returns
    /// whether they are.
    ///
    /// # Errors
    /// The directory cannot be read, or a symlink leads to it.
    pub fn read_any(&self) -> Result<(MemoryContent, bool)> {
        let is_own = self.is_own().unwrap_or(false);
        reject_symlinks(&self.state_dir, [&self.dir])?;
        Ok((read_notes(&self.dir)?, is_own))
    }
}

/// Returns the note that `name` selects: its path, or its file name with or without `.md`.
///
/// # Errors
/// There is none, or more than one.
pub fn find_note<'n>(notes: &'n [MemoryNote], name: &str) -> Result<&'n MemoryNote> {
    let matches = |note: &&MemoryNote| {
        let last_part = note.name.rsplit('/').next().unwrap_or_default();
        note.name == name
            || last_part == name
            || last_part.strip_suffix(NOTE_EXTENSION) == Some(name)
    };
    let exact_note = notes.iter().find(|note| note.name == name);
    let mut matching_notes = notes.iter().filter(matches);
    let shown_name = escape_name(name);
    match (exact_note, matching_notes.next(), matching_notes.next()) {
        (Some(note), _, _) | (None, Some(note), None) => Ok(note),
        (None, Some(first), Some(second)) => Err(Error::new(
            ErrorKind::Usage,
            format!("`{shown_name}` means more than one note"),
        )
        .with_hint(format!("write `{}` or `{}`", first.name, second.name))),
        (None, None, _) => Err(
            Error::new(ErrorKind::Usage, format!("no note `{shown_name}`"))
                .with_hint("see `massgen memory list`"),
        ),
    }
}

/// Writes copies of `notes`, which a run reads, below `parent`, and returns their directory.
///
/// # Errors
/// A file cannot be written.
pub fn copy_notes(notes: &[MemoryNote], parent: &AbsPath) -> Result<AbsPath> {
    let dir = parent.join(MEMORY);
    for note in notes {
        write_note(&dir, &note.name, &note.text)?;
    }
    Ok(dir)
}

fn write_note(dir: &AbsPath, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    if let Some(parent) = path.parent() {
        dir::create_all(&parent, DirectoryAudience::User)?;
    }
    file::replace(&path, text.as_bytes())
}

/// Reads the notes below `dir`; symlinks, other kinds of files and what exceeds the limits are
/// refused.
///
/// # Errors
/// A directory cannot be read.
pub fn read_notes(dir: &AbsPath) -> Result<MemoryContent> {
    let mut content = MemoryContent::default();
    let mut bytes_left = MEMORY_BYTES_MAX;
    if !file::is_directory(dir)? {
        content.refusals.extend(directory_refusal(dir)?);
        return Ok(content);
    }
    for subdirectory in NOTE_DIRS {
        let directory = dir.join(subdirectory);
        if !file::is_directory(&directory)? {
            content.refusals.extend(directory_refusal(&directory)?);
            continue;
        }
        let mut names = dir::first_names(&directory, ENTRIES_MAX)?;
        names.sort();
        for name in &names {
            let path = directory.join(name);
            if !name.ends_with(NOTE_EXTENSION) {
                if !is_known_entry(subdirectory, name) {
                    content.refusals.push(refusal(&path, NOTE_DESCRIPTION));
                }
                continue;
            }
            match read_note(&path, name, bytes_left) {
                Ok(_) if content.notes.len() >= NOTES_MAX => {
                    let reason = format!("there are more than {NOTES_MAX} notes");
                    content.refusals.push(refusal(&path, &reason));
                }
                Ok(text) => {
                    bytes_left = bytes_left.saturating_sub(text.len());
                    let separator = if subdirectory.is_empty() { "" } else { "/" };
                    let name = format!("{subdirectory}{separator}{name}");
                    content.notes.push(MemoryNote { name, text });
                }
                Err(reason) => content.refusals.push(refusal(&path, &reason)),
            }
        }
    }
    content
        .notes
        .sort_by(|left, right| left.name.cmp(&right.name));
    Ok(content)
}

/// Returns whether `name`, in this subdirectory of notes, is an entry that is not a note and
/// needs no message.
fn is_known_entry(subdirectory: &str, name: &str) -> bool {
    subdirectory.is_empty() && (name == SEAL || NOTE_DIRS.contains(&name))
}

fn read_note(path: &AbsPath, name: &str, bytes_left: usize) -> std::result::Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() > NAME_BYTES_MAX || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(format!(
            "the name of a note has at most {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`"
        ));
    }
    if file::is_link(path).map_err(|error| error.to_string())? {
        return Err("it is a symlink".to_owned());
    }
    let bytes =
        file::read_regular_capped(path, NOTE_BYTES_MAX).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("a note has at most {NOTE_BYTES_MAX} bytes"))?;
    if bytes.len() > bytes_left {
        return Err(format!(
            "all notes together have at most {MEMORY_BYTES_MAX} bytes"
        ));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// Returns the message that `path`, which is not a directory, holds no notes; `None` if nothing is
/// there.
fn directory_refusal(path: &AbsPath) -> Result<Option<String>> {
    let reason = if file::is_link(path)? {
        "it is a symlink"
    } else {
        "it is not a directory"
    };
    let shown_path = escape_name(&path.to_string());
    Ok(file::exists(path)?.then(|| format!("`{shown_path}` holds no notes: {reason}")))
}

fn refusal(path: &AbsPath, reason: &str) -> String {
    let path = escape_name(&path.to_string());
    format!("`{path}` is not a note: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_term_note_is_one_in_their_directory() {
        for (name, expected) in [
            ("short_term/style.md", true),
            ("short_term_style.md", false),
            ("short_term.md", false),
            ("style.md", false),
            ("long_term/short_term.md", false),
        ] {
            let note = MemoryNote {
                name: name.to_owned(),
                text: String::new(),
            };
            assert_eq!(note.is_short_term(), expected, "{name}");
        }
    }
}
