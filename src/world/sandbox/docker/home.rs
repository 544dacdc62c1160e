//! Home directory of the user of commands in a container, their entry in `/etc/passwd`, and an
//! identity for git commits. The engine uploads them before anything runs, so that an image needs
//! no programs for it.

use std::collections::BTreeSet;
use std::io;

use bollard::body_full;
use bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};
use futures_util::StreamExt;
use tar::{Archive, Builder, EntryType, Header};

use crate::config::docker::CONTAINER_HOME;
use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::sandbox::docker::credentials::container_path;
use crate::world::sandbox::docker::engine::{ContainerEngine, ContainerUser};
use crate::world::sandbox::docker::engine_error::engine_failure;
use crate::world::sandbox::home::GIT_SETTINGS;

/// Name of the user, unless the image defines one.
const USER_NAME: &str = "massgen";
/// The user database.
const PASSWD_FILE: &str = "/etc/passwd";
/// Git's system-wide settings, which the user's own override.
const GIT_CONFIG_FILE: &str = "/etc/gitconfig";
/// Largest file of an image that is read, in bytes.
const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Permission bits of the home directory.
const HOME_MODE: u32 = 0o755;
/// Permission bits of the other files.
const FILE_MODE: u32 = 0o644;

/// Creates the home directory of a container that is not running yet, with the directories that
/// `files` are mounted in, and gives its owner a name.
pub(super) async fn populate_home(
    engine: &ContainerEngine,
    container: &str,
    files: impl Iterator<Item = &AbsPath>,
) -> Result<()> {
    let home_error =
        |error| engine_failure("cannot create a home directory in the container", error);
    let users = read_text(engine, container, PASSWD_FILE)
        .await
        .and_then(|table| with_user(table, engine.container_user()));
    let git = with_settings(read_text(engine, container, GIT_CONFIG_FILE).await);
    let texts = [(PASSWD_FILE, users), (GIT_CONFIG_FILE, git)];
    let archive = home_archive(engine.container_user(), &home_directories(files)?, &texts)
        .map_err(|error| Error::io("cannot pack a home directory", error))?;
    let options = UploadToContainerOptionsBuilder::default().path("/").build();
    let body = body_full(archive.into());
    let upload = engine
        .api
        .upload_to_container(container, Some(options), body);
    upload.await.map_err(home_error)
}

/// Returns the home directory and all directories below it that hold one of `files`, outer ones
/// first.
fn home_directories<'a>(files: impl Iterator<Item = &'a AbsPath>) -> Result<BTreeSet<AbsPath>> {
    let home = container_path("")?;
    let mut directories = BTreeSet::from([home.clone()]);
    for file in files {
        let mut ancestor = file.parent();
        while let Some(dir) = ancestor.filter(|dir| dir.is_within(&home)) {
            ancestor = dir.parent();
            directories.insert(dir);
        }
    }
    Ok(directories)
}

/// Reads a text file of a container; `None` if it does not exist, is too large or cannot be read.
async fn read_text(engine: &ContainerEngine, container: &str, path: &str) -> Option<String> {
    let options = DownloadFromContainerOptionsBuilder::default().path(path);
    let mut archive_bytes = Vec::new();
    let mut parts = engine
        .api
        .download_from_container(container, Some(options.build()));
    while let Some(Ok(part)) = parts.next().await {
        archive_bytes.extend_from_slice(&part);
        if archive_bytes.len() > FILE_BYTES_MAX {
            return None;
        }
    }
    let mut archive = Archive::new(archive_bytes.as_slice());
    let mut entry = archive.entries().ok()?.next()?.ok()?;
    let mut text = Vec::new();
    io::copy(&mut entry, &mut text).ok()?;
    String::from_utf8(text).ok()
}

/// Prepends massgen's git settings to those of an image, which take precedence; `None` if they are
/// there already.
fn with_settings(settings: Option<String>) -> Option<String> {
    let settings = settings.unwrap_or_default();
    (!settings.starts_with(GIT_SETTINGS)).then(|| format!("{GIT_SETTINGS}{settings}"))
}

/// Returns `table` with an added entry for the user; `None` if it has one already.
fn with_user(mut table: String, user: ContainerUser) -> Option<String> {
    let ContainerUser { uid, gid } = user;
    let uid_text = uid.to_string();
    let has_uid = |line: &str| line.split(':').nth(2) == Some(uid_text.as_str());
    if table.lines().any(has_uid) {
        return None;
    }
    if !table.is_empty() && !table.ends_with('\n') {
        table.push('\n');
    }
    let line = format!("{USER_NAME}:x:{uid}:{gid}:{USER_NAME}:{CONTAINER_HOME}:/bin/sh\n");
    table.push_str(&line);
    Some(table)
}

fn home_archive(
    owner: ContainerUser,
    directories: &BTreeSet<AbsPath>,
    texts: &[(&str, Option<String>)],
) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for dir in directories {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(HOME_MODE);
        header.set_uid(owner.uid.into());
        header.set_gid(owner.gid.into());
        header.set_size(0);
        let rel_path = dir.as_path().strip_prefix("/").unwrap_or(dir.as_path());
        archive.append_data(&mut header, rel_path, io::empty())?;
    }
    for (path, text) in texts {
        let Some(text) = text else { continue };
        let mut header = Header::new_gnu();
        header.set_mode(FILE_MODE);
        header.set_size(u64::try_from(text.len()).unwrap_or_default());
        archive.append_data(&mut header, path.trim_start_matches('/'), text.as_bytes())?;
    }
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_an_entry_gets_one() {
        let user = ContainerUser {
            uid: 1000,
            gid: 100,
        };
        let table = "root:x:0:0:root:/root:/bin/sh";
        let line = "massgen:x:1000:100:massgen:/home/massgen:/bin/sh";
        let expected = format!("{table}\n{line}\n");
        assert_eq!(with_user(table.to_owned(), user), Some(expected));
        assert_eq!(with_user(String::new(), user), Some(format!("{line}\n")));
        assert_eq!(with_user(table.to_owned(), ContainerUser::ROOT), None);
    }

    #[test]
    fn what_is_mounted_in_the_home_has_a_directory_to_lie_in() {
        let files = ["/home/massgen/.config/gh", "/home/massgen/.ssh", "/srv/k"];
        let files = files.map(|file| AbsPath::new(file).unwrap());
        let directories: Vec<String> = home_directories(files.iter())
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(directories, ["/home/massgen", "/home/massgen/.config"]);
    }
}
