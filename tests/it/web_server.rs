//! A running `massgen web`, and a client that controls every byte of its requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::project::Project;

/// Timeout of a read.
const READ_TIME_MAX: Duration = Duration::from_mins(1);

/// A server that is listening, and stops with the test.
pub(crate) struct WebServer {
    pub(crate) project: Project,
    child: Child,
    /// Its port.
    pub(crate) port: u16,
    /// The code of the link that it printed.
    pub(crate) code: String,
    /// A token; empty until the code is exchanged.
    pub(crate) token: String,
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        drop(self.child.wait());
    }
}

/// A reply of a server.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The head, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    /// Returns the body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = fields.filter(|(known, _)| *known == name);
        named.next().map(|(_, value)| value)
    }
}

impl WebServer {
    /// Starts a server in `project` and exchanges the code of its link.
    pub(crate) fn start(project: Project, words: &[&str]) -> Self {
        let mut server = Self::start_without_session(project, words);
        let body = format!("{{\"code\":\"{}\"}}", server.code);
        let reply = server.send("POST", "/api/session", &[], Some(&body));
        assert_eq!(reply.status, 200, "{reply:?}");
        server.token = reply.json()["token"].as_str().unwrap().to_owned();
        server
    }

    /// Starts a server in `project`.
    pub(crate) fn start_without_session(project: Project, words: &[&str]) -> Self {
        let project = project.retyped(["web", "--no-browser"]).args(words);
        let mut child = project
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        let link = loop {
            let line = lines.next().unwrap_or_else(|| panic!("{seen}")).unwrap();
            if let Some((start, code)) = line.split_once("/#k=") {
                break (start.to_owned(), code.to_owned());
            }
            seen.push_str(&line);
            seen.push('\n');
        };
        let (_, port) = link.0.rsplit_once(':').unwrap();
        let port = port.parse().unwrap();
        // What it reports later is read, so that it never waits.
        thread::spawn(move || lines.for_each(drop));
        Self {
            project,
            child,
            port,
            code: link.1,
            token: String::new(),
        }
    }

    /// Returns the headers of a page of the server that has a token.
    pub(crate) fn headers(&self) -> Vec<String> {
        vec![
            format!("host: 127.0.0.1:{}", self.port),
            format!("authorization: Bearer {}", self.token),
        ]
    }

    /// Opens a connection and sends a request; `headers` are whole lines. JSON bodies have their
    /// content type. Without a `host` in `headers`, the server's own is sent.
    pub(crate) fn open(
        &self,
        method: &str,
        target: &str,
        headers: &[String],
        body: Option<&str>,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(READ_TIME_MAX)).unwrap();
        let mut head = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
        let has = |name: &str| headers.iter().any(|line| line.starts_with(name));
        if !has("host:") {
            head.push_str(&format!("host: 127.0.0.1:{}\r\n", self.port));
        }
        if let Some(body) = body {
            if !has("content-type:") {
                head.push_str("content-type: application/json\r\n");
            }
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses a body may close before it has all of it.
        drop(stream.write_all(body.unwrap_or_default().as_bytes()));
        stream
    }

    /// Sends a request and reads the whole reply.
    pub(crate) fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[String],
        body: Option<&str>,
    ) -> Reply {
        let mut answer = Vec::new();
        // A connection that is reset after the reply has been read is not an error.
        drop(
            self.open(method, target, headers, body)
                .read_to_end(&mut answer),
        );
        parse(&answer)
    }

    /// Sends a GET with the token.
    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Reply {
        self.send("GET", target, &self.headers(), None)
    }

    /// Sends a POST with the token.
    #[track_caller]
    pub(crate) fn post(&self, target: &str, body: &Value) -> Reply {
        self.send("POST", target, &self.headers(), Some(&body.to_string()))
    }
}

/// Parses a reply, whose body may come in chunks.
fn parse(bytes: &[u8]) -> Reply {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap_or_default();
    let body = if head.contains("transfer-encoding: chunked") {
        dechunk(body)
    } else {
        body.to_owned()
    };
    Reply {
        status: status.parse().unwrap_or_default(),
        head,
        body,
    }
}

fn dechunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        if size == 0 {
            break;
        }
        whole.push_str(rest.get(..size).unwrap_or(rest));
        body = rest.get(size + 2..).unwrap_or_default();
    }
    whole
}
