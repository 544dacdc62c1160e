//! One container instance of the engine: starts and removes it, and replaces it with another that
//! has other mounts and all changes made in this one.

use bollard::errors::Error as EngineError;
use bollard::models::ContainerConfig;
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, InspectContainerOptions, KillContainerOptions,
    RenameContainerOptions, StartContainerOptions,
};

use crate::config::execution_mode::ELSEWHERE_HINT;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::sandbox::docker::cleanup::{remove_container, remove_image};
use crate::world::sandbox::docker::container_spec::ContainerSpec;
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::engine_error::{engine_failure, is_missing, is_stopped};
use crate::world::sandbox::docker::home::populate_home;
use crate::world::sandbox::docker::mounts::MountPlan;

/// Message to an agent whose container is gone.
pub(super) const REMOVED_MESSAGE: &str = "the container was removed from outside, with what ran and was installed \
                                  in it; there is a new one now";
/// What Docker and Podman say if they do not have a directory that is to be mounted.
const MISSING_SOURCES: [&str; 2] = ["bind source path does not exist", "statfs "];
/// Inspects a container without counting its bytes.
const NO_SIZE: Option<InspectContainerOptions> = None;
/// Suffix of a container's name while another replaces it.
const REPLACED_SUFFIX: &str = "-replaced";

/// What becomes of the changes in a container that another one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerChanges {
    /// The other one has them.
    Kept,
    /// The other one has only those that were saved.
    Discarded,
}

/// A running container.
#[derive(Debug)]
pub(super) struct ContainerInstance {
    id: String,
    pub(super) mounts: MountPlan,
    /// The image with all changes made in earlier instances.
    saved_image: Option<String>,
}

