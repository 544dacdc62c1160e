//! Files of an agent's container where nothing of this machine can be mounted: on another machine.
//! Before a command runs, the files that its policy lets it read are sent there, as far as they
//! changed since the last time. Afterwards its changes are fetched. They are untrusted: each one is
//! checked before it is written here.

pub(in crate::world::sandbox) mod transfer_error;
pub(in crate::world::sandbox) mod transfer_limit;
pub(in crate::world::sandbox) mod helper_command;
pub(in crate::world::sandbox) mod remote_container;
mod local_trees;
mod local_view;
mod outgoing;
mod listing;
mod incoming;
mod reported_files;
mod apply;
pub(in crate::world::sandbox) mod movable_trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Read};
use std::iter::successors;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::grant::{GrantScope, Permission};
use crate::permissions::history::FileFingerprint;
use crate::sandbox_policy::limits::ResourceLimits;
use crate::text::{escape_name, join_with_commas};
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::container_user::ContainerUser;
use crate::world::sandbox::disk_watch::{DiskStatus, DiskWatch};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::sent_files::apply::{apply_changes, missing_paths};
use crate::world::sandbox::sent_files::helper_command::HelperCommand;
use crate::world::sandbox::sent_files::incoming::{IncomingFiles, SpoolError};
use crate::world::sandbox::sent_files::listing::{RemoteListing, is_large};
use crate::world::sandbox::sent_files::local_view::read_view;
use crate::world::sandbox::sent_files::outgoing::{EntryOwners, pack};
use crate::world::sandbox::sent_files::remote_container::{EntryOwnership, RemoteContainer};
use crate::world::sandbox::sent_files::reported_files::ReportedFiles;
use crate::world::sandbox::sent_files::transfer_error::TransferError;
use crate::world::sandbox::sent_files::transfer_limit::TransferLimit;
use crate::world::sys::spool::SpoolFile;

/// How long fetching continues after an interrupt: the changes of most interrupted commands are
/// few.
const INTERRUPTED_FETCH_TIME_MAX: Duration = Duration::from_secs(3);
/// Timeout for removing files in a container.
const REMOVAL_TIME_MAX: Duration = Duration::from_mins(2);
/// Number of paths that one command removes or packs.
const COMMAND_PATHS_MAX: usize = 200;
/// The most changed files that are fetched one by one; above it, everything is fetched.
const PACKED_FILES_MAX: usize = 2000;
/// The longest answer about whether paths exist, in bytes.
const PRESENCE_BYTES_MAX: u64 = 64 * 1024;
/// The largest listing that is read, in bytes.
const LISTING_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The most refused changes that are named.
const REFUSED_NAMED_MAX: usize = 10;

/// One name in a tree, as it is in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RemoteEntry {
    /// A directory with these permission bits.
    Directory { bits: u32 },
    /// A file with the SHA-256 of its content.
    File { digest: [u8; 32], bits: u32 },
    /// A symlink.
    Link { target: PathBuf },
    /// A change that was refused here; it is removed in the container before the next command.
    Refused,
    /// Its transfer or removal was interrupted, so its state there is unknown. It is removed there
    /// and sent again before the next command, and never fetched.
    Unsent,
}

/// One name that was sent to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentEntry {
    remote_entry: RemoteEntry,
    /// Whether commands may change it.
    permission: Permission,
    /// The version of the local file that it is a copy of.
    local_version: Option<FileFingerprint>,
}

/// All names that were sent, by path.
type SentEntries = BTreeMap<AbsPath, SentEntry>;

/// What is in a container on another machine.
#[derive(Debug)]
pub(in crate::world::sandbox) struct SentFiles {
    /// Directory for temporary files with what is fetched.
    spool_dir: AbsPath,
    /// The limits of commands, which also hold for what they change here.
    limits: ResourceLimits,
    /// `None` if no transfer was ever completed, so that no command has run yet: then everything is
    /// removed there first.
    entries: Option<SentEntries>,
    /// Whether the writable trees are so large that they are listed before they are fetched.
    is_large: bool,
    /// Whether processes there must be killed first: a removal that was not awaited, or a command
    /// whose connection was lost, may still run, and could remove or change what is sent next.
    needs_sweep: bool,
    /// The listing at the last time that changes were fetched.
    listing: Option<RemoteListing>,
    reported: ReportedFiles,
    /// The writable trees in which everything belongs to the user of commands.
    user_owned_trees: BTreeSet<AbsPath>,
    /// Notes that are added to the result of the next command.
    notes: Vec<String>,
}

