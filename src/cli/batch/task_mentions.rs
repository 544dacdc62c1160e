//! Which mentions in the text of a task count. A task file is often made from texts of other
//! people, such as issues, so its mentions name what the config opens, and open only what the user
//! allowed.

use std::collections::BTreeSet;

use crate::batch::task::{BatchTask, TaskProject};
use crate::cli::batch::copy_access::is_listed_for_all;
use crate::cli::directory_question::detour_message;
use crate::cli::mentions::{lookup, missing_warning, path_list};
use crate::cli::opening_question::user_location;
use crate::config::storage_path::STATE_DIR;
use crate::config::{Config, ContextPath};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::mentions::opened_paths::{OpenedPath, open_path};
use crate::mentions::pasted_mentions::PastedMentions;
use crate::mentions::{
    LookupResult, Mention, MentionLookup, MentionReach, ParsedPrompt, TaskText, parse_mentions,
};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Permission;
use crate::text::list_first;
use crate::tools::image::is_image_name;
use crate::world::io::files::inspect;
use crate::world::io::locate::{is_inside, resolve_path};
use crate::world::io::project_link::{UserLocation, describe_detour};

/// Maximum number of paths of each kind that are collected from a task file.
const COLLECTED_PATHS_MAX: usize = 1_000;
/// Maximum number of paths that one line lists.
const LISTED_PATHS_MAX: usize = 3;

/// The paths that the text of a task may mention.
#[derive(Debug)]
pub(super) struct MentionScope {
    /// What the config opens to every agent, among it the copy of the project.
    readable_roots: Vec<RealPath>,
    /// What of it is open for writing.
    writable_roots: Vec<RealPath>,
    /// The context paths that hide something inside.
    hiding_roots: Vec<RealPath>,
    /// What they hide.
    hidden_paths: Vec<RealPath>,
    /// What `--allow-mentions` lets tasks open.
    allowed_roots: Vec<RealPath>,
    /// The state directory of the cell.
    state_dir: Option<RealPath>,
}

/// The text of a task, and what its mentions open.
#[derive(Debug)]
pub(super) struct TaskMentions {
    /// The text. Only mentions that count are replaced by their paths.
    pub(super) prompt: ParsedPrompt,
    /// What the mentions open, for reading.
    pub(super) opened: Vec<OpenedPath>,
    /// The warnings about mentions that name or open nothing.
    pub(super) warnings: Vec<String>,
}

impl MentionScope {
    /// Creates the scope of a cell that runs in the directory of `host` with `config`.
    pub(super) fn new(config: &Config, allowed_paths: &[AbsPath], host: &Host) -> Self {
        let context_paths = &config.orchestrator.context_paths;
        let is_writable = |context: &&ContextPath| context.permission == Permission::Write;
        let hides = |context: &&ContextPath| !context.hidden.is_empty();
        let hiding_paths = config.context_paths().filter(hides);
        let hidden_paths = hiding_paths.clone().filter_map(|context| {
            let root = real_root(context)?;
            let paths = context.hidden.iter().map(move |hidden| root.join(hidden));
            Some(paths)
        });
        let copy = is_listed_for_all(config, &host.cwd).then(|| resolve_path(&host.cwd));
        Self {
            readable_roots: context_paths
                .iter()
                .filter_map(real_root)
                .chain(copy.flatten())
                .collect(),
            writable_roots: context_paths
                .iter()
                .filter(is_writable)
                .filter_map(real_root)
                .collect(),
            hidden_paths: hidden_paths.flatten().collect(),
            hiding_roots: hiding_paths.filter_map(real_root).collect(),
            allowed_roots: allowed_paths.iter().filter_map(resolve_path).collect(),
            state_dir: resolve_path(&host.state_parent.join(STATE_DIR)),
        }
    }

    /// Returns whether the config opens what `mention` asks for.
    fn is_listed(&self, mention: &Mention) -> bool {
        let roots = match mention.permission {
            Permission::Read => &self.readable_roots,
            Permission::Write => &self.writable_roots,
        };
        is_inside(&mention.path, roots)
    }

    /// Returns whether a task may learn what is at `path`: its agents may read it.
    fn is_known(&self, path: &AbsPath) -> bool {
        let is_readable =
            is_inside(path, &self.readable_roots) && !is_inside(path, &self.hidden_paths);
        is_readable || has_path(&self.allowed_roots, path)
    }

