//! What an engine on another machine cannot provide.

use crate::config::docker::{ContainerNetwork, DockerConfig, RootAccess};
use crate::config::engine_host::SshEngineHost;
use crate::error::{Error, ErrorKind, Result};

/// Refuses what an engine on another machine cannot provide without weakening a rule.
pub(super) fn expect_available_over_ssh(config: &DockerConfig, host: &SshEngineHost) -> Result<()> {
    let credentials = &config.credentials;
    let refused_setting = if config.root == RootAccess::BySudo {
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
    let (setting, reason) = refused_setting;
    let message = format!("{setting} is not available with an engine on `{host}`: {reason}");
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("remove it, or use an engine on this machine"))
}
