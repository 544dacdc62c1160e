//! Containers: discovery of a Docker or Podman engine on this machine, the containers of each agent,
//! and their commands. A container is restricted to the same grants as the file tools of its agent.
//! It must never decide what is granted, and nothing is set up unless the config asks for
//! containers.

mod seccomp_profile;
pub mod credentials;
pub mod socket;
mod engine_error;
pub mod engine;
pub mod image;
mod command;
pub mod mounts;
mod container_spec;
mod home;
mod cleanup;
mod instance;
mod replaceable_container;
mod process;
mod packages;
pub mod container;
pub mod server_container;
