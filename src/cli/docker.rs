//! The `massgen docker` commands: the image from which agents' containers are created.

use crate::cli::args::DockerCommand;
use crate::cli::output::CliOutput;
use crate::config::docker::RootAccess;
use crate::error::Result;
use crate::host::Host;
use crate::text::{escape_line, without_colours};
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::image::DOCKERFILE;

/// Builds the image, or prints its Dockerfile.
pub(crate) fn run(host: &Host, command: DockerCommand, output: &mut CliOutput<'_>) -> Result<()> {
    let root_access = match command {
        DockerCommand::Dockerfile => return output.result(DOCKERFILE),
        DockerCommand::Build { sudo: true } => RootAccess::BySudo,
        DockerCommand::Build { sudo: false } => RootAccess::Never,
    };
    let engine = ContainerEngine::open(host.env("DOCKER_HOST"))?;
    let image = engine.build(root_access, &mut |message| {
        for line in message.lines().filter(|line| !line.trim().is_empty()) {
            output.note(&display_line(line));
        }
    })?;
    output.result(&format!("{image}\n"))
}

/// Returns a line of an engine's output as it is shown: an engine may be a stranger's, so nothing
/// in the line controls the terminal.
fn display_line(line: &str) -> String {
    escape_line(&without_colours(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_an_engine_controls_no_terminal() {
        assert_eq!(
            display_line("\u{1b}[91mStep 1/2\u{1b}[0m : x"),
            "Step 1/2 : x"
        );
        let title = display_line("Step 1/2\u{1b}]0;title\u{7}\u{1b}[2J\r");
        assert!(title.starts_with("Step 1/2"), "{title}");
        assert!(!title.contains(char::is_control), "{title}");
    }
}
