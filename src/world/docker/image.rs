//! Owns the image that containers are made from unless the config names another, and how an engine
//! builds it.

use bollard::body_full;
use bollard::query_parameters::BuildImageOptionsBuilder;
use futures_util::StreamExt;
use tar::{Builder, Header};

use crate::config::docker::{BecomingRoot, IMAGE, SUDO_IMAGE};
use crate::error::{Error, ErrorKind, Result};
use crate::world::docker::client::failure;
use crate::world::docker::engine::Engine;

/// What it is built by.
pub const DOCKERFILE: &str = include_str!("Dockerfile");
/// What the file is called in the archive that is sent.
const NAME: &str = "Dockerfile";
/// Who may do what with it.
const MODE: u32 = 0o644;

impl Engine {
    /// Builds the image of containers in which an agent may become root, or may not, and hands on
    /// what the engine says meanwhile. Gives its name.
    pub fn build(&self, root: BecomingRoot, said: &mut dyn FnMut(&str)) -> Result<&'static str> {
        let (image, stage) = match root {
            BecomingRoot::Never => (IMAGE, "runtime"),
            BecomingRoot::BySudo => (SUDO_IMAGE, "runtime-sudo"),
        };
        let archive = archive().map_err(|error| Error::io("cannot pack the Dockerfile", error))?;
        let options = BuildImageOptionsBuilder::default()
            .dockerfile(NAME)
            .t(image)
            .target(stage)
            .rm(true)
            .forcerm(true)
            .build();
        let failed = |error| advised(failure(&format!("cannot build the image `{image}`"), error));
        self.wait(async {
            let body = Some(body_full(archive.into()));
            let mut steps = self.client.api.build_image(options, None, body);
            while let Some(step) = steps.next().await {
                let step = step.map_err(failed)?;
                if let Some(text) = step.stream.or(step.status) {
                    said(&text);
                }
                if let Some(error) = step.error_detail {
                    let why = error.message.unwrap_or_default();
                    let message = format!("cannot build the image `{image}`: {why}");
                    return Err(advised(Error::new(ErrorKind::Environment, message)));
                }
            }
            Ok(image)
        })
    }
}

/// What to do about a build that has failed.
fn advised(error: Error) -> Error {
    error
        .hint("the engine fetches the base image and packages: see whether it reaches the network")
        .hint(
            "or bring the image from another machine: `docker save IMAGE`, then `docker load` here",
        )
        .hint("or name an image that is here: `command_line_docker_image`")
}

fn archive() -> std::io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_mode(MODE);
    header.set_size(u64::try_from(DOCKERFILE.len()).unwrap_or_default());
    archive.append_data(&mut header, NAME, DOCKERFILE.as_bytes())?;
    archive.into_inner()
}
