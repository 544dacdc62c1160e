//! Sign-in at remote servers: what is stored, where it is sent, and what is reported before a model
//! is asked if it is missing.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use url::Url;

use crate::http_server::{Endpoint, ScriptedResponse};
use crate::mcp::{call_results, calls_of, stands_nowhere};
use crate::oauth_server::{OauthBehaviour, OauthServer, TOKEN};
use crate::project::{FinishedCommand, Project, events, make_program};
use crate::scripted_team::{FINAL, agent, team};

/// File with the tokens, in the home directory.
const CREDENTIALS_FILE: &str = ".massgen/mcp/credentials.json";
/// A browser that follows the redirect of the file that it is given, and agrees to everything. It
/// stores its arguments.
const BROWSER: &str = "#!/usr/bin/python3\n\
    import html, os, re, sys, urllib.request\n\
    open(os.path.join(os.environ['HOME'], 'opened'), 'w').write(' '.join(sys.argv[1:]))\n\
    page = urllib.request.urlopen(sys.argv[1]).read().decode()\n\
    address = html.unescape(re.search('url=([^\"]*)', page)[1])\n\
    urllib.request.urlopen(address).read()\n";

/// Returns a project whose agent asks the server `t` at `url` who it is; `keys` are further keys of
/// the server.
pub(crate) fn project(url: &str, keys: &str) -> Project {
    let server = format!("{{name: t, url: '{url}', security: {{allow_localhost: true}}, {keys}}}");
    let calls = calls_of(&[("mcp__t__who", serde_json::json!({}))]);
    let replies = format!("{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]");
    let keys = format!("cwd: w1\nmcp_servers: [{server}]");
    let project = Project::new().file("team.yaml", team(&[agent("one", &keys, &replies)], ""));
    let browser = project.path("bin/xdg-open");
    let project = project.file("bin/xdg-open", BROWSER);
    make_program(&browser);
    let path = format!("{}:/usr/bin:/bin", project.path("bin").display());
    project.env("DISPLAY", ":9").env("PATH", path)
}

pub(crate) const LOGIN: [&str; 5] = ["mcp", "login", "t", "--config", "team.yaml"];
pub(crate) const RUN: [&str; 3] = ["--config", "team.yaml", "task"];

/// Returns whether the stored file contains `text`.
fn is_kept(finished: &FinishedCommand, text: &str) -> bool {
    let kept = fs::read_to_string(finished.project().home(CREDENTIALS_FILE));
    kept.is_ok_and(|kept| kept.contains(text))
}

/// Checks that a run requires the user to sign in before it asks a model.
#[track_caller]
fn wants_login(project: Project) -> FinishedCommand {
    let finished = project.retyped(RUN).failure(3);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("sign in with `massgen mcp login t`"),
        "{stderr}"
    );
    assert_eq!(events(&finished, "replied").len(), 0);
    finished
}

#[test]
fn a_server_is_usable_after_sign_in() {
    let server = OauthServer::start(OauthBehaviour::default());
    let finished = wants_login(project(&server.url(), ""));
    let finished = finished.then(LOGIN).success();
    assert!(is_kept(&finished, "registered"), "{}", finished.stderr());
    let output = [finished.stdout(), finished.stderr()].concat();
    assert!(!output.contains(TOKEN), "{output}");
    let mode = |path| {
        fs::metadata(finished.project().home(path))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode(CREDENTIALS_FILE) & 0o777, 0o600);
    assert_eq!(mode(".massgen/mcp") & 0o777, 0o700);
    assert_eq!(server.requests("POST /register").len(), 1);
    let opened = fs::read_to_string(finished.project().home("opened")).unwrap();
    let home = finished
        .project()
        .home("massgen-page-")
        .display()
        .to_string();
    assert!(opened.starts_with(&format!("file://{home}")), "{opened}");
    let file = opened.trim_start_matches("file://");
    assert!(!fs::exists(file).unwrap(), "{file} is still there");

    let logs = finished.project().path(".massgen");
    fs::remove_dir_all(logs).unwrap();
    let finished = finished.then(RUN).success();
    assert_eq!(call_results(&finished)[0], "you are Bearer [redacted]");
    assert!(!finished.stderr().contains(TOKEN));
    stands_nowhere(TOKEN, finished.project().path(""));

    let logout = ["mcp", "logout", "t", "--config", "team.yaml"];
    let finished = finished.then(logout).success();
    assert!(!is_kept(&finished, TOKEN));
    let finished = finished.then(logout).success();
    assert!(finished.stderr().contains("not signed in"));
    fs::remove_dir_all(finished.project().path(".massgen")).unwrap();
    wants_login(finished.then(RUN));
}

