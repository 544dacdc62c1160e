//! The choices about the entries of a plan, and their consequences: a file that is applied brings
//! its new directories with it, and a directory is removed only if everything in it is.

use std::collections::BTreeSet;

use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::path::RelPath;

/// Choice about one entry of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryChoice {
    /// It is applied.
    Apply,
    /// It stays as it is in the user's tree.
    Leave,
}

/// A path below one of the roots.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RootedPath {
    root: usize,
    rel: RelPath,
}

impl DeliveryPlan {
    /// Returns the choices that apply everything that does not conflict with the user's changes,
    /// except for what the user chooses by itself.
    pub fn select_all(&self) -> Vec<DeliveryChoice> {
        let choice = |entry: &DeliveryEntry| {
            if entry.consent.is_some() {
                DeliveryChoice::Leave
            } else {
                DeliveryChoice::Apply
            }
        };
        let choices: Vec<DeliveryChoice> = self.entries.iter().map(choice).collect();
        resolve_choices(self, &choices)
    }

    /// Returns the entries about which the user decides, each with its index: not the directories
    /// that are created and removed with their content, and not what conflicts.
    pub fn reviewable_entries(&self) -> Vec<(usize, &DeliveryEntry)> {
        let mut parents = BTreeSet::new();
        for entry in &self.entries {
            parents.extend(ancestors(entry));
        }
        let replaced_directories = replaced_directories(self);
        let is_reviewable = |(_, entry): &(usize, &DeliveryEntry)| {
            let is_directory_change =
                !entry.is_file() && (entry.theirs.is_absent() || entry.ours.is_absent());
            let is_implied = is_directory_change && parents.contains(&rooted_path(entry));
            let is_in_replaced =
                ancestors(entry).any(|ancestor| replaced_directories.contains(&ancestor));
            entry.conflict.is_none() && !is_implied && !is_in_replaced
        };
        let entries = self.entries.iter().enumerate();
        entries.filter(is_reviewable).collect()
    }
}

/// Returns the choices that follow from those of the user, one for each entry: nothing that
/// conflicts is applied, no directory is removed while something in it stays, and nothing is
/// created in a directory that is not.
pub fn resolve_choices(
    plan: &DeliveryPlan,
    user_choices: &[DeliveryChoice],
) -> Vec<DeliveryChoice> {
    let choice_at = |index: usize| {
        let choice = user_choices.get(index).copied();
        choice.unwrap_or(DeliveryChoice::Leave)
    };
    let mut choices: Vec<DeliveryChoice> = plan
        .entries
        .iter()
        .enumerate()
        .map(|(index, entry)| {
            if entry.conflict.is_some() {
                DeliveryChoice::Leave
            } else {
                choice_at(index)
            }
        })
        .collect();
    // What a file replaces is removed if the file is applied, which needs all of it to be removed.
    let replaced_directories = replaced_directories(plan);
    let conflicting_entries = plan.entries.iter().filter(|entry| entry.conflict.is_some());
    let conflict_directories: BTreeSet<RootedPath> =
        conflicting_entries.flat_map(ancestors).collect();
    let applied_replacements: BTreeSet<RootedPath> =
        entries_with_choice(plan, &choices, DeliveryChoice::Apply)
            .map(rooted_path)
            .filter(|path| replaced_directories.contains(path))
            .filter(|path| !conflict_directories.contains(path))
            .collect();
    for (entry, choice) in plan.entries.iter().zip(&mut choices) {
        let is_below = |directories: &BTreeSet<RootedPath>| {
            ancestors(entry).any(|ancestor| directories.contains(&ancestor))
        };
        if entry.conflict.is_none() && is_below(&replaced_directories) {
            *choice = if is_below(&applied_replacements) {
                DeliveryChoice::Apply
            } else {
                DeliveryChoice::Leave
            };
        }
    }
    // A directory stays if anything in it stays.
    let mut kept_directories = BTreeSet::new();
    for entry in entries_with_choice(plan, &choices, DeliveryChoice::Leave) {
        if !entry.theirs.is_absent() {
            kept_directories.extend(ancestors(entry));
        }
    }
    // A directory is created with its content.
    let mut needed_directories = BTreeSet::new();
    for entry in entries_with_choice(plan, &choices, DeliveryChoice::Apply) {
        if !entry.ours.is_absent() {
            needed_directories.extend(ancestors(entry));
        }
    }
    // Nothing is created in a directory that is not created itself. The entries of a plan have the
    // order of their paths, so a directory comes before its content.
    let mut missing_directories: BTreeSet<RootedPath> = BTreeSet::new();
    for (entry, choice) in plan.entries.iter().zip(&mut choices) {
        let path = rooted_path(entry);
        let is_removed = entry.theirs.is_directory() && !entry.ours.is_directory();
        let is_created = entry.ours.is_directory() && !entry.theirs.is_directory();
        if is_removed && kept_directories.contains(&path) {
            *choice = DeliveryChoice::Leave;
        }
        if is_created && needed_directories.contains(&path) && entry.conflict.is_none() {
            *choice = DeliveryChoice::Apply;
        }
        let is_in_missing =
            ancestors(entry).any(|ancestor| missing_directories.contains(&ancestor));
        if !entry.ours.is_absent() && is_in_missing {
            *choice = DeliveryChoice::Leave;
        }
        if is_created && *choice == DeliveryChoice::Leave {
            missing_directories.insert(path);
        }
    }
    choices
}

