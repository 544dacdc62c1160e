//! Files of a container that are never fetched and were reported already: each is named once in a
//! run.

use std::collections::BTreeSet;

use crate::path::AbsPath;

/// The most names that are remembered; of more, only the number is reported.
const NAMES_MAX: usize = 1000;

/// The pipes, sockets and devices that were reported.
#[derive(Debug, Default)]
pub(super) struct ReportedFiles {
    names: BTreeSet<AbsPath>,
    /// How many were there without a remembered name at the last report.
    unnamed_count: usize,
}

/// Special files that were not reported yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NewSpecialFiles {
    /// Those that are named, with what they are.
    pub(super) named_files: Vec<(AbsPath, String)>,
    /// The number of others.
    pub(super) unnamed_count: usize,
}

impl ReportedFiles {
    /// Returns which of these special files were not reported before. They count as reported now.
    pub(super) fn report_new(
        &mut self,
        special_files: &[(AbsPath, &'static str)],
    ) -> NewSpecialFiles {
        let mut named_files = Vec::new();
        let mut unnamed_count = 0_usize;
        for (path, description) in special_files {
            if self.names.contains(path) {
                continue;
            }
            if self.names.len() < NAMES_MAX {
                self.names.insert(path.clone());
                named_files.push((path.clone(), (*description).to_owned()));
            } else {
                unnamed_count = unnamed_count.saturating_add(1);
            }
        }
        let earlier_count = std::mem::replace(&mut self.unnamed_count, unnamed_count);
        NewSpecialFiles {
            named_files,
            unnamed_count: unnamed_count.saturating_sub(earlier_count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_reported_once_and_few_names_are_kept() {
        let pipes = |count: usize| -> Vec<(AbsPath, &'static str)> {
            let path = |number: usize| AbsPath::new(format!("/ws/{number:06}")).unwrap();
            (0..count).map(|number| (path(number), "a pipe")).collect()
        };
        let mut reported = ReportedFiles::default();
        let mut check = |count: usize, named_count: usize, unnamed_count: usize| {
            let new_files = reported.report_new(&pipes(count));
            assert_eq!(new_files.named_files.len(), named_count, "{count}");
            assert_eq!(new_files.unnamed_count, unnamed_count, "{count}");
            assert!(reported.names.len() <= NAMES_MAX);
        };
        check(2, 2, 0);
        check(2, 0, 0);
        check(NAMES_MAX, NAMES_MAX - 2, 0);
        check(NAMES_MAX + 500, 0, 500);
        check(NAMES_MAX + 500, 0, 0);
        check(NAMES_MAX + 501, 0, 1);
        check(1, 0, 0);
    }
}