    /// Returns whether `path`, which the config opens, is an image that the agents are shown. An
    /// image may be hidden in a context path that hides something, so it is left to their tools.
    fn is_shown(&self, path: &RealPath) -> bool {
        let mut closed_roots = self.hiding_roots.iter().chain(&self.state_dir);
        is_image_name(path.as_path()) && !closed_roots.any(|root| path.is_within(root))
    }
}

/// Reads the `text` of a task of a cell that runs in the directory of `host`.
pub(super) fn read_mentions(text: &str, scope: &MentionScope, host: &Host) -> TaskMentions {
    let location = user_location(host);
    let is_open = |mention: &Mention| {
        let is_allowed = || is_allowed(mention, &scope.allowed_roots, location);
        scope.is_listed(mention) || !is_inside(&mention.path, &scope.hidden_paths) && is_allowed()
    };
    let is_closed = |mention: &Mention| !is_open(mention);
    let look_up = |path: &AbsPath| inspect_known(path, scope.is_known(path));
    let known_lookup = MentionLookup {
        inspect: &look_up,
        ..lookup(&host.cwd, host)
    };
    let closed_mentions = PastedMentions::find_closed(text, known_lookup, &is_closed);
    let escaped_text = TaskText::from_typed(closed_mentions.escape(text));
    let mut prompt = ParsedPrompt {
        original_prompt: text.to_owned(),
        ..parse_mentions(&escaped_text, known_lookup)
    };
    prompt.mentions.retain(is_open);
    let mut opened_paths = Vec::new();
    for mention in &prompt.mentions {
        let Some(path) = resolve_path(&mention.path) else {
            continue;
        };
        let is_image = mention.permission == Permission::Read && scope.is_shown(&path);
        if is_image || !scope.is_listed(mention) {
            open_path(&mut opened_paths, &path.to_abs(), Permission::Read, 1);
        }
    }
    TaskMentions {
        warnings: mention_warnings(&prompt, scope, closed_mentions.mentions()),
        prompt,
        opened: opened_paths,
    }
}

/// Returns what `path` leads to, or nothing unless it `is_known`: the text of a task may be a
/// stranger's, who could learn from the output of a cell what exists outside of what its agents may
/// read.
fn inspect_known(path: &AbsPath, is_known: bool) -> LookupResult {
    if is_known {
        inspect(path)
    } else {
        LookupResult::Missing
    }
}

/// Returns the warnings about the mentions of `prompt`, and about the `closed` ones. They suggest
/// no similar names, and are the same for what does not exist and for what a task may not read.
fn mention_warnings<'m>(
    prompt: &'m ParsedPrompt,
    scope: &MentionScope,
    mut closed: Vec<&'m Mention>,
) -> Vec<String> {
    let (missing, unknown): (Vec<&Mention>, Vec<&Mention>) = prompt
        .missing_mentions
        .iter()
        .partition(|mention| scope.is_known(&mention.path));
    closed.extend(unknown);
    missing
        .into_iter()
        .map(|mention| missing_warning(mention, None))
        .chain(prompt.suggestions.iter().cloned())
        .chain(closed_warning(&closed))
        .collect()
}

/// Returns the warning about mentions that open nothing.
fn closed_warning(mentions: &[&Mention]) -> Option<String> {
    let first_mention = mentions.first()?;
    Some(format!(
        "the task mentions {}, which opens nothing: to let agents read it, list it in \
         `context_paths` of the config, or start the batch with `--allow-mentions {}`",
        path_list(mentions),
        first_mention.path,
    ))
}

/// The paths outside their projects that the tasks of a file name.
#[derive(Debug, Default)]
pub(super) struct TaskPathSurvey {
    /// Mentioned paths that `--allow-mentions` does not open, whether they exist or not.
    mentioned_paths: BTreeSet<AbsPath>,
    /// Projects outside the user's directory.
    projects: BTreeSet<AbsPath>,
}

