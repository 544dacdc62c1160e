//! Media that a run has paid for, next to its records: a call whose file is gone when the run is
//! resumed takes the content from here, so that no vendor is paid twice. The event log does not
//! hold it.

use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::permissions::grant::Phase;
use crate::text::to_hex;
use crate::tools::media::MediaOrder;
use crate::world::io::files::read_regular_file;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// The directory of the content in the directory of a run's records.
const PAID_MEDIA: &str = "paid_media";
/// Maximum size of the content of one call, in bytes.
const CONTENT_BYTES_MAX: u64 = 64 << 20;

/// The media that one agent has paid for in one phase.
#[derive(Clone, Debug)]
pub struct PaidMedia {
    directory: AbsPath,
    agent: AgentId,
    phase: Phase,
}

impl PaidMedia {
    /// Returns those of `agent` in `phase` of the run whose records are in `log`.
    pub fn of_agent(log: &AbsPath, agent: &AgentId, phase: Phase) -> Self {
        Self {
            directory: log.join(PAID_MEDIA),
            agent: agent.clone(),
            phase,
        }
    }

    /// Returns the content that was made for `order` by the call `call_id`, if it is kept. No
    /// symlink leads to it: the content of any other file would go to the agent.
    ///
    /// # Errors
    /// It cannot be read: it would be paid for again.
    pub fn read(&self, call_id: &str, order: &MediaOrder) -> Result<Option<Vec<u8>>> {
        let file = self.file(call_id, order);
        if file::is_link(&self.directory)? || file::is_link(&file)? {
            return Ok(None);
        }
        read_regular_file(&file, CONTENT_BYTES_MAX)
    }

    /// Keeps the content that was made for `order` by the call `call_id`.
    ///
    /// # Errors
    /// It cannot be written, or a symlink leads elsewhere.
    pub fn write(&self, call_id: &str, order: &MediaOrder, content: &[u8]) -> Result<()> {
        dir::create_all(&self.directory, DirectoryAudience::User)?;
        if file::is_link(&self.directory)? {
            let message = format!("`{}` is a symlink", self.directory);
            return Err(Error::new(ErrorKind::Io, message));
        }
        let file = self.file(call_id, order);
        file::replace(&file, content)
    }

    /// Returns the file of a call. Ids of calls are a model's words, so they are not file names.
    fn file(&self, call_id: &str, order: &MediaOrder) -> AbsPath {
        let MediaOrder {
            kind,
            prompt,
            format,
            voice,
            style,
        } = order;
        let (voice, style) = (voice.as_deref(), style.as_deref());
        let mut digest = Sha256::new();
        for part in [
            self.agent.as_str(),
            &self.phase.to_string(),
            call_id,
            kind.name(),
            prompt,
            format,
            voice.unwrap_or_default(),
            style.unwrap_or_default(),
        ] {
            digest.update(part);
            digest.update([0_u8]);
        }
        self.directory.join(to_hex(&digest.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::media::MediaKind;

    #[test]
    fn content_is_kept_for_its_call_alone() {
        let root = tempfile::tempdir().unwrap();
        let log = AbsPath::new(root.path()).unwrap();
        let agent = AgentId::parse("a").unwrap();
        let order = |prompt: &str| MediaOrder {
            kind: MediaKind::Image,
            prompt: prompt.to_owned(),
            format: "png",
            voice: None,
            style: None,
        };
        let paid = PaidMedia::of_agent(&log, &agent, Phase::Final);
        assert_eq!(paid.read("../x", &order("a cat")).unwrap(), None);
        paid.write("../x", &order("a cat"), b"PNG").unwrap();
        let content = paid.read("../x", &order("a cat")).unwrap();
        assert_eq!(content, Some(b"PNG".to_vec()));
        for other in [
            paid.read("../y", &order("a cat")),
            paid.read("../x", &order("a dog")),
            PaidMedia::of_agent(&log, &agent, Phase::Coordination).read("../x", &order("a cat")),
        ] {
            assert_eq!(other.unwrap(), None);
        }
        assert_eq!(dir::names(&log.join(PAID_MEDIA)).unwrap().len(), 1);
    }

    #[test]
    fn no_symlink_leads_to_content() {
        let root = tempfile::tempdir().unwrap();
        let log = AbsPath::new(root.path()).unwrap();
        let agent = AgentId::parse("a").unwrap();
        let order = MediaOrder {
            kind: MediaKind::Image,
            prompt: "a cat".to_owned(),
            format: "png",
            voice: None,
            style: None,
        };
        let elsewhere = PaidMedia::of_agent(&log.join("other"), &agent, Phase::Final);
        elsewhere.write("c", &order, b"PNG").unwrap();
        let paid = PaidMedia::of_agent(&log, &agent, Phase::Final);
        let link = log.join(PAID_MEDIA);
        symlink(elsewhere.directory.as_path(), link.as_path()).unwrap();
        assert!(!matches!(paid.read("c", &order), Ok(Some(_))));
        assert!(paid.write("c", &order, b"PNG").is_err());
        let content = elsewhere.read("c", &order).unwrap();
        assert_eq!(content, Some(b"PNG".to_vec()));
    }
}
