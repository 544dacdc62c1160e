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
    unnamed: usize,
}

/// Special files that were not reported yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NewSpecialFiles {
    /// Those that are named, with what they are.
    pub(super) named: Vec<(AbsPath, String)>,
    /// The number of others.
    pub(super) more: usize,
}

impl ReportedFiles {
    /// Returns which of the special files `found` were not reported before. They count as reported
    /// now.
    pub(super) fn report_new(&mut self, found: &[(AbsPath, &'static str)]) -> NewSpecialFiles {
        let mut named = Vec::new();
        let mut unnamed = 0_usize;
        for (path, description) in found {
            if self.names.contains(path) {
                continue;
            }
            if self.names.len() < NAMES_MAX {
                self.names.insert(path.clone());
                named.push((path.clone(), (*description).to_owned()));
            } else {
                unnamed = unnamed.saturating_add(1);
            }
        }
        let more = unnamed.saturating_sub(self.unnamed);
        self.unnamed = unnamed;
        NewSpecialFiles { named, more }
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
        let mut check = |count: usize, named: usize, more: usize| {
            let new = reported.report_new(&pipes(count));
            assert_eq!((new.named.len(), new.more), (named, more), "{count}");
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
