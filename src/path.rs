//! The three kinds of path: as written and made absolute ([`AbsPath`]), resolved by the kernel
//! ([`RealPath`]), and relative to a root ([`RelPath`]). Nothing here accesses the disk.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::iter;
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An absolute path without `.`, `..` or doubled slashes, normalized lexically. It guarantees
/// neither that anything exists there nor that it is free of symlinks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbsPath(PathBuf);

impl AbsPath {
    /// Resolves `path`, which is relative to `base` unless it is absolute. `..` is removed
    /// lexically, and never leads above `/`.
    pub fn resolve(base: &AbsPath, path: impl AsRef<Path>) -> Self {
        let mut out = base.0.clone();
        out.push(path);
        Self(normalize(&out))
    }

    /// Accepts an absolute path; `None` for a relative one.
    pub fn new(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        path.is_absolute().then(|| Self(normalize(path)))
    }

    /// Returns the path `/`.
    pub fn root() -> Self {
        Self(PathBuf::from("/"))
    }

    /// Returns this path with `rel` appended.
    #[must_use]
    pub fn join(&self, rel: impl AsRef<Path>) -> Self {
        Self::resolve(self, rel)
    }

    /// Returns the parent directory; `None` for `/`.
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(|parent| Self(parent.to_owned()))
    }

    /// Returns the last component, with other bytes than UTF-8 replaced; empty for `/`.
    pub fn name_lossy(&self) -> String {
        let name = self.0.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns the path relative to `root`, lexically; `None` if this is neither `root` nor inside
    /// it.
    pub fn below(&self, root: &AbsPath) -> Option<RelPath> {
        let rel = self.0.strip_prefix(&root.0).ok()?;
        Some(RelPath(rel.to_owned()))
    }

    /// Returns whether this is `root` or inside it, lexically.
    pub fn is_within(&self, root: &AbsPath) -> bool {
        self.0.starts_with(&root.0)
    }

    /// Returns the path for the standard library.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// Characters that are percent-encoded when a path is written as text; bytes outside ASCII always
/// are.
const PERCENT_ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// Paths as text in which `%` and everything but plain ASCII is percent-encoded, so that every name
/// survives.
pub mod as_text {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use percent_encoding::{percent_decode_str, percent_encode};
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::path::PERCENT_ENCODED;

    /// Serializes `path`.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = path.as_os_str().as_bytes();
        serializer.collect_str(&percent_encode(bytes, PERCENT_ENCODED))
    }

    /// Deserializes the output of [`serialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Vec<u8> = percent_decode_str(&text).collect();
        Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
    }
}

impl Serialize for AbsPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_text::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for AbsPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = as_text::deserialize(deserializer)?;
        let absolute_path = AbsPath::new(&path);
        absolute_path.ok_or_else(|| {
            D::Error::custom(format!("`{}` is not an absolute path", path.display()))
        })
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_text::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = as_text::deserialize(deserializer)?;
        let rel_path = RelPath::new(&path);
        rel_path.ok_or_else(|| D::Error::custom(format!("`{}` leads out", path.display())))
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// A path as the kernel resolved it: absolute, without symlinks, `.` or `..` at the time of
/// resolution. Decisions are made about it. It may name something that does not exist yet, in a
/// directory that does. It guarantees nothing about later: to act on it, code opens it again
/// beneath a grant's handle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RealPath(PathBuf);

