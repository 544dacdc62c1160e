//! The keys about MCP servers.

use std::sync::Arc;

use super::*;
use crate::call_rules::CallMatcher;
use crate::config::command_line::EnvVariable;
use crate::config::servers::{
    AddressAllowance, AddressPolicy, ProgramPlace, ServerConfig, ServerDirectory, ServerNeed,
    ServerTransport,
};
use crate::permissions::grant::Permission;
use crate::sandbox_policy::NetworkPolicy;
use crate::tools::served::OutsideEffects;

/// Returns an agent with a workspace and these servers, given as YAML in one line.
pub(super) fn with_servers(servers: &str) -> String {
    with_backend(&format!("cwd: w1\nmcp_servers: {servers}"))
}

/// Returns the servers of the first agent.
#[track_caller]
fn servers(yaml: &str) -> Vec<ServerConfig> {
    let servers = &config(yaml).agents[0].servers;
    servers.iter().map(|server| (**server).clone()).collect()
}

/// Checks the findings about one server; `{…}` is its mapping without its name.
#[track_caller]
fn check_server(keys: &str, expected: &[&str]) {
    check(&with_servers(&format!("[{{name: s, {keys}}}]")), expected);
}

#[test]
fn a_list_and_a_mapping_are_the_same() {
    for yaml in [
        "[{name: files, command: node -y, args: [pkg, '/p']}, {name: web, url: 'https://e.org/mcp'}]",
        "{files: {command: node, args: [-y, pkg, '/p']}, web: {type: http, url: 'https://e.org/mcp'}}",
    ] {
        let servers = servers(&with_servers(yaml));
        let names: Vec<&str> = servers
            .iter()
            .map(|server| server.name().as_str())
            .collect();
        assert_eq!(names, ["files", "web"], "{yaml}");
        let ServerTransport::Program(program) = &servers[0].transport else {
            panic!("{yaml}");
        };
        assert_eq!(program.command, ["node", "-y", "pkg", "/p"]);
        assert_eq!(program.network, NetworkPolicy::Off);
        assert_eq!(servers[0].need, ServerNeed::Optional);
        let rules = &servers[0].rules;
        assert_eq!(rules.permission, Permission::Read);
        assert_eq!(rules.outside, OutsideEffects::Some);
        let ServerTransport::Remote(remote) = &servers[1].transport else {
            panic!("{yaml}");
        };
        assert_eq!(remote.url.as_str(), "https://e.org/mcp");
        assert_eq!(remote.addresses, AddressPolicy::default());
    }
}

#[test]
fn every_key_of_a_server_is_read() {
    let servers = servers(&with_servers(
        "[{name: s, type: stdio, command: python3, args: [x], env: {A: b, C: '${TOKEN}'}, \
         cwd: /srv/x, network: [example.org], allowed_tools: [t], exclude_tools: [u], \
         permission: write, content_arguments: [t.text], side_effects: none, \
         tools_without_side_effects: [v], timeout_seconds: 7, required: true, security: {level: moderate}}]",
    ));
    let [server] = servers.as_slice() else {
        panic!("one server");
    };
    let rules = &server.rules;
    assert_eq!(rules.allowed.as_deref(), Some(&["t".to_owned()][..]));
    assert_eq!(rules.excluded, ["u"]);
    assert_eq!(rules.permission, Permission::Write);
    assert_eq!(rules.content, ["t.text"]);
    assert_eq!(rules.outside, OutsideEffects::None);
    assert_eq!(rules.harmless, ["v"]);
    assert_eq!(server.call_seconds, 7);
    assert_eq!(server.need, ServerNeed::Required);
    let ServerTransport::Program(program) = &server.transport else {
        panic!("a program");
    };
    assert!(matches!(&program.env["A"], EnvVariable::Literal(value) if value == "b"));
    assert!(matches!(&program.network, NetworkPolicy::Domains(list) if list.len() == 1));
    let named = AbsPath::new("/srv/x").unwrap();
    assert_eq!(program.directory, ServerDirectory::Named(named));
}

