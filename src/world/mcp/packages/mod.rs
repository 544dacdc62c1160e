//! Packages of servers that the user has installed, below the home directory: an index, and one
//! directory for each with its digest. A package whose files have changed since is refused.

pub mod install;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::config::server_package::{PackageRegistry, ServerPackage};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::files::read_own;
use crate::world::sys::state_files::dir::{self, DirLock, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::tree_digest::{TreeDigest, digest};
use crate::world::sys::state_files::{clear, file, file_error, json_file};

/// Path of the packages below the user's home directory.
const STORE_PATH: &str = ".massgen/mcp/servers";
/// Name of the index among them.
const INDEX_FILE: &str = "installed.json";
/// Largest index, in bytes.
const INDEX_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The beginning of a script.
const SHEBANG: &[u8] = b"#!";
/// Number of digits of the digest in the name of a directory.
const NAME_DIGITS: usize = 12;

/// The packages that the user has installed.
#[derive(Clone, Debug)]
pub struct PackageStore(AbsPath);

/// One installed package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledPackage {
    /// Its registry.
    pub registry: PackageRegistry,
    /// The packages as the config names them.
    pub packages: Vec<String>,
    /// The name of the first one in its registry.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its archive, as the registry states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integrity: Option<String>,
    /// The program that runs if the command names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The name of its directory.
    pub directory: String,
    /// The digest of everything in its directory.
    pub sha256: String,
    /// The number of its files.
    pub files: usize,
    /// Their size, in bytes.
    pub bytes: u64,
}

impl InstalledPackage {
    /// Returns what distinguishes it from other packages, like [`ServerPackage::key`].
    pub fn key(&self) -> String {
        format!("{} {}", self.registry, self.packages.join(" "))
    }
}

/// The program of an installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The directory that it is read from.
    pub directory: AbsPath,
}

impl PackageStore {
    /// Returns the packages of the user with this home directory.
    pub fn in_home(home: &AbsPath) -> Self {
        Self(home.join(STORE_PATH))
    }

    /// Returns the directory of the packages.
    pub fn path(&self) -> &AbsPath {
        &self.0
    }

    /// Returns the keys of all packages; none if the index cannot be read, which is an error where
    /// a package is used.
    pub fn keys(&self) -> BTreeSet<String> {
        let packages = self.list().unwrap_or_default();
        packages.iter().map(InstalledPackage::key).collect()
    }