impl RealPath {
    /// Creates a path without any check. Only `world::sys`, which asks the kernel, and tests may
    /// call it; `.clippy.toml` forbids it elsewhere.
    pub fn vouch(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the path relative to `root`; `None` if this is neither `root` nor inside it.
    pub fn below(&self, root: &RealPath) -> Option<RelPath> {
        if !self.begins_like(root) {
            return None;
        }
        let rel = self.0.strip_prefix(&root.0).ok()?;
        Some(RelPath(rel.to_owned()))
    }

    /// Returns whether this is `root` or inside it.
    pub fn is_within(&self, root: &RealPath) -> bool {
        self.begins_like(root) && self.0.starts_with(&root.0)
    }

    /// Returns whether the path begins with the bytes of `root`, as every real path inside it does.
    /// This avoids most comparisons of components, which are slower.
    fn begins_like(&self, root: &RealPath) -> bool {
        let (path, root) = (self.0.as_os_str(), root.0.as_os_str());
        path.as_encoded_bytes().starts_with(root.as_encoded_bytes())
    }

    /// Returns the real path of `rel` in this directory. `rel` consists of plain names, so
    /// appending it crosses no symlink, but what it names may itself be a symlink.
    #[must_use]
    pub fn join(&self, rel: &RelPath) -> Self {
        if rel.0.as_os_str().is_empty() {
            self.clone()
        } else {
            Self(self.0.join(&rel.0))
        }
    }

    /// Returns the number of components of the path; a deeper grant takes precedence over a
    /// shallower one.
    pub fn depth(&self) -> usize {
        self.0.components().count()
    }

    /// Returns the parent directory; `None` for `/`.
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(|parent| Self(parent.to_owned()))
    }

    /// Returns the last component; `None` for `/`.
    pub fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// Returns the path for the standard library.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Returns the same path as an [`AbsPath`], which guarantees less.
    pub fn to_abs(&self) -> AbsPath {
        AbsPath(self.0.clone())
    }
}

impl fmt::Display for RealPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Serialize for RealPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for RealPath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RealPath".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// A path of plain names relative to some root: never absolute, never with `.` or `..`. Empty means
/// the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(PathBuf);

impl RelPath {
    /// Creates a path if `path` consists of plain names (`.` is dropped); `None` for an absolute
    /// path or one with `..`.
    pub fn new(path: impl AsRef<Path>) -> Option<Self> {
        let mut out = PathBuf::new();
        for component in path.as_ref().components() {
            match component {
                Component::Normal(name) => out.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        Some(Self(out))
    }

    /// Returns this path with one more name; `None` if `name` is not a single plain name.
    pub fn child(&self, name: &OsStr) -> Option<Self> {
        let mut components = Path::new(name).components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(plain)), None) if plain == name => {
                Some(Self(self.0.join(name)))
            }
            _ => None,
        }
    }

    /// Returns this path with `rel` appended.
    #[must_use]
    pub fn join(&self, rel: &RelPath) -> Self {
        if rel.is_root() {
            self.clone()
        } else {
            Self(self.0.join(&rel.0))
        }
    }

    /// Returns the names, from the root down.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.0.iter()
    }

    /// Returns whether this is `ancestor` or inside it.
    pub fn is_within(&self, ancestor: &RelPath) -> bool {
        self.0.starts_with(&ancestor.0)
    }

    /// Returns whether it names the root itself.
    pub fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// Returns the parent directory; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            None
        } else {
            self.0.parent().map(|parent| Self(parent.to_owned()))
        }
    }

    /// Returns the last name; `None` for the root.
    pub fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// Returns the path for the standard library; empty for the root.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            f.write_str(".")
        } else {
            self.0.display().fmt(f)
        }
    }
}

/// Returns the parts of `text` that may be paths: the whole, what follows a `=`, what is between the
/// characters that separate paths in lists, assignments and code, and what follows the letters of an
/// option or a variable, as in `-I/usr/include`.
pub fn possible_paths(text: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| c.is_whitespace() || "=:;,'\"`()[]{}<>|&".contains(c);
    let value = text.split_once('=').map(|(_, value)| value);
    let parts = iter::once(text)
        .chain(value)
        .chain(text.split(is_separator));
    let parts = parts.filter(|part| !part.is_empty());
    parts.flat_map(|part| {
        let absolute_part = part.find('/').and_then(|start| part.get(start..));
        [Some(part), absolute_part].into_iter().flatten()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[track_caller]
    fn check(path: &[u8], text: &str) {
        let path = AbsPath::new(OsStr::from_bytes(path)).unwrap();
        let written = serde_json::to_string(&path).unwrap();
        assert_eq!(written, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<AbsPath>(&written).unwrap(), path);
    }

    #[test]
    fn absolute_paths_survive_as_text() {
        check(b"/a/b c", "/a/b c");
        check(b"/100%/\xff\n", "/100%25/%FF%0A");
        check("/\u{e4}".as_bytes(), "/%C3%A4");
        assert!(serde_json::from_str::<AbsPath>("\"a\"").is_err());
    }
}