#[test]
fn oauth_settings_of_a_server_are_read() {
    let servers = servers(&with_servers(
        "[{name: s, url: 'https://e.org/mcp', \
         oauth: {client_id: id, client_secret: '${TOKEN}', scopes: [a, b], \
         issuer: 'https://login.example'}}]",
    ));
    let ServerTransport::Remote(remote) = &servers[0].transport else {
        panic!("a server on the network");
    };
    let client = remote.oauth.client.as_ref().unwrap();
    assert_eq!(client.id, "id");
    assert!(client.secret.is_some());
    assert_eq!(remote.oauth.scopes, ["a", "b"]);
    let issuer = remote.oauth.issuer.as_ref().unwrap();
    assert_eq!(issuer.as_str(), "https://login.example/");
    let url = "url: 'https://e.org/mcp'";
    check_server(&format!("{url}, oauth: {{}}"), &[]);
    for (keys, expected) in [
        (
            "oauth: {client_secret: x}",
            "oauth.client_secret: a `client_secret` needs a `client_id`",
        ),
        (
            "oauth: {scopes: ['a b']}",
            "oauth.scopes[0]: `a b` is not a scope",
        ),
    ] {
        let expected = format!("error agent.backend.mcp_servers[0].{expected}");
        check_server(&format!("{url}, {keys}"), &[&expected]);
    }
    check_server(
        "command: node, oauth: {client_id: x}",
        &["error agent.backend.mcp_servers[0].oauth: `oauth` has no effect"],
    );
}

#[test]
fn a_token_without_a_user_is_refused() {
    let url = "url: 'https://e.org/mcp'";
    for key in ["grant_type", "private_key", "assertion", "assertion_file"] {
        let keys = format!("{url}, oauth: {{client_id: x, {key}: y}}");
        check_server(&keys, &["massgen gets no token without a user"]);
    }
    for issuer in [
        "http://login.example",
        "https://login.example?a=1",
        "https://login.example@e.org",
    ] {
        let expected = "oauth.issuer: `issuer` is not the URL of an authorization server";
        check_server(
            &format!("{url}, oauth: {{issuer: '{issuer}'}}"),
            &[expected],
        );
    }
    check_server(
        &format!("{url}, oauth: {{issuer: 'http://127.0.0.1:8080'}}"),
        &[],
    );
    check_server(
        &format!("{url}, type: sse"),
        &["HTTP+SSE is not supported: use the streamable HTTP transport"],
    );
}

#[test]
fn keys_of_single_tools_are_rules() {
    let yaml =
        with_servers("[{name: s, command: node, tools: {a: allow, b.c: ask, mcp__s__d: deny}}]");
    let rules = &config(&yaml).agents[0].permissions.rules;
    let rules: Vec<(String, &CallMatcher)> = rules
        .iter()
        .map(|rule| (rule.to_string(), &rule.matcher))
        .collect();
    let about = |name: &str| CallMatcher::Tool(name.to_owned());
    assert_eq!(
        rules,
        [
            ("allow: mcp(s/a)".to_owned(), &about("mcp__s__a")),
            ("ask: mcp(s/b.c)".to_owned(), &about("mcp__s__b_c")),
            ("deny: mcp(s/mcp__s__d)".to_owned(), &about("mcp__s__d")),
        ]
    );
    for (tools, expected) in [
        ("{a: never}", ".a: `a` is not `allow`, `ask` or `deny`"),
        ("{'a*': deny}", ".a*: `a*` is not a tool name"),
        ("[a]", ": `tools` is not a mapping"),
    ] {
        let expected = format!("error agent.backend.mcp_servers[0].tools{expected}");
        check_server(&format!("command: node, tools: {tools}"), &[&expected]);
    }
}

#[test]
fn servers_that_are_written_the_same_are_the_same() {
    let agents = |one: &str, other: &str| {
        let agent = |id: &str, keys: &str| {
            format!(
                "  - id: {id}\n    backend: {{type: scripted, replies: [], cwd: {id}, \
                 mcp_servers: [{{name: s, {keys}}}]}}\n"
            )
        };
        let config = config(&format!(
            "agents:\n{}{}",
            agent("a", one),
            agent("b", other)
        ));
        let [one, other] = config.agents.as_slice() else {
            panic!("two agents");
        };
        Arc::ptr_eq(&one.servers[0], &other.servers[0])
    };
    let url = "url: 'https://e.org/mcp', headers: {A: x}";
    assert!(agents(url, url));
    assert!(!agents(url, "url: 'https://e.org/mcp', headers: {A: y}"));
    let program = "command: node, env: {A: x, B: '${TOKEN}'}, shared: true";
    assert!(agents(program, program));
    assert!(!agents(
        program,
        "command: node, env: {A: x, B: '${TOKEN}'}"
    ));
    assert!(!agents(program, "command: node, env: {A: x}, shared: true"));
}

