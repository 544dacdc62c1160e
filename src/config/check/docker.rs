//! Checks the keys of an agent about the container that its commands run in.

use std::collections::BTreeMap;

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, join_key};
use crate::config::diagnostic::quote;
use crate::config::docker::{
    ContainerNetwork, CredentialsConfig, DependencyInstall, DockerConfig, HOST_CREDENTIALS, IMAGE,
    PackagesConfig, PassedEnvironment, RootAccess, SUDO_IMAGE,
};
use crate::config::keys::shape::TextList;
use crate::config::keys::{TypedKey, docker};
use crate::config::yaml::YamlValue;
use crate::path::AbsPath;

/// The maximum number of mounts, variables or packages in one list.
const ENTRIES_MAX: usize = 64;
/// The longest name of an image or package, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// How a mount is written.
const MOUNT_SUGGESTION: &str = "write `/path/on/this/machine: {bind: /path/in/the/container}`";
/// Directories of a container that hold interfaces to the kernel rather than files.
const KERNEL_DIRS: &[&str] = &["/dev", "/proc", "/sys"];

impl ConfigChecker<'_> {
    /// Returns the configuration of an agent's container.
    pub(super) fn docker(&mut self, backend: &MappingView<'_>) -> DockerConfig {
        let root = if backend.is_set(&docker::SUDO) {
            RootAccess::BySudo
        } else {
            RootAccess::Never
        };
        let network = match backend.word(&docker::NETWORK) {
            Some("bridge") => ContainerNetwork::Bridge,
            Some("host") => ContainerNetwork::Host,
            _ => ContainerNetwork::None,
        };
        let cpus = backend.decimal(&docker::CPUS);
        DockerConfig {
            image: self.image(backend, root),
            memory_bytes: backend.size(&docker::MEMORY),
            nano_cpus: cpus.and_then(|cpus| billionths(&cpus)),
            network,
            root,
            credentials: self.credentials(backend),
            packages: self.packages(backend, root),
        }
    }

    fn image(&mut self, backend: &MappingView<'_>, root: RootAccess) -> String {
        let Some(text) = backend.text(&docker::IMAGE) else {
            return match root {
                RootAccess::Never => IMAGE,
                RootAccess::BySudo => SUDO_IMAGE,
            }
            .to_owned();
        };
        self.image_name(&text)
    }

    /// Returns the name of an image; adds an error if it is not valid.
    pub(super) fn image_name(&mut self, text: &TextValue<'_>) -> String {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
        let is_name = text.value.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.value.len() <= NAME_BYTES_MAX
            && text.value.bytes().all(is_allowed);
        if !is_name {
            let suggestion = "write it as `name:tag`, as `docker images` lists it";
            self.refuse_value(text, "an image name", suggestion);
        }
        text.value.to_owned()
    }

    fn credentials(&mut self, backend: &MappingView<'_>) -> CredentialsConfig {
        let key = &docker::CREDENTIALS;
        let Some(view) = backend.section(key) else {
            return CredentialsConfig::default();
        };
        let mut mount = Vec::new();
        for text in view.texts(&docker::MOUNT) {
            let mut known = HOST_CREDENTIALS.iter();
            let credential = known.find(|(name, _)| *name == text.value);
            mount.extend(
                credential
                    .map(|(_, path)| *path)
                    .filter(|path| !mount.contains(path)),
            );
        }
        let env_file = view
            .text(&docker::ENV_FILE)
            .and_then(|text| self.config_relative_path(&text));
        let file_variables = &docker::ENV_VARS_FROM_FILE;
        if let (Some(list), None) = (view.get(file_variables), &env_file)
            && !view.texts(file_variables).is_empty()
        {
            let message = "`env_vars_from_file` needs `env_file`";
            let path = view.key_path(file_variables);
            self.refuse((path, &list.span), message, "add `env_file: .env`");
        }
        let credentials = CredentialsConfig {
            mount,
            additional_mounts: self.additional_mounts(&view),
            env_file,
            env_vars_from_file: self.variable_names(&view, file_variables),
            env_vars: self.variable_names(&view, &docker::ENV_VARS),
            environment: match view.flag(&docker::PASS_ALL_ENV) {
                Some(true) => PassedEnvironment::All,
                Some(false) | None => PassedEnvironment::Listed,
            },
        };
        let exposed_names = credentials.exposed_names();
        if !exposed_names.is_empty() {
            let names = exposed_names.join(", ");
            let message = format!("every command of the agent can read {names}");
            self.add_warning(backend.at(key), message);
        }
        credentials
    }

    fn additional_mounts(&mut self, view: &MappingView<'_>) -> BTreeMap<AbsPath, AbsPath> {
        let key = &docker::ADDITIONAL_MOUNTS;
        let Some(mounts) = view.get(key) else {
            return BTreeMap::new();
        };
        let path = view.key_path(key);
        let YamlValue::Mapping(entries) = &mounts.value else {
            let message = "`additional_mounts` is not a mapping";
            self.refuse((path, &mounts.span), message, MOUNT_SUGGESTION);
            return BTreeMap::new();
        };
        let hint = "list fewer";
        let count = (entries.len(), ENTRIES_MAX);
        self.limit_count((&path, view.key_span(key)), count, "mounts", hint);
        let mut mounts = BTreeMap::new();
        for entry in entries.iter().take(ENTRIES_MAX) {
            let text = TextValue {
                value: &entry.key,
                path: join_key(&path, &entry.key),
                span: &entry.key_span,
            };
            let host = self.path(&text);
            let mount = MappingView::new(&entry.value, text.path.clone());
            let target = mount.as_ref().and_then(|inner| self.mount_target(inner));
            match (host, target) {
                (Some(host), Some(target)) => drop(mounts.insert(host, target)),
                (_, None) if mount.is_none() => {
                    let message = format!("{} has no path in the container", quote(&entry.key));
                    self.refuse(&text, message, MOUNT_SUGGESTION);
                }
                // The invalid path already has its error.
                _ => {}
            }
        }
        mounts
    }

    /// Returns the path of a mount in the container.
    fn mount_target(&mut self, mount: &MappingView<'_>) -> Option<AbsPath> {
        let allowed_keys = [docker::BIND.name(), docker::MODE.name()];
        for entry in mount.node.entries() {
            if !allowed_keys.contains(&entry.key.as_str()) {
                let message = format!("unknown key {}", quote(&entry.key));
                let path = join_key(&mount.path, &entry.key);
                let suggestion = "keys here are `bind` and `mode`";
                self.refuse((path, &entry.key_span), message, suggestion);
            }
        }
        if let Some(mode) = mount.text(&docker::MODE).filter(|mode| mode.value != "ro") {
            let message = "credentials are mounted read-only";
            let suggestion = "write `ro`; use `context_paths` for files that the agent may change";
            self.refuse(&mode, message, suggestion);
        }
        let Some(bind) = mount.text(&docker::BIND) else {
            let (path, span) = (mount.key_path(&docker::BIND), &mount.node.span);
            self.refuse((path, span), "`bind` is missing", MOUNT_SUGGESTION);
            return None;
        };
        let target = AbsPath::new(bind.value).filter(|target| {
            let is_in_kernel_dir = KERNEL_DIRS
                .iter()
                .any(|dir| target.as_path().starts_with(dir));
            target.parent().is_some() && !is_in_kernel_dir
        });
        if target.is_none() {
            let message = format!("cannot mount at {}", quote(bind.value));
            let suggestion =
                "use an absolute path in the container, such as `/home/massgen/.config/app.json`";
            self.refuse(&bind, message, suggestion);
        }
        target
    }

    fn variable_names(&mut self, view: &MappingView<'_>, key: &TypedKey<TextList>) -> Vec<String> {
        let texts = self.bounded_texts(view, key);
        let valid_names = texts
            .into_iter()
            .filter(|text| self.is_variable_name(text, "write `[NAME, OTHER]`"));
        valid_names.map(|text| text.value.to_owned()).collect()
    }

    fn packages(&mut self, backend: &MappingView<'_>, root: RootAccess) -> PackagesConfig {
        let view = backend.section_or_empty(&docker::PACKAGES);
        let preinstall = view.section_or_empty(&docker::PREINSTALL);
        let packages = PackagesConfig {
            system: self.package_names(&preinstall, &docker::SYSTEM),
            python: self.package_names(&preinstall, &docker::PYTHON),
            npm: self.package_names(&preinstall, &docker::NPM),
            dependencies: if view.is_set(&docker::AUTO_INSTALL_DEPS) {
                DependencyInstall::Automatic
            } else {
                DependencyInstall::Manual
            },
        };
        if !packages.system.is_empty() && root == RootAccess::Never {
            let message = "system packages are installed as root";
            let hint = "add `command_line_docker_enable_sudo: true`";
            self.refuse(preinstall.at(&docker::SYSTEM), message, hint);
        }
        packages
    }

    /// Returns the packages of a list. Refuses those that an installer would take for an option.
    fn package_names(&mut self, view: &MappingView<'_>, key: &TypedKey<TextList>) -> Vec<String> {
        let mut names = Vec::new();
        for text in self.bounded_texts(view, key) {
            let is_name = !text.value.is_empty()
                && text.value.len() <= NAME_BYTES_MAX
                && !text.value.starts_with('-')
                && !text.value.contains(char::is_control);
            if is_name {
                names.push(text.value.to_owned());
                continue;
            }
            let suggestion = "write a name, with a version if you like: `pytest>=8`";
            self.refuse_value(&text, "a package name", suggestion);
        }
        names
    }
}

/// Parses a decimal number into billionths. Further digits are ignored.
fn billionths(decimal: &str) -> Option<u64> {
    const DIGITS: usize = 9;
    let (whole, decimals) = decimal.split_once('.').unwrap_or((decimal, ""));
    let digits = decimals.chars().chain(std::iter::repeat('0'));
    let fraction: String = digits.take(DIGITS).collect();
    let (whole, fraction): (u64, u64) = (whole.parse().ok()?, fraction.parse().ok()?);
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
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