    /// Returns all packages.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn list(&self) -> Result<Vec<InstalledPackage>> {
        let index = self.0.join(INDEX_FILE);
        let Some(bytes) = read_own(&index, INDEX_BYTES_MAX)? else {
            return Ok(Vec::new());
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("`{index}` is not a valid list of packages");
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("move it away, and install the packages again")
        })
    }

    /// Returns the package if it is installed and its files are unchanged.
    ///
    /// # Errors
    /// The index cannot be read, or the files have changed.
    pub fn find(&self, package: &ServerPackage) -> Result<Option<InstalledPackage>> {
        let packages = self.list()?;
        let Some(installed) = packages
            .into_iter()
            .find(|installed| installed.key() == package.key())
        else {
            return Ok(None);
        };
        let directory = self.0.join(&installed.directory);
        let current_digest = digest(&directory)
            .map_err(|error| changed_error(&installed, &directory).with_source(error))?;
        if current_digest.sha256 != installed.sha256 {
            return Err(changed_error(&installed, &directory));
        }
        Ok(Some(installed))
    }

    /// Returns how to start the program of `package`; `None` if it is not installed.
    ///
    /// # Errors
    /// See [`PackageStore::find`]; or the package has no such program.
    pub fn program(&self, package: &ServerPackage) -> Result<Option<InstalledProgram>> {
        let Some(installed) = self.find(package)? else {
            return Ok(None);
        };
        // A sandbox opens a directory only by its path without symlinks.
        let root = dir::resolve(&self.0)?.to_abs();
        let directory = root.join(&installed.directory);
        let name = package.program.as_ref().or(installed.program.as_ref());
        let command_words = name.and_then(|name| program_words(&installed, &directory, name));
        let mut command =
            command_words.ok_or_else(|| no_program_error(&installed, name, &directory))?;
        command.extend(package.arguments.iter().cloned());
        Ok(Some(InstalledProgram { command, directory }))
    }

    /// Removes the packages that `requested` names: as a config does, or by name. Returns the
    /// removed ones.
    ///
    /// # Errors
    /// The index or a package cannot be changed.
    pub fn remove(&self, requested: &str) -> Result<Vec<InstalledPackage>> {
        let _lock = self.lock()?;
        let is_requested = |package: &InstalledPackage| {
            package.name == requested || package.packages.join(" ") == requested
        };
        let (removed, remaining): (Vec<_>, Vec<_>) =
            self.list()?.into_iter().partition(is_requested);
        self.write(&remaining)?;
        for package in &removed {
            self.remove_directory(package, &remaining)?;
        }
        Ok(removed)
    }

    /// Adds what is in `staging` as a package, and replaces an older one with the same key.
    fn add(
        &self,
        staging: StagingDirectory,
        installed: InstalledPackage,
    ) -> Result<InstalledPackage> {
        let _lock = self.lock()?;
        let staging_path = staging.path().clone();
        let read_error = |error| file_error("read", staging_path.as_path(), error);
        let TreeDigest {
            sha256,
            files,
            bytes,
        } = digest(&staging_path).map_err(read_error)?;
        let digits: String = sha256.chars().take(NAME_DIGITS).collect();
        let file_name_char = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '+'
            }
        };
        let name = installed.name.trim_start_matches('@');
        let name: String = name.chars().map(file_name_char).collect();
        let version: String = installed.version.chars().map(file_name_char).collect();
        let added = InstalledPackage {
            directory: format!("{}-{name}-{version}-{digits}", installed.registry),
            sha256,
            files,
            bytes,
            ..installed
        };
        let (replaced, mut packages): (Vec<_>, Vec<_>) = self
            .list()?
            .into_iter()
            .partition(|package| package.key() == added.key());
        let directory = self.0.join(&added.directory);
        clear::remove(&directory)?;
        staging.publish(&directory)?;
        packages.push(added.clone());
        packages.sort_by_key(InstalledPackage::key);
        self.write(&packages)?;
        for package in &replaced {
            self.remove_directory(package, &packages)?;
        }
        Ok(added)
    }

    /// Removes the directory of a package unless one of `others` uses it, too.
    fn remove_directory(
        &self,
        package: &InstalledPackage,
        others: &[InstalledPackage],
    ) -> Result<()> {
        let is_used = others
            .iter()
            .any(|other| other.directory == package.directory);
        // The name comes from a file that may have been changed: nothing else is removed.
        let is_name = !package.directory.contains('/') && !package.directory.starts_with('.');
        if is_used || !is_name {
            return Ok(());
        }
        clear::remove(&self.0.join(&package.directory))
    }

    fn write(&self, packages: &[InstalledPackage]) -> Result<()> {
        json_file::replace(&self.0.join(INDEX_FILE), packages)
    }

    /// Locks the packages for changes until the guard is dropped.
    fn lock(&self) -> Result<Option<DirLock>> {
        dir::create_all(&self.0, DirectoryAudience::User)?;
        dir::lock(&self.0)
    }
}

/// Returns the words that start the program `name` of a package; `None` if it has none.
fn program_words(
    installed: &InstalledPackage,
    directory: &AbsPath,
    name: &str,
) -> Option<Vec<String>> {
    let below = match installed.registry {
        PackageRegistry::Npm => "node_modules/.bin",
        PackageRegistry::Python => "bin",
    };
    let program = directory.join(below).join(name);
    // One that cannot be looked at fails when it is started.
    if matches!(file::exists(&program), Ok(false)) {
        return None;
    }
    // The first line of a Python script names the interpreter at its path before the directory was
    // moved.
    let is_script = file::begins_with(&program, SHEBANG).is_ok_and(|begins| begins == Some(true));
    let is_python = installed.registry == PackageRegistry::Python && is_script;
    let interpreter = is_python.then(|| directory.join("bin/python").to_string());
    Some(
        interpreter
            .into_iter()
            .chain([program.to_string()])
            .collect(),
    )
}

fn changed_error(installed: &InstalledPackage, directory: &AbsPath) -> Error {
    let message = format!(
        "the files of the package `{}` {} have changed since it was installed: `{directory}`",
        installed.name, installed.version
    );
    Error::new(ErrorKind::Environment, message).with_hint("`massgen mcp install` installs it again")
}

fn no_program_error(
    installed: &InstalledPackage,
    name: Option<&String>,
    directory: &AbsPath,
) -> Error {
    let missing_program = name.map_or("single program".to_owned(), |name| {
        format!("program `{name}`")
    });
    let message = format!(
        "the package `{}` {} has no {missing_program}",
        installed.name, installed.version
    );
    Error::new(ErrorKind::Environment, message).with_hint(format!("see `{directory}`"))
}
