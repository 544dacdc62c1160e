//! The tools that the MCP servers of a run have listed, so that a server lists them once for all
//! agents, and which servers are left out of the run.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::config::servers::ServerConfig;
use crate::tools::served::offer::ServerToolDescription;

/// The tool lists of servers that are known in a run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ToolListCache(Arc<Mutex<Vec<CachedToolList>>>);

/// The tools that a server last listed.
#[derive(Clone, Debug)]
struct CachedToolList {
    config: Arc<ServerConfig>,
    /// The tools; none if the server is left out of the run.
    tools: Arc<[ServerToolDescription]>,
    is_left_out: bool,
}

impl ToolListCache {
    /// Returns whether a server is left out of the run because it failed when its tools were first
    /// needed.
    pub fn is_left_out(&self, config: &Arc<ServerConfig>) -> bool {
        let lists = self.0.lock();
        lists
            .iter()
            .any(|cached| cached.is_left_out && Arc::ptr_eq(&cached.config, config))
    }

    /// Returns the tools that a server last listed, which are none if it is left out of the run;
    /// `None` if it has not listed any yet.
    pub(super) fn get(&self, config: &Arc<ServerConfig>) -> Option<Arc<[ServerToolDescription]>> {
        let lists = self.0.lock();
        let mut same_config = lists
            .iter()
            .filter(|cached| Arc::ptr_eq(&cached.config, config));
        same_config.next().map(|cached| Arc::clone(&cached.tools))
    }

    /// Sets the tools that a server has listed.
    pub(super) fn insert(&self, config: &Arc<ServerConfig>, tools: &Arc<[ServerToolDescription]>) {
        self.replace(CachedToolList {
            config: Arc::clone(config),
            tools: Arc::clone(tools),
            is_left_out: false,
        });
    }

    /// Leaves a server out of the run.
    pub(super) fn leave_out(&self, config: &Arc<ServerConfig>) {
        self.replace(CachedToolList {
            config: Arc::clone(config),
            tools: Arc::default(),
            is_left_out: true,
        });
    }

    fn replace(&self, list: CachedToolList) {
        let mut lists = self.0.lock();
        lists.retain(|cached| !Arc::ptr_eq(&cached.config, &list.config));
        lists.push(list);
    }
}
