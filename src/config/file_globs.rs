//! Globs for files of the user, relative to a write path.

use globset::{Glob, GlobBuilder, GlobMatcher};

use crate::path::RelPath;
use crate::permissions::path_rules::{folded_matcher, split_literal};
use crate::permissions::protected::fold_name;

/// Globs such as `tests/**`; `*` does not match `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileGlobs(Vec<Glob>);

impl FileGlobs {
    /// Adds a glob.
    ///
    /// # Errors
    /// `text` is not a glob; the string says why.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let glob = GlobBuilder::new(text).literal_separator(true).build();
        self.0.push(glob.map_err(|error| error.kind().to_string())?);
        Ok(())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the literal names with which the globs start, where there are some.
    pub fn literal_beginnings(&self) -> Vec<RelPath> {
        let globs = self.0.iter().map(Glob::glob);
        globs
            .filter_map(|glob| split_literal(glob).map(|(literal, _)| literal))
            .collect()
    }

    /// Returns the function that says whether one of them matches a path, in any spelling that some
    /// file system treats as the same.
    pub fn matcher(&self) -> impl Fn(&RelPath) -> bool {
        let globs = self.0.iter().map(Glob::glob);
        // Each is a glob.
        let matchers = globs.filter_map(|glob| folded_matcher(glob).ok().flatten());
        let matchers: Vec<GlobMatcher> = matchers.collect();
        move |path| {
            let names: Vec<_> = path.names().map(fold_name).collect();
            let path = names.join("/");
            matchers.iter().any(|matcher| matcher.is_match(&path))
        }
    }
}
