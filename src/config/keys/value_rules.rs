//! Rules about the values of keys in a found config: some values are harmless, and others need a
//! config that the user names. Each rule returns what the value would do; `None` if it is harmless.

use url::Url;

use crate::config::docker::IMAGE;
use crate::config::external_agents;
use crate::config::keys::found_config::{
    KeySetting, is_empty, items, text, text_of_key, value_of_key,
};
use crate::config::keys::{backend, context_paths, hooks, servers};
use crate::config::storage_path::StoragePath;
use crate::config::vendors::{self, UrlDestination, Vendor, VendorConnection};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::text::single_line;

/// The longest part of a command or a name that is quoted, in characters.
const SHOWN_CHARS_MAX: usize = 80;
/// The value for no network.
const OFF: &str = "off";

/// Checks `base_url`: only the vendor's own hosts and this machine are allowed.
pub(super) fn endpoint(setting: &KeySetting<'_>) -> Option<String> {
    let (vendor, url) = vendor_endpoint(setting)?;
    let agent = for_agent(setting);
    match vendors::destination(&url) {
        UrlDestination::ThisMachine => None,
        UrlDestination::Vendor(variables) if vendor.key_variables_at(&url) == variables => None,
        UrlDestination::Vendor(_) => Some(format!(
            "would send your key{agent} to `{url}`, which is not a host of `{}`",
            vendor.name
        )),
        UrlDestination::Elsewhere(reason) => Some(format!(
            "would send your key{agent} to `{url}`, which {reason}"
        )),
    }
}

/// Checks `api_key`: a vendor's host may get only a variable of that vendor, and a server on this
/// machine no variable.
pub(super) fn api_key(setting: &KeySetting<'_>) -> Option<String> {
    let trimmed_text = text(setting.unexpanded)?.trim();
    let (_, url) = vendor_endpoint(setting)?;
    let agent = for_agent(setting);
    let variable = trimmed_text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    match vendors::destination(&url) {
        UrlDestination::ThisMachine if !trimmed_text.contains("${") => None,
        UrlDestination::ThisMachine => Some(format!(
            "would send `{}` to `{url}`, a server on this machine",
            single_line(trimmed_text, SHOWN_CHARS_MAX)
        )),
        UrlDestination::Vendor(variables) => match variable {
            Some(name) if variables.contains(&name) => None,
            Some(name) => Some(format!(
                "would send `{}` to `{url}`, which takes another key",
                single_line(name, SHOWN_CHARS_MAX)
            )),
            None => Some(format!(
                "has its own API key{agent}: the work would go to the account of the config's author"
            )),
        },
        UrlDestination::Elsewhere(reason) => Some(format!(
            "would send your key{agent} to `{url}`, which {reason}"
        )),
    }
}

/// Returns the vendor and the endpoint; `None` for a backend that does not use HTTP, and for one
/// whose type or address the checks refuse anyway.
fn vendor_endpoint(setting: &KeySetting<'_>) -> Option<(&'static Vendor, Url)> {
    let own_type = setting.text_in_mapping(&backend::TYPE);
    let enclosing_type = setting.text_in_enclosing(&backend::TYPE);
    let vendor = vendors::find_vendor(own_type.or(enclosing_type)?)?;
    let is_same_type = own_type.is_none() || own_type == enclosing_type;
    let url = setting.text_in_mapping(&backend::BASE_URL).or_else(|| {
        setting
            .text_in_enclosing(&backend::BASE_URL)
            .filter(|_| is_same_type)
    });
    match vendor.connection {
        VendorConnection::Http(_) => Some((vendor, Url::parse(url.or(vendor.base_url)?).ok()?)),
        VendorConnection::Scripted
        | VendorConnection::ExternalAgent(_)
        | VendorConnection::Unsupported => None,
    }
}

/// Checks `type`: external agents are not allowed.
pub(super) fn vendor(setting: &KeySetting<'_>) -> Option<String> {
    let vendor = vendors::find_vendor(text(setting.value)?)?;
    let VendorConnection::ExternalAgent(_) = vendor.connection else {
        return None;
    };
    let command = value_of_key(setting.mapping, &backend::COMMAND);
    let configured_program = command.and_then(|command| text(items(command).first()?));
    let default_program = || {
        external_agents::find_kind(vendor.name)?
            .command
            .first()
            .copied()
    };
    let program = single_line(
        configured_program
            .or_else(default_program)
            .unwrap_or(vendor.name),
        SHOWN_CHARS_MAX,
    );
    let agent = setting.agent;
    Some(if agent.is_empty() {
        format!("would start the program `{program}` as an agent")
    } else {
        format!("would start the program `{program}` as the agent `{agent}`")
    })
}

/// Returns ` for` with the name of the agent whose key it is, or nothing outside of agents: the
/// model of subagents has no name.
fn for_agent(setting: &KeySetting<'_>) -> String {
    match setting.agent {
        "" => String::new(),
        agent => format!(" for `{agent}`"),
    }
}

/// Checks `cwd`: only a workspace managed by massgen is allowed. In a directory of the user no name
/// would be protected.
pub(super) fn workspace(setting: &KeySetting<'_>) -> Option<String> {
    let path = text(setting.value)?;
    let is_of_user = path.starts_with('~') || StoragePath::parse(path)?.absolute().is_some();
    is_of_user.then(|| {
        format!(
            "makes `{}` the workspace of `{}`, in which no name is protected",
            single_line(path, SHOWN_CHARS_MAX),
            setting.agent
        )
    })
}

