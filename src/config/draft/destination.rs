//! Where a new config may be written: below the directory in which massgen was started, under a
//! name that massgen reads as a config and that means nothing to other programs.

use crate::config::diagnostic::quote;
use crate::config::lookup::FOUND_CONFIG;
use crate::error::{Error, ErrorKind, Result};
use crate::path::RelPath;
use crate::permissions::protected::protected_name;
use crate::text::escape_name;

/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 1024;
/// The extensions of new configs.
const EXTENSIONS: [&str; 2] = ["yaml", "yml"];

/// The file of a new config, relative to the directory in which massgen was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigDestination(RelPath);

impl ConfigDestination {
    /// Parses the text of a path, without accessing the disk.
    ///
    /// # Errors
    /// It leads out of the directory, is hidden or protected, or is not the name of a YAML file.
    pub fn parse(text: &str) -> Result<Self> {
        let refusal = |message: String| Error::new(ErrorKind::Denied, message);
        let name = quote(text);
        // The name is printed in commands, so a reader must see every character.
        let has_hidden_characters = || escape_name(text) != text;
        if text.is_empty() || text.len() > PATH_BYTES_MAX || has_hidden_characters() {
            let message = format!("{name} cannot be the name of a config");
            return Err(
                Error::new(ErrorKind::Usage, message).with_hint("write a name such as `team.yaml`")
            );
        }
        let path = RelPath::new(text).filter(|_| !text.starts_with('~'));
        let Some(path) = path.filter(|path| !path.is_root()) else {
            return Err(refusal(format!("{name} is outside this directory"))
                .with_hint("write a path below it, without `..`"));
        };
        let extension = path.as_path().extension();
        let is_yaml =
            extension.is_some_and(|extension| EXTENSIONS.iter().any(|yaml| extension == *yaml));
        if !is_yaml || text.ends_with('/') {
            let message = format!("{name} does not end in `.yaml` or `.yml`");
            return Err(
                Error::new(ErrorKind::Usage, message).with_hint("write a name such as `team.yaml`")
            );
        }
        let destination = Self(path);
        if destination.is_found_config() {
            return Ok(destination);
        }
        if let Some(protected) = protected_name(&destination.0, &[]) {
            return Err(
                refusal(format!("`{protected}` in {name} is protected")).with_hint(format!(
                    "write `{FOUND_CONFIG}`, or a name that is not hidden"
                )),
            );
        }
        let is_hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
        if destination.0.names().any(is_hidden) {
            return Err(refusal(format!("{name} is hidden")).with_hint(format!(
                "write `{FOUND_CONFIG}`, or a name that is not hidden"
            )));
        }
        Ok(destination)
    }

    /// Returns whether runs use the config without `--config`. They trust it less than one that is
    /// named.
    pub fn is_found_config(&self) -> bool {
        RelPath::new(FOUND_CONFIG).is_some_and(|path| path == self.0)
    }

    /// Returns the path.
    pub fn path(&self) -> &RelPath {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_are_written_below_the_directory_under_visible_names() {
        for (typed, expected) in [
            ("team.yaml", None),
            ("team.yml", None),
            ("configs/fast team.yaml", None),
            ("./team.yaml", None),
            (".massgen/config.yaml", None),
            ("", Some("cannot be the name")),
            ("a\nb.yaml", Some("cannot be the name")),
            ("a\0.yaml", Some("cannot be the name")),
            ("a\u{202e}lmay.yaml", Some("cannot be the name")),
            ("café.yaml", None),
            ("/etc/team.yaml", Some("outside this directory")),
            ("../team.yaml", Some("outside this directory")),
            ("a/../../team.yaml", Some("outside this directory")),
            ("a/../team.yaml", Some("outside this directory")),
            ("~/team.yaml", Some("outside this directory")),
            (".", Some("outside this directory")),
            ("team", Some("does not end")),
            ("team.json", Some("does not end")),
            ("team.yaml/", Some("does not end")),
            (".yaml", Some("does not end")),
            (".team.yaml", Some("is hidden")),
            (".config/team.yaml", Some("is hidden")),
            (".massgen/other.yaml", Some("is protected")),
            (".massgen/sessions/config.yaml", Some("is protected")),
            (".git/config.yaml", Some("is protected")),
            (".GIT/config.yaml", Some("is protected")),
            (".github/hooks/a.yaml", Some("is protected")),
            ("node_modules/a.yaml", Some("is protected")),
        ] {
            match (ConfigDestination::parse(typed), expected) {
                (Ok(_), None) => {}
                (Err(error), Some(expected)) => {
                    assert!(error.to_string().contains(expected), "{typed}: {error}");
                    assert!(!error.hints().is_empty(), "{typed}");
                }
                (found, _) => panic!("{typed}: {found:?}"),
            }
        }
    }
}