/// The free space that a disk here needs for the fetched files.
#[derive(Clone, Copy, Debug, Default)]
struct IncomingRoom {
    bytes: u64,
    names: u64,
}

impl SentFiles {
    /// Creates the state of a container that nothing was sent to, for commands with these limits.
    /// What is fetched is first kept in a temporary file in `spool_dir`.
    pub(in crate::world::sandbox) fn new(spool_dir: &AbsPath, limits: ResourceLimits) -> Self {
        Self {
            spool_dir: spool_dir.clone(),
            limits,
            entries: None,
            is_large: false,
            needs_sweep: false,
            listing: None,
            reported: ReportedFiles::default(),
            user_owned_trees: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    /// Returns whether the first transfer was begun and never completed. Nothing that is in the
    /// container is known then, and more may still arrive there.
    pub(in crate::world::sandbox) fn is_abandoned(&self) -> bool {
        self.entries.is_none() && self.needs_sweep
    }

    /// Adds notes to the result of the next command.
    pub(in crate::world::sandbox) fn add_notes(&mut self, notes: Vec<String>) {
        self.notes.extend(notes);
    }

    /// Forgets what was sent, because there is a new container.
    pub(in crate::world::sandbox) fn forget(&mut self) {
        *self = Self::new(&self.spool_dir, self.limits);
    }

    /// Sends the files that commands may read, as far as they changed since the last time, and
    /// removes there what they may no longer read. Blocks; an interrupt ends it.
    pub(in crate::world::sandbox) fn send(
        &mut self,
        remote: &dyn RemoteContainer,
        reachable: &ReachablePaths,
        interrupt: Option<&CommandInterrupt>,
    ) -> std::result::Result<(), TransferError> {
        let limit = TransferLimit::new(interrupt, Duration::ZERO);
        let owners = EntryOwners::in_container(remote, reachable);
        if let Some(trees) = owners.user_owned_trees() {
            self.change_owners(trees);
        }
        let no_entries = SentEntries::new();
        let earlier = self.entries.as_ref().unwrap_or(&no_entries);
        let view = read_view(reachable, earlier)?;
        let plan = SendPlan::compare(earlier, &view);
        // Root might kill a command, so it removes files only before any command runs.
        let first_owners = self.entries.is_none().then(|| remote.first_owners());
        let users: Vec<ContainerUser> = owners
            .removers()
            .into_iter()
            .chain(first_owners.into_iter().flatten())
            .collect();
        self.needs_sweep |= remote.take_lost_commands();
        if self.needs_sweep {
            for user in &users {
                limit.check()?;
                remote.sweep(*user)?;
            }
        }
        self.needs_sweep = true;
        if self.entries.is_none() {
            let roots: Vec<&AbsPath> = reachable
                .open
                .iter()
                .map(|open_path| &open_path.path)
                .collect();
            remove_remote_paths(remote, &roots, &users, &limit)?;
        }
        if let Err(error) = transfer(remote, reachable, &view, &plan, &owners, &limit) {
            let affected = plan.affected_paths(&view);
            if let Some(entries) = self.entries.as_mut() {
                mark_unsent(entries, &affected);
            }
            return Err(error);
        }
        let sizes = view.values().filter_map(|entry| entry.local_version);
        let bytes = sizes
            .map(|version| version.size_bytes)
            .fold(0, u64::saturating_add);
        self.is_large |= is_large(view.len(), bytes);
        self.entries = Some(view);
        self.needs_sweep = false;
        Ok(())
    }

    /// Has everything sent again where other users must own files than before.
    fn change_owners(&mut self, trees: &BTreeSet<AbsPath>) {
        let reowned_trees = self
            .user_owned_trees
            .symmetric_difference(trees)
            .cloned()
            .collect();
        let affected = AffectedPaths {
            removed_paths: reowned_trees,
            added_paths: Vec::new(),
        };
        if let Some(entries) = self.entries.as_mut() {
            mark_unsent(entries, &affected);
        }
        self.user_owned_trees.clone_from(trees);
    }

    /// Fetches the changes of commands in writable paths, and writes them here as far as the rules
    /// allow it. Returns the notes about the commands, also about refused changes. Blocks until a
    /// few seconds after an interrupt: then nothing is written here, and the next call fetches
    /// everything.
    pub(in crate::world::sandbox) fn fetch(
        &mut self,
        remote: &dyn RemoteContainer,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> std::result::Result<Vec<String>, TransferError> {
        let limit = TransferLimit::new(Some(interrupt), INTERRUPTED_FETCH_TIME_MAX);
        let source = FetchSource {
            remote,
            limit: &limit,
            spool_dir: &self.spool_dir,
            limits: &self.limits,
        };
        let Some(entries) = self.entries.as_mut() else {
            let message = "the command has ended, but what it changed cannot be fetched: its container \
                           was replaced meanwhile";
            return Err(Error::new(ErrorKind::Environment, message).into());
        };
        let roots = writable_roots(reachable, entries);
        let no_files = IncomingRoom::default();
        source.expect_room(reachable, &roots, no_files)?;
        let listing = if self.is_large {
            source.list_remote_paths(&roots)?
        } else {
            None
        };
        let listed_incoming = match (&listing, &self.listing) {
            (Some(listing), Some(earlier)) => {
                source.fetch_listed(&roots, entries, earlier, listing)?
            }
            (Some(_) | None, _) => None,
        };
        let incoming = match listed_incoming {
            Some(incoming) => incoming,
            None => source.fetch_all(&roots, entries)?,
        };
        source.expect_gone(&missing_paths(&roots, entries, &incoming))?;
        let room = IncomingRoom {
            bytes: incoming.new_bytes(entries),
            names: incoming.new_names(entries),
        };
        source.expect_room(reachable, &roots, room)?;
        self.is_large =
            incoming.is_large() || listing.as_ref().is_some_and(RemoteListing::is_large);
        let mut refusals = apply_changes(reachable, &roots, entries, &incoming);
        // What was not written here is fetched again, even if it does not change there.
        self.listing = listing.filter(|_| refusals.is_empty());
        let new_special_files = self.reported.report_new(incoming.special_files());
        refusals.extend(new_special_files.named_files);
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(refusal_note(&refusals, new_special_files.unnamed_count));
        Ok(notes)
    }
}

/// Removes and sends what is planned.
fn transfer(
    remote: &dyn RemoteContainer,
    reachable: &ReachablePaths,
    view: &SentEntries,
    plan: &SendPlan<'_>,
    owners: &EntryOwners,
    limit: &TransferLimit<'_>,
) -> std::result::Result<(), TransferError> {
    remove_remote_paths(remote, &plan.removed_paths, &owners.removers(), limit)?;
    for user in owners.unpackers() {
        let is_unpacked = |path: &AbsPath| {
            let entry = view.get(path);
            entry.is_some_and(|entry| owners.is_unpacked_by(user, path, entry.permission))
        };
        let added_paths: Vec<&AbsPath> = plan
            .added_paths
            .iter()
            .copied()
            .filter(|path| is_unpacked(path))
            .collect();
        if !added_paths.is_empty() {
            let mut write =
                |archive: &mut dyn io::Write| pack(archive, reachable, view, &added_paths, owners);
            remote.unpack(user, &mut write, limit)?;
        }
        let bits = owners.granted_bits(user, reachable, view);
        let is_sent = |path: &AbsPath| added_paths.contains(&path);
        if !bits.is_empty()
            && reachable
                .open
                .iter()
                .any(|open_path| is_sent(&open_path.path))
        {
            let set_result = remote.run(
                HelperCommand::set_bits(user, &bits),
                REMOVAL_TIME_MAX,
                limit,
            )?;
            if set_result != ExitReason::Exited(0) {
                let message = "the permissions of directories cannot be set in the container";
                return Err(Error::new(ErrorKind::Environment, message).into());
            }
        }
    }
    Ok(())
}

/// Removes files in the container. Each user removes its own files; afterwards only empty
/// directories may be left.
fn remove_remote_paths(
    remote: &dyn RemoteContainer,
    paths: &[&AbsPath],
    users: &[ContainerUser],
    limit: &TransferLimit<'_>,
) -> std::result::Result<(), TransferError> {
    for paths in paths.chunks(COMMAND_PATHS_MAX) {
        let mut is_removed = true;
        limit.check()?;
        for user in users {
            is_removed = remove_as(remote, *user, paths, limit)?;
        }
        if !is_removed {
            let message = "earlier files cannot be removed in the container";
            let error = Error::new(ErrorKind::Environment, message);
            return Err(error.with_hint("the image needs `rm` and `ls`").into());
        }
    }
    Ok(())
}

/// Removes files in the container as one user. Returns whether only empty directories are left.
fn remove_as(
    remote: &dyn RemoteContainer,
    user: ContainerUser,
    paths: &[&AbsPath],
    limit: &TransferLimit<'_>,
) -> std::result::Result<bool, TransferError> {
    let names = paths.iter().map(|path| path_argument(path));
    let removal = HelperCommand::remove(user, names);
    let exit_reason = remote.run(removal, REMOVAL_TIME_MAX, limit)?;
    Ok(exit_reason == ExitReason::Exited(0))
}

/// What is fetched from a container, and where it is kept first.
struct FetchSource<'f> {
    remote: &'f dyn RemoteContainer,
    limit: &'f TransferLimit<'f>,
    spool_dir: &'f AbsPath,
    limits: &'f ResourceLimits,
}

impl FetchSource<'_> {
    /// Fetches everything below `roots`.
    fn fetch_all(
        &self,
        roots: &[AbsPath],
        sent_entries: &SentEntries,
    ) -> std::result::Result<IncomingFiles, TransferError> {
        let mut incoming = self.new_incoming()?;
        for root in roots {
            let mut download = self.remote.read_archive(root, self.limit)?;
            let read_result = incoming.read(root, &mut download, sent_entries);
            if let Some(error) = download.take_error() {
                return Err(error);
            }
            read_result.map_err(|error| refused_archive(root, &error))?;
            self.restore_bits(root, &mut incoming, sent_entries);
        }
        Ok(incoming)
    }

    /// Refuses what was received if a path that is not in it may still exist there: an engine
    /// leaves out what it cannot pack, and ends an archive early if a file changes meanwhile.
    fn expect_gone(&self, paths: &[&AbsPath]) -> std::result::Result<(), TransferError> {
        let user = self.remote.user();
        for paths in paths.chunks(COMMAND_PATHS_MAX) {
            let names = paths.iter().map(|path| path_argument(path));
            let presence = HelperCommand::check_presence(user, names);
            let mut output = Vec::new();
            let mut download = self.remote.read(presence, self.limit)?;
            let mut answer = download.by_ref().take(PRESENCE_BYTES_MAX);
            let read_result = answer.read_to_end(&mut output);
            if let Some(error) = download.take_error() {
                return Err(error);
            }
            read_result
                .map_err(|error| Error::io("cannot read from the container engine", error))?;
            check_gone(paths, &output).map_err(TransferError::RejectedData)?;
        }
        Ok(())
    }

    /// Lists everything below `roots` in the container; `None` if the image lacks the programs, or
    /// a name cannot be listed.
    fn list_remote_paths(
        &self,
        roots: &[AbsPath],
    ) -> std::result::Result<Option<RemoteListing>, TransferError> {
        let user = self.remote.user();
        let paths = roots.iter().map(ToString::to_string);
        let listing = HelperCommand::list(user, paths);
        let mut output = Vec::new();
        let mut download = self.remote.read(listing, self.limit)?;
        let read_result = download
            .by_ref()
            .take(LISTING_BYTES_MAX)
            .read_to_end(&mut output);
        self.limit.check()?;
        if read_result.is_err()
            || u64::try_from(output.len()).is_ok_and(|size| size == LISTING_BYTES_MAX)
        {
            return Ok(None);
        }
        let exit_reason = download.exit_reason()?;
        let listing = RemoteListing::parse(&output, roots);
        Ok(listing.filter(|_| exit_reason == ExitReason::Exited(0)))
    }

    /// Fetches what changed between two listings; `None` if there are too many changes, or they
    /// cannot be packed there: then everything is fetched.
    fn fetch_listed(
        &self,
        roots: &[AbsPath],
        sent_entries: &SentEntries,
        earlier: &RemoteListing,
        listing: &RemoteListing,
    ) -> std::result::Result<Option<IncomingFiles>, TransferError> {
        let mut incoming = self.new_incoming()?;
        let changed_paths = incoming.add_listed(listing, earlier, sent_entries);
        let is_text = |path: &&AbsPath| path.as_path().to_str().is_some();
        if changed_paths.len() > PACKED_FILES_MAX || !changed_paths.iter().all(is_text) {
            return Ok(None);
        }
        for root in roots {
            let parent = root.parent().unwrap_or_else(AbsPath::root);
            let paths_below = changed_paths.iter().filter(|path| path.is_within(root));
            let names: Vec<_> = paths_below.filter_map(|path| path.below(&parent)).collect();
            for names in names.chunks(COMMAND_PATHS_MAX) {
                let names = names.iter().map(ToString::to_string);
                let user = self.remote.user();
                let packing = HelperCommand::pack(user, parent.to_string(), names);
                let mut download = self.remote.read(packing, self.limit)?;
                let read_result = incoming.read(root, &mut download, sent_entries);
                if let Some(error) = download.take_error() {
                    return Err(error);
                }
                read_result.map_err(|error| refused_archive(root, &error))?;
            }
            self.restore_bits(root, &mut incoming, sent_entries);
        }
        let has_all = changed_paths
            .iter()
            .all(|path| incoming.entries().contains_key(*path));
        Ok(has_all.then_some(incoming))
    }

    /// Gives a file that is granted by itself the permission bits that it has here, if it was sent
    /// with others.
    fn restore_bits(
        &self,
        root: &AbsPath,
        incoming: &mut IncomingFiles,
        sent_entries: &SentEntries,
    ) {
        if self.remote.ownership() == EntryOwnership::ByTree
            && let Some(RemoteEntry::File { bits, .. }) = sent_entries
                .get(root)
                .map(|sent_entry| &sent_entry.remote_entry)
        {
            incoming.set_bits(root, *bits);
        }
    }

    fn new_incoming(&self) -> std::result::Result<IncomingFiles, TransferError> {
        let spool = SpoolFile::new_in(self.spool_dir)
            .map_err(|error| Error::io("cannot create a temporary file", error))?;
        let disk = DiskWatch::new(vec![self.spool_dir.clone()], self.limits);
        Ok(IncomingFiles::new(spool, disk))
    }

    /// Refuses to fetch if the disks here have too little room below `roots`.
    fn expect_room(
        &self,
        reachable: &ReachablePaths,
        roots: &[AbsPath],
        needed: IncomingRoom,
    ) -> std::result::Result<(), TransferError> {
        let written_paths = roots
            .iter()
            .map(|root| reachable.copies.get(root).unwrap_or(root).clone());
        let watched = written_paths.chain([self.spool_dir.clone()]).collect();
        let disks = DiskWatch::new(watched, self.limits);
        match disks.with_planned(needed.bytes, needed.names).check() {
            DiskStatus::Free(_) => Ok(()),
            DiskStatus::Full(shortage) => Err(no_room_error(&shortage.to_string()).into()),
        }
    }
}

/// Returns the error for files that were not sent or fetched.
pub(in crate::world::sandbox) fn transfer_failure(
    remote: &dyn RemoteContainer,
    failure: &str,
    error: TransferError,
) -> Error {
    match error {
        TransferError::LocalFiles(error) => error,
        TransferError::Interrupted => {
            let message = format!(
                "{failure}: it was interrupted; what was not transferred is transferred with the \
                 next command, and what is only in the container is lost when the run ends"
            );
            Error::new(ErrorKind::Environment, message)
        }
        TransferError::ContainerGone(reason) | TransferError::RemoteRefusal(reason) => Error::new(
            ErrorKind::Environment,
            format!("{failure}: {}", with_machine(remote, reason)),
        ),
        TransferError::RemoteFailure(reason) => {
            let loss_reason = remote.loss_reason();
            let reason = loss_reason.unwrap_or_else(|| with_machine(remote, reason));
            Error::new(ErrorKind::Environment, format!("{failure}: {reason}"))
        }
        TransferError::RejectedData(error) => match remote.loss_reason() {
            Some(reason) => Error::new(ErrorKind::Environment, format!("{failure}: {reason}")),
            None => error,
        },
    }
}

/// Returns a reason with the container's machine, if it is another one.
fn with_machine(remote: &dyn RemoteContainer, reason: String) -> String {
    match remote.machine() {
        Some(machine) => format!("on `{machine}`: {reason}"),
        None => reason,
    }
}

/// Returns the error for a machine without room for the changes.
fn no_room_error(reason: &str) -> Error {
    let message = format!(
        "the command has ended, but nothing that it changed was fetched: on this machine, \
         {reason}; it stays in its container, and the next command fetches it"
    );
    Error::new(ErrorKind::Environment, message)
        .with_hint("free some space here, then run another command, such as `true`")
}

fn refused_archive(root: &AbsPath, error: &io::Error) -> TransferError {
    if let Some(SpoolError(reason)) = error
        .get_ref()
        .and_then(|source| source.downcast_ref::<SpoolError>())
    {
        return no_room_error(reason).into();
    }
    let message = format!("what the engine sent of `{root}` is refused: {error}");
    TransferError::RejectedData(Error::new(ErrorKind::Environment, message))
}

/// Returns a path in the format of the scripts that remove and look for files: with `\0OOO` for a
/// byte if it is not UTF-8 or contains a backslash.
fn path_argument(path: &AbsPath) -> String {
    let path = path.as_path().as_os_str();
    if let Some(text) = path.to_str().filter(|text| !text.contains('\\')) {
        return text.to_owned();
    }
    let mut text = String::new();
    for byte in path.as_bytes() {
        if byte.is_ascii_graphic() && *byte != b'\\' {
            text.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            write!(text, "\\0{byte:03o}").unwrap_or_default();
        }
    }
    text
}

/// Checks that nothing exists at `paths`, by a line of `output` about each of them.
fn check_gone(paths: &[&AbsPath], output: &[u8]) -> Result<()> {
    let mut lines = output.split(|byte| *byte == b'\n');
    for path in paths {
        let state = match lines.next() {
            Some(b"gone") => continue,
            Some(b"there") => "still exists there",
            Some(_) | None => "may still exist there",
        };
        let message = format!(
            "the command has ended, but nothing that it changed was fetched: `{}` is not in what the \
             engine sent, and {state}",
            escape_name(&path.to_string())
        );
        return Err(Error::new(ErrorKind::Environment, message)
            .with_hint("run another command, such as `true`: then all changes are fetched again"));
    }
    Ok(())
}

/// Returns the trees and files that commands may write to, without those inside others.
fn writable_roots(reachable: &ReachablePaths, sent_entries: &SentEntries) -> Vec<AbsPath> {
    let writable = || {
        let open = reachable.open.iter();
        open.filter(|open_path| open_path.permission == Permission::Write)
    };
    let is_inside_another = |path: &AbsPath| {
        let mut trees = writable().filter(|open_path| open_path.scope == GrantScope::Tree);
        trees.any(|open_path| open_path.path != *path && path.is_within(&open_path.path))
    };
    let is_sent = |path: &AbsPath| {
        let entry = sent_entries.get(path);
        entry.is_some_and(|entry| entry.remote_entry != RemoteEntry::Unsent)
    };
    let roots = writable().map(|open_path| &open_path.path);
    roots
        .filter(|path| !is_inside_another(path) && is_sent(path))
        .cloned()
        .collect()
}

/// Returns a note that names refused changes, if there are any; there were `unnamed_count` more.
fn refusal_note(refusals: &[(AbsPath, String)], unnamed_count: usize) -> Option<String> {
    if refusals.is_empty() && unnamed_count == 0 {
        return None;
    }
    let descriptions: Vec<String> = refusals
        .iter()
        .take(REFUSED_NAMED_MAX)
        .map(|(path, reason)| format!("`{}` ({reason})", escape_name(&path.to_string())))
        .collect();
    let more = refusals
        .len()
        .saturating_sub(descriptions.len())
        .saturating_add(unnamed_count);
    let list = join_with_commas(&descriptions);
    let paths = match (list.is_empty(), more) {
        (false, 0) => list,
        (false, more) => format!("{list} and {more} more"),
        (true, more) => format!("{more} more pipes, sockets or devices"),
    };
    Some(format!("not fetched from the container's machine: {paths}"))
}

/// What must be removed and sent.
#[derive(Debug, PartialEq, Eq)]
struct SendPlan<'a> {
    /// The topmost paths to remove.
    removed_paths: Vec<&'a AbsPath>,
    /// The paths to send, directories before what is in them.
    added_paths: Vec<&'a AbsPath>,
}

