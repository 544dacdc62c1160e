//! The tables of programs that are known to need the network: the tools of MassGen's Python
//! package, and the packages of some MCP servers. The checks of a config warn about them if it
//! gives them no network access.

use crate::config::custom_tools::PythonFunction;
use crate::config::server_package::ServerPackage;

/// The directory of the tools in MassGen's Python package.
const TOOL_DIRECTORY: &str = "massgen/tool/";

/// The variables that hold API keys, and the host that accepts each key.
const KEY_HOSTS: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "api.anthropic.com"),
    ("ELEVENLABS_API_KEY", "api.elevenlabs.io"),
    ("GEMINI_API_KEY", "generativelanguage.googleapis.com"),
    ("GOOGLE_API_KEY", "generativelanguage.googleapis.com"),
    ("OPENAI_API_KEY", "api.openai.com"),
    ("OPENROUTER_API_KEY", "openrouter.ai"),
    ("XAI_API_KEY", "api.x.ai"),
];

/// Functions of one file of MassGen's Python package that are tools, and fail without the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkTool {
    /// The file below `massgen/tool`, without its extension.
    module: &'static str,
    /// The names of the functions.
    functions: &'static [&'static str],
    /// What they connect to.
    reach: NetworkReach,
    /// The variables with keys, of which they use one; empty if they need no key.
    pub keys: &'static [&'static str],
    /// Whether they create files.
    pub writes_files: bool,
    /// Whether their argument `environment` may name a container, which they drive over Docker's
    /// socket.
    pub drives_containers: bool,
}

/// What a tool connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkReach {
    /// The host that accepts its key, through the proxy of its environment.
    HostOfKey,
    /// Any page, a server on this machine, or hosts without the proxy of its environment.
    Everything,
}

impl NetworkTool {
    const fn calling_host_of_key(
        module: &'static str,
        functions: &'static [&'static str],
        keys: &'static [&'static str],
    ) -> Self {
        Self {
            module,
            functions,
            reach: NetworkReach::HostOfKey,
            keys,
            writes_files: false,
            drives_containers: false,
        }
    }

    const fn calling_anything(
        module: &'static str,
        functions: &'static [&'static str],
        keys: &'static [&'static str],
    ) -> Self {
        Self {
            reach: NetworkReach::Everything,
            ..Self::calling_host_of_key(module, functions, keys)
        }
    }

    const fn that_writes(self) -> Self {
        Self {
            writes_files: true,
            ..self
        }
    }

    const fn that_drives_containers(self) -> Self {
        Self {
            drives_containers: true,
            ..self
        }
    }

    /// Returns the tool that a Python function of a config is, if it is known.
    pub fn of_function(function: &PythonFunction) -> Option<&'static Self> {
        let config_path = &function.file.as_ref()?.config_path;
        let name = function.function.as_str();
        let mut tools = TOOLS.iter();
        tools.find(|tool| tool.functions.contains(&name) && tool.is_at(config_path))
    }

    /// Returns its file, as configs name it.
    pub fn file(&self) -> String {
        format!("{TOOL_DIRECTORY}{}.py", self.module)
    }

    /// Returns the value of `network` with which it works, if it uses the key in `variable`.
    pub fn network(&self, variable: Option<&str>) -> String {
        let host = KEY_HOSTS.iter().find(|(key, _)| Some(*key) == variable);
        match (self.reach, host) {
            (NetworkReach::HostOfKey, Some((_, host))) => format!("[{host}]"),
            (NetworkReach::HostOfKey, None) | (NetworkReach::Everything, _) => "on".to_owned(),
        }
    }

    /// Returns whether a path or module name of a config means its file, or the directory below
    /// `massgen/tool` that contains it. The `_` with which these begin may be missing:
    /// `computer_use` means `_computer_use`.
    fn is_at(&self, config_path: &str) -> bool {
        let module = match config_path.strip_suffix(".py") {
            Some(file) => file.trim_start_matches("./").to_owned(),
            None => config_path.replace('.', "/"),
        };
        let split_module = module.rsplit_once(TOOL_DIRECTORY);
        let module = split_module.map_or(module.as_str(), |(_, below)| below);
        let directory = self.module.split('/').next();
        let mut names = std::iter::once(self.module).chain(directory);
        names.any(|name| name == module || name.strip_prefix('_') == Some(module))
    }
}

