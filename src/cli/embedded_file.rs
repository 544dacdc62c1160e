//! Files of the source tree that are part of the executable, compressed: the build script
//! compresses them.

use std::io::Read as _;

use flate2::read::GzDecoder;

use crate::error::{Error, Result};

/// A file that is compressed with gzip (RFC 1952).
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmbeddedFile {
    /// The compressed content.
    pub compressed: &'static [u8],
}

impl EmbeddedFile {
    /// Returns the content.
    ///
    /// # Errors
    /// The executable is damaged.
    pub(crate) fn content(&self) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        GzDecoder::new(self.compressed)
            .read_to_end(&mut content)
            .map_err(|error| Error::bug("cannot decompress an embedded file").with_source(error))?;
        Ok(content)
    }

    /// Returns the content of a text.
    ///
    /// # Errors
    /// The executable is damaged.
    pub(crate) fn text(&self) -> Result<String> {
        String::from_utf8(self.content()?)
            .map_err(|error| Error::bug("an embedded file is not UTF-8").with_source(error))
    }
}

/// Embeds a file by its path below `src`.
macro_rules! embedded_file {
    ($($path:tt)*) => {
        $crate::cli::embedded_file::EmbeddedFile {
            compressed: include_bytes!(concat!(env!("OUT_DIR"), "/src/", $($path)*, ".gz")),
        }
    };
}
pub(crate) use embedded_file;
