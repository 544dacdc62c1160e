//! Containers: discovery of a Docker or Podman engine, here or over SSH, the one container of each agent, and its
//! commands. An agent's container is restricted to the same grants as its file tools. It must never
//! decide what is granted, and nothing is set up unless the config asks for containers.

mod seccomp_profile;
pub mod client;
pub mod container;
pub mod engine;
pub mod image;
pub mod mounts;
pub mod socket;
mod engine_request;
mod socket_directory;
mod ssh_tunnel;
mod exec_output;
mod command;
pub mod credentials;
mod home;
mod instance;
mod labels;
mod cleanup;
mod packages;
mod process;
mod container_spec;
mod run;
mod sent_files;
