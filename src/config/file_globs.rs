//! Globs for files of the user, relative to a write path.

use globset::{Glob, GlobBuilder, GlobMatcher};

use crate::path::RelPath;

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
        let literal = |glob: &Glob| {
            let names = glob.glob().split('/');
            let literal: Vec<&str> = names
                .take_while(|name| !name.contains(['*', '?', '[', '{', '\\']))
                .collect();
            RelPath::new(literal.join("/")).filter(|literal| !literal.is_root())
        };
        self.0.iter().filter_map(literal).collect()
    }

    /// Returns the function that says whether one of them matches a path.
    pub fn matcher(&self) -> impl Fn(&RelPath) -> bool {
        let matchers: Vec<GlobMatcher> = self.0.iter().map(Glob::compile_matcher).collect();
        move |path| {
            let mut matchers = matchers.iter();
            matchers.any(|matcher| matcher.is_match(path.as_path()))
        }
    }
}
