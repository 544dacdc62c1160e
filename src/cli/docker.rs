//! The `massgen docker` commands: the image from which agents' containers are created.

use crate::cli::args::DockerCommand;
use crate::cli::output::CliOutput;
use crate::config::docker::RootAccess;
use crate::error::Result;
use crate::host::Host;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::image::DOCKERFILE;

/// Builds the image, or prints its Dockerfile.
pub(crate) fn run(host: &Host, command: DockerCommand, output: &mut CliOutput<'_>) -> Result<()> {
    let root = match command {
        DockerCommand::Dockerfile => return output.result(DOCKERFILE),
        DockerCommand::Build { sudo: true } => RootAccess::BySudo,
        DockerCommand::Build { sudo: false } => RootAccess::Never,
    };
    let engine = ContainerEngine::open(host.env("DOCKER_HOST"), &host.env)?;
    let image = engine.build(root, &mut |message| {
        for line in message.lines().filter(|line| !line.trim().is_empty()) {
            output.note(line);
        }
    })?;
    output.result(&format!("{image}\n"))
}
