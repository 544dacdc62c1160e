//! The beginning of a connection with a server: the newest protocol, or an older handshake with
//! servers that know no other, whatever they answer to the first message.

use serde_json::{Value, json};

use crate::mcp::{call_results, with_server};

const SERVER: &str = include_str!("../servers/lifecycle.py");

#[track_caller]
fn check(manner: &str, begun: &str, version: &Value) {
    let server =
        format!("{{name: h, command: python3, args: ['{{{{cwd}}}}/lifecycle.py', {manner}]}}");
    let project = with_server(&server, &[("mcp__h__begun", json!({}))], "orchestrator: {}");
    let finished = project.file("lifecycle.py", SERVER).success();
    let report: Value = serde_json::from_str(&call_results(&finished)[0]).unwrap();
    assert_eq!(
        report,
        json!({"begun": begun, "version": version}),
        "{manner}"
    );
}

#[test]
fn a_connection_begins_as_the_server_knows() {
    check("newest", "discover", &json!("2026-07-28"));
    check("older", "initialize", &Value::Null);
    check("ends", "initialize", &Value::Null);
    check("empty", "initialize", &Value::Null);
}