fn entries_with_choice<'a>(
    plan: &'a DeliveryPlan,
    choices: &'a [DeliveryChoice],
    wanted_choice: DeliveryChoice,
) -> impl Iterator<Item = &'a DeliveryEntry> {
    let pairs = plan.entries.iter().zip(choices);
    pairs
        .filter(move |(_, choice)| **choice == wanted_choice)
        .map(|(entry, _)| entry)
}

/// Returns the directories that a file or a symlink replaces.
fn replaced_directories(plan: &DeliveryPlan) -> BTreeSet<RootedPath> {
    let replacing_entries = plan.entries.iter().filter(|entry| {
        entry.theirs.is_directory() && !entry.ours.is_directory() && !entry.ours.is_absent()
    });
    replacing_entries.map(rooted_path).collect()
}

fn rooted_path(entry: &DeliveryEntry) -> RootedPath {
    RootedPath {
        root: entry.root,
        rel: entry.rel.clone(),
    }
}

/// Returns the paths above `entry`, up to the root.
fn ancestors(entry: &DeliveryEntry) -> impl Iterator<Item = RootedPath> + use<> {
    let root = entry.root;
    let ancestors = std::iter::successors(entry.rel.parent(), RelPath::parent);
    ancestors.map(move |rel| RootedPath { root, rel })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::path_state::{PathState, RegularFileState};
    use crate::delivery::plan::{ContentSource, DeliveryConflict, NeededConsent};

    fn path_state(letter: char) -> PathState {
        match letter {
            '-' => PathState::Nothing,
            'd' => PathState::Directory { mode: 0o755 },
            'l' => PathState::Link { target: "x".into() },
            _ => PathState::File(RegularFileState {
                inode: Some(1),
                size_bytes: 1,
                modified_ns: 1,
                mode: 0o644,
            }),
        }
    }

    /// Returns a plan of lines such as `df a/b` (a directory becomes a file); `!` after the letters
    /// is a conflict.
    fn plan(lines: &[&str]) -> DeliveryPlan {
        let entry = |line: &&str| {
            let (kinds, path) = line.split_once(' ').unwrap();
            let mut kinds = kinds.chars();
            DeliveryEntry {
                root: 0,
                rel: RelPath::new(path).unwrap(),
                theirs: path_state(kinds.next().unwrap()),
                ours: path_state(kinds.next().unwrap()),
                source: ContentSource::SourceDirectory,
                consent: path
                    .starts_with("out")
                    .then_some(NeededConsent::OutgoingLink),
                conflict: kinds.next().map(|_| DeliveryConflict::Changed),
            }
        };
        DeliveryPlan {
            entries: lines.iter().map(entry).collect(),
            ..DeliveryPlan::default()
        }
    }

    /// `choices` and `expected` have one sign for each line: `+` to apply it, `.` to leave it.
    #[track_caller]
    fn check(lines: &[&str], choices: &str, expected: &str) {
        let choice = |sign| {
            if sign == '+' {
                DeliveryChoice::Apply
            } else {
                DeliveryChoice::Leave
            }
        };
        let choices: Vec<DeliveryChoice> = choices.chars().map(choice).collect();
        let resolved = resolve_choices(&plan(lines), &choices);
        let signs: String = resolved
            .iter()
            .map(|choice| {
                if *choice == DeliveryChoice::Apply {
                    '+'
                } else {
                    '.'
                }
            })
            .collect();
        assert_eq!(signs, expected, "{lines:?}");
    }

    #[test]
    fn a_file_brings_its_directories() {
        let new = ["-d a", "-d a/b", "-f a/b/c", "-d a/e"];
        check(&new, "..+.", "+++.");
        check(&new, "...+", "+..+");
        check(&new, "....", "....");
        check(&["-d! a", "-f a/b"], "++", "..");
    }

    #[test]
    fn a_directory_stays_while_something_stays_in_it() {
        let deletions = ["d- a", "f- a/b", "d- a/c", "f- a/c/d"];
        check(&deletions, "++++", "++++");
        check(&deletions, "+.++", "..++");
        check(&deletions, "+++.", ".+..");
        check(&["d- a", "f-! a/b"], "++", "..");
    }

    #[test]
    fn an_entry_and_the_entry_that_replaces_it_are_selected_together() {
        check(&["df a", "f- a/b"], "+.", "++");
        check(&["df a", "f- a/b"], ".+", "..");
        check(&["df a", "f-! a/b"], "++", "..");
        let without_conflict = ["df a", "f- a/b", "d- a/c", "f- a/c/d", "f- e"];
        check(&without_conflict, "+++++", "+++++");
        let with_conflict = ["df a", "f- a/b", "d- a/c", "f-! a/c/d", "f- e"];
        check(&with_conflict, "+++++", "....+");
        check(&["fd a", "-f a/b"], ".+", "++");
    }

    #[test]
    fn a_link_that_leads_out_is_not_selected_with_all_others_and_removes_nothing() {
        use DeliveryChoice::{Apply, Leave};
        let plan = plan(&["dl out", "f- out/b", "-l out2", "-f z"]);
        assert_eq!(plan.select_all(), [Leave, Leave, Leave, Apply]);
        let chosen = [Apply, Leave, Leave, Leave];
        assert_eq!(
            resolve_choices(&plan, &chosen),
            [Apply, Apply, Leave, Leave]
        );
    }

    #[test]
    fn users_are_asked_about_what_is_no_consequence() {
        let entries = |lines: &[&str]| -> Vec<usize> {
            let plan = plan(lines);
            let entries = plan.reviewable_entries().into_iter();
            entries.map(|(index, _)| index).collect()
        };
        assert_eq!(entries(&["-d a", "-f a/b", "-d e"]), [1, 2]);
        assert_eq!(entries(&["d- a", "f- a/b", "ff! c"]), [1]);
        assert_eq!(entries(&["df a", "f- a/b", "dd c"]), [0, 2]);
    }

    #[test]
    fn removals_are_applied_first_and_deepest_first() {
        let plan = plan(&["df a", "f- a/b", "-d c", "-f c/d", "d- e", "f- e/f"]);
        assert_eq!(plan.application_order(), [5, 4, 1, 0, 2, 3]);
    }
}
