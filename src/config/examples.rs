//! The example configs that are built into the binary, under the names that users know.

use crate::config::keys::nearest;
use crate::config::lookup::EXAMPLE_PREFIX;

/// A built-in config.
#[derive(Debug)]
pub struct ExampleConfig {
    /// Its path below `configs/`, such as `basic/single_agent.yaml`.
    pub name: &'static str,
    /// Its source.
    pub text: &'static str,
}

impl ExampleConfig {
    /// Returns its purpose: the comment in its first line.
    pub fn summary(&self) -> &'static str {
        let line = self.text.lines().next().unwrap_or_default();
        line.trim_start_matches('#').trim()
    }
}

macro_rules! examples {
    ($($name:literal),* $(,)?) => {
        &[$(ExampleConfig {
            name: $name,
            text: include_str!(concat!("../../configs/", $name)),
        }),*]
    };
}

/// Every example, in listing order.
pub static EXAMPLES: &[ExampleConfig] = examples![
    "basic/demo.yaml",
    "basic/offline_demo.yaml",
    "basic/single_agent.yaml",
    "basic/two_agents.yaml",
    "basic/openai_reasoning.yaml",
    "basic/two_claudes.yaml",
    "basic/gemini_search.yaml",
    "basic/local_ollama.yaml",
    "tools/code-execution/basic_command_execution.yaml",
    "tools/code-execution/code_execution_use_case_simple.yaml",
    "tools/code-execution/command_filtering_whitelist.yaml",
    "tools/code-execution/command_filtering_blacklist.yaml",
    "tools/code-execution/programs_instead_of_calls.yaml",
    "tools/mcp/git_server.yaml",
    "tools/custom-tools/offline_demo.yaml",
    "tools/filesystem/folder_guard_and_rules.yaml",
    "tools/filesystem/gemini_gpt5_filesystem_casestudy.yaml",
    "tools/filesystem/gemini_gpt5_filesystem_multiturn.yaml",
    "tools/filesystem/multiturn/two_gemini_flash_filesystem_multiturn.yaml",
    "tools/filesystem/multiturn/grok4_gpt5_claude_code_filesystem_multiturn.yaml",
    "tools/filesystem/fs_permissions_test.yaml",
    "tools/agent-programs/claude_code_and_codex.yaml",
    "pipeline/offline_demo.yaml",
    "pipeline/dev_loop.yaml",
];

/// Returns the example of this exact name, with or without `.yaml` and `@examples/`.
pub fn find_example(name: &str) -> Option<&'static ExampleConfig> {
    let name = bare_name(name);
    EXAMPLES
        .iter()
        .find(|example| bare_name(example.name) == name)
}

/// Returns the name of the example that `name` probably means.
pub fn nearest_name(name: &str) -> Option<&'static str> {
    let wanted_name = bare_name(name);
    let last_part = |name| bare_name(name).rsplit('/').next().unwrap_or(name);
    let same_file = EXAMPLES
        .iter()
        .find(|example| last_part(example.name) == last_part(wanted_name));
    match same_file {
        Some(example) => Some(example.name),
        None => nearest(
            wanted_name,
            EXAMPLES.iter().map(|example| bare_name(example.name)),
        )
        .and_then(find_example)
        .map(|example| example.name),
    }
}

fn bare_name(name: &str) -> &str {
    let name = name.strip_prefix(EXAMPLE_PREFIX).unwrap_or(name);
    name.strip_suffix(".yaml").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_exact_names() {
        let expected = "basic/single_agent.yaml";
        for name in [
            expected,
            "basic/single_agent",
            "@examples/basic/single_agent.yaml",
            "@examples/basic/single_agent",
        ] {
            assert_eq!(
                find_example(name).map(|example| example.name),
                Some(expected),
                "{name}"
            );
        }
        for name in [
            "single_agent",
            "basic",
            "basic/single",
            "",
            "@examples/",
            "BASIC/single_agent",
        ] {
            assert!(find_example(name).is_none(), "{name}");
        }
    }

    #[test]
    fn other_names_get_a_suggestion() {
        assert_eq!(
            nearest_name("single_agent"),
            Some("basic/single_agent.yaml")
        );
        assert_eq!(
            nearest_name("@examples/basic/singel_agent"),
            Some("basic/single_agent.yaml")
        );
        assert_eq!(
            nearest_name("fs_permissions_test.yaml"),
            Some("tools/filesystem/fs_permissions_test.yaml")
        );
        assert_eq!(nearest_name("nothing like it at all"), None);
    }
}