impl<'a> SendPlan<'a> {
    fn compare(earlier: &'a SentEntries, view: &'a SentEntries) -> Self {
        let mut removed_paths: Vec<&AbsPath> = Vec::new();
        for (path, sent_entry) in earlier {
            let is_kept = view
                .get(path)
                .is_some_and(|entry| entry.remote_entry.has_kind_of(&sent_entry.remote_entry));
            // Parents come before what is in them.
            if !is_kept
                && !removed_paths
                    .last()
                    .is_some_and(|last| path.is_within(last))
            {
                removed_paths.push(path);
            }
        }
        let is_removed = |path: &AbsPath| {
            let next = removed_paths.partition_point(|top| *top <= path);
            let last = next.checked_sub(1).and_then(|last| removed_paths.get(last));
            last.is_some_and(|top| path.is_within(top))
        };
        let is_there = |path: &AbsPath, entry: &SentEntry| {
            let sent_entry = earlier.get(path);
            sent_entry.is_some_and(|sent_entry| {
                sent_entry.remote_entry == entry.remote_entry
                    && sent_entry.permission == entry.permission
            })
        };
        let added_paths = view
            .iter()
            .filter(|(path, entry)| !is_there(path, entry) || is_removed(path));
        Self {
            added_paths: added_paths.map(|(path, _)| path).collect(),
            removed_paths,
        }
    }

