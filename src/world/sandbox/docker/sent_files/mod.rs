//! Files of an agent's container on another machine, where nothing of this machine can be mounted.
//! Before a command runs, the files that its policy lets it read are sent there, as far as they
//! changed since the last time. Afterwards its changes are fetched. They are untrusted: each one is
//! checked before it is written here.

mod local_trees;
mod local_view;
mod transfer_limit;
mod outgoing;
mod listing;
mod incoming;
mod reported_files;
mod apply;
mod movable_trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Read};
use std::iter::successors;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::errors::Error as EngineError;

use crate::config::docker::{ContainerNetwork, DockerConfig, RootAccess};
use crate::config::engine_host::SshEngineHost;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::grant::{GrantScope, Permission};
use crate::permissions::history::FileFingerprint;
use crate::text::{escape_name, join_with_commas};
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::container_user::ContainerUser;
use crate::world::sandbox::disk_watch::{DiskStatus, DiskWatch};
use crate::world::sandbox::docker::client::{command_error, is_missing};
use crate::world::sandbox::docker::command::{ContainerCommand, ContainerExec, exit_status};
use crate::world::sandbox::docker::instance::REMOVED;
use crate::world::sandbox::docker::replaceable_container::{ContainerGuard, ReplaceableContainer};
use crate::world::sandbox::docker::sent_files::apply::{apply_changes, missing_paths};
use crate::world::sandbox::docker::sent_files::incoming::{
    EngineDownload, IncomingFiles, SpoolError,
};
use crate::world::sandbox::docker::sent_files::listing::{RemoteListing, is_large};
use crate::world::sandbox::docker::sent_files::local_view::read_view;
use crate::world::sandbox::docker::sent_files::outgoing::{EntryOwners, pack, upload};
use crate::world::sandbox::docker::sent_files::reported_files::ReportedFiles;
use crate::world::sandbox::docker::sent_files::transfer_limit::TransferLimit;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sys::spool::SpoolFile;

/// How long fetching continues after an interrupt: the changes of most interrupted commands are few.
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
    Unknown,
    /// Its transfer or removal was interrupted, so its state there is unknown. It is removed there
    /// and sent again before the next command, and never fetched.
    Unsent,
}

/// One name that was sent to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentEntry {
    what: RemoteEntry,
    /// Whether commands may change it.
    permission: Permission,
    /// The version of the local file that it is a copy of.
    local: Option<FileFingerprint>,
}

/// All names that were sent, by path.
type SentEntries = BTreeMap<AbsPath, SentEntry>;

/// What is in a container on another machine.
#[derive(Debug, Default)]
pub(super) struct SentFiles {
    /// `None` if no transfer was ever completed, so that no command has run yet: then everything is
    /// removed there first.
    entries: Option<SentEntries>,
    /// Whether the writable trees are so large that they are listed before they are fetched.
    is_large: bool,
    /// Whether a removal that was not awaited, or a command whose connection was lost, may still run
    /// there. It could remove or change what is sent next, so it is killed first.
    is_removing: bool,
    /// The listing at the last time that changes were fetched.
    listing: Option<RemoteListing>,
    reported: ReportedFiles,
}

/// The free space that a disk here needs for the fetched files.
#[derive(Clone, Copy, Debug, Default)]
struct IncomingRoom {
    bytes: u64,
    names: u64,
}

/// Why files were not sent or fetched.
#[derive(Debug)]
enum TransferFault {
    /// The engine refused, or the connection was lost.
    Engine(EngineError),
    /// A local file cannot be read or written, or everything that was received is refused.
    Files(Error),
    /// The command that it belongs to was interrupted.
    Interrupted,
}

impl From<EngineError> for TransferFault {
    fn from(error: EngineError) -> Self {
        TransferFault::Engine(error)
    }
}

impl From<Error> for TransferFault {
    fn from(error: Error) -> Self {
        TransferFault::Files(error)
    }
}

