//! Globs that select the names of a tree that a call is about. They match text in linear time and
//! never resolve paths.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::path::RelPath;
use crate::tools::call::FileSelection;
use crate::world::exec::tool_result::ToolError;

/// Compiled globs. `*` crosses `/`.
#[derive(Debug)]
pub(super) struct CompiledGlobs(GlobSet);

impl CompiledGlobs {
    /// Compiles `patterns`.
    pub(super) fn new(patterns: &[String]) -> Result<Self, ToolError> {
        let mut builder = GlobSetBuilder::new();
        for pattern in patterns {
            builder.add(compile_glob(pattern)?);
        }
        let set = builder
            .build()
            .map_err(|error| ToolError::failed(error.to_string()));
        Ok(Self(set?))
    }

    /// Returns whether one of them matches the path below the tree's root, or its last component.
    pub(super) fn match_name(&self, rel: &RelPath) -> bool {
        let by_name = || rel.name().is_some_and(|name| self.0.is_match(name));
        self.0.is_match(rel.as_path()) || by_name()
    }
}

/// A compiled [`FileSelection`].
#[derive(Debug)]
pub(super) struct CompiledSelection {
    include: CompiledGlobs,
    exclude: CompiledGlobs,
}

impl CompiledSelection {
    /// Compiles `selection`.
    pub(super) fn new(selection: &FileSelection) -> Result<Self, ToolError> {
        Ok(Self {
            include: CompiledGlobs::new(&selection.include)?,
            exclude: CompiledGlobs::new(&selection.exclude)?,
        })
    }

    /// Returns whether the file, given relative to the tree's root, is selected.
    pub(super) fn matches(&self, rel: &RelPath) -> bool {
        self.include.0.is_match(rel.as_path()) && !self.exclude.0.is_match(rel.as_path())
    }
}

fn compile_glob(pattern: &str) -> Result<Glob, ToolError> {
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    glob.map_err(|error| ToolError::failed(error.to_string()))
}