    /// Returns the paths at which anything may be after an interrupted transfer: also below the
    /// first ones, which are removed. A directory that is only sent loses nothing of what is in it.
    fn affected_paths(&self, view: &SentEntries) -> AffectedPaths {
        let is_directory = |path: &AbsPath| {
            let entry = view.get(path).map(|entry| &entry.remote_entry);
            matches!(entry, Some(RemoteEntry::Directory { .. }))
        };
        let owned = |path: &&AbsPath| AbsPath::clone(path);
        let added_paths = self.added_paths.iter().filter(|path| !is_directory(path));
        AffectedPaths {
            removed_paths: self.removed_paths.iter().map(owned).collect(),
            added_paths: added_paths.map(owned).collect(),
        }
    }
}

/// The paths that an interrupted transfer may have changed.
#[derive(Debug)]
struct AffectedPaths {
    removed_paths: BTreeSet<AbsPath>,
    added_paths: Vec<AbsPath>,
}

/// Records an interrupted transfer. What else is there stays known, so that changes of commands
/// there are not lost.
fn mark_unsent(entries: &mut SentEntries, affected: &AffectedPaths) {
    let removed_paths = &affected.removed_paths;
    entries.retain(|path, _| !is_within_any(path, removed_paths));
    for path in removed_paths.iter().chain(&affected.added_paths) {
        let entry = SentEntry {
            remote_entry: RemoteEntry::Unsent,
            permission: Permission::Write,
            local_version: None,
        };
        entries.insert(path.clone(), entry);
    }
}

/// Returns whether a path or a directory above it is one of `tops`.
fn is_within_any(path: &AbsPath, tops: &BTreeSet<AbsPath>) -> bool {
    !tops.is_empty()
        && successors(Some(path.clone()), AbsPath::parent).any(|above| tops.contains(&above))
}

impl RemoteEntry {
    /// Returns whether both are directories, files or symlinks.
    fn has_kind_of(&self, other: &Self) -> bool {
        match self {
            RemoteEntry::Directory { .. } => matches!(other, RemoteEntry::Directory { .. }),
            RemoteEntry::File { .. } => matches!(other, RemoteEntry::File { .. }),
            RemoteEntry::Link { .. } => matches!(other, RemoteEntry::Link { .. }),
            RemoteEntry::Refused | RemoteEntry::Unsent => false,
        }
    }
}

#[cfg(test)]
mod tests;