#[test]
fn a_token_that_is_no_longer_taken_is_exchanged_if_the_server_lets_it() {
    let server = OauthServer::start(OauthBehaviour::default());
    let finished = project(&server.url(), "").args(LOGIN).success();
    assert!(is_kept(&finished, &format!("{TOKEN}1")));
    server.expire();
    let finished = finished.then(RUN).success();
    assert_eq!(call_results(&finished)[0], "you are Bearer [redacted]");
    assert!(is_kept(&finished, &format!("{TOKEN}2")));
    assert!(!is_kept(&finished, &format!("{TOKEN}1\"")));

    server.expire();
    server.revoke();
    fs::remove_dir_all(finished.project().path(".massgen")).unwrap();
    let finished = wants_login(finished.then(RUN));
    assert!(!finished.stderr().contains(TOKEN));
}

/// Checks that a run after its server failed like this continues without it, unless it is required.
/// `fail` returns the server if it keeps running.
#[track_caller]
fn check_left_out(fail: impl Fn(OauthServer) -> Option<OauthServer>) {
    for (keys, code) in [("", 0), ("required: true", 3)] {
        let server = OauthServer::start(OauthBehaviour::default());
        let finished = project(&server.url(), keys).args(LOGIN).success();
        let _server = fail(server);
        let finished = finished.then(RUN).run();
        let stderr = finished.stderr();
        assert_eq!(finished.code(), Some(code), "{stderr}");
        let is_left_out =
            stderr.contains("the server `t` cannot be used, so `one` works without its tools");
        assert_eq!(is_left_out, code == 0, "{stderr}");
        assert!(!stderr.contains(TOKEN), "{stderr}");
    }
}

#[test]
fn a_server_with_a_sign_in_that_is_down_is_left_out() {
    check_left_out(|_| None);
    for path in ["/", "/.well-known/"] {
        check_left_out(|server| {
            server.break_down(path);
            Some(server)
        });
    }
    // The token has to be refreshed.
    check_left_out(|server| {
        server.expire();
        server.break_down("/token");
        Some(server)
    });
}

#[test]
fn a_configured_client_is_not_registered() {
    let server = OauthServer::start(OauthBehaviour {
        client: Some(("known", "secret-of-massgen")),
        ..OauthBehaviour::default()
    });
    let keys = "oauth: {client_id: known, client_secret: '${SECRET}', scopes: [a, b]}";
    let project = project(&server.url(), keys).env("SECRET", "secret-of-massgen");
    let finished = project.args(LOGIN).success();
    assert_eq!(server.requests("POST /register").len(), 0);
    let authorized = server.requests("GET /authorize");
    assert!(authorized[0].line.contains("scope=a+b"), "{authorized:?}");
    assert!(
        authorized[0].line.contains("client_id=known"),
        "{authorized:?}"
    );
    assert!(!is_kept(&finished, "secret-of-massgen"));
    server.expire();
    let finished = finished.then(RUN).success();
    assert!(
        call_results(&finished)[0].contains("you are"),
        "{:?}",
        call_results(&finished)
    );
}

#[test]
fn rights_that_are_missing_are_named_as_words_that_can_be_typed() {
    let server = OauthServer::start(OauthBehaviour {
        wants_scope: Some("tickets:write"),
        ..OauthBehaviour::default()
    });
    let finished = project(&server.url(), "").args(LOGIN).success();
    let finished = finished.then(RUN).success();
    let message = "error: the server `t`: it requires more scopes: sign in again with \
                `massgen mcp login t --scope tickets:write`";
    assert_eq!(call_results(&finished)[0], message);
    fs::remove_dir_all(finished.project().path(".massgen")).unwrap();
    let wider = LOGIN.into_iter().chain(["--scope", "tickets:write"]);
    let finished = finished.then(wider).success().then(RUN).success();
    assert!(
        call_results(&finished)[0].contains("you are"),
        "{:?}",
        call_results(&finished)
    );
}

#[test]
fn a_refused_authorization_does_not_sign_in() {
    let server = OauthServer::start(OauthBehaviour {
        is_refused: true,
        ..OauthBehaviour::default()
    });
    let finished = project(&server.url(), "").args(LOGIN).failure(3);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("it was refused (access_denied: the user said \\u{1b}[2Jno)"),
        "{stderr}"
    );
    assert!(!is_kept(&finished, "registered"));
}

/// Signs in at a server that behaves like this, and checks that it fails with `expected` and that
/// `other` receives no request.
#[track_caller]
fn check_elsewhere(behaviour: OauthBehaviour, other: &Endpoint, expected: &str) {
    let server = OauthServer::start(behaviour);
    let finished = project(&server.url(), "").args(LOGIN).failure(3);
    let stderr = finished.stderr();
    assert!(stderr.contains(expected), "{stderr}\n{expected}");
    assert_eq!(
        other.server.requests().len(),
        0,
        "{:?}",
        other.server.requests()
    );
    assert!(!is_kept(&finished, TOKEN));
}

