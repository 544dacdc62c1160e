//! Warns about well-known tools and servers that fail without the network or a key, if their entry
//! opens neither.

use serde_json::Value;

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::MappingView;
use crate::config::custom_tools::PythonFunction;
use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::keys::{custom_tools, servers};
use crate::config::network_needs::{NetworkTool, find_network_package};
use crate::config::server_package::registry_domains;
use crate::config::servers::{PackageRequest, ServerConfig, ServerProgram, ServerTransport};
use crate::permissions::grant::Permission;
use crate::sandbox_policy::network::NetworkPolicy;
use crate::text::list_names;

/// The argument of tools that names what they control.
const ENVIRONMENT: &str = "environment";
/// The value of that argument for a browser.
const BROWSER: &str = "browser";
/// The variable that names a Docker daemon on the network.
const DOCKER_HOST: &str = "DOCKER_HOST";

impl ConfigChecker<'_> {
    /// Warns about tools of MassGen's package that need the network or a key, if their entry opens
    /// neither.
    pub(super) fn warn_about_package_tools(
        &mut self,
        view: &MappingView<'_>,
        functions: &[PythonFunction],
        server: &ServerConfig,
    ) {
        let ServerTransport::Program(program) = &server.transport else {
            return;
        };
        let mut tools_seen: Vec<&NetworkTool> = Vec::new();
        for function in functions {
            let Some(tool) = NetworkTool::of_function(function) else {
                continue;
            };
            // All functions of one file share a warning.
            if tools_seen.contains(&tool) {
                continue;
            }
            tools_seen.push(tool);
            let warning = container_warning(view, tool, function, program)
                .or_else(|| closed_tool_warning(view, tool, server, program));
            if let Some(warning) = warning {
                self.findings.push(warning);
            }
        }
    }

    /// Warns if the package of a server calls a service that the server cannot reach.
    pub(super) fn warn_about_closed_network(
        &mut self,
        entry: &MappingView<'_>,
        request: Option<&PackageRequest>,
        network: &NetworkPolicy,
    ) {
        let Some(package) = request.map(|request| &request.package) else {
            return;
        };
        let registry = registry_domains(package.registry);
        let is_closed = match network {
            NetworkPolicy::Off => true,
            NetworkPolicy::On => false,
            NetworkPolicy::Domains(domains) => domains
                .iter()
                .all(|domain| registry.contains(&domain.to_string().as_str())),
        };
        let Some(name) = find_network_package(package).filter(|_| is_closed) else {
            return;
        };
        let message = format!(
            "calls of the server fail: {} needs the network, which its entry does not open",
            quote(name)
        );
        let hint = "add `network: on` to its entry, or a list of the hosts that it calls if it uses \
                    the proxy in `HTTPS_PROXY`";
        let warning = Diagnostic::warning(entry.key_path(&servers::NETWORK), message)
            .with_span(entry.key_span(&servers::NETWORK))
            .with_suggestion(hint);
        self.findings.push(warning);
    }
}

/// Returns the warning about a tool whose arguments name a container.
fn container_warning(
    view: &MappingView<'_>,
    tool: &NetworkTool,
    function: &PythonFunction,
    program: &ServerProgram,
) -> Option<Diagnostic> {
    let environment = function
        .preset_args
        .get(ENVIRONMENT)
        .and_then(Value::as_str)?;
    let is_closed = environment != BROWSER && !program.env.contains_key(DOCKER_HOST);
    if !tool.drives_containers || !is_closed {
        return None;
    }
    let message = format!(
        "the tools of `{}` fail: `{ENVIRONMENT}` is {}, and Docker's socket is not open in a sandbox",
        tool.file(),
        quote(environment)
    );
    let warning = Diagnostic::warning(view.key_path(&custom_tools::PRESET_ARGS), message)
        .with_span(view.key_span(&custom_tools::PRESET_ARGS));
    Some(warning.with_suggestion(format!("write `{ENVIRONMENT}: {BROWSER}` in `preset_args`")))
}

/// Returns the warning about a tool without the network or the key that it needs.
fn closed_tool_warning(
    view: &MappingView<'_>,
    tool: &NetworkTool,
    server: &ServerConfig,
    program: &ServerProgram,
) -> Option<Diagnostic> {
    let is_passed = |variable: &&&str| program.env.contains_key(**variable);
    let passed_key = tool.keys.iter().find(is_passed);
    let key = passed_key.or(tool.keys.first()).copied();
    let has_network = program.network != NetworkPolicy::Off;
    let has_key = tool.keys.is_empty() || passed_key.is_some();
    if has_network && has_key {
        return None;
    }
    let mut needs = Vec::new();
    let mut additions = Vec::new();
    if !has_network {
        needs.push("the network".to_owned());
        additions.push(format!("network: {}", tool.network(key)));
    }
    if let Some(key) = key.filter(|_| !has_key) {
        let one_of = if tool.keys.len() > 1 { "one of " } else { "" };
        needs.push(format!("{one_of}{}", list_names(tool.keys, "and")));
        additions.push(format!("env: [{key}]"));
    }
    if tool.writes_files && server.rules.permission == Permission::Read {
        additions.push("permission: write".to_owned());
    }
    let message = format!(
        "the tools of `{}` fail: they need {}, which their entry does not open",
        tool.file(),
        needs.join(" and ")
    );
    let additions: Vec<&str> = additions.iter().map(String::as_str).collect();
    let mut hint = format!("add {} to the entry", list_names(&additions, "and"));
    if tool.drives_containers {
        hint.push_str("; in a sandbox, they control browsers and no containers");
    }
    let (path, span) = if has_network {
        (
            view.key_path(&custom_tools::ENV),
            view.key_span(&custom_tools::ENV),
        )
    } else {
        (
            view.key_path(&custom_tools::NETWORK),
            view.key_span(&custom_tools::NETWORK),
        )
    };
    let warning = Diagnostic::warning(path, message).with_span(span);
    Some(warning.with_suggestion(hint))
}