const ANTHROPIC_KEYS: &[&str] = &["ANTHROPIC_API_KEY"];
const OPENAI_KEYS: &[&str] = &["OPENAI_API_KEY"];
const GEMINI_KEYS: &[&str] = &["GEMINI_API_KEY"];
const OPENAI_OR_GOOGLE_KEYS: &[&str] = &["OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
const VIDEO_KEYS: &[&str] = &[
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENROUTER_API_KEY",
];
const MEDIA_KEYS: &[&str] = &[
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "XAI_API_KEY",
    "OPENROUTER_API_KEY",
    "ELEVENLABS_API_KEY",
];

/// The tools, as they are in MassGen 0.1.97.
static TOOLS: &[NetworkTool] = &[
    NetworkTool::calling_anything(
        "_browser_automation/browser_automation_tool",
        &["browser_automation", "simple_browser_automation"],
        &[],
    )
    .that_writes(),
    NetworkTool::calling_anything(
        "_claude_computer_use/claude_computer_use_tool",
        &["claude_computer_use"],
        ANTHROPIC_KEYS,
    )
    .that_drives_containers(),
    NetworkTool::calling_anything(
        "_computer_use/computer_use_tool",
        &["computer_use"],
        OPENAI_KEYS,
    )
    .that_drives_containers(),
    NetworkTool::calling_anything(
        "_gemini_computer_use/gemini_computer_use_tool",
        &["gemini_computer_use"],
        GEMINI_KEYS,
    )
    .that_drives_containers(),
    NetworkTool::calling_anything(
        "_ui_tars_computer_use/ui_tars_computer_use_tool",
        &["ui_tars_computer_use"],
        &["UI_TARS_API_KEY"],
    )
    .that_drives_containers(),
    NetworkTool::calling_host_of_key(
        "_extraframework_agents/ag2_lesson_planner_tool",
        &["ag2_lesson_planner"],
        OPENAI_KEYS,
    ),
    NetworkTool::calling_host_of_key(
        "_extraframework_agents/agentscope_lesson_planner_tool",
        &["agentscope_lesson_planner"],
        OPENAI_KEYS,
    ),
    NetworkTool::calling_host_of_key(
        "_extraframework_agents/langgraph_lesson_planner_tool",
        &["langgraph_lesson_planner"],
        OPENAI_KEYS,
    ),
    NetworkTool::calling_host_of_key(
        "_extraframework_agents/openai_assistant_lesson_planner_tool",
        &["openai_assistant_lesson_planner"],
        OPENAI_KEYS,
    ),
    NetworkTool::calling_host_of_key(
        "_extraframework_agents/smolagent_lesson_planner_tool",
        &["smolagent_lesson_planner"],
        OPENAI_KEYS,
    ),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/generation/generate_media",
        &["generate_media"],
        MEDIA_KEYS,
    )
    .that_writes(),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/image_to_image_generation",
        &["image_to_image_generation"],
        OPENAI_KEYS,
    )
    .that_writes(),
    NetworkTool::calling_host_of_key("_multimodal_tools/read_media", &["read_media"], VIDEO_KEYS),
    // The keys are those of the config that it runs.
    NetworkTool::calling_anything(
        "_multimodal_tools/run_massgen_with_recording",
        &["run_massgen_with_recording"],
        &[],
    )
    .that_writes(),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/text_to_file_generation",
        &["text_to_file_generation"],
        OPENAI_KEYS,
    )
    .that_writes(),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/text_to_image_generation",
        &["text_to_image_generation"],
        OPENAI_KEYS,
    )
    .that_writes(),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/text_to_speech_continue_generation",
        &["text_to_speech_continue_generation"],
        OPENAI_KEYS,
    )
    .that_writes(),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/text_to_speech_transcription_generation",
        &["text_to_speech_transcription_generation"],
        OPENAI_KEYS,
    )
    .that_writes(),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/text_to_video_generation",
        &["text_to_video_generation"],
        OPENAI_KEYS,
    )
    .that_writes(),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/understand_audio",
        &["understand_audio"],
        OPENAI_OR_GOOGLE_KEYS,
    ),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/understand_file",
        &["understand_file"],
        OPENAI_KEYS,
    ),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/understand_image",
        &["understand_image"],
        OPENAI_KEYS,
    ),
    NetworkTool::calling_host_of_key(
        "_multimodal_tools/understand_video",
        &["understand_video"],
        VIDEO_KEYS,
    ),
    // Its client ignores proxies.
    NetworkTool::calling_anything(
        "_self_evolution/_github_issue_analyzer",
        &["fetch_github_issues"],
        &[],
    ),
    NetworkTool::calling_host_of_key(
        "_video_tools/generate_captions",
        &["generate_captions"],
        VIDEO_KEYS,
    )
    .that_writes(),
    // They ask a server on this machine.
    NetworkTool::calling_anything(
        "_web_tools/crawl4ai_tool",
        &[
            "crawl4ai_md",
            "crawl4ai_html",
            "crawl4ai_screenshot",
            "crawl4ai_pdf",
            "crawl4ai_execute_js",
            "crawl4ai_crawl",
        ],
        &[],
    )
    .that_writes(),
];