/// Checks `command_line_sandbox`: only the strongest level is allowed.
pub(super) fn sandbox(setting: &KeySetting<'_>) -> Option<String> {
    match text(setting.value)? {
        "auto" | "overlay" => None,
        _ if is_off(setting.value) => Some("switches the sandbox of commands off".to_owned()),
        level => Some(format!(
            "runs commands at sandbox level `{}`, which may not be the strongest",
            single_line(level, SHOWN_CHARS_MAX)
        )),
    }
}

/// Checks `fetch_url`: only `off` is allowed.
pub(super) fn pages(setting: &KeySetting<'_>) -> Option<String> {
    let is_closed = is_empty(setting.value) || is_off(setting.value);
    (!is_closed).then(|| "reads pages of the Web".to_owned())
}

/// Checks `network`: only `off` is allowed.
pub(super) fn network(setting: &KeySetting<'_>) -> Option<String> {
    let is_closed = is_empty(setting.value) || is_off(setting.value);
    (!is_closed).then(|| "opens the network to commands".to_owned())
}

fn is_off(node: &YamlNode) -> bool {
    match &node.value {
        YamlValue::Scalar(scalar) => scalar.text == OFF || node.is_false(),
        YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => false,
    }
}

/// Checks `env`: only literal values are allowed, and none of the user's variables.
pub(super) fn variables(setting: &KeySetting<'_>) -> Option<String> {
    let listed_name = items(setting.unexpanded).iter().find_map(text);
    let entries = setting.unexpanded.entries().iter();
    let mut passed_entries = entries.filter(|entry| {
        // An empty value inherits the user's variable of that name.
        text(&entry.value).is_none_or(|text| text.contains("${"))
    });
    let name = listed_name.or_else(|| passed_entries.next().map(|entry| entry.key.as_str()))?;
    Some(format!(
        "gives commands `{}` from your environment",
        single_line(name, SHOWN_CHARS_MAX)
    ))
}

/// Checks `command_line_docker_image`: only the default is allowed.
pub(super) fn image(setting: &KeySetting<'_>) -> Option<String> {
    let image_text = text(setting.value).filter(|image| *image != IMAGE)?;
    let image = single_line(image_text, SHOWN_CHARS_MAX);
    Some(format!(
        "runs commands in your image `{image}`, with all that is in it"
    ))
}

/// Checks `command_line_docker_credentials`: none are allowed.
pub(super) fn credentials(setting: &KeySetting<'_>) -> Option<String> {
    let entries = setting.value.entries().iter();
    let mut set_entries = entries.filter(|entry| !is_empty(&entry.value) && !is_off(&entry.value));
    let entry = set_entries.next()?;
    let names = items(&entry.value).iter().filter_map(text);
    let keys = entry.value.entries().iter().map(|entry| entry.key.as_str());
    let words: Vec<&str> = names.chain(keys).chain(text(&entry.value)).collect();
    Some(format!(
        "gives commands your credentials: `{}: {}`",
        entry.key,
        single_line(&words.join(", "), SHOWN_CHARS_MAX)
    ))
}

/// Checks `unprotected`: no names are allowed.
pub(super) fn unprotected(setting: &KeySetting<'_>) -> Option<String> {
    let names: Vec<&str> = items(setting.value).iter().filter_map(text).collect();
    let path = setting
        .text_in_mapping(&context_paths::PATH)
        .unwrap_or_default();
    (!names.is_empty()).then(|| {
        format!(
            "opens protected names in `{}`: {}",
            single_line(path, SHOWN_CHARS_MAX),
            single_line(&names.join(", "), SHOWN_CHARS_MAX)
        )
    })
}

/// Checks `mcp_servers`: none are allowed.
pub(super) fn servers(setting: &KeySetting<'_>) -> Option<String> {
    let first_item = items(setting.value).first();
    let first_entry = setting.value.entries().first();
    let (name, server) = first_item
        .map(|server| (name_of(server), server))
        .or_else(|| first_entry.map(|entry| (entry.key.as_str(), &entry.value)))?;
    let name = single_line(name, SHOWN_CHARS_MAX);
    let url = text_of_key(server, &servers::URL).and_then(|url| Url::parse(url).ok());
    Some(match (text_of_key(server, &servers::COMMAND), url) {
        (Some(command), _) => {
            let program = command.split_whitespace().next().unwrap_or_default();
            let program = single_line(program, SHOWN_CHARS_MAX);
            format!("would start the program `{program}` as the server `{name}`")
        }
        (None, Some(url)) => {
            let host = url.host_str().unwrap_or_default().to_owned();
            format!("would send the agents' work to `{host}`, the server `{name}`")
        }
        (None, None) => format!("uses the server `{name}`"),
    })
}

fn name_of(server: &YamlNode) -> &str {
    text_of_key(server, &servers::NAME).unwrap_or_default()
}

/// Checks the hooks of an event: none are allowed.
pub(super) fn hook(setting: &KeySetting<'_>) -> Option<String> {
    let command = first_command(items(setting.value).first()?);
    let command = single_line(command.unwrap_or_default(), SHOWN_CHARS_MAX);
    Some(format!("would run the hook `{command}`"))
}

/// Returns the command of a hook, or of the first hook of a group.
fn first_command(hook: &YamlNode) -> Option<&str> {
    let own_command = || text_of_key(hook, &hooks::COMMAND);
    let group_command = || {
        let group_hooks = value_of_key(hook, &hooks::GROUP_HOOKS)?;
        items(group_hooks).first().and_then(first_command)
    };
    text(hook).or_else(own_command).or_else(group_command)
}