#[test]
fn sign_in_sends_nothing_to_hosts_that_are_not_allowed() {
    let other = Endpoint::start_with(|_| ScriptedResponse::whole("200 OK", &[], "{}"));
    let owned = |url: &str| Some(url.to_owned());
    let moved = OauthBehaviour {
        moved_to: Some(other.server.url.clone()),
        ..OauthBehaviour::default()
    };
    // Metadata from elsewhere is ignored; the server's own is used.
    let server = OauthServer::start(moved);
    project(&server.url(), "").args(LOGIN).run();
    assert_eq!(other.server.requests().len(), 0);
    let metadata = "http://169.254.169.254/latest";
    check_elsewhere(
        OauthBehaviour {
            tokens_at: owned(metadata),
            ..OauthBehaviour::default()
        },
        &other,
        "signing in requires `https`",
    );
    check_elsewhere(
        OauthBehaviour {
            tokens_at: owned("https://169.254.169.254/latest"),
            ..OauthBehaviour::default()
        },
        &other,
        "points to a link-local address or a cloud's metadata service, which is not allowed",
    );
    for page in ["file:///etc/passwd", "http://login.example/"] {
        check_elsewhere(
            OauthBehaviour {
                authorizes_at: owned(page),
                ..OauthBehaviour::default()
            },
            &other,
            "signing in requires `https`",
        );
    }
}

#[test]
fn without_a_browser_the_address_is_pasted() {
    let server = OauthServer::start(OauthBehaviour::default());
    let arguments = LOGIN.into_iter().chain(["--no-browser"]);
    let project = project(&server.url(), "").args(arguments);
    let mut massgen = project
        .command()
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(massgen.stderr.take().unwrap()).lines();
    let address = lines
        .find_map(|line| Url::parse(&line.unwrap()).ok().filter(Url::has_host))
        .expect("an address is printed");
    let mut browser = TcpStream::connect(address.socket_addrs(|| None).unwrap()[0]).unwrap();
    let target = &address[url::Position::BeforePath..];
    write!(
        browser,
        "GET {target} HTTP/1.1\r\nhost: {}\r\n\r\n",
        address.authority()
    )
    .unwrap();
    let mut page = String::new();
    browser.read_to_string(&mut page).unwrap();
    let ended = page
        .lines()
        .find_map(|line| line.strip_prefix("location: "))
        .unwrap();
    let mut typed = massgen.stdin.take().unwrap();
    write!(
        typed,
        "\nhttp://127.0.0.1:1/callback?code=x&state=y\n{ended}\n"
    )
    .unwrap();
    let stderr_lines: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(massgen.wait().unwrap().success(), "{stderr_lines:#?}");
    let wrong = stderr_lines
        .iter()
        .filter(|line| line.contains("paste the whole address"));
    assert_eq!(wrong.count(), 1, "{stderr_lines:#?}");
    assert!(
        fs::read_to_string(project.home(CREDENTIALS_FILE))
            .unwrap()
            .contains(TOKEN)
    );
}

#[test]
fn only_a_server_of_the_config_is_signed_in_at() {
    let login = |name| {
        let arguments = ["mcp", "login", name, "--config", "team.yaml"];
        project("http://127.0.0.1:9/mcp", "")
            .args(arguments)
            .failure(2)
    };
    let stderr = login("other").stderr().to_owned();
    assert!(stderr.contains("no remote server `other`"), "{stderr}");
    assert!(stderr.contains("`team.yaml` names: t"), "{stderr}");
}

#[test]
fn agents_share_the_connection_to_a_server() {
    let server = OauthServer::start(OauthBehaviour::default());
    let url = server.url();
    let keys = |id: &str| {
        format!(
            "cwd: {id}\nmcp_servers: [{{name: t, url: '{url}', security: {{allow_localhost: true}}}}]"
        )
    };
    let calls = calls_of(&[("mcp__t__who", serde_json::json!({}))]);
    let replies = format!(
        "
- when: {{system: \"{FINAL}\"}}
  calls: [{{name: mcp__t__who, arguments: {{}}}}]
- when: {{system: \"{FINAL}\"}}
  text: presented
{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: good}}}}]
  repeat: true
"
    );
    let members = ["one", "two", "three"].map(|id| agent(id, &keys(id), &replies));
    let finished = project(&url, "").args(LOGIN).success();
    let begun = server.requests("POST /mcp").len();
    let project = finished.then(RUN).file("team.yaml", team(&members, ""));
    let finished = project.success();
    let answers = call_results(&finished);
    assert_eq!(
        answers,
        ["you are Bearer [redacted]"; 4],
        "{}",
        finished.stderr()
    );
    let requests = server.requests("POST /mcp");
    let methods = requests
        .iter()
        .skip(begun)
        .map(|request| request.json()["method"].clone());
    let greetings = methods.filter(|method| method == "initialize").count();
    assert_eq!(greetings, 1, "{requests:#?}");
}
