//! The keys about the packages that are installed in a container.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Flag, Section, TextList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

pub(crate) const PREINSTALL: TypedKey<Section> = TypedKey::optional(
    &["preinstall"],
    shape::section(&DOCKER_PREINSTALL),
    "Packages to install when the container is created.",
    Harmless,
);

pub(crate) const AUTO_INSTALL_DEPS: TypedKey<Flag> = TypedKey::optional(
    &["auto_install_deps"],
    shape::flag(),
    "Whether massgen installs the packages of `requirements.txt`, `pyproject.toml` and \
     `package.json` in the root of the workspace, before a command and whenever one of \
     them changes.",
    Harmless,
)
.with_default("false");

pub(crate) const SYSTEM: TypedKey<TextList> = TypedKey::optional(
    &["system"],
    shape::texts(&ValueShape::Text),
    "Debian packages; requires `command_line_docker_enable_sudo`.",
    Harmless,
)
.with_default("[]");

pub(crate) const PYTHON: TypedKey<TextList> = TypedKey::optional(
    &["python"],
    shape::texts(&ValueShape::Text),
    "Python packages, as arguments of `pip`.",
    Harmless,
)
.with_default("[]");

pub(crate) const NPM: TypedKey<TextList> = TypedKey::optional(
    &["npm"],
    shape::texts(&ValueShape::Text),
    "npm packages; their programs are in `PATH`.",
    Harmless,
)
.with_default("[]");

/// The packages that are installed in a container.
pub static DOCKER_PACKAGES: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_packages",
    doc: "Packages to install in the container, within 600 seconds for each kind.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[PREINSTALL.row(), AUTO_INSTALL_DEPS.row()],
};

/// The packages that are installed when a container is created.
pub static DOCKER_PREINSTALL: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_packages.preinstall",
    doc: "Packages to install when the container is created, in the order system, Python, npm. \
          Failures are reported, and the run continues.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[SYSTEM.row(), PYTHON.row(), NPM.row()],
};
