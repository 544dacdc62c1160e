//! Owns layout.
use crate::id::AgentId;
use crate::path::AbsPath;
#[derive(Debug)]
pub struct Layout {
    pub state_dir: AbsPath,
    pub temp_workspaces: AbsPath,
}
impl Layout {
    pub fn workspace(&self, _: &AgentId) -> Option<&AbsPath> {
        None
    }
}