#[test]
fn a_program_that_is_shared_writes_nowhere() {
    let keys = "command: node, shared: true";
    check_server(&format!("{keys}, permission: read"), &[]);
    check_server("command: node, shared: false, permission: write", &[]);
    check_server(
        &format!("{keys}, permission: write"),
        &["error agent.backend.mcp_servers[0].permission: a shared program"],
    );
    check_server(
        "url: 'https://e.org/mcp', shared: true",
        &["error agent.backend.mcp_servers[0].shared: `shared` has no effect"],
    );
}

#[test]
fn a_program_runs_in_a_container_only_where_commands_do() {
    let with_mode = |mode: &str, keys: &str| {
        with_backend(&format!(
            "cwd: w1\nenable_mcp_command_line: true\ncommand_line_execution_mode: {mode}\n\
             mcp_servers: [{{name: s, command: node, {keys}}}]"
        ))
    };
    let run_in = |keys: &str| match &servers(&with_mode("docker", keys))[0].transport {
        ServerTransport::Program(program) => program.run_in.clone(),
        ServerTransport::Remote(_) => panic!("a program"),
    };
    assert_eq!(run_in("run_in: sandbox"), ProgramPlace::Sandbox);
    let image = None;
    assert_eq!(
        run_in("run_in: container"),
        ProgramPlace::Container { image }
    );
    let image = Some("e.org/tools:1".to_owned());
    let named = "run_in: container, image: 'e.org/tools:1'";
    assert_eq!(run_in(named), ProgramPlace::Container { image });
    check(
        &with_mode("local", "run_in: container"),
        &["the server `s` runs in a container, but the agent's commands do not"],
    );
    check_server("command: node, run_in: container", &["commands do not"]);
    for (keys, expected) in [
        ("network: on", "`network` does not apply to a container"),
        ("shared: true", "a shared program cannot run in a container"),
        ("image: '-x'", "is not an image name"),
    ] {
        let keys = format!("run_in: container, {keys}");
        check(&with_mode("docker", &keys), &[expected]);
    }
    check_server("command: node, image: x", &["`image` has no effect"]);
    let remote = "url: 'https://e.org/mcp', run_in: container";
    check_server(remote, &["`run_in` has no effect"]);
}

#[test]
fn servers_of_all_agents_and_of_one_are_both_there() {
    let yaml = format!(
        "{}mcp_servers: [{{name: all, command: node}}, {{name: own, command: node}}]\n",
        with_servers("[{name: own, command: deno}]\n"),
    );
    let servers = servers(&yaml);
    let programs: Vec<String> = servers
        .iter()
        .map(|server| match &server.transport {
            ServerTransport::Program(program) => {
                format!("{} {}", server.name(), program.command[0])
            }
            ServerTransport::Remote(_) => panic!("a program"),
        })
        .collect();
    assert_eq!(programs, ["own deno", "all node"]);
    let web = "{name: web, url: 'https://e.org/mcp'}";
    let without = with_backend(&format!("mcp_servers: [{{name: s, command: node}}, {web}]"));
    let names = config(&without).agents[0]
        .servers
        .iter()
        .map(|server| server.name().to_string())
        .collect::<Vec<_>>();
    assert_eq!(names, ["s", "web"]);
}

#[test]
fn a_program_of_an_agent_without_a_workspace_starts_in_a_private_directory() {
    let directories = |entries: &str, of_all: &str| {
        let yaml = format!(
            "{}mcp_servers: [{of_all}]\n",
            with_backend(&format!("mcp_servers: [{entries}]"))
        );
        let config = config(&yaml);
        let programs = config.agents[0]
            .servers
            .iter()
            .map(|server| match &server.transport {
                ServerTransport::Program(program) => program.directory.clone(),
                ServerTransport::Remote(_) => panic!("a program"),
            });
        programs.collect::<Vec<_>>()
    };
    let named = ServerDirectory::Named(AbsPath::new("/srv").unwrap());
    assert_eq!(
        directories(
            "{name: s, command: node}, {name: t, command: node, cwd: /srv}, \
             {name: u, command: node, shared: true}",
            "{name: v, command: node}",
        ),
        [
            ServerDirectory::Private,
            named,
            ServerDirectory::Workspace,
            ServerDirectory::Private,
        ]
    );
}