fn lock_sent(sent: &Mutex<SentFiles>) -> MutexGuard<'_, SentFiles> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses what an engine on another machine cannot provide without weakening a rule.
pub(super) fn expect_available_over_ssh(config: &DockerConfig, host: &SshEngineHost) -> Result<()> {
    let credentials = &config.credentials;
    let refused = if config.root == RootAccess::BySudo {
        (
            "`command_line_docker_enable_sudo`",
            "root could change the copies of read-only files",
        )
    } else if config.network == ContainerNetwork::Host {
        (
            "`command_line_docker_network_mode: host`",
            "it would be the network of that machine, with its local services",
        )
    } else if !credentials.mount.is_empty() || !credentials.additional_mounts.is_empty() {
        (
            "a file in `command_line_docker_credentials`",
            "files with secrets are mounted and never sent; variables are passed (`env_vars`)",
        )
    } else {
        return Ok(());
    };
    let (what, why) = refused;
    let message = format!("{what} is not available with an engine on `{host}`: {why}");
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("remove it, or use an engine on this machine"))
}

impl ReplaceableContainer {
    /// Replaces a container that was removed from outside, and forgets what was sent to it.
    pub(super) fn recreate_unsent(&self, sent: &Mutex<SentFiles>) -> Result<()> {
        let recreated = self.recreate();
        *lock_sent(sent) = SentFiles::default();
        recreated
    }

    /// Sends the files that commands may read, as far as they changed since the last time, and
    /// removes there what they may no longer read. Blocks; an interrupt ends it.
    pub(super) fn send_files(
        &self,
        sent: &Mutex<SentFiles>,
        reachable: &ReachablePaths,
        interrupt: Option<&CommandInterrupt>,
    ) -> Result<()> {
        self.engine.ensure_connected()?;
        let mut known = lock_sent(sent);
        let guard = self.lock();
        let limit = TransferLimit::new(interrupt, Duration::ZERO);
        let Err(fault) = self.send_changes(&guard, reachable, &mut known, &limit) else {
            return Ok(());
        };
        drop(known);
        if let TransferFault::Engine(error) = &fault
            && is_missing(error)
            && guard.is_open()
        {
            drop(guard);
            self.recreate_unsent(sent)?;
            return Err(
                Error::new(ErrorKind::Environment, REMOVED).with_hint("run the command again")
            );
        }
        Err(self.transfer_error("the files cannot be sent", fault))
    }