impl ContainerInstance {
    /// Creates a container and starts it.
    pub(super) async fn start(
        engine: &ContainerEngine,
        spec: &ContainerSpec,
        mounts: MountPlan,
    ) -> Result<Self> {
        Ok(Self {
            id: create_and_start(engine, spec, &spec.config.image, &mounts).await?,
            mounts,
            saved_image: None,
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Makes all changes made in it part of the containers that replace it.
    pub(super) async fn save(&mut self, engine: &ContainerEngine) -> Result<()> {
        if let Some(image) = self.commit_image(engine).await? {
            self.saved_image = Some(image);
        }
        Ok(())
    }

    /// Replaces it by a container with other mounts. If that fails, this one is started again.
    pub(super) async fn replace(
        &mut self,
        engine: &ContainerEngine,
        spec: &ContainerSpec,
        mounts: MountPlan,
        changes: ContainerChanges,
    ) -> Result<()> {
        if self.is_removed(engine).await {
            self.mounts = mounts;
            self.recreate(engine, spec).await?;
            return Err(Error::new(ErrorKind::Environment, REMOVED_MESSAGE)
                .with_hint("run the command again"));
        }
        // Nothing changes in it any more while its changes are saved.
        kill(engine, &self.id).await.map_err(replace_error)?;
        let saved_image = match changes {
            ContainerChanges::Kept => self.commit_image(engine).await?,
            ContainerChanges::Discarded => None,
        };
        let image = saved_image
            .as_ref()
            .or(self.saved_image.as_ref())
            .unwrap_or(&spec.config.image);
        // Its name is needed for the new one, and it is kept until that one runs.
        rename(engine, &self.id, format!("{}{REPLACED_SUFFIX}", spec.name)).await?;
        match create_and_start(engine, spec, image, &mounts).await {
            Ok(id) => {
                remove_container(engine, &self.id).await?;
                self.id = id;
                self.mounts = mounts;
                self.saved_image = saved_image.or(self.saved_image.take());
                Ok(())
            }
            Err(error) => {
                if let Some(image) = saved_image {
                    remove_image(engine, &image).await?;
                }
                rename(engine, &self.id, spec.name.clone()).await?;
                let restart = engine
                    .api
                    .start_container(&self.id, None::<StartContainerOptions>);
                restart.await.map_err(replace_error)?;
                Err(error)
            }
        }
    }

    /// Creates another with the same mounts, unless it still exists. Changes made in it since it
    /// was created are lost.
    pub(super) async fn recreate(
        &mut self,
        engine: &ContainerEngine,
        spec: &ContainerSpec,
    ) -> Result<()> {
        if self.is_removed(engine).await {
            let image = self.saved_image.as_ref().unwrap_or(&spec.config.image);
            self.id = create_and_start(engine, spec, image, &self.mounts).await?;
        }
        Ok(())
    }

    /// Returns whether it was removed from outside.
    async fn is_removed(&self, engine: &ContainerEngine) -> bool {
        let reply = engine.api.inspect_container(&self.id, NO_SIZE).await;
        matches!(reply, Err(error) if is_missing(&error))
    }

    /// Stops and removes it, with the image of its changes.
    pub(super) async fn remove(self, engine: &ContainerEngine) -> Result<()> {
        remove_container(engine, &self.id).await?;
        match self.saved_image {
            Some(image) => remove_image(engine, &image).await,
            None => Ok(()),
        }
    }

    /// Commits all changes made in it to an unnamed image, which inherits its labels; `None` if
    /// there are none.
    async fn commit_image(&self, engine: &ContainerEngine) -> Result<Option<String>> {
        if !self.is_changed(engine).await.map_err(replace_error)? {
            return Ok(None);
        }
        let options = CommitContainerOptionsBuilder::default()
            .container(&self.id)
            .build();
        let commit = engine
            .api
            .commit_container(options, ContainerConfig::default());
        Ok(Some(commit.await.map_err(replace_error)?.id))
    }

    /// Returns whether anything was changed in it, apart from what its mounts and its home add.
    async fn is_changed(&self, engine: &ContainerEngine) -> std::result::Result<bool, EngineError> {
        let changes = engine.api.container_changes(&self.id).await?;
        let is_expected = |path: &str| {
            let path = AbsPath::new(path);
            path.is_some_and(|path| {
                ContainerSpec::is_creation_artifact(&path) || self.mounts.is_mount_parent(&path)
            })
        };
        let mut changes = changes.unwrap_or_default().into_iter();
        Ok(changes.any(|change| !is_expected(&change.path)))
    }
}

/// Kills everything that runs in a container; a stopped or removed one is not an error.
pub(super) async fn kill(
    engine: &ContainerEngine,
    id: &str,
) -> std::result::Result<(), EngineError> {
    match engine
        .api
        .kill_container(id, None::<KillContainerOptions>)
        .await
    {
        Err(error) if !is_stopped(&error) && !is_missing(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Creates a container from `image` and starts it; one that does not start is removed.
async fn create_and_start(
    engine: &ContainerEngine,
    spec: &ContainerSpec,
    image: &str,
    mounts: &MountPlan,
) -> Result<String> {
    let create_error = |error| start_error(&spec.config.image, error);
    let (options, body) = spec.create_request(engine, image, mounts);
    let container = engine.api.create_container(Some(options), body).await;
    let id = container.map_err(create_error)?.id;
    let start = async {
        populate_home(engine, &id, spec.files.values()).await?;
        let start_request = engine
            .api
            .start_container(&id, None::<StartContainerOptions>);
        start_request.await.map_err(create_error)
    };
    match start.await {
        Ok(()) => Ok(id),
        Err(error) => {
            remove_container(engine, &id).await?;
            Err(error)
        }
    }
}

async fn rename(engine: &ContainerEngine, id: &str, name: String) -> Result<()> {
    let rename_request = engine
        .api
        .rename_container(id, RenameContainerOptions { name });
    rename_request.await.map_err(replace_error)
}

fn replace_error(error: EngineError) -> Error {
    engine_failure(
        "cannot recreate the container with other directories",
        error,
    )
}

fn start_error(image: &str, error: EngineError) -> Error {
    let message = error.to_string();
    let failure = engine_failure(&format!("cannot start a container of `{image}`"), error);
    if message.contains("/bin/sh") {
        failure.with_hint("the image needs `/bin/sh`: use one with a shell")
    } else if MISSING_SOURCES.iter().any(|text| message.contains(text)) {
        failure
            .with_hint(
                "the engine does not see massgen's files: it is on another machine, or massgen runs in \
                 a container or a CI job",
            )
            .with_hint(ELSEWHERE_HINT)
    } else {
        failure
    }
}
