//! Reads the Rust files of the repository, for tests of the source's structure.

use std::fs;
use std::path::PathBuf;

/// With fewer files, the test has looked in the wrong place.
pub(crate) const FILES_MIN: usize = 30;

/// A Rust file of the repository.
pub(crate) struct Source {
    /// Path relative to the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// Returns the module of `lib.rs` that contains the file: `world` for `src/world/sys/dir.rs`.
    pub(crate) fn module(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src").ok()?;
        let first = below.iter().next()?.to_str()?;
        Some(first.strip_suffix(".rs").unwrap_or(first))
            .filter(|name| !matches!(*name, "lib" | "main"))
    }

    pub(crate) fn is_test(&self) -> bool {
        let below_tests = self.path.iter().any(|name| name == "tests");
        below_tests || self.path.file_name().is_some_and(|name| name == "tests.rs")
    }

    /// Returns the lines before the file's own tests, without comments, each with its number.
    pub(crate) fn code(&self) -> Vec<(usize, String)> {
        let mut lines = Vec::new();
        for (index, line) in self.text.lines().enumerate() {
            if line.trim_start().starts_with("#[cfg(test)]") && ends_in_tests(&self.text, index) {
                break;
            }
            let line = line.split("//").next().unwrap_or_default();
            lines.push((index + 1, line.to_owned()));
        }
        lines
    }
}

/// Returns whether the line after `index` opens the file's test module.
fn ends_in_tests(text: &str, index: usize) -> bool {
    let next = text.lines().nth(index + 1).unwrap_or_default();
    next.trim_start().starts_with("mod tests")
}

pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn sources_below(folder: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut folders = vec![repository().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(repository()).unwrap().to_owned();
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

pub(crate) fn sources() -> Vec<Source> {
    let sources = sources_below("src");
    assert!(
        sources.len() >= FILES_MIN,
        "only {} files in src",
        sources.len()
    );
    sources
}

#[track_caller]
pub(crate) fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}
