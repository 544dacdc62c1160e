//! HTTP server on loopback; the test controls every byte and pause.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Script of a connection, step by step; then the server closes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptedResponse {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    AwaitClose,
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    /// Method and target, such as `POST /v1/chat/completions`.
    pub(crate) line: String,
    /// The headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body as text.
    pub(crate) body: String,
    /// The raw body.
    pub(crate) bytes: Vec<u8>,
}

/// Computes the answer to each request.
type RequestHandler = Box<dyn Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync>;

/// A server that records every request.
#[derive(Debug)]
pub(crate) struct ScriptedServer {
    /// Its address, such as `http://127.0.0.1:4711`.
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    closed: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl ScriptedResponse {
    /// Creates an answer that begins with these bytes.
    pub(crate) fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::default().then(bytes)
    }

    /// Creates an answer with a status and a body; `headers` are whole lines.
    pub(crate) fn whole(status: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        head.push_str("connection: close\r\n\r\n");
        Self::raw(head).then(body)
    }

    /// Creates the head of an event stream; pieces follow with [`ScriptedResponse::piece`].
    pub(crate) fn stream() -> Self {
        Self::raw(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
             transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        )
    }

    /// Adds one piece of a stream.
    #[must_use]
    pub(crate) fn piece(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.then(format!("{:x}\r\n", bytes.len()))
            .then(bytes)
            .then("\r\n")
    }

    /// Adds the regular end of a stream.
    #[must_use]
    pub(crate) fn end(self) -> Self {
        self.then("0\r\n\r\n")
    }

    /// Adds raw bytes.
    #[must_use]
    pub(crate) fn then(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.steps.push(Step::Send(bytes.as_ref().to_vec()));
        self
    }

    /// Adds a pause.
    #[must_use]
    pub(crate) fn wait(mut self, pause: Duration) -> Self {
        self.steps.push(Step::Wait(pause));
        self
    }

    /// Adds a pause before everything.
    #[must_use]
    pub(crate) fn after(mut self, pause: Duration) -> Self {
        self.steps.insert(0, Step::Wait(pause));
        self
    }

    /// Waits until the client closes the connection.
    #[must_use]
    pub(crate) fn await_close(mut self) -> Self {
        self.steps.push(Step::AwaitClose);
        self
    }

    /// Returns all its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let sent = |step: &Step| match step {
            Step::Send(bytes) => bytes.clone(),
            Step::Wait(_) | Step::AwaitClose => Vec::new(),
        };
        self.steps.iter().flat_map(sent).collect()
    }
}

impl ReceivedRequest {
    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl ScriptedServer {
    /// Starts a server that gives its answers in order and then repeats the last one.
    pub(crate) async fn start(answers: Vec<ScriptedResponse>) -> Self {
        let next = AtomicUsize::new(0);
        Self::start_with(move |_| {
            let index = next.fetch_add(1, Ordering::Relaxed);
            answers[index.min(answers.len() - 1)].clone()
        })
        .await
    }

    /// Starts a server on a free port that answers each request with `answer`.
    pub(crate) async fn start_with(
        answer: impl Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(Mutex::new(0));
        let task = tokio::spawn(accept_connections(
            listener,
            Arc::new(Box::new(answer)),
            Arc::clone(&requests),
            Arc::clone(&closed),
        ));
        Self {
            url,
            requests,
            closed,
            task,
        }
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns how many clients closed the connection while the server waited for it.
    pub(crate) fn closed_connections(&self) -> usize {
        *self.closed.lock().unwrap()
    }
}

/// A server on its own thread, for tests that wait for a process.
pub(crate) struct Endpoint {
    pub(crate) server: ScriptedServer,
    /// Dropping it stops the server's thread.
    _serving: oneshot::Sender<()>,
}

impl Endpoint {
    /// Starts a server that answers each request with `answer`.
    pub(crate) fn start_with(
        answer: impl Fn(&ReceivedRequest) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        let (started, starting) = mpsc::channel();
        let (serving, ended) = oneshot::channel::<()>();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                started
                    .send(ScriptedServer::start_with(answer).await)
                    .unwrap();
                // The test drops its end when it is done.
                ended.await.unwrap_err();
            });
        });
        let server = starting.recv().unwrap();
        Self {
            server,
            _serving: serving,
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept_connections(
    listener: TcpListener,
    handler: Arc<RequestHandler>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    closed: Arc<Mutex<usize>>,
) {
    loop {
        let (mut connection, _) = listener.accept().await.unwrap();
        let handler = Arc::clone(&handler);
        let (requests, closed) = (Arc::clone(&requests), Arc::clone(&closed));
        tokio::spawn(async move {
            let Some(request) = receive(&mut connection).await else {
                return;
            };
            let answer = handler(&request);
            requests.lock().unwrap().push(request);
            for step in answer.steps {
                match step {
                    Step::Send(bytes) => {
                        if connection.write_all(&bytes).await.is_err() {
                            return;
                        }
                    }
                    Step::Wait(pause) => tokio::time::sleep(pause).await,
                    Step::AwaitClose => {
                        while connection.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {}
                        *closed.lock().unwrap() += 1;
                    }
                }
            }
            connection.shutdown().await.ok();
        });
    }
}

async fn receive(connection: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |n| n.parse().unwrap());
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        if connection.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(ReceivedRequest {
        line,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        bytes: body,
    })
}
