//! The file of `--output-file`, to which the answer of a run is written. It is not written through a
//! symlink of a project that leads elsewhere than its name says: the project may have come with that
//! symlink, or an agent may have delivered it.

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::files::{expect_output_file, write_output_file};
use crate::world::io::project_link::{UserLocation, describe_detour};

/// Directory of the devices and of the streams of the process. No project is in it.
const DEVICES: &str = "/dev";

/// Where an answer is written.
#[derive(Debug)]
pub struct AnswerFile {
    path: AbsPath,
    base: AbsPath,
    home: Option<AbsPath>,
}

impl AnswerFile {
    /// Checks `path` before money is spent on the answer. Nothing is written.
    ///
    /// # Errors
    /// It cannot be written, or a symlink of a project leads it elsewhere.
    pub fn new(path: AbsPath, location: UserLocation<'_>) -> Result<Self> {
        let file = Self {
            path,
            base: location.base.clone(),
            home: location.home.cloned(),
        };
        file.reject_detour()?;
        expect_output_file(&file.path)?;
        Ok(file)
    }

    /// Writes `answer` atomically. An existing file is replaced.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn write(&self, answer: &str) -> Result<()> {
        self.reject_detour()?;
        write_output_file(&self.path, answer)
    }

    fn reject_detour(&self) -> Result<()> {
        if self.path.as_path().starts_with(DEVICES) {
            return Ok(());
        }
        let location = UserLocation {
            base: &self.base,
            home: self.home.as_ref(),
        };
        match describe_detour(&self.path, location)? {
            None => Ok(()),
            Some(detour) => Err(Error::new(ErrorKind::Denied, detour)
                .with_hint("if the answer is to be written there, name that path")),
        }
    }
}
