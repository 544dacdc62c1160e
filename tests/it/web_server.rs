//! A running `massgen web`, and a client that controls every byte of its requests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::project::Project;

/// Timeout of a read.
const READ_TIME_MAX: Duration = Duration::from_mins(2);

/// A server that is listening, and stops with the test.
pub(crate) struct WebServer {
    pub(crate) project: Project,
    /// Its process; `None` if a terminal started it.
    child: Option<Child>,
    /// Its port.
    pub(crate) port: u16,
    /// The code of the link that it printed.
    pub(crate) code: String,
    /// What it printed before the link.
    pub(crate) printed: String,
    /// A token; empty until the code is exchanged.
    pub(crate) token: String,
}

impl Drop for WebServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().unwrap_or_default();
            drop(child.wait());
        }
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
    pub(crate) fn start(project: Project, arguments: &[&str]) -> Self {
        Self::start_without_session(project, arguments).with_session()
    }

    /// Returns a client of the server that printed `link` on a terminal.
    pub(crate) fn at_terminal(link: &str) -> Self {
        let (start, code) = link.split_once("/#k=").unwrap();
        let (_, port) = start.rsplit_once(':').unwrap();
        let server = Self {
            project: Project::new(),
            child: None,
            port: port.parse().unwrap(),
            code: code.to_owned(),
            printed: String::new(),
            token: String::new(),
        };
        server.with_session()
    }

    /// Exchanges the code for a token.
    fn with_session(mut self) -> Self {
        let server = &mut self;
        let body = format!("{{\"code\":\"{}\"}}", server.code);
        let reply = server.send("POST", "/api/session", &[], Some(&body));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["token"]
            .as_str()
            .unwrap()
            .clone_into(&mut server.token);
        self
    }

    /// Starts a server in `project`.
    pub(crate) fn start_without_session(project: Project, arguments: &[&str]) -> Self {
        let project = project.retyped(["web", "--no-browser"]).args(arguments);
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
            child: Some(child),
            port,
            code: link.1,
            printed: seen,
            token: String::new(),
        }
    }

    fn process(&self) -> &Child {
        self.child.as_ref().unwrap()
    }

    /// Sends the server the signal of Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let id = Pid::from_raw(self.process().id().try_into().unwrap()).unwrap();
        kill_process(id, Signal::INT).unwrap();
    }

    /// Waits until the server has exited, and returns its exit status.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.as_mut().unwrap().wait().unwrap().code()
    }

    /// Returns the resident memory of the server, in kB.
    pub(crate) fn memory_kb(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process().id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.unwrap().trim().trim_end_matches(" kB");
        number.parse().unwrap()
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
            write!(head, "host: 127.0.0.1:{}\r\n", self.port).unwrap();
        }
        if let Some(body) = body {
            if !has("content-type:") {
                head.push_str("content-type: application/json\r\n");
            }
            write!(head, "content-length: {}\r\n", body.len()).unwrap();
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
        decode_chunks(body)
    } else {
        body.to_owned()
    };
    Reply {
        status: status.parse().unwrap_or_default(),
        head,
        body,
    }
}

fn decode_chunks(mut body: &str) -> String {
    let mut content = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        if size == 0 {
            break;
        }
        content.push_str(rest.get(..size).unwrap_or(rest));
        body = rest.get(size + 2..).unwrap_or_default();
    }
    content
}

/// An event of a stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    /// Its name; empty for one without data.
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

/// The stream of a run, as a page reads it.
pub(crate) struct StreamClient {
    lines: BufReader<ChunkReader>,
    /// The sections with their last values, as the page knows them.
    pub(crate) sections: BTreeMap<String, Value>,
    /// The id of the last event that had one.
    pub(crate) last_id: Option<u64>,
}

/// Decodes a body that comes in chunks.
struct ChunkReader {
    stream: BufReader<TcpStream>,
    left: usize,
}

impl Read for ChunkReader {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            let mut size = String::new();
            if self.stream.read_line(&mut size)? == 0 || size == "0\r\n" {
                return Ok(0);
            }
            self.left = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        }
        let max = self.left.min(room.len());
        let read = self.stream.read(room.get_mut(..max).unwrap_or_default())?;
        self.left -= read;
        Ok(read)
    }
}

impl WebServer {
    /// Opens the stream of a run after the event `last`.
    #[track_caller]
    pub(crate) fn stream(&self, run: &str, last: Option<u64>) -> StreamClient {
        let mut headers = self.headers();
        headers.extend(last.map(|last| format!("last-event-id: {last}")));
        let target = format!("/api/runs/{run}/stream");
        let mut stream = BufReader::new(self.open("GET", &target, &headers, None));
        let mut head = String::new();
        while stream.read_line(&mut head).unwrap() > 2 {}
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        assert!(head.contains("cache-control: no-store"), "{head}");
        StreamClient {
            lines: BufReader::new(ChunkReader { stream, left: 0 }),
            sections: BTreeMap::new(),
            last_id: last,
        }
    }

    /// Starts a run, and returns its name.
    #[track_caller]
    pub(crate) fn start_run(&self, request: &Value) -> String {
        let reply = self.post("/api/runs", request);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["run"].as_str().unwrap().to_owned()
    }
}

impl StreamClient {
    /// Reads events until one has data; `None` at the end.
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
        let mut event = StreamEvent {
            name: String::new(),
            id: None,
            data: Value::Null,
        };
        let begun = Instant::now();
        loop {
            // A read does not time out, because the server sends comments meanwhile.
            assert!(
                begun.elapsed() < READ_TIME_MAX,
                "no event within {READ_TIME_MAX:?}: {:#?}",
                self.sections
            );
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap_or_default() == 0 {
                return None;
            }
            match line.trim_end().split_once(':') {
                Some(("event", name)) => name.trim().clone_into(&mut event.name),
                Some(("id", id)) => event.id = id.trim().parse().ok(),
                Some(("data", data)) => event.data = serde_json::from_str(data.trim()).unwrap(),
                Some(_) => {}
                None if event.name.is_empty() => {}
                None => break,
            }
        }
        self.last_id = event.id.or(self.last_id);
        if event.name == "section" {
            let name = event.data["section"].as_str().unwrap().to_owned();
            self.sections.insert(name, event.data["value"].clone());
        }
        Some(event)
    }

    /// Reads events until the sections satisfy `is_reached`.
    #[track_caller]
    pub(crate) fn read_until(&mut self, is_reached: impl Fn(&BTreeMap<String, Value>) -> bool) {
        while !is_reached(&self.sections) {
            let event = self.next_event();
            assert!(event.is_some(), "{:#?}", self.sections);
        }
    }

    /// Reads events until a question of this kind is open, and returns it.
    #[track_caller]
    pub(crate) fn question(&mut self, kind: &str) -> Value {
        let find = |sections: &BTreeMap<String, Value>| {
            let questions = sections.get("questions")?.as_array()?;
            let mut asked = questions.iter();
            asked.find(|question| question["kind"] == kind).cloned()
        };
        self.read_until(|sections| find(sections).is_some());
        find(&self.sections).unwrap()
    }

    /// Reads everything, and returns all events.
    pub(crate) fn read_to_end(&mut self) -> Vec<StreamEvent> {
        std::iter::from_fn(|| self.next_event()).collect()
    }
}