    fn send_changes(
        &self,
        guard: &ContainerGuard<'_>,
        reachable: &ReachablePaths,
        sent: &mut SentFiles,
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<(), TransferFault> {
        let nothing = SentEntries::new();
        let earlier = sent.entries.as_ref().unwrap_or(&nothing);
        let view = read_view(reachable, earlier)?;
        let owners = EntryOwners::for_user(self.engine.client.container_user());
        let plan = SendPlan::compare(earlier, &view);
        // Root might kill a command, so it removes files only before any command runs.
        let root = sent.entries.is_none().then_some(ContainerUser::ROOT);
        let users = [owners.read, owners.write].into_iter().chain(root);
        let users: Vec<ContainerUser> = users.collect();
        sent.is_removing |= self.has_lost_commands.swap(false, Ordering::AcqRel);
        if sent.is_removing {
            for user in &users {
                limit.check()?;
                self.sweep_user(guard, *user)?;
            }
        }
        sent.is_removing = true;
        if sent.entries.is_none() {
            let roots: Vec<&AbsPath> = reachable.open.iter().map(|opening| &opening.path).collect();
            self.remove_there(guard, &roots, &users, limit)?;
        }
        if let Err(fault) = self.transfer(guard, reachable, &view, &plan, limit) {
            let affected = plan.affected_paths(&view);
            if let Some(entries) = sent.entries.as_mut() {
                mark_unsent(entries, &affected);
            }
            return Err(fault);
        }
        let sizes = view.values().filter_map(|entry| entry.local);
        let bytes = sizes
            .map(|version| version.size_bytes)
            .fold(0, u64::saturating_add);
        sent.is_large |= is_large(view.len(), bytes);
        sent.entries = Some(view);
        sent.is_removing = false;
        Ok(())
    }

    /// Removes and sends what is planned.
    fn transfer(
        &self,
        guard: &ContainerGuard<'_>,
        reachable: &ReachablePaths,
        view: &SentEntries,
        plan: &SendPlan<'_>,
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<(), TransferFault> {
        let owners = EntryOwners::for_user(self.engine.client.container_user());
        self.remove_there(guard, &plan.removed, &[owners.read, owners.write], limit)?;
        if plan.added.is_empty() {
            return Ok(());
        }
        upload(&self.engine, guard.id(), limit, &mut |archive| {
            pack(archive, reachable, view, &plan.added, owners)
        })
    }

    /// Removes files there. Each user removes its own files; afterwards only empty directories may
    /// be left.
    fn remove_there(
        &self,
        guard: &ContainerGuard<'_>,
        paths: &[&AbsPath],
        users: &[ContainerUser],
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<(), TransferFault> {
        for paths in paths.chunks(COMMAND_PATHS_MAX) {
            let mut is_removed = true;
            limit.check()?;
            for user in users {
                is_removed = self.remove_as(guard, *user, paths, limit)?;
            }
            if !is_removed {
                let message = "earlier files cannot be removed in the container";
                let error = Error::new(ErrorKind::Environment, message);
                return Err(error.with_hint("the image needs `rm` and `ls`").into());
            }
        }
        Ok(())
    }

    /// Removes files there as one user. Returns whether only empty directories are left.
    fn remove_as(
        &self,
        guard: &ContainerGuard<'_>,
        user: ContainerUser,
        paths: &[&AbsPath],
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<bool, TransferFault> {
        let names = paths.iter().map(|path| path_argument(path));
        let exec = self.start(guard, ContainerCommand::removal(user, names))?;
        let id = exec.id().to_owned();
        let drained = limit.watch(exec.drain_output(REMOVAL_TIME_MAX));
        self.engine.block_on(drained)?;
        Ok(self.helper_status(&id, limit)? == ExitReason::Exited(0))
    }

    /// Starts a command that changes nothing there, unless the transfer must end before.
    fn start_reading(
        &self,
        guard: &ContainerGuard<'_>,
        call: ContainerCommand,
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<ContainerExec, TransferFault> {
        let started = Box::pin(self.start_async(guard, call));
        let started = self.engine.block_on(limit.watch(started))?;
        Ok(started?)
    }

    /// Returns how a command that was started for a transfer has ended.
    fn helper_status(
        &self,
        exec: &str,
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<ExitReason, TransferFault> {
        let status = limit.watch(exit_status(&self.engine.client, exec));
        let status = self.engine.block_on(status)?;
        Ok(status?)
    }

    /// Fetches the changes of commands in writable paths, and writes them here as far as the rules
    /// allow it. Returns remarks about refused changes. Blocks until a few seconds after an
    /// interrupt: then nothing is written here, and the next call fetches everything. On this
    /// machine, where paths are mounted, nothing is fetched.
    pub(super) fn fetch_changes(
        &self,
        sent: &Mutex<SentFiles>,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> io::Result<Vec<String>> {
        if !self.engine.is_elsewhere() {
            return Ok(Vec::new());
        }
        let mut sent = lock_sent(sent);
        let guard = self.lock();
        let limit = TransferLimit::new(Some(interrupt), INTERRUPTED_FETCH_TIME_MAX);
        let fetched = self.fetch(&guard, reachable, &mut sent, &limit);
        drop(guard);
        fetched.map_err(|fault| {
            let what = "the command has ended, but what it changed cannot be fetched";
            io::Error::other(self.transfer_error(what, fault))
        })
    }

    fn fetch(
        &self,
        guard: &ContainerGuard<'_>,
        reachable: &ReachablePaths,
        sent: &mut SentFiles,
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<Vec<String>, TransferFault> {
        let Some(entries) = sent.entries.as_mut() else {
            let message = "the command has ended, but what it changed cannot be fetched: its container \
                           was replaced meanwhile";
            return Err(Error::new(ErrorKind::Environment, message).into());
        };
        let roots = written_roots(reachable, entries);
        let nothing = IncomingRoom::default();
        self.expect_room(reachable, &roots, nothing)?;
        let listing = if sent.is_large {
            self.list_there(guard, &roots, limit)?
        } else {
            None
        };
        let listed = match (&listing, &sent.listing) {
            (Some(now), Some(earlier)) => {
                self.fetch_listed(guard, &roots, entries, earlier, now, limit)?
            }
            (Some(_) | None, _) => None,
        };
        let incoming = match listed {
            Some(incoming) => incoming,
            None => self.fetch_all(guard, &roots, entries, limit)?,
        };
        self.expect_gone(guard, &missing_paths(&roots, entries, &incoming), limit)?;
        let room = IncomingRoom {
            bytes: incoming.new_bytes(entries),
            names: incoming.new_names(entries),
        };
        self.expect_room(reachable, &roots, room)?;
        sent.is_large =
            incoming.is_large() || listing.as_ref().is_some_and(RemoteListing::is_large);
        let mut refused = apply_changes(reachable, &roots, entries, &incoming);
        // What was not written here is fetched again, even if it does not change there.
        sent.listing = listing.filter(|_| refused.is_empty());
        let special = sent.reported.report_new(incoming.special_files());
        refused.extend(special.named);
        Ok(remarks(&refused, special.more))
    }

    /// Fetches everything below `roots`.
    fn fetch_all(
        &self,
        guard: &ContainerGuard<'_>,
        roots: &[AbsPath],
        sent: &SentEntries,
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<IncomingFiles, TransferFault> {
        let mut incoming = self.new_incoming()?;
        for root in roots {
            let mut download = EngineDownload::archive(&self.engine, guard.id(), root, limit);
            let read = incoming.read(root, &mut download, sent);
            if let Some(fault) = download.take_failure() {
                return Err(fault);
            }
            read.map_err(|error| refused_archive(root, &error))?;
        }
        Ok(incoming)
    }

    /// Refuses what was received if a path that is not in it may still exist there: an engine leaves out
    /// what it cannot pack, and ends an archive early if a file changes meanwhile.
    fn expect_gone(
        &self,
        guard: &ContainerGuard<'_>,
        paths: &[&AbsPath],
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<(), TransferFault> {
        let user = self.engine.client.container_user();
        for paths in paths.chunks(COMMAND_PATHS_MAX) {
            let names = paths.iter().map(|path| path_argument(path));
            let presence = ContainerCommand::presence(user, names);
            let exec = self.start_reading(guard, presence, limit)?;
            let mut output = Vec::new();
            let mut download = EngineDownload::output(&self.engine, exec, limit);
            let mut answer = download.by_ref().take(PRESENCE_BYTES_MAX);
            let read = answer.read_to_end(&mut output);
            if let Some(fault) = download.take_failure() {
                return Err(fault);
            }
            read.map_err(|error| Error::io("cannot read from the container engine", error))?;
            check_gone(paths, &output)?;
        }
        Ok(())
    }

    /// Lists everything below `roots`; `None` if the image lacks the programs, or a name cannot be
    /// listed.
    fn list_there(
        &self,
        guard: &ContainerGuard<'_>,
        roots: &[AbsPath],
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<Option<RemoteListing>, TransferFault> {
        let user = self.engine.client.container_user();
        let paths = roots.iter().map(ToString::to_string);
        let listing = ContainerCommand::listing(user, paths);
        let exec = self.start_reading(guard, listing, limit)?;
        let id = exec.id().to_owned();
        let mut output = Vec::new();
        let download = EngineDownload::output(&self.engine, exec, limit);
        let read = download.take(LISTING_BYTES_MAX).read_to_end(&mut output);
        limit.check()?;
        if read.is_err() || u64::try_from(output.len()).is_ok_and(|size| size == LISTING_BYTES_MAX)
        {
            return Ok(None);
        }
        let ended = self.helper_status(&id, limit)?;
        let listing = RemoteListing::parse(&output, roots);
        Ok(listing.filter(|_| ended == ExitReason::Exited(0)))
    }

    /// Fetches what changed between two listings; `None` if there are too many changes, or they
    /// cannot be packed there: then everything is fetched.
    fn fetch_listed(
        &self,
        guard: &ContainerGuard<'_>,
        roots: &[AbsPath],
        sent: &SentEntries,
        earlier: &RemoteListing,
        now: &RemoteListing,
        limit: &TransferLimit<'_>,
    ) -> std::result::Result<Option<IncomingFiles>, TransferFault> {
        let mut incoming = self.new_incoming()?;
        let changed = incoming.add_listed(now, earlier, sent);
        let is_text = |path: &&AbsPath| path.as_path().to_str().is_some();
        if changed.len() > PACKED_FILES_MAX || !changed.iter().all(is_text) {
            return Ok(None);
        }
        for root in roots {
            let parent = root.parent().unwrap_or_else(AbsPath::top);
            let below = changed.iter().filter(|path| path.is_within(root));
            let names: Vec<_> = below.filter_map(|path| path.below(&parent)).collect();
            for names in names.chunks(COMMAND_PATHS_MAX) {
                let names = names.iter().map(ToString::to_string);
                let user = self.engine.client.container_user();
                let packing = ContainerCommand::packing(user, parent.to_string(), names);
                let exec = self.start_reading(guard, packing, limit)?;
                let mut download = EngineDownload::output(&self.engine, exec, limit);
                let read = incoming.read(root, &mut download, sent);
                if let Some(fault) = download.take_failure() {
                    return Err(fault);
                }
                read.map_err(|error| refused_archive(root, &error))?;
            }
        }
        let has_all = changed
            .iter()
            .all(|path| incoming.entries().contains_key(*path));
        Ok(has_all.then_some(incoming))
    }

    fn new_incoming(&self) -> std::result::Result<IncomingFiles, TransferFault> {
        let spool = SpoolFile::new_in(&self.spool_dir);
        let spool = spool.map_err(|error| Error::io("cannot create a temporary file", error))?;
        let disk = DiskWatch::new(vec![self.spool_dir.clone()], &self.limits());
        Ok(IncomingFiles::new(spool, disk))
    }

    /// Refuses to fetch if the disks here have too little room below `roots`.
    fn expect_room(
        &self,
        reachable: &ReachablePaths,
        roots: &[AbsPath],
        needed: IncomingRoom,
    ) -> std::result::Result<(), TransferFault> {
        let written = roots.iter();
        let written = written.map(|root| reachable.copies.get(root).unwrap_or(root).clone());
        let places = written.chain([self.spool_dir.clone()]).collect();
        let disks = DiskWatch::new(places, &self.limits());
        match disks.with_planned(needed.bytes, needed.names).check() {
            DiskStatus::Free(_) => Ok(()),
            DiskStatus::Full(shortage) => Err(no_room_error(&shortage.to_string()).into()),
        }
    }

    fn transfer_error(&self, what: &str, fault: TransferFault) -> Error {
        match fault {
            TransferFault::Files(error) => error,
            TransferFault::Interrupted => {
                let message = format!(
                    "{what}: it was interrupted; what was not transferred is transferred with the next \
                     command, and what is only in the container is lost when the run ends"
                );
                Error::new(ErrorKind::Environment, message)
            }
            TransferFault::Engine(error) => {
                let why = self.engine.lost_reason();
                let why = why.unwrap_or_else(|| command_error(error).to_string());
                Error::new(ErrorKind::Environment, format!("{what}: {why}"))
            }
        }
    }
}

/// Returns the error for a machine without room for the changes.
fn no_room_error(why: &str) -> Error {
    let message = format!(
        "the command has ended, but nothing that it changed was fetched: on this machine, {why}; it stays in \
         its container, and the next command fetches it"
    );
    Error::new(ErrorKind::Environment, message)
        .with_hint("free some space here, then run another command, such as `true`")
}

fn refused_archive(root: &AbsPath, why: &io::Error) -> Error {
    if let Some(SpoolError(why)) = why
        .get_ref()
        .and_then(|why| why.downcast_ref::<SpoolError>())
    {
        return no_room_error(why);
    }
    let message = format!("what the engine sent of `{root}` is refused: {why}");
    Error::new(ErrorKind::Environment, message)
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
        let why = match lines.next() {
            Some(b"gone") => continue,
            Some(b"there") => "still exists there",
            Some(_) | None => "may still exist there",
        };
        let message = format!(
            "the command has ended, but nothing that it changed was fetched: `{}` is not in what the \
             engine sent, and {why}",
            escape_name(&path.to_string())
        );
        return Err(Error::new(ErrorKind::Environment, message)
            .with_hint("run another command, such as `true`: then all changes are fetched again"));
    }
    Ok(())
}

/// Returns the trees and files that commands may write to, without those inside others.
fn written_roots(reachable: &ReachablePaths, sent: &SentEntries) -> Vec<AbsPath> {
    let written = || {
        let open = reachable.open.iter();
        open.filter(|opening| opening.permission == Permission::Write)
    };
    let is_inside_another = |path: &AbsPath| {
        let mut trees = written().filter(|opening| opening.scope == GrantScope::Tree);
        trees.any(|opening| opening.path != *path && path.is_within(&opening.path))
    };
    let is_sent = |path: &AbsPath| {
        let entry = sent.get(path);
        entry.is_some_and(|entry| entry.what != RemoteEntry::Unsent)
    };
    let roots = written().map(|opening| &opening.path);
    roots
        .filter(|path| !is_inside_another(path) && is_sent(path))
        .cloned()
        .collect()
}

/// Returns one remark that names refused changes; there were `unnamed` more.
fn remarks(refused: &[(AbsPath, String)], unnamed: usize) -> Vec<String> {
    if refused.is_empty() && unnamed == 0 {
        return Vec::new();
    }
    let named = refused.iter().take(REFUSED_NAMED_MAX);
    let named: Vec<String> = named
        .map(|(path, why)| format!("`{}` ({why})", escape_name(&path.to_string())))
        .collect();
    let more = refused.len().saturating_sub(named.len());
    let more = more.saturating_add(unnamed);
    let named = join_with_commas(&named);
    let paths = match (named.is_empty(), more) {
        (false, 0) => named,
        (false, more) => format!("{named} and {more} more"),
        (true, more) => format!("{more} more pipes, sockets or devices"),
    };
    vec![format!("not fetched from the container's machine: {paths}")]
}

/// What must be removed and sent.
#[derive(Debug, PartialEq, Eq)]
struct SendPlan<'a> {
    /// The topmost paths to remove.
    removed: Vec<&'a AbsPath>,
    /// The paths to send, directories before what is in them.
    added: Vec<&'a AbsPath>,
}

impl<'a> SendPlan<'a> {
    fn compare(earlier: &'a SentEntries, view: &'a SentEntries) -> Self {
        let mut removed: Vec<&AbsPath> = Vec::new();
        for (path, sent) in earlier {
            let is_kept = view
                .get(path)
                .is_some_and(|now| now.what.has_kind_of(&sent.what));
            // Parents come before what is in them.
            if !is_kept && !removed.last().is_some_and(|last| path.is_within(last)) {
                removed.push(path);
            }
        }
        let is_removed = |path: &AbsPath| {
            let next = removed.partition_point(|top| *top <= path);
            let last = next.checked_sub(1).and_then(|last| removed.get(last));
            last.is_some_and(|top| path.is_within(top))
        };
        let is_there = |path: &AbsPath, now: &SentEntry| {
            let sent = earlier.get(path);
            sent.is_some_and(|sent| sent.what == now.what && sent.permission == now.permission)
        };
        let added = view.iter();
        let added = added.filter(|(path, now)| !is_there(path, now) || is_removed(path));
        Self {
            added: added.map(|(path, _)| path).collect(),
            removed,
        }
    }

    /// Returns the paths at which anything may be after an interrupted transfer: also below the first
    /// ones, which are removed. A directory that is only sent loses nothing of what is in it.
    fn affected_paths(&self, view: &SentEntries) -> AffectedPaths {
        let is_directory = |path: &AbsPath| {
            let entry = view.get(path).map(|entry| &entry.what);
            matches!(entry, Some(RemoteEntry::Directory { .. }))
        };
        let owned = |path: &&AbsPath| AbsPath::clone(path);
        let added = self.added.iter().filter(|path| !is_directory(path));
        AffectedPaths {
            removed: self.removed.iter().map(owned).collect(),
            added: added.map(owned).collect(),
        }
    }
}

/// The paths that an interrupted transfer may have changed.
#[derive(Debug)]
struct AffectedPaths {
    removed: BTreeSet<AbsPath>,
    added: Vec<AbsPath>,
}

/// Records an interrupted transfer. What else is there stays known, so that changes of commands there
/// are not lost.
fn mark_unsent(entries: &mut SentEntries, affected: &AffectedPaths) {
    let removed = &affected.removed;
    entries.retain(|path, _| !is_within_any(path, removed));
    for path in removed.iter().chain(&affected.added) {
        let entry = SentEntry {
            what: RemoteEntry::Unsent,
            permission: Permission::Write,
            local: None,
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
            RemoteEntry::Unknown | RemoteEntry::Unsent => false,
        }
    }
}

#[cfg(test)]
mod tests;
