//! Default image for containers, used unless the config names another, and how an engine builds it.

use bollard::body_full;
use bollard::query_parameters::BuildImageOptionsBuilder;
use futures_util::StreamExt;
use tar::{Builder, Header};

use crate::config::docker::{IMAGE, RootAccess, SUDO_IMAGE};
use crate::error::{Error, ErrorKind, Result};
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::engine_error::{engine_failure, engine_message};

/// The Dockerfile of the image.
pub const DOCKERFILE: &str = include_str!("Dockerfile");
/// Name of the file in the build context.
const DOCKERFILE_NAME: &str = "Dockerfile";
/// Permission bits of the file.
const DOCKERFILE_MODE: u32 = 0o644;

impl ContainerEngine {
    /// Builds the image for containers with or without root access, and passes the engine's output
    /// to `on_output`. Returns the image's name.
    pub fn build(&self, root: RootAccess, on_output: &mut dyn FnMut(&str)) -> Result<&'static str> {
        let (image, stage) = match root {
            RootAccess::Never => (IMAGE, "runtime"),
            RootAccess::BySudo => (SUDO_IMAGE, "runtime-sudo"),
        };
        let archive =
            build_context().map_err(|error| Error::io("cannot pack the Dockerfile", error))?;
        let options = BuildImageOptionsBuilder::default()
            .dockerfile(DOCKERFILE_NAME)
            .t(image)
            .target(stage)
            .rm(true)
            .forcerm(true)
            .build();
        let build_error = |error| {
            with_build_hint(engine_failure(
                &format!("cannot build the image `{image}`"),
                error,
            ))
        };
        self.block_on(async {
            let body = Some(body_full(archive.into()));
            let mut steps = self.api.build_image(options, None, body);
            while let Some(step) = steps.next().await {
                let step = step.map_err(build_error)?;
                if let Some(text) = step.stream.or(step.status) {
                    on_output(&text);
                }
                if let Some(error) = step.error_detail {
                    let reason = engine_message(&error.message.unwrap_or_default());
                    let message = format!("cannot build the image `{image}`: {reason}");
                    return Err(with_build_hint(Error::new(ErrorKind::Environment, message)));
                }
            }
            Ok(image)
        })
    }
}

/// Adds hints for a build that has failed.
fn with_build_hint(error: Error) -> Error {
    error
        .with_hint("the engine downloads the base image and packages: check its network access")
        .with_hint(
            "or copy the image from another machine: `docker save IMAGE` there, `docker load` here",
        )
        .with_hint("or use a local image: `command_line_docker_image`")
}

fn build_context() -> std::io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_mode(DOCKERFILE_MODE);
    header.set_size(u64::try_from(DOCKERFILE.len()).unwrap_or_default());
    archive.append_data(&mut header, DOCKERFILE_NAME, DOCKERFILE.as_bytes())?;
    archive.into_inner()
}
