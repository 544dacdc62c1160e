//! Owns what a server may ask of massgen, and what it is answered: which directories there are, and
//! otherwise no. Nobody is asked anything and no model is lent.

#![expect(
    deprecated,
    reason = "servers ask for roots all the same, and the newest protocol has nothing in their place"
)]

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitationCapability, ErrorData, Implementation,
    ListRootsResult, ProtocolVersion, Root, RootsCapabilities,
};
use rmcp::service::{RequestContext, RoleClient};
use url::Url;

use crate::path::AbsPath;

/// What answers one server.
#[derive(Clone, Debug)]
pub(super) struct Host {
    roots: Vec<Root>,
}

impl Host {
    /// One that knows these directories.
    pub(super) fn new(roots: &[AbsPath]) -> Self {
        let root = |path: &AbsPath| Url::from_file_path(path.as_path()).ok().map(Root::new);
        Self {
            roots: roots.iter().filter_map(root).collect(),
        }
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        // A server that asks a person something is answered that nobody is there, by default.
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.elicitation = Some(ElicitationCapability::new());
        let massgen = Implementation::new("massgen", env!("CARGO_PKG_VERSION"));
        // Newer ones know no such greeting.
        let version = ProtocolVersion::V_2025_11_25;
        ClientConfig::new(capabilities, massgen).with_protocol_version(version)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.clone()))
    }
}
