//! Batches as Jobs of Kubernetes: what the user chooses for them, their manifests, what a cluster
//! shows of them, and why it refuses something.

pub mod settings;
pub mod names;
pub mod manifest;
pub mod pods;
pub mod cluster_state;
pub mod refusal;
