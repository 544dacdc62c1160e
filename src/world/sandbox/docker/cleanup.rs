//! Removes containers, and what interrupted runs have left behind.

use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveContainerOptionsBuilder,
    RemoveImageOptionsBuilder,
};

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sandbox::container_owner::{is_orphaned, state_filter};
use crate::world::sandbox::docker::engine::ContainerEngine;
use crate::world::sandbox::docker::engine_error::{engine_failure, is_missing};

impl ContainerEngine {
    /// Removes every container, and the images created from it, that an interrupted earlier run in
    /// `state` has left behind. Those of active runs are never touched. Returns the names of the
    /// containers.
    pub fn remove_leftovers(&self, state: &AbsPath) -> Result<Vec<String>> {
        self.block_on(async {
            let list_error =
                |error| engine_failure("cannot list containers of earlier runs", error);
            let filters = [("label".to_owned(), vec![state_filter(state)])];
            let options = ListContainersOptionsBuilder::default().all(true);
            let options = options.filters(&filters.clone().into());
            let containers = self.api.list_containers(Some(options.build()));
            let mut removed_names = Vec::new();
            for container in containers.await.map_err(list_error)? {
                let labels = container.labels.unwrap_or_default();
                let Some(id) = container
                    .id
                    .filter(|_| is_orphaned(|name| labels.get(name)))
                else {
                    continue;
                };
                remove_container(self, &id).await?;
                let names = container.names.unwrap_or_default();
                removed_names.extend(
                    names
                        .first()
                        .map(|name| name.trim_start_matches('/').to_owned()),
                );
            }
            let options = ListImagesOptionsBuilder::default().filters(&filters.into());
            let images = self.api.list_images(Some(options.build()));
            for image in images.await.map_err(list_error)? {
                if is_orphaned(|name| image.labels.get(name)) {
                    remove_image(self, &image.id).await?;
                }
            }
            Ok(removed_names)
        })
    }
}

/// Removes a container and everything that runs in it; a missing one is not an error.
pub(super) async fn remove_container(engine: &ContainerEngine, id: &str) -> Result<()> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true);
    match engine.api.remove_container(id, Some(options.build())).await {
        Err(error) if !is_missing(&error) => Err(engine_failure(
            &format!("cannot remove the container `{id}`"),
            error,
        )),
        _ => Ok(()),
    }
}

/// Removes an image that massgen has created, with its parent images that are not needed otherwise;
/// a missing one is not an error.
pub(super) async fn remove_image(engine: &ContainerEngine, id: &str) -> Result<()> {
    let options = RemoveImageOptionsBuilder::default().force(true).build();
    match engine.api.remove_image(id, Some(options), None).await {
        Err(error) if !is_missing(&error) => Err(engine_failure(
            &format!("cannot remove the image `{id}`"),
            error,
        )),
        _ => Ok(()),
    }
}
