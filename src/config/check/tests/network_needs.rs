//! Tools and servers of others that fail with what their entry opens.

use super::*;

/// Checks the findings about one entry of `custom_tools`.
#[track_caller]
fn check_tool(file: &str, keys: &str, expected: &[&str]) {
    let yaml = format!("cwd: w1\ncustom_tools: [{{path: massgen/tool/{file}.py, {keys}}}]");
    check(&with_backend(&yaml), expected);
}

/// Checks the findings about one server, whose package is not installed.
#[track_caller]
fn check_server(keys: &str, expected: &[&str]) {
    check(
        &with_backend(&format!("cwd: w1\nmcp_servers: [{{name: s, {keys}}}]")),
        expected,
    );
}

#[test]
fn tools_of_massgens_package_need_the_network_and_keys() {
    let image = "_multimodal_tools/understand_image";
    let function = "function: [understand_image]";
    check_tool(
        image,
        function,
        &[
            "custom_tools[0].network: the tools of `massgen/tool/_multimodal_tools/understand_image.py` \
             fail: they need the network and `OPENAI_API_KEY`, which their entry does not open \
             (add `network: [api.openai.com]` and `env: [OPENAI_API_KEY]` to the entry)",
        ],
    );
    check_tool(
        image,
        &format!("{function}, network: [api.openai.com]"),
        &[
            "custom_tools[0].env: the tools of `massgen/tool/_multimodal_tools/understand_image.py` \
           fail: they need `OPENAI_API_KEY`, which",
        ],
    );
    let key = "env: {OPENAI_API_KEY: '${KEY}'}";
    check_tool(
        image,
        &format!("{function}, {key}"),
        &[
            "they need the network, which their entry does not open (add `network: [api.openai.com]` \
           to the entry)",
        ],
    );
    check_tool(
        image,
        &format!("{function}, {key}, network: [api.openai.com]"),
        &[],
    );
    check_tool(image, &format!("{function}, {key}, network: on"), &[]);
}

#[test]
fn the_host_to_open_is_that_of_the_key_that_a_tool_has() {
    let video = "_multimodal_tools/understand_video";
    check_tool(
        video,
        "function: understand_video, env: {ANTHROPIC_API_KEY: '${KEY}'}",
        &["(add `network: [api.anthropic.com]` to the entry)"],
    );
    check_tool(
        video,
        "function: understand_video, network: on",
        &[
            "they need one of `OPENAI_API_KEY`, `GEMINI_API_KEY`, `GOOGLE_API_KEY`, \
           `ANTHROPIC_API_KEY` and `OPENROUTER_API_KEY`, which",
        ],
    );
}

#[test]
fn tools_without_keys_and_tools_that_write_are_told_what_they_need() {
    check_tool(
        "_web_tools/crawl4ai_tool",
        "function: [crawl4ai_md, crawl4ai_pdf]",
        &[
            "they need the network, which their entry does not open (add `network: on` and \
           `permission: write` to the entry)",
        ],
    );
    check_tool(
        "_web_tools/crawl4ai_tool",
        "function: [crawl4ai_md, crawl4ai_pdf], permission: write",
        &["(add `network: on` to the entry)"],
    );
    check_tool(
        "_web_tools/crawl4ai_tool",
        "function: [crawl4ai_md, crawl4ai_pdf], network: on",
        &[],
    );
    check_tool("_basic/_two_num_tool", "function: two_num_tool", &[]);
    check_tool("_own/own_tool", "function: understand_image", &[]);
}

#[test]
fn no_container_is_driven_from_a_sandbox() {
    let tool = "_computer_use/computer_use_tool";
    let keys = |environment: &str, rest: &str| {
        format!(
            "function: computer_use, preset_args: {{environment: {environment}}}, \
             env: {{OPENAI_API_KEY: '${{KEY}}'{rest}}}, network: on"
        )
    };
    check_tool(
        tool,
        &keys("linux", ""),
        &[
            "preset_args: the tools of `massgen/tool/_computer_use/computer_use_tool.py` fail: \
             `environment` is `linux`, and Docker's socket is not open in a sandbox",
        ],
    );
    check_tool(
        tool,
        &keys("linux", ", DOCKER_HOST: 'tcp://docker.example:2375'"),
        &[],
    );
    check_tool(tool, &keys("browser", ""), &[]);
    check_tool(
        tool,
        "function: computer_use",
        &[
            "`OPENAI_API_KEY`, which their entry does not open (add `network: on` and `env: \
           [OPENAI_API_KEY]` to the entry; in a sandbox, they control browsers and no containers)",
        ],
    );
}

/// The control is the key that all commands can read, in
/// `a_variable_is_inherited_literal_or_expanded`.
#[test]
fn a_tool_or_a_server_may_have_the_key_of_a_vendor() {
    let keys = "env: [GROQ_API_KEY], network: on";
    check_tool("_own/own_tool", &format!("function: own, {keys}"), &[]);
    check_server(&format!("command: node, {keys}"), &[]);
}

#[test]
fn the_same_tool_of_several_agents_is_one_finding() {
    let agent = |id: &str| {
        format!(
            "  - id: {id}\n    backend: {{type: scripted, replies: [], cwd: {id}, custom_tools: \
             [{{path: massgen/tool/_web_tools/crawl4ai_tool.py, function: crawl4ai_md}}]}}\n"
        )
    };
    let loaded = try_load(&format!("agents:\n{}{}", agent("a"), agent("b"))).unwrap();
    let [warning] = loaded.warnings.as_slice() else {
        panic!("{:#?}", loaded.warnings);
    };
    assert_eq!(warning.repeats, 1);
}

#[test]
fn servers_that_call_a_service_need_the_network() {
    let weather = "command: npx, args: [-y, '@fak111/weather-mcp@1.0.0']";
    let warning = "mcp_servers[0].network: calls of the server fail: `@fak111/weather-mcp` needs the \
                network, which its entry does not open (add `network: on` to its entry";
    check_server(weather, &[warning, "which is not installed"]);
    // The registry is not the service.
    check_server(
        &format!("{weather}, network: [registry.npmjs.org]"),
        &[warning],
    );
    check_server(&format!("{weather}, network: on"), &[]);
    check_server(
        &format!("{weather}, network: [registry.npmjs.org, weather.example]"),
        &[],
    );
    check_server(
        "command: npx, args: [-y, '@modelcontextprotocol/server-filesystem', .]",
        &["which is not installed"],
    );
}