#[test]
fn names_are_plain_and_differ() {
    check(
        &with_servers("[{command: node}]"),
        &["error agent.backend.mcp_servers[0].name: `name` is missing"],
    );
    check(
        &with_servers("[{name: a b, command: node}]"),
        &["`a b` is not a server name"],
    );
    check(
        &with_servers("{'a b': {command: node}}"),
        &["`a b` is not a server name"],
    );
    let twice = "[{name: a, command: node}, {name: a, command: node}]";
    check(
        &with_servers(twice),
        &["the name `a` is taken by another server"],
    );
    check(
        &with_servers("npx"),
        &["error agent.backend.mcp_servers: `mcp_servers` is `npx`"],
    );
    check(
        &with_servers("[npx]"),
        &["error agent.backend.mcp_servers[0]: `mcp_servers[0]` is `npx`"],
    );
    let many: Vec<String> = (0..33)
        .map(|n| format!("{{name: s{n}, command: node}}"))
        .collect();
    check(
        &with_servers(&format!("[{}]", many.join(", "))),
        &["33 servers are too many"],
    );
}

#[test]
fn commands_are_programs_that_a_server_may_be() {
    for command in [
        "npx",
        "python3",
        "python3.12",
        "/usr/bin/node",
        "uvx tool",
        "bash",
        "fastmcp",
    ] {
        check_server(&format!("command: '{command}', network: on"), &[]);
    }
    for command in ["curl", "git", "./run", "/opt/mine", "pythonx", "''"] {
        check_server(
            &format!("command: {command}"),
            &["is not an allowed program"],
        );
    }
    check_server("command: git, security: {level: moderate}", &[]);
    check_server(
        "command: curl, security: {level: moderate}",
        &["not an allowed program"],
    );
    check_server("command: curl, security: {level: permissive}", &[]);
    check_server("command: /opt/mine, security: {level: permissive}", &[]);
    for command in [
        "node; rm",
        "node && x",
        "node | x",
        "node `x`",
        "node $(x)",
        "node > x",
    ] {
        check_server(&format!("command: '{command}'"), &["shell metacharacter"]);
    }
}

#[test]
fn a_program_that_fetches_packages_needs_a_network() {
    for (command, expected) in [
        (
            "npx",
            "downloads packages, but the server has no network access",
        ),
        (
            "/usr/bin/uvx tool",
            "`uvx` needs the package `tool`, which is not installed, and the server has no network \
             access (run `massgen mcp install --config team.yaml` once, or open the registry with \
             `network: [pypi.org, files.pythonhosted.org]`)",
        ),
    ] {
        check_server(&format!("command: {command}"), &[expected]);
        check_server(&format!("command: {command}, network: [e.org]"), &[]);
    }
}

#[test]
fn the_directory_of_a_program_is_known_when_it_starts() {
    let start = |keys: &str| {
        let servers = servers(&with_servers(&format!(
            "[{{name: s, command: node, {keys}}}]"
        )));
        let ServerTransport::Program(program) = &servers[0].transport else {
            panic!("it is a program");
        };
        (program.command.join(" "), program.directory.clone())
    };
    let begins = "node ${cwd}/x".to_owned();
    for keys in ["args: ['${cwd}/x']", "args: ['${cwd}/x'], cwd: '${cwd}'"] {
        let expected = (begins.clone(), ServerDirectory::Workspace);
        assert_eq!(start(keys), expected, "{keys}");
    }
    let keys = "args: ['${cwd}/x'], cwd: /srv";
    let named = ServerDirectory::Named(AbsPath::new("/srv").unwrap());
    assert_eq!(start(keys), (begins, named));
}

#[test]
fn lengths_are_bounded() {
    let long = |length: usize| "x".repeat(length);
    check_server(&format!("command: node {}", long(995)), &[]);
    check_server(
        &format!("command: node {}", long(996)),
        &["the command has 1001 characters"],
    );
    check_server(&format!("command: node, args: [{}]", long(500)), &[]);
    check_server(
        &format!("command: node, args: [{}]", long(501)),
        &["the argument has 501"],
    );
    let args = vec!["x"; 51].join(", ");
    check_server(
        &format!("command: node, args: [{args}]"),
        &["51 arguments are too many"],
    );
    check_server(
        &format!("command: node, env: {{A: {}}}", long(1001)),
        &["the text has 1001"],
    );
    check_server(
        &format!("command: node, env: {{{}: x}}", long(101)),
        &["the name has 101"],
    );
    check_server(
        &format!("command: node, cwd: /{}", long(500)),
        &["the directory has 501"],
    );
    check_server(
        &format!("url: 'https://e.org/{}'", long(2048)),
        &["the address has 2062"],
    );
}

