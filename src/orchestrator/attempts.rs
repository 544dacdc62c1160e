//! Attempts: in coordination, each agent works on a private layer over the user's write paths. What
//! an answer changes there is captured when it is accepted; only that is checked, shown to others
//! and delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::answer_changes::{AnswerChanges, ChangeLayers};
use crate::check_results::ChangeCounts;
use crate::config::Config;
use crate::config::checks::{CheckConfig, FileGlobs};
use crate::delivery::line_diff::LineDiff;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::error::{Error, ErrorKind, Result};
use crate::id::AnswerLabel;
use crate::orchestrator::grants::real_path;
use crate::orchestrator::overlays::{OverlayFactory, OverlayPurpose};
use crate::orchestrator::private_names::remove_private_names;
use crate::path::RelPath;
use crate::permissions::PathPermissionManager;
use crate::text::{count_noun, list_first};
use crate::tools::call::ToolCall;
use crate::world::access::gate::Gate;
use crate::world::delivery::contents::{DiffSide, uncomposed_difference};
use crate::world::delivery::patch::write_patch;
use crate::world::delivery::planning::plan_overlay;
use crate::world::exec;
use crate::world::io::run_blocking;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::overlay::capture::StagedChanges;

/// How often a capture is repeated because something changed meanwhile.
const CAPTURES_MAX: usize = 3;
/// The longest diff that others are shown, in bytes.
const DIFF_BYTES_MAX: usize = 12 * 1024;
/// How much of the diff of an answer is kept, in bytes; the file that exceeds it is complete.
const PATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The most protected names that a note lists.
const NAMES_LISTED_MAX: usize = 3;

/// The attempt of one agent. A clone is the same attempt.
#[derive(Clone, Debug)]
pub struct Attempt(Arc<AttemptState>);

#[derive(Debug)]
struct AttemptState {
    overlay: WriteOverlay,
    /// What the agent may change in it.
    permissions: PathPermissionManager,
    /// Copies the workspace into it, if the agent has one: the gate and the call.
    workspace_copy: Option<(Gate, ToolCall)>,
    /// Where the agent's commands run, if it runs any.
    commands: Option<ExecEnvironment>,
    overlays: OverlayFactory,
    /// How often the turn has restarted before.
    restart: u32,
    /// The checks that take some of the files from the user's trees.
    checks: Vec<CheckConfig>,
    /// The names that are delivered although git ignores them.
    deliver_ignored: FileGlobs,
}

/// The copies of an answer's changes before they count.
struct StagedAnswer {
    all: StagedChanges,
    /// Those without the files that a check takes from the user's trees, by the check's name.
    fixed: BTreeMap<String, StagedChanges>,
}

/// What an answer changes.
#[derive(Debug)]
pub struct CapturedAnswer {
    /// The changes.
    pub changes: AnswerChanges,
    /// Their plan, whose content is in the layers of the answer.
    pub plan: DeliveryPlan,
    /// The diff, without the files after its first [`PATCH_BYTES_MAX`] bytes.
    pub patch: String,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

impl Attempt {
    /// Creates the attempt of an agent with these permissions on `overlay`.
    pub fn new(
        overlay: WriteOverlay,
        permissions: PathPermissionManager,
        workspace_copy: Option<(Gate, ToolCall)>,
        commands: Option<ExecEnvironment>,
        overlays: OverlayFactory,
        restart: u32,
        config: &Config,
    ) -> Self {
        let checks = config.checks.list.iter();
        let has_fixed_files = |check: &&CheckConfig| !check.fixed.is_empty();
        Self(Arc::new(AttemptState {
            overlay,
            permissions,
            workspace_copy,
            commands,
            overlays,
            restart,
            checks: checks.filter(has_fixed_files).cloned().collect(),
            deliver_ignored: config.orchestrator.deliver_ignored.clone(),
        }))
    }

    /// Returns the layer on which the agent works.
    pub fn overlay(&self) -> &WriteOverlay {
        &self.0.overlay
    }

    /// Makes the changes of an answer in it.
    ///
    /// # Errors
    /// A change cannot be made.
    pub async fn apply(&self, layers: Option<&ChangeLayers>) -> Result<()> {
        let (state, layers) = (Arc::clone(&self.0), layers.cloned().unwrap_or_default());
        run_blocking(move || state.overlay.apply(&layers)).await
    }

    /// Opens the user's trees with the changes of an answer, as hooks see them; `None` where nothing
    /// can be mounted.
    ///
    /// # Errors
    /// It cannot be made.
    pub async fn open_view(&self, layers: &ChangeLayers) -> Result<Option<WriteOverlay>> {
        let state = &self.0;
        let (purpose, grants) = (
            OverlayPurpose::View(state.restart),
            state.permissions.grants(),
        );
        let view = state
            .overlays
            .open(purpose, grants, state.commands.as_ref(), layers);
        Ok(view.await?.0)
    }