impl TaskPathSurvey {
    /// Adds the paths of `task`, whose project exists; tasks may open what is in `allowed_roots`.
    pub(super) fn add(&mut self, task: &BatchTask, allowed_roots: &[RealPath], host: &Host) {
        let project = task.project.as_ref().map(TaskProject::location);
        let base = project.map_or_else(|| host.cwd.clone(), |path| host.cwd.join(path));
        if !base.is_within(&host.cwd) && self.projects.len() < COLLECTED_PATHS_MAX {
            self.projects.insert(base.clone());
        }
        if !task.text.contains('@') || self.mentioned_paths.len() >= COLLECTED_PATHS_MAX {
            return;
        }
        let roots: Vec<RealPath> = resolve_path(&base).into_iter().collect();
        let location = UserLocation {
            base: &base,
            ..user_location(host)
        };
        let is_closed = |mention: &Mention| {
            !is_inside(&mention.path, &roots) && !is_allowed(mention, allowed_roots, location)
        };
        let is_known = |path: &AbsPath| is_inside(path, &roots) || has_path(allowed_roots, path);
        let look_up = |path: &AbsPath| inspect_known(path, is_known(path));
        let known_lookup = MentionLookup {
            inspect: &look_up,
            ..lookup(&base, host)
        };
        let prompt = parse_mentions(&TaskText::from_typed(&task.text), known_lookup);
        let mentioned = prompt.mentions.iter().chain(&prompt.missing_mentions);
        let paths = mentioned
            .filter(|mention| is_closed(mention))
            .map(|mention| mention.path.clone());
        self.mentioned_paths.extend(paths);
    }

    /// Returns what the user learns about them before the batch begins.
    pub(super) fn notes(&self) -> Vec<String> {
        let list = |paths: &BTreeSet<AbsPath>| {
            let paths: Vec<&AbsPath> = paths.iter().collect();
            (!paths.is_empty()).then(|| list_first(&paths, LISTED_PATHS_MAX))
        };
        let projects = list(&self.projects)
            .map(|listed| format!("agents work on copies of {listed}, outside this directory"));
        let mentioned = list(&self.mentioned_paths).map(|listed| {
            format!(
                "tasks mention {listed}; a mention in a task file opens nothing, except in what \
                 `--allow-mentions PATH` names, and agents read what the config lists in \
                 `context_paths`"
            )
        });
        projects.into_iter().chain(mentioned).collect()
    }
}

/// Returns the paths that `--allow-mentions` names.
///
/// # Errors
/// One of them does not exist, or symlinks of a project lead it elsewhere.
pub(super) fn allowed_mentions(names: &[String], host: &Host) -> Result<Vec<AbsPath>> {
    let find_path = |name: &String| {
        let path = host.cwd.join(name);
        match inspect(&path) {
            LookupResult::File | LookupResult::Directory => match detour_message(&path, host) {
                None => Ok(path),
                Some(message) => {
                    let message = format!("`--allow-mentions`: {message}");
                    Err(Error::new(ErrorKind::Usage, message))
                }
            },
            LookupResult::Missing | LookupResult::Unreadable => {
                let message =
                    format!("`--allow-mentions`: `{path}` does not exist or cannot be read");
                Err(Error::new(ErrorKind::Usage, message)
                    .with_hint("name a file or a directory that tasks may open"))
            }
        }
    };
    names.iter().map(find_path).collect()
}

/// Returns whether `mention` asks for no more than `--allow-mentions` lets tasks open. What massgen
/// keeps itself is never part of that, nor is a path that symlinks of a project lead elsewhere.
fn is_allowed(mention: &Mention, allowed_roots: &[RealPath], location: UserLocation<'_>) -> bool {
    mention.permission == Permission::Read
        && mention.reach != MentionReach::Broad
        && has_path(allowed_roots, &mention.path)
        && matches!(describe_detour(&mention.path, location), Ok(None))
}

/// Returns whether `path` is inside what `--allow-mentions` lets tasks open.
fn has_path(allowed_roots: &[RealPath], path: &AbsPath) -> bool {
    let Some(path) = resolve_path(path) else {
        return false;
    };
    let is_state = path.as_path().iter().any(|name| name == STATE_DIR);
    !is_state && allowed_roots.iter().any(|root| path.is_within(root))
}

fn real_root(context: &ContextPath) -> Option<RealPath> {
    resolve_path(&context.path)
}
