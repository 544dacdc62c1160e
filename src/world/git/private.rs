//! Owns repositories that agents have for themselves, in a checkout in which they run commands: what
//! they do to one never reaches the hub, and massgen never looks into it.

use std::os::unix::ffi::OsStrExt;

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::files::read_found;
use crate::world::git::hub::Hub;
use crate::world::git::object::{Author, Branch, ObjectId};
use crate::world::git::project::SHALLOW_BYTES_MAX;
use crate::world::git::{Call, OUTPUT_BYTES_MAX};
use crate::world::sys::own::clear;
use crate::world::sys::own::file::{self, Durability};

/// How many digits the names of SHA-1 have.
const SHA1_DIGITS: usize = 40;
/// What an agent's git leaves be: it would work in the background when the agent has ended.
const QUIET: [(&str, &str); 2] = [("gc.auto", "0"), ("maintenance.auto", "false")];

impl Hub {
    /// Makes a repository in `checkout` for the agent that works there: with the branch `main`, and
    /// with `branch` checked out, whose files are there already. It has the objects of the hub without
    /// a copy. What was in its place is removed, whatever an agent made of it.
    ///
    /// As long as it is there, an agent says how git is run in `checkout`: no git of the user's may run
    /// there, and massgen's own is told of another repository.
    pub async fn make_private(
        &self,
        checkout: &AbsPath,
        branch: &Branch,
        tip: &ObjectId,
        main: &ObjectId,
        author: &Author,
    ) -> Result<()> {
        remove_private(checkout)?;
        let git_dir = checkout.join(".git");
        let private = Private {
            hub: self,
            checkout,
            git_dir: git_dir.to_string(),
        };
        let format = match tip.as_str().len() {
            SHA1_DIGITS => "--object-format=sha1",
            _ => "--object-format=sha256",
        };
        let first = "--initial-branch=main";
        let init = ["init", "--quiet", "--template=", first, format];
        private.ask(&init).await?;
        let objects = self.dir().join("objects");
        let line = [objects.as_path().as_os_str().as_bytes(), b"\n"].concat();
        let info = git_dir.join("objects/info");
        file::replace(&info.join("alternates"), &line, Durability::Process)?;
        let shallow = read_found(&self.dir().join("shallow"), SHALLOW_BYTES_MAX)?;
        if let Some(shallow) = shallow {
            file::replace(&git_dir.join("shallow"), &shallow, Durability::Process)?;
        }
        for (name, value) in author.settings().into_iter().chain(QUIET) {
            private.ask(&["config", name, value]).await?;
        }
        let reference = branch.reference();
        let main = ["update-ref", "refs/heads/main", main.as_str()];
        private.ask(&main).await?;
        let own = ["update-ref", &reference, tip.as_str()];
        private.ask(&own).await?;
        private.ask(&["symbolic-ref", "HEAD", &reference]).await?;
        private.ask(&["read-tree", tip.as_str()]).await
    }
}

/// Removes the repository that an agent has in `checkout`, if there is one, or what is in its place.
pub fn remove_private(checkout: &AbsPath) -> Result<()> {
    clear::remove(&checkout.join(".git"))
}

struct Private<'a> {
    hub: &'a Hub,
    checkout: &'a AbsPath,
    git_dir: String,
}

impl Private<'_> {
    async fn ask(&self, words: &[&str]) -> Result<()> {
        let call = Call {
            dir: self.checkout,
            arguments: words,
            env: &[("GIT_DIR", &self.git_dir)],
            input: b"",
            output_bytes_max: OUTPUT_BYTES_MAX,
        };
        self.hub.git.ask(call).await.map(drop)
    }
}
