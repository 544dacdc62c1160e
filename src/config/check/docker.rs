//! Checks the keys of an agent about the container that its commands run in.

use std::collections::BTreeMap;

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue};
use crate::config::diagnostic::{Diagnostic, Span, quote};
use crate::config::docker::{
    ContainerNetwork, CredentialsConfig, DependencyInstall, DockerConfig, HostCredential, IMAGE,
    PackagesConfig, PassedEnvironment, RootAccess, SUDO_IMAGE,
};
use crate::config::size;
use crate::path::AbsPath;

/// The maximum number of mounts, variables or packages in one list.
const ENTRIES_MAX: usize = 64;
/// The longest name of an image or package, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Directories of a container that hold interfaces to the kernel rather than files.
const KERNEL_DIRS: &[&str] = &["/dev", "/proc", "/sys"];

impl ConfigChecker<'_> {
    /// Returns the configuration of an agent's container.
    pub(super) fn docker(&mut self, backend: &MappingView<'_>) -> DockerConfig {
        let root = match backend.flag("command_line_docker_enable_sudo") {
            Some(true) => RootAccess::BySudo,
            Some(false) | None => RootAccess::Never,
        };
        let network = match backend.text("command_line_docker_network_mode") {
            Some(text) if text.written == "bridge" => ContainerNetwork::Bridge,
            Some(text) if text.written == "host" => ContainerNetwork::Host,
            Some(_) | None => ContainerNetwork::None,
        };
        let memory = backend.text("command_line_docker_memory_limit");
        let cpus = backend.decimal("command_line_docker_cpu_limit");
        DockerConfig {
            image: self.image(backend, root),
            memory_bytes: memory.and_then(|text| size::bytes(text.written)),
            nano_cpus: cpus.and_then(|cpus| billionths(&cpus)),
            network,
            root,
            credentials: self.credentials(backend),
            packages: self.packages(backend, root, network),
        }
    }

    fn image(&mut self, backend: &MappingView<'_>, root: RootAccess) -> String {
        let Some(text) = backend.text("command_line_docker_image") else {
            return match root {
                RootAccess::Never => IMAGE,
                RootAccess::BySudo => SUDO_IMAGE,
            }
            .to_owned();
        };
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
        let starts_well = text
            .written
            .starts_with(|c: char| c.is_ascii_alphanumeric());
        if !starts_well || text.written.len() > NAME_BYTES_MAX || !text.written.bytes().all(is_part)
        {
            let message = format!("{} is not an image name", quote(text.written));
            let error = Diagnostic::error(&text.path, message).with_span(text.span);
            self.findings
                .push(error.with_suggestion("write it as `name:tag`, as `docker images` lists it"));
        }
        text.written.to_owned()
    }

    fn credentials(&mut self, backend: &MappingView<'_>) -> CredentialsConfig {
        let key = "command_line_docker_credentials";
        let Some(view) = backend.section(key) else {
            return CredentialsConfig::default();
        };
        let mut mount: Vec<HostCredential> = Vec::new();
        for text in view.texts("mount") {
            mount.extend(
                HostCredential::from_name(text.written).filter(|found| !mount.contains(found)),
            );
        }
        let env_file = view
            .text("env_file")
            .and_then(|text| self.path_beside_config(&text));
        let from_file = view.get("env_vars_from_file");
        let from_file = from_file.filter(|_| !view.items("env_vars_from_file").is_empty());
        if let (Some(list), None) = (from_file, &env_file) {
            let path = view.key_path("env_vars_from_file");
            let error = Diagnostic::error(path, "`env_vars_from_file` needs `env_file`");
            self.findings.push(
                error
                    .with_span(&list.span)
                    .with_suggestion("add `env_file: .env`"),
            );
        }
        let credentials = CredentialsConfig {
            mount,
            additional_mounts: self.additional_mounts(&view),
            env_file,
            env_vars_from_file: self.variable_names(&view, "env_vars_from_file"),
            env_vars: self.variable_names(&view, "env_vars"),
            environment: match view.flag("pass_all_env") {
                Some(true) => PassedEnvironment::All,
                Some(false) | None => PassedEnvironment::Listed,
            },
        };
        let exposed = credentials.exposed_names();
        if !exposed.is_empty() {
            let message = format!("every command of the agent can read {}", exposed.join(", "));
            let warning = Diagnostic::warning(backend.key_path(key), message);
            self.findings.push(warning.with_span(backend.key_span(key)));
        }
        credentials
    }

    fn additional_mounts(&mut self, view: &MappingView<'_>) -> BTreeMap<AbsPath, AbsPath> {
        let key = "additional_mounts";
        let Some(mounts) = view.section(key) else {
            if let Some(value) = view.get(key) {
                self.refuse_mount(
                    view.key_path(key),
                    &value.span,
                    "`additional_mounts` is not a mapping",
                );
            }
            return BTreeMap::new();
        };
        let entries = mounts.node.entries();
        if entries.len() > ENTRIES_MAX {
            let message = format!(
                "{} mounts are too many: at most {ENTRIES_MAX}",
                entries.len()
            );
            let error = Diagnostic::error(&mounts.path, message);
            self.findings.push(error.with_span(view.key_span(key)));
        }
        let mut found = BTreeMap::new();
        for entry in entries.iter().take(ENTRIES_MAX) {
            let text = TextValue {
                written: &entry.key,
                path: mounts.key_path(&entry.key),
                span: &entry.key_span,
            };
            let host = self.path(&text);
            let inner = mounts.section(&entry.key);
            let place = inner.and_then(|inner| self.mount_target(&inner));
            match (host, place) {
                (Some(host), Some(place)) => drop(found.insert(host, place)),
                (_, None) if mounts.section(&entry.key).is_none() => {
                    let message = format!("{} has no path in the container", quote(&entry.key));
                    self.refuse_mount(text.path, text.span, &message);
                }
                _ => {}
            }
        }
        found
    }

    fn refuse_mount(&mut self, path: String, span: &Span, message: &str) {
        let error = Diagnostic::error(path, message).with_span(span);
        self.findings.push(
            error.with_suggestion("write `/path/on/this/machine: {bind: /path/in/the/container}`"),
        );
    }

    /// Returns the path of a mount in the container.
    fn mount_target(&mut self, mount: &MappingView<'_>) -> Option<AbsPath> {
        for entry in mount.node.entries() {
            if !matches!(entry.key.as_str(), "bind" | "mode") {
                let message = format!("unknown key {}", quote(&entry.key));
                let error = Diagnostic::error(mount.key_path(&entry.key), message);
                let error = error.with_span(&entry.key_span);
                self.findings
                    .push(error.with_suggestion("keys here are `bind` and `mode`"));
            }
        }
        if let Some(mode) = mount.text("mode").filter(|mode| mode.written != "ro") {
            let error = Diagnostic::error(&mode.path, "credentials are mounted read-only");
            let error = error.with_span(mode.span);
            self.findings.push(error.with_suggestion(
                "write `ro`; use `context_paths` for files that the agent may change",
            ));
        }
        let Some(bind) = mount.text("bind") else {
            let message = "`bind` is missing";
            self.refuse_mount(mount.key_path("bind"), &mount.node.span, message);
            return None;
        };
        let place = AbsPath::new(bind.written).filter(|place| {
            let is_kernels = KERNEL_DIRS
                .iter()
                .any(|dir| place.as_path().starts_with(dir));
            place.parent().is_some() && !is_kernels
        });
        if place.is_none() {
            let message = format!("cannot mount at {}", quote(bind.written));
            let error = Diagnostic::error(&bind.path, message).with_span(bind.span);
            self.findings.push(error.with_suggestion(
                "use an absolute path in the container, such as `/home/massgen/.config/app.json`",
            ));
        }
        place
    }

    fn variable_names(&mut self, view: &MappingView<'_>, key: &str) -> Vec<String> {
        let texts = self.bounded_texts(view, key);
        let known = texts
            .into_iter()
            .filter(|text| self.is_variable_name(text, "write `[NAME, OTHER]`"));
        known.map(|text| text.written.to_owned()).collect()
    }

    fn packages(
        &mut self,
        backend: &MappingView<'_>,
        root: RootAccess,
        network: ContainerNetwork,
    ) -> PackagesConfig {
        let key = "command_line_docker_packages";
        let Some(view) = backend.section(key) else {
            return PackagesConfig::default();
        };
        let preinstall = view.section("preinstall");
        let mut list = |key| match &preinstall {
            Some(preinstall) => self.package_names(preinstall, key),
            None => Vec::new(),
        };
        let packages = PackagesConfig {
            system: list("system"),
            python: list("python"),
            npm: list("npm"),
            dependencies: match view.flag("auto_install_deps") {
                Some(true) => DependencyInstall::Automatic,
                Some(false) | None => DependencyInstall::Manual,
            },
        };
        if let (Some(preinstall), false, RootAccess::Never) =
            (&preinstall, packages.system.is_empty(), root)
        {
            let message = "system packages are installed as root";
            let error = Diagnostic::error(preinstall.key_path("system"), message);
            let error = error.with_span(preinstall.key_span("system"));
            self.findings
                .push(error.with_suggestion("add `command_line_docker_enable_sudo: true`"));
        }
        if packages.needs_network() && network == ContainerNetwork::None {
            let message = "packages need a network, but the container has none";
            let warning = Diagnostic::warning(backend.key_path(key), message);
            let warning = warning.with_span(backend.key_span(key));
            self.findings
                .push(warning.with_suggestion("add `command_line_docker_network_mode: bridge`"));
        }
        packages
    }

    /// Returns the packages of a list. None can be mistaken for an option of the installer.
    fn package_names(&mut self, view: &MappingView<'_>, key: &str) -> Vec<String> {
        let mut names = Vec::new();
        for text in self.bounded_texts(view, key) {
            let is_name = !text.written.is_empty()
                && text.written.len() <= NAME_BYTES_MAX
                && !text.written.starts_with('-')
                && !text.written.contains(char::is_control);
            if is_name {
                names.push(text.written.to_owned());
                continue;
            }
            let message = format!("{} is not a package name", quote(text.written));
            let error = Diagnostic::error(&text.path, message).with_span(text.span);
            self.findings.push(
                error.with_suggestion("write a name, with a version if you like: `pytest>=8`"),
            );
        }
        names
    }
}

/// Parses a decimal number into billionths.
fn billionths(decimal: &str) -> Option<u64> {
    const DIGITS: usize = 9;
    let (whole, part) = decimal.split_once('.').unwrap_or((decimal, ""));
    let part: String = part
        .chars()
        .chain("000000000".chars())
        .take(DIGITS)
        .collect();
    let (whole, part): (u64, u64) = (whole.parse().ok()?, part.parse().ok()?);
    whole.checked_mul(1_000_000_000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::billionths;

    #[test]
    fn processors_are_counted_in_billionths() {
        for (decimal, expected) in [
            ("2", Some(2_000_000_000)),
            ("0.5", Some(500_000_000)),
            ("1.0000000019", Some(1_000_000_001)),
            ("-1", None),
            ("x", None),
        ] {
            assert_eq!(billionths(decimal), expected, "{decimal}");
        }
    }
}
