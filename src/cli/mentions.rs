//! Finds the mentions of a prompt, warns about those that name or open nothing, and implements
//! `massgen explain prompt`.

use std::fmt::Write as _;

use crate::cli::broad_paths::broad_mention_reason;
use crate::cli::directory_question::detour_message;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::config::keys::nearest;
use crate::error::Result;
use crate::host::Host;
use crate::mentions::{
    self, LookupResult, Mention, MentionLookup, MentionReach, ParsedPrompt, TaskText,
    permission_suffix,
};
use crate::path::AbsPath;
use crate::text::list_first;
use crate::text::name_spelling::show_name;
use crate::world::io::files::{existing_spelling, file_names, inspect};

/// Maximum number of paths that one line lists.
const LISTED_PATHS_MAX: usize = 3;
/// Maximum number of missing paths, and of words after an `@`, for which similar names are looked
/// for: each lookup reads a directory.
const LOOKUPS_MAX: usize = 8;

/// Finds the mentions in `task`, whose relative paths are relative to `base`.
pub(crate) fn parse(task: &TaskText, base: &AbsPath, host: &Host) -> ParsedPrompt {
    let mut prompt = mentions::parse_mentions(task, lookup(base, host));
    for mention in &mut prompt.mentions {
        if let Some(path) = existing_spelling(&mention.path) {
            let written = std::mem::replace(&mut mention.path, path).to_string();
            let spelled = mention.path.to_string();
            prompt.cleaned_prompt = prompt.cleaned_prompt.replace(&written, &spelled);
        }
    }
    prompt
}

/// Returns how mentions are resolved for a user whose current directory is `base`.
pub(crate) fn lookup<'a>(base: &'a AbsPath, host: &'a Host) -> MentionLookup<'a> {
    MentionLookup {
        base,
        home: host.home.as_ref(),
        inspect: &|path| inspect(existing_spelling(path).as_ref().unwrap_or(path)),
    }
}

/// Returns the note that `mentions` in text from `source`, which the user did not type, open
/// nothing; `None` without mentions.
pub(crate) fn closed_note(source: &str, mentions: &[&Mention]) -> Option<String> {
    let (first_mention, _) = mentions.split_first()?;
    let pronoun = if mentions.len() == 1 { "it" } else { "one" };
    let suffix = permission_suffix(first_mention.permission);
    Some(format!(
        "{source} mentions {}, which opens nothing: to open {pronoun}, type the mention yourself, for \
         example `@{}{suffix}`",
        path_list(mentions),
        first_mention.path,
    ))
}

/// Formats the paths of `mentions` as part of a sentence.
pub(crate) fn path_list(mentions: &[&Mention]) -> String {
    let paths: Vec<&AbsPath> = mentions.iter().map(|mention| &mention.path).collect();
    list_first(&paths, LISTED_PATHS_MAX)
}

/// Returns the warnings about the mentions of a prompt. A word after an `@` that names nothing is
/// worth one only if something has a similar name.
pub(crate) fn mention_warnings(prompt: &ParsedPrompt) -> Vec<String> {
    let missing = prompt.missing_mentions.iter().enumerate();
    let missing_warnings = missing.map(|(index, mention)| {
        let is_looked_up = index < LOOKUPS_MAX && mention.lookup_result != LookupResult::Unreadable;
        let near = is_looked_up.then(|| nearest_path(&mention.path)).flatten();
        missing_warning(mention, near.as_deref())
    });
    let words = prompt.word_mentions.iter().take(LOOKUPS_MAX);
    let misspelled = words.filter_map(|mention| {
        let near = nearest_path(&mention.path)?;
        Some(missing_path_warning(&mention.path, Some(&near)))
    });
    let piped: Vec<&Mention> = prompt.piped_mentions.iter().collect();
    missing_warnings
        .chain(misspelled)
        .chain(prompt.suggestions.iter().cloned())
        .chain(closed_note("standard input", &piped))
        .collect()
}

/// Returns the warning about a mention that is missing or unreadable; a missing one may mean the
/// path `near`.
pub(crate) fn missing_warning(mention: &Mention, near: Option<&str>) -> String {
    match mention.lookup_result {
        LookupResult::Unreadable => format!("mentioned path `{}` cannot be read", mention.path),
        LookupResult::Missing | LookupResult::File | LookupResult::Directory => {
            missing_path_warning(&mention.path, near)
        }
    }
}

fn missing_path_warning(path: &AbsPath, near: Option<&str>) -> String {
    let question = near.map(|near| format!(" (did you mean `{}`?)", show_name(near.as_ref())));
    format!(
        "mentioned path `{path}` does not exist{}",
        question.unwrap_or_default()
    )
}

/// Returns what `path`, which does not exist, probably means: the path below its last directory
/// that exists.
fn nearest_path(path: &AbsPath) -> Option<String> {
    let (mut directory, mut name) = (path.parent()?, path.name_lossy());
    let mut below = String::new();
    while inspect(&directory) == LookupResult::Missing {
        below = format!("/{name}{below}");
        name = directory.name_lossy();
        directory = directory.parent()?;
    }
    let names = file_names(&directory);
    let has_stem = |candidate: &&String| {
        let stem = candidate.rsplit_once('.').map(|(stem, _)| stem);
        stem.is_some_and(|stem| stem.eq_ignore_ascii_case(&name))
    };
    let same_stem = names.iter().find(has_stem).map(String::as_str);
    let near_name = same_stem.or_else(|| nearest(&name, names.iter().map(String::as_str)))?;
    let near = format!("{near_name}{below}");
    let lookup = inspect(&directory.join(&near));
    matches!(lookup, LookupResult::File | LookupResult::Directory).then_some(near)
}

/// Prints which paths `text` opens and what the agents read of it.
pub(crate) fn explain(
    text: &str,
    base: Option<&str>,
    format: ReportFormat,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let base = base.map_or_else(|| host.cwd.clone(), |base| host.cwd.join(base));
    let prompt = parse(&TaskText::from_typed(text), &base, host);
    match format {
        ReportFormat::Json => output.result(&format!("{}\n", mentions::to_json(&prompt))),
        ReportFormat::Text => output.result(&to_text(&prompt, host)),
    }
}

fn to_text(prompt: &ParsedPrompt, host: &Host) -> String {
    let mut text = String::new();
    for mention in &prompt.mentions {
        let reason = broad_mention_reason(mention, host);
        let note = match (mention.reach, reason, detour_message(&mention.path, host)) {
            (MentionReach::Broad, ..) => "  (opens much more than a project)".to_owned(),
            (_, Some(reason), _) => format!("  (refused unless a config opens it: {reason})"),
            (_, None, Some(detour)) => format!("  (opened only after a confirmation: {detour})"),
            (MentionReach::Inside, None, None) => String::new(),
            (MentionReach::Outside, None, None) => "  (outside the base directory)".to_owned(),
        };
        let Mention {
            permission, path, ..
        } = mention;
        push_line(&mut text, &format!("{permission:<7} {path}{note}"));
    }
    for warning in mention_warnings(prompt) {
        push_line(&mut text, &format!("note    {warning}"));
    }
    if text.is_empty() {
        push_line(&mut text, "the prompt mentions no path");
    }
    push_line(&mut text, "");
    push_line(&mut text, "the agents read:");
    push_line(&mut text, &prompt.cleaned_prompt);
    text
}

fn push_line(text: &mut String, line: &str) {
    // Writing to a `String` cannot fail.
    writeln!(text, "{line}").unwrap_or_default();
}