#[test]
fn unset_variables_are_errors_and_values_are_not_shown() {
    check_server(
        "command: node, args: ['${NOT_SET}']",
        &["error agent.backend.mcp_servers[0].args"],
    );
    check_server(
        "url: 'https://e.org', headers: {X: '${NOT_SET}'}",
        &["`NOT_SET` is not set"],
    );
    check_server("command: node, args: ['${TOKEN}']", &[]);
    for line in findings(&with_servers("[{name: s, command: 'x${TOKEN}'}]")) {
        assert!(!line.contains("t-1"), "{line}");
    }
}

#[test]
fn addresses_lead_to_the_internet_unless_the_config_says_otherwise() {
    for url in [
        "https://e.org/mcp",
        "http://93.184.215.14/mcp",
        "https://[2606:4700::1111]/",
    ] {
        check_server(&format!("url: '{url}'"), &[]);
    }
    for url in [
        "http://localhost:1/",
        "http://a.localhost/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://0/",
    ] {
        let refused =
            "points to this machine (to allow it, add `security: {allow_localhost: true}`)";
        check_server(&format!("url: '{url}'"), &[refused]);
        check_server(
            &format!("url: '{url}', security: {{allow_localhost: true}}"),
            &[],
        );
    }
    for url in [
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://[fd00::1]/",
    ] {
        let refused = "points into a private network (to allow it, add `security: {allow_private_ips: true}`)";
        check_server(&format!("url: '{url}'"), &[refused]);
        check_server(
            &format!("url: '{url}', security: {{allow_private_ips: true}}"),
            &[],
        );
    }
    let open = "security: {allow_private_ips: true, allow_localhost: true}";
    let metadata = "points to a link-local address or a cloud's metadata service (nothing allows it, because metadata services hand out credentials)";
    let reserved = "points to a reserved address (nothing allows it: write `https://host/path`)";
    for (url, refused) in [
        ("http://169.254.169.254/", metadata),
        ("http://[fe80::1]/", metadata),
        ("http://[fd00:ec2::254]/", metadata),
        ("http://192.0.2.1/", reserved),
    ] {
        check_server(&format!("url: '{url}'"), &[refused]);
        check_server(&format!("url: '{url}', {open}"), &[refused]);
    }
    check_server("url: 'ftp://e.org/'", &["is not an HTTP URL"]);
    check_server("url: nothing", &["`url` is not a URL"]);
    check_server("url: 'https://a:b@e.org/'", &["contains a password"]);
}

#[test]
fn keys_fit_the_kind_of_server() {
    check_server("type: stdio", &["`command` is missing"]);
    check_server("type: http", &["`url` is missing"]);
    check_server("allowed_tools: [x]", &["`command` is missing"]);
    check_server("type: http, url: 'https://e.org/mcp'", &[]);
    check_server("type: http", &["`url` is missing"]);
    check_server(
        "type: http, url: 'https://e.org/mcp', command: npx",
        &["`command` has no effect"],
    );
    check_server(
        "type: stdio, command: node, url: 'https://e.org'",
        &["has no `url`"],
    );
    check_server(
        "url: 'https://e.org', command: node",
        &["`command` has no effect"],
    );
    check_server(
        "command: node, headers: {A: b}",
        &["`headers` has no effect"],
    );
    check_server(
        "url: 'https://e.org', headers: [A]",
        &["`headers` is not a mapping"],
    );
    check_server(
        "url: 'https://e.org', headers: {'A B': c}",
        &["is not a header"],
    );
    check_server("command: node, netwrk: on", &["did you mean `network`"]);
    let allowed = servers(&with_servers(
        "[{name: s, url: 'http://[::1]/', security: {allow_localhost: true}}]",
    ));
    let ServerTransport::Remote(remote) = &allowed[0].transport else {
        panic!("on the network");
    };
    assert_eq!(remote.addresses.this_machine, AddressAllowance::Yes);
    for written in ["", "type: http, ", "type: streamable-http, "] {
        let server = format!("[{{name: s, {written}url: 'https://e.org/'}}]");
        let servers = servers(&with_servers(&server));
        let is_remote = matches!(servers[0].transport, ServerTransport::Remote(_));
        assert!(is_remote, "{written}");
    }
}
