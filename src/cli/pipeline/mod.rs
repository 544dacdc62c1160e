//! Owns what the command line knows of pipelines: they are begun, gone on with and looked at.

pub(crate) mod run;