/// Packages of MCP servers that call a service on the network: those that configs of MassGen name,
/// and others that are widely used.
const SERVER_PACKAGES: &[&str] = &[
    "@brave/brave-search-mcp-server",
    "@enescinar/twitter-mcp",
    "@fak111/weather-mcp",
    "@modelcontextprotocol/server-brave-search",
    "@modelcontextprotocol/server-github",
    "@modelcontextprotocol/server-gitlab",
    "@modelcontextprotocol/server-google-maps",
    "@modelcontextprotocol/server-puppeteer",
    "@modelcontextprotocol/server-slack",
    "@notionhq/notion-mcp-server",
    "@openbnb/mcp-server-airbnb",
    "@playwright/mcp",
    "@upstash/context7-mcp",
    "exa-mcp-server",
    "firecrawl-mcp",
    "logfire-mcp",
    "mcp-discord",
    "mcp-remote",
    "mcp-server-fetch",
    "tavily-mcp",
];

/// Returns the package of a server that is known to call a service on the network.
pub fn find_network_package(package: &ServerPackage) -> Option<&str> {
    let mut names = package.names();
    names.find(|name| SERVER_PACKAGES.contains(name))
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::config::custom_tools::NamedFile;

    fn find(path: Option<&str>, function: &str) -> Option<&'static NetworkTool> {
        NetworkTool::of_function(&PythonFunction {
            name: "any".to_owned(),
            function: function.to_owned(),
            file: path.map(|path| NamedFile {
                config_path: path.to_owned(),
                candidates: Vec::new(),
            }),
            description: None,
            preset_args: Map::new(),
        })
    }

    #[test]
    fn tools_are_found_by_their_file_or_module() {
        for path in [
            "massgen/tool/_computer_use/computer_use_tool.py",
            "./massgen/tool/_computer_use/computer_use_tool.py",
            "/usr/lib/python3/dist-packages/massgen/tool/_computer_use/computer_use_tool.py",
            "_computer_use/computer_use_tool.py",
            "_computer_use.computer_use_tool",
            "massgen.tool._computer_use.computer_use_tool",
            "massgen.tool._computer_use",
            "_computer_use",
            "computer_use",
        ] {
            let tool = find(Some(path), "computer_use");
            assert_eq!(
                tool.map(NetworkTool::file).as_deref(),
                Some("massgen/tool/_computer_use/computer_use_tool.py"),
                "{path}"
            );
            assert_eq!(find(Some(path), "another"), None, "{path}");
        }
        for path in ["computer_use_tool.py", "tools/computer_use.py", "own", ""] {
            assert_eq!(find(Some(path), "computer_use"), None, "{path}");
        }
        assert_eq!(find(None, "computer_use"), None);
        let calculator = "massgen/tool/_basic/_two_num_tool.py";
        assert_eq!(find(Some(calculator), "two_num_tool"), None);
    }

    #[test]
    fn the_host_is_that_of_the_key() {
        let video = "massgen/tool/_multimodal_tools/understand_video.py";
        let video = find(Some(video), "understand_video").unwrap();
        for (key, expected) in [
            (Some("OPENAI_API_KEY"), "[api.openai.com]"),
            (Some("ANTHROPIC_API_KEY"), "[api.anthropic.com]"),
            (None, "on"),
        ] {
            assert_eq!(video.network(key), expected);
        }
        let browser = "massgen/tool/_computer_use/computer_use_tool.py";
        let browser = find(Some(browser), "computer_use").unwrap();
        assert_eq!(browser.network(Some("OPENAI_API_KEY")), "on");
    }

    #[test]
    fn the_table_is_complete() {
        let mut modules: Vec<&str> = TOOLS.iter().map(|tool| tool.module).collect();
        let count = modules.len();
        modules.sort_unstable();
        modules.dedup();
        assert_eq!(modules.len(), count, "each module is listed once");
        for tool in TOOLS {
            assert!(!tool.functions.is_empty(), "{tool:?}");
            let has_host = |key: &&&str| KEY_HOSTS.iter().any(|(known, _)| known == *key);
            let known = tool.keys.iter().filter(has_host).count();
            let needs_hosts = tool.reach == NetworkReach::HostOfKey;
            assert!(!needs_hosts || known == tool.keys.len(), "{tool:?}");
            assert!(!needs_hosts || known > 0, "{tool:?}");
        }
    }

    #[test]
    fn packages_are_known_in_every_version() {
        let find = |command: &str| {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let package = ServerPackage::parse(&words).unwrap();
            find_network_package(&package).map(str::to_owned)
        };
        for (command, expected) in [
            ("npx -y @fak111/weather-mcp", "@fak111/weather-mcp"),
            ("npx @playwright/mcp@latest --headless", "@playwright/mcp"),
            ("npx exa-mcp-server@1.0.0", "exa-mcp-server"),
            ("uvx logfire-mcp@latest", "logfire-mcp"),
            (
                "uvx --from mcp-server-fetch[x]==1.2 fetch",
                "mcp-server-fetch",
            ),
        ] {
            assert_eq!(find(command).as_deref(), Some(expected), "{command}");
        }
        for command in [
            "npx @modelcontextprotocol/server-filesystem .",
            "uvx mcp-server-time",
            "npx /srv/exa-mcp-server-1.0.0.tgz",
        ] {
            assert_eq!(find(command), None, "{command}");
        }
    }
}