    /// Removes what [`Self::open_view`] has made. A rest is removed at the end of the run.
    pub async fn remove_view(&self) {
        let state = Arc::clone(&self.0);
        let remove = move || state.overlays.remove(OverlayPurpose::View(state.restart));
        if let Err(error) = run_blocking(remove).await {
            tracing::warn!("cannot remove what hooks have seen: {error:#}");
        }
    }

    /// Captures what the answer `label` changes. If that is nothing, the files of the workspace are
    /// laid over the first write path before.
    ///
    /// # Errors
    /// The changes cannot be read or written, or do not stop while they are captured.
    pub async fn capture(&self, label: AnswerLabel) -> Result<CapturedAnswer> {
        let captured_answer = self.capture_layers(label).await?;
        if !captured_answer.changes.layers.is_empty() || !self.copy_workspace().await? {
            return Ok(captured_answer);
        }
        self.capture_layers(label).await
    }

    async fn capture_layers(&self, label: AnswerLabel) -> Result<CapturedAnswer> {
        let git = self.0.overlays.git().await;
        for _ in 0..CAPTURES_MAX {
            let mut plan = self.plan().await?;
            let state = Arc::clone(&self.0);
            if let Some(excess) = run_blocking(move || state.overlay.excess()).await? {
                return Err(Error::new(ErrorKind::Environment, excess));
            }
            let entries_before = plan.entries.clone();
            let private = remove_private_names(&mut plan, git, &self.0.deliver_ignored).await?;
            let (staged_answer, plan) = self.stage(plan, label).await?;
            if self.plan().await?.entries == entries_before {
                return run_blocking(move || publish(staged_answer, plan, private)).await;
            }
        }
        let message = "its files keep changing while they are captured: stop the commands that still \
                       write them";
        Err(Error::new(ErrorKind::Environment, message))
    }

    /// Returns what a delivery of the present state would change.
    pub(super) async fn plan(&self) -> Result<DeliveryPlan> {
        let state = Arc::clone(&self.0);
        run_blocking(move || {
            state.overlay.sync_layers()?;
            plan_overlay(&state.overlay, &state.permissions)
        })
        .await
    }

    /// Copies the changes of `plan` to the layers of the answer `label`.
    async fn stage(
        &self,
        plan: DeliveryPlan,
        label: AnswerLabel,
    ) -> Result<(StagedAnswer, DeliveryPlan)> {
        let state = Arc::clone(&self.0);
        run_blocking(move || {
            let answers = state.overlays.answers_directory(state.restart);
            let copy = |plan: &DeliveryPlan, name: &str| {
                state.overlay.stage_changes(plan, &answers.join(name))
            };
            let mut fixed = BTreeMap::new();
            for (check, number) in state.checks.iter().zip(1_u32..) {
                let mut check_plan = plan.clone();
                remove_fixed_files(&mut check_plan, &check.fixed)?;
                if check_plan.entries.len() < plan.entries.len() {
                    let name = format!("{label}-{number}");
                    fixed.insert(check.name.clone(), copy(&check_plan, &name)?);
                }
            }
            let all = copy(&plan, &label.to_string())?;
            Ok((StagedAnswer { all, fixed }, plan))
        })
        .await
    }

