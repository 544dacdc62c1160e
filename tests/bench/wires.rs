//! Measures what massgen itself costs beside its models: a loop of tool calls against an endpoint
//! that answers at once, and many agents that stream at the same time. Prints a table; asserts
//! nothing but that the runs ended well.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::measured::run;

/// Requests of a short and of a long loop; what a step costs is what lies between them.
const STEPS: [usize; 2] = [100, 1000];
const AGENTS: usize = 256;
/// Pieces of each reply of the agents that stream.
const PIECES: usize = 500;

/// Takes the figures and prints them.
pub(crate) fn measure() {
    let dir = tempfile::tempdir().unwrap();
    println!("| what | result | of which ours |");
    println!("|---|---|---|");
    tool_loop(dir.path());
    streams(dir.path());
}

fn tool_loop(dir: &Path) {
    let mut measured = Vec::new();
    for steps in STEPS {
        let url = serve(move |request| {
            // Two messages begin a conversation, and each step adds two.
            let done = request.matches("\"role\":\"tool\"").count();
            if done == 0 {
                let arguments = r#"{\"path\":\"note.txt\",\"content\":\"a note of one line\"}"#;
                call("write_file", arguments, done)
            } else if done + 1 < steps {
                call("read_text_file", r#"{\"path\":\"note.txt\"}"#, done)
            } else {
                call("new_answer", r#"{\"content\":\"read\"}"#, done)
            }
        });
        let project = dir.join(format!("loop_{steps}"));
        let yaml = format!(
            "limits: {{max_steps_per_round: 2000}}\nagents:\n  - id: a\n    backend: \
             {{type: chatcompletion, base_url: \"{url}\", model: m, cwd: ws}}\n"
        );
        measured.push(run(&project, &yaml));
    }
    let [short, long] = &measured[..] else {
        return;
    };
    let steps = (STEPS[1] - STEPS[0]) as f64;
    println!(
        "| a step of a tool-call loop, {} to {} steps | {:.2} ms | {:.2} ms CPU; {:.1} and {:.1} MiB at most |",
        STEPS[0],
        STEPS[1],
        (long.elapsed - short.elapsed).as_secs_f64() * 1e3 / steps,
        (long.cpu_ms - short.cpu_ms) as f64 / steps,
        short.peak_mib,
        long.peak_mib,
    );
}

fn streams(dir: &Path) {
    let (ended, ends) = channel();
    let url = serve_streams(ended);
    let project = dir.join("streams");
    let mut yaml = String::from("agents:\n");
    for number in 1..=AGENTS {
        let _ = write!(
            yaml,
            "  - id: a{number:03}\n    backend: {{type: chatcompletion, base_url: \"{url}\", model: m}}\n"
        );
    }
    let measured = run(&project, &yaml);
    let replies = ends.try_iter().count();
    let pieces = (replies * PIECES) as f64;
    println!(
        "| {AGENTS} agents stream {PIECES} pieces each, {replies} replies | {:.1} s, {:.0} pieces a second | {:.1} µs CPU a piece; {:.1} MiB at most |",
        measured.elapsed.as_secs_f64(),
        pieces / measured.elapsed.as_secs_f64(),
        measured.cpu_ms as f64 * 1e3 / pieces,
        measured.peak_mib,
    );
}

/// A reply with one call.
fn call(name: &str, arguments: &str, number: usize) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c{number}\",\
         \"function\":{{\"name\":\"{name}\",\"arguments\":\"{arguments}\"}}}}]}}}}]}}\n\n\
         data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"tool_calls\"}}]}}\n\n\
         data: [DONE]\n\n"
    )
}

/// A server that answers each request at once, as `reply` says.
fn serve(reply: impl Fn(&str) -> String + Clone + Send + 'static) -> String {
    listen(move |request, connection| {
        let body = reply(request);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        connection.write_all(answer.as_bytes()).unwrap();
    })
}

/// A server whose replies come in many pieces; it tells when it has sent one.
fn serve_streams(ended: Sender<()>) -> String {
    listen(move |request, connection| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        connection.write_all(head.as_bytes()).unwrap();
        for number in 0..PIECES {
            let piece = format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"word {number} \"}}}}]}}\n\n"
            );
            send_chunk(connection, &piece);
        }
        let last = if !request.contains("\"new_answer\"") {
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                .to_owned()
        } else if request.contains("\"role\":\"assistant\"") {
            call(
                "vote",
                r#"{\"agent_id\":\"agent1\",\"reason\":\"good\"}"#,
                1,
            )
        } else {
            call("new_answer", r#"{\"content\":\"an answer\"}"#, 0)
        };
        send_chunk(connection, &last);
        connection.write_all(b"0\r\n\r\n").unwrap();
        ended.send(()).unwrap();
    })
}

fn send_chunk(connection: &mut TcpStream, piece: &str) {
    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
    connection.write_all(chunk.as_bytes()).unwrap();
}

/// A server that keeps connections open and answers each request with `answer`.
fn listen(answer: impl Fn(&str, &mut TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            connection.set_nodelay(true).unwrap();
            let answer = answer.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(connection.try_clone().unwrap());
                while let Some(request) = receive(&mut reader) {
                    answer(&request, &mut connection);
                }
            });
        }
    });
    url
}

/// The body of the next request; `None` when the client is gone.
fn receive(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    String::from_utf8(body).ok()
}
