//! Puts the agents' version of a file back into the layer of a delivery. The layer is removed once
//! all of it was delivered; with its file, the hunks that were not applied can be offered again.

use std::os::fd::AsFd as _;

use rustix::fs::Mode;

use crate::delivery::path_state::{PathState, RegularFileState};
use crate::error::Result;
use crate::path::RelPath;
use crate::world::delivery::delivery_dir::delivery_error;
use crate::world::delivery::journal::DeliveryStep;
use crate::world::delivery::store::{OpenDelivery, SourceDirectory, SourceLayout};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::upper_layer::{make_parents_over, mark_copied_up};

/// Puts `text` into its layer over `tree` as the agents' version of the file that `step` changes,
/// unless the layer has the file. A directory outside of `delivery` is no layer, and stays as it
/// is.
pub(super) fn restore_layer_file(
    delivery: &OpenDelivery,
    tree: &DirectoryHandle,
    step: &DeliveryStep,
    text: &str,
) -> Result<()> {
    // Without the source, nothing can be offered in any case.
    let (Ok(source), PathState::File(state)) = (delivery.read_source(), &step.ours) else {
        return Ok(());
    };
    let SourceDirectory { path, layout, .. } = delivery.source_location(&source, step.root);
    if layout != SourceLayout::OverlayLayer || !path.is_within(delivery.dir()) {
        return Ok(());
    }
    dir::create_all(&path, DirectoryAudience::User)?;
    let write_error = |error| delivery_error("write", &path.join(step.rel.as_path()), error);
    let layer = DirectoryHandle::open_own(&path).map_err(write_error)?;
    match layer.meta(&step.rel) {
        Err(FileSystemError::Missing) => {
            make_parents_over(tree, &layer, &step.rel).map_err(write_error)?;
            write_file(&layer, &step.rel, text, state).map_err(write_error)
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn write_file(
    layer: &DirectoryHandle,
    rel: &RelPath,
    text: &str,
    state: &RegularFileState,
) -> std::result::Result<(), FileSystemError> {
    let (parent, name) = layer.make_parent_of(rel)?;
    let mut staged_file = StagedFile::new_private(&parent)?;
    staged_file.write(text.as_bytes())?;
    // If the user removes the file, it is not created again.
    mark_copied_up(staged_file.as_fd())?;
    let plain_bits = Mode::RWXU | Mode::RWXG | Mode::RWXO;
    staged_file.set_mode(Mode::from_raw_mode(state.mode) & plain_bits)?;
    // The step that the journal gets next relies on the file, also after a crash of the machine.
    staged_file
        .place_at(name, ReplacePolicy::Nothing, PlacementDurability::Synced)
        .map(drop)
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "tests look at the disk themselves"
    )]

    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::path::AbsPath;
    use crate::world::sys::upper_layer::{
        UpperEntry, is_copied_up, read_upper_entry, supports_marks,
    };

    #[test]
    fn a_file_of_the_layer_has_its_mark_and_its_bits_even_if_it_is_read_only() {
        let disk = tempfile::tempdir().unwrap();
        let at = disk.path().canonicalize().unwrap();
        let layer = DirectoryHandle::open_own(&AbsPath::new(&at).unwrap()).unwrap();
        for (name, mode) in [
            ("dir/writable", 0o644),
            ("dir/read-only", 0o444),
            ("setuid", 0o4755),
        ] {
            let rel = RelPath::new(name).unwrap();
            let state = RegularFileState {
                inode: None,
                size_bytes: 2,
                modified_ns: 0,
                mode,
            };
            write_file(&layer, &rel, "a\n", &state).unwrap();
            let meta = fs::metadata(at.join(name)).unwrap();
            assert_eq!(meta.permissions().mode() & 0o7777, mode & 0o777, "{name}");
            assert_eq!(fs::read_to_string(at.join(name)).unwrap(), "a\n");
            assert_eq!(is_copied_up(&layer, &rel), supports_marks(&layer), "{name}");
        }
        let again = RelPath::new("setuid").unwrap();
        let state = RegularFileState {
            inode: None,
            size_bytes: 2,
            modified_ns: 0,
            mode: 0o644,
        };
        assert!(write_file(&layer, &again, "b\n", &state).is_err());
        assert_eq!(fs::read_to_string(at.join("setuid")).unwrap(), "a\n");
    }

    #[test]
    fn directories_of_the_layer_are_those_of_the_tree_below() {
        let disk = tempfile::tempdir().unwrap();
        let at = disk.path().canonicalize().unwrap();
        let open_dir = |name: &str| {
            let path = AbsPath::new(at.join(name)).unwrap();
            DirectoryHandle::open_own(&path).unwrap()
        };
        for (name, mode) in [("upper", 0o700), ("tree", 0o755), ("tree/dir", 0o750)] {
            fs::create_dir(at.join(name)).unwrap();
            fs::set_permissions(at.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let (tree, upper) = (open_dir("tree"), open_dir("upper"));
        make_parents_over(&tree, &upper, &RelPath::new("dir/new/file").unwrap()).unwrap();
        let entry = |name: &str| read_upper_entry(&upper, &RelPath::new(name).unwrap()).unwrap();
        assert!(matches!(entry("dir/new"), UpperEntry::NewDirectory(_)));
        if supports_marks(&upper) {
            assert!(matches!(entry("dir"), UpperEntry::MergedDirectory(_)));
            let meta = fs::metadata(at.join("upper/dir")).unwrap();
            assert_eq!(meta.permissions().mode() & 0o7777, 0o750);
        }
    }
}
