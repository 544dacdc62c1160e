//! How much of the disk the changes on an overlay may take. The kernel limits no directory, so they
//! are measured.

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::text::count_noun;
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::overlay::tree::open_error;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::file_system_features::file_system_space;
use crate::world::sys::tree_listing::{EntrySelection, ListedEntry, TreeListing};
use crate::world::sys::upper_layer::make_readable;

/// The share of the free space that all attempts of a run may take, as its denominator.
const FREE_DENOMINATOR: u64 = 2;
/// The unit in which sizes are shown.
const MEBIBYTE: u64 = 1024 * 1024;

/// An amount of disk space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DiskSpace {
    bytes: u64,
    files: u64,
}

/// How much a layer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerQuota {
    share: DiskSpace,
    /// What was free when the layer began.
    free: DiskSpace,
}

impl LayerQuota {
    /// Returns the share of one of `layers` layers in the space that is free on the disk of
    /// `directory`.
    ///
    /// # Errors
    /// The free space cannot be read.
    pub fn share_of(directory: &AbsPath, layers: u64) -> Result<Self> {
        let free = DiskSpace::free_on(directory)?;
        let share = |free: u64| free / FREE_DENOMINATOR / layers.max(1);
        Ok(Self {
            share: DiskSpace {
                bytes: share(free.bytes),
                files: share(free.files),
            },
            free,
        })
    }
}

impl DiskSpace {
    /// Returns what is free on the disk of `directory`.
    fn free_on(directory: &AbsPath) -> Result<Self> {
        let space = file_system_space(directory)
            .map_err(|error| Error::io("cannot read how much disk space is free", error))?;
        Ok(Self {
            bytes: space.free_bytes,
            files: space.files.map_or(u64::MAX, |files| files.free),
        })
    }

    /// Adds what is in the layer `upper`.
    fn add(&mut self, upper: &DirectoryHandle) -> std::result::Result<(), FileSystemError> {
        let mut first_error = None;
        let listing = TreeListing::list(upper, &mut |entry: &ListedEntry| {
            if entry.kind == FileKind::Directory {
                // If this fails, the directory is listed as unreadable.
                let _opened = make_readable(upper, &entry.rel);
            }
            match upper.meta(&entry.rel) {
                Ok(meta) => self.bytes = self.bytes.saturating_add(meta.allocated_bytes),
                // A command that still runs has removed it.
                Err(FileSystemError::Missing) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
            self.files = self.files.saturating_add(1);
            EntrySelection::Deep
        });
        let limit = listing.reached_limit.map(FileSystemError::Limit);
        let unreadable = listing.unreadable.into_iter().map(|(_, error)| error);
        let mut unreadable = unreadable.filter(|error| *error != FileSystemError::Missing);
        match limit.or(first_error).or_else(|| unreadable.next()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn describe(self) -> String {
        let files = usize::try_from(self.files).unwrap_or(usize::MAX);
        format!(
            "{} MiB in {}",
            self.bytes.div_ceil(MEBIBYTE),
            count_noun(files, "file")
        )
    }
}

impl WriteOverlay {
    /// Like [`Self::excess`], but measures only if the disk has lost as much since the layer began: after
    /// each command, that would take longer with each file that is there.
    ///
    /// # Errors
    /// The changes, or the disk, cannot be measured.
    pub fn excess_after_command(&self) -> Result<Option<String>> {
        let Some(quota) = self.0.quota else {
            return Ok(None);
        };
        let free = DiskSpace::free_on(&self.0.directory)?;
        let lost_bytes = quota.free.bytes.saturating_sub(free.bytes);
        let lost_files = quota.free.files.saturating_sub(free.files);
        if lost_bytes <= quota.share.bytes && lost_files <= quota.share.files {
            return Ok(None);
        }
        self.excess()
    }

    /// Returns why the changes on it take more than their quota, if they do.
    ///
    /// # Errors
    /// They cannot be measured.
    pub fn excess(&self) -> Result<Option<String>> {
        let Some(quota) = self.0.quota else {
            return Ok(None);
        };
        let (share, mut used) = (quota.share, DiskSpace::default());
        for tree in &self.0.trees {
            let upper = DirectoryHandle::open_own(&tree.layer().upper);
            let measured = upper.and_then(|upper| used.add(&upper));
            measured.map_err(|error| open_error(&tree.root, error))?;
        }
        let is_within = used.bytes <= share.bytes && used.files <= share.files;
        Ok((!is_within).then(|| {
            format!(
                "the changes in the write paths take {}, and may take {}: what the answer does not \
                 need has to be removed",
                used.describe(),
                share.describe()
            )
        }))
    }
}