    /// Copies the files of the workspace into the attempt. Returns whether there were any.
    async fn copy_workspace(&self) -> Result<bool> {
        let Some((gate, call)) = self.0.workspace_copy.clone() else {
            return Ok(false);
        };
        run_blocking(move || {
            let observation = exec::make_call(&gate, call)
                .map_err(|reason| Error::new(ErrorKind::Environment, reason))?;
            Ok(!observation.changes.is_empty())
        })
        .await
    }
}

/// Publishes the changes of an answer, of which `private` names are left out.
fn publish(
    staged_answer: StagedAnswer,
    mut plan: DeliveryPlan,
    private: usize,
) -> Result<CapturedAnswer> {
    let mut fixed_layers = BTreeMap::new();
    let mut notes = Vec::new();
    for (check, staged_changes) in staged_answer.fixed {
        notes.push(format!(
            "it changes files that the check `{check}` takes from your files"
        ));
        fixed_layers.insert(check, staged_changes.publish()?);
    }
    let layers = staged_answer.all.publish()?;
    let source_dirs = plan.roots.iter().map(|root| layers.over(root).cloned());
    plan.source_dirs = source_dirs.collect();
    let (patch, counts) = describe_changes(&plan)?;
    Ok(CapturedAnswer {
        changes: AnswerChanges {
            diff: beginning(&patch, DIFF_BYTES_MAX).to_owned(),
            layers,
            fixed_layers,
            counts,
            private,
        },
        notes: private_note(&plan, private)
            .into_iter()
            .chain(notes)
            .collect(),
        plan,
        patch,
    })
}

/// Removes the entries of files that `fixed` names, also by a symlink of the user's, and of what would
/// replace a directory with some.
fn remove_fixed_files(plan: &mut DeliveryPlan, fixed: &FileGlobs) -> Result<()> {
    let links = links_to_fixed_files(plan, fixed)?;
    let is_named = fixed.matcher();
    let is_fixed = |entry: &&DeliveryEntry| {
        let named_by_link = |link: &FixedLink| {
            let below = entry.rel.as_path().strip_prefix(link.target.as_path());
            let below = below.ok().and_then(RelPath::new);
            below.is_some_and(|below| is_named(&link.name.join(&below)))
        };
        let mut links = links.iter().filter(|link| link.root == entry.root);
        is_named(&entry.rel) || links.any(named_by_link)
    };
    let entries = plan.entries.iter().filter(is_fixed);
    let fixed_names: BTreeSet<(usize, RelPath)> = entries
        .map(|entry| (entry.root, entry.rel.clone()))
        .collect();
    plan.entries.retain(|entry| {
        let is_around =
            |(root, rel): &(usize, RelPath)| *root == entry.root && rel.is_within(&entry.rel);
        let is_kept_around = entry.ours.is_directory() || !fixed_names.iter().any(is_around);
        is_kept_around && !fixed_names.contains(&(entry.root, entry.rel.clone()))
    });
    Ok(())
}

/// A symlink of the user's by which `fixed` of a check names files of a write path.
struct FixedLink {
    /// The number of the write path.
    root: usize,
    name: RelPath,
    target: RelPath,
}

fn links_to_fixed_files(plan: &DeliveryPlan, fixed: &FileGlobs) -> Result<Vec<FixedLink>> {
    let mut links = Vec::new();
    for (root, dir) in plan.roots.iter().enumerate() {
        for name in fixed.literal_beginnings() {
            let target = real_path(&dir.join(name.as_path()))?.to_abs().below(dir);
            let target = target.filter(|target| *target != name);
            links.extend(target.map(|target| FixedLink { root, name, target }));
        }
    }
    Ok(links)
}

/// Returns the diff of the changes of `plan`, as far as it is kept, and how much all changes are.
fn describe_changes(plan: &DeliveryPlan) -> Result<(String, ChangeCounts)> {
    let (mut patch, mut counts) = (String::new(), ChangeCounts::default());
    let mut omitted = 0_usize;
    for entry in plan.entries.iter().filter(|entry| entry.is_file()) {
        let difference = uncomposed_difference(plan, entry)?;
        if patch.len() < PATCH_BYTES_MAX {
            write_patch(&difference, &shown_path(plan, entry), &mut patch);
        } else {
            omitted = omitted.saturating_add(1);
        }
        let [before, after] = [&difference.before, &difference.after].map(text_of);
        counts.add_file(LineDiff::new(before, after).counts());
    }
    if omitted > 0 {
        patch.push_str("# this diff is too long for ");
        patch.push_str(&count_noun(omitted, "more file"));
        patch.push('\n');
    }
    Ok((patch, counts))
}

/// Returns the text of a side of a change; empty if it is not text.
fn text_of(side: &DiffSide) -> &str {
    if let DiffSide::Text(text) = side {
        text
    } else {
        ""
    }
}

/// Returns the path of `entry` in diffs and in the copies that other agents read: below the only
/// root, or below the name of its root and its number.
pub(super) fn shown_path(plan: &DeliveryPlan, entry: &DeliveryEntry) -> RelPath {
    let root = plan.roots.get(entry.root).filter(|_| plan.roots.len() > 1);
    let Some(root) = root else {
        return entry.rel.clone();
    };
    let name = format!("{}-{}", root.name_lossy(), entry.root.saturating_add(1));
    let directory = RelPath::new(&name).unwrap_or_default();
    directory.join(&entry.rel)
}

/// Returns the note about names that stay private, if there are some.
fn private_note(plan: &DeliveryPlan, ignored: usize) -> Option<String> {
    let protected: Vec<String> = plan
        .refused
        .iter()
        .map(|refusal| refusal.path.to_string())
        .collect();
    let parts = [
        (!protected.is_empty()).then(|| {
            format!(
                "{} that may not be changed ({})",
                count_noun(protected.len(), "name"),
                list_first(&protected, NAMES_LISTED_MAX)
            )
        }),
        (ignored > 0).then(|| {
            let files = count_noun(ignored, "file");
            format!("{files} that git ignores or that tools generate")
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{} are not part of it", parts.join(" and ")))
}

/// Returns the beginning of `text`, whole lines of at most `bytes_max` bytes.
fn beginning(text: &str, bytes_max: usize) -> &str {
    let end = text.floor_char_boundary(bytes_max);
    let (beginning, rest) = text.split_at(end);
    if rest.is_empty() {
        return beginning;
    }
    beginning
        .rfind('\n')
        .map_or("", |line_end| beginning.split_at(line_end + 1).0)
}
