//! Checks the keys of an agent about the pod that its commands run in.

use crate::config::check::ConfigChecker;
use crate::config::check::docker::billionths;
use crate::config::check::mapping_view::{MappingView, TextValue};
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::keys::shape::Text;
use crate::config::keys::{TypedKey, commands, kubernetes};
use crate::config::kubernetes::{
    CONNECTION_TIMEOUT_SECONDS_DEFAULT, DEADLINE_SECONDS_DEFAULT, KubernetesConfig, PodNetwork,
    is_object_name,
};

/// The longest name of an image or a context, in bytes.
const NAME_BYTES_MAX: usize = 512;

impl ConfigChecker<'_> {
    /// Returns the configuration of an agent's pod; `None` if it is incomplete.
    pub(super) fn kubernetes(&mut self, backend: &MappingView<'_>) -> Option<KubernetesConfig> {
        let Some(view) = backend.section(&kubernetes::SECTION) else {
            if backend.get(&kubernetes::SECTION).is_none() {
                let path = backend.key_path(&commands::MODE);
                let message = "`command_line_execution_mode: kubernetes` needs \
                               `command_line_kubernetes`";
                let error =
                    Diagnostic::error(path, message).with_span(backend.key_span(&commands::MODE));
                self.findings.push(
                    error.with_suggestion("add `command_line_kubernetes: {image: debian:12}`"),
                );
            }
            return None;
        };
        let network = match view.text(&kubernetes::NETWORK) {
            Some(text) if text.value == "cluster" => PodNetwork::Cluster,
            Some(_) | None => PodNetwork::None,
        };
        let mut pull_secrets = Vec::new();
        for text in self.bounded_texts(&view, &kubernetes::PULL_SECRETS) {
            pull_secrets.extend(self.object_name(&text));
        }
        let cpus = view.decimal(&kubernetes::CPUS);
        let mut object = |key: &TypedKey<Text>| {
            let text = view.text(key)?;
            self.object_name(&text)
        };
        let (namespace, runtime_class) = (
            object(&kubernetes::NAMESPACE),
            object(&kubernetes::RUNTIME_CLASS),
        );
        let mut word = |key: &TypedKey<Text>| {
            let text = view.text(key)?;
            self.word(&text)
        };
        let (context, image) = (word(&kubernetes::CONTEXT), word(&kubernetes::IMAGE));
        Some(KubernetesConfig {
            context,
            namespace,
            // A missing image is an error of its own.
            image: image.unwrap_or_default(),
            image_pull_secrets: pull_secrets,
            runtime_class,
            memory_bytes: view.size(&kubernetes::MEMORY),
            nano_cpus: cpus.and_then(|cpus| billionths(&cpus)),
            disk_bytes: view.size(&kubernetes::DISK),
            network,
            deadline_seconds: view
                .integer(&kubernetes::DEADLINE)
                .unwrap_or(DEADLINE_SECONDS_DEFAULT),
            connection_timeout_seconds: view
                .integer(&kubernetes::CONNECTION_TIMEOUT)
                .unwrap_or(CONNECTION_TIMEOUT_SECONDS_DEFAULT),
        })
    }

    fn object_name(&mut self, text: &TextValue<'_>) -> Option<String> {
        if is_object_name(text.value) {
            return Some(text.value.to_owned());
        }
        self.refuse_kubernetes_name(text, "is not a valid name of a Kubernetes object");
        None
    }

    /// Returns a text that can only be meant as one word.
    fn word(&mut self, text: &TextValue<'_>) -> Option<String> {
        let has_space = text
            .value
            .contains(|c: char| c.is_whitespace() || c.is_control());
        if !text.value.is_empty() && !has_space && text.value.len() <= NAME_BYTES_MAX {
            return Some(text.value.to_owned());
        }
        self.refuse_kubernetes_name(text, "is empty, too long or has a space");
        None
    }

    fn refuse_kubernetes_name(&mut self, text: &TextValue<'_>, reason: &str) {
        let message = format!("{} {reason}", quote(text.value));
        let error = Diagnostic::error(&text.path, message).with_span(text.span);
        self.findings
            .push(error.with_suggestion("write it as `kubectl` shows it"));
    }
}
