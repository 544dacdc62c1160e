//! The lines of `docs/scale.md` that run massgen on another machine, over a real server of SSH.
#![expect(clippy::print_stderr, reason = "a test says why it has nothing to do")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::docs::{block_lines, read};
use crate::project::{Project, binary};
use crate::scripted_team::{agent, team};
use crate::slurm_cluster::free_ports;
use crate::ssh_server::make_ssh_machine;

/// The port in the documentation.
const PORT: &str = "7801";

/// Another machine, whose home directory is that of a project.
struct OtherMachine {
    dir: TempDir,
    project: Project,
}

impl OtherMachine {
    /// Makes a machine with massgen and `~/project`; `None` where a test may not make one.
    fn make() -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can make a machine");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let replies = "- calls: [{name: execute_command, arguments: {command: \"echo made >made.txt\"}}]\n\
                       - calls: [{name: new_answer, arguments: {content: made there}}]\n";
        let keys = "cwd: workspace\nenable_mcp_command_line: true";
        let team = team(&[agent("one", keys, replies)], "");
        let project = Project::new().home_file("project/team.yaml", team);
        let binary = binary();
        let settings = format!(
            "SetEnv PATH={}:/usr/bin:/bin HOME={}\n",
            binary.parent().unwrap().display(),
            project.home("").display().to_string().trim_end_matches('/'),
        );
        make_ssh_machine(dir.path(), &settings);
        Some(Self { dir, project })
    }

    /// Returns a command for a line of the documentation, typed on this machine.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        let path = format!(
            "{}/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            self.dir.path().display()
        );
        command
            .args(["-c", &format!("exec {line}")])
            .env_clear()
            .env("PATH", path)
            .stdin(Stdio::null());
        command
    }
}

/// Returns the line of the documentation that contains `word`.
fn documented_line(word: &str) -> String {
    let text = read("docs/scale.md");
    let lines = block_lines(&text, "```sh");
    let mut lines = lines.iter().filter(|line| line.contains(word));
    (*lines.next().unwrap()).to_owned()
}

#[test]
fn a_run_on_another_machine_is_one_line() {
    let Some(machine) = OtherMachine::make() else {
        return;
    };
    let line = documented_line("--config");
    let output = machine.command(&line).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}\n{shown}");
    assert_eq!(output.stdout, b"made there\n", "{shown}");
    // Its commands and its records are there, and nothing is here.
    let made = machine.project.home("project/.massgen/sessions");
    let made = Command::new("find")
        .arg(made)
        .args(["-name", "made.txt"])
        .output()
        .unwrap();
    assert!(!made.stdout.is_empty(), "{shown}");
    assert!(!machine.project.path(".massgen").exists());
}

/// Ends a process at the end of a test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

#[test]
fn the_page_of_another_machine_is_reached_through_a_forwarded_port() {
    let Some(machine) = OtherMachine::make() else {
        return;
    };
    let port = free_ports(1)[0];
    let line = documented_line("massgen web").replace(PORT, &port.to_string());
    // Here is no terminal to pass on.
    let line = line.replace(" -t ", " -tt ");
    let mut command = machine.command(&line);
    let mut session = Ended(command.stdout(Stdio::piped()).spawn().unwrap());
    let shown = BufReader::new(session.0.stdout.take().unwrap());
    let address = format!("127.0.0.1:{port}");
    let has_link = |shown: &String| shown.contains(&format!("http://{address}/"));
    let mut shown = shown.lines().map(Result::unwrap);
    assert!(shown.any(|shown| has_link(&shown)), "{line}");
    let mut stream = TcpStream::connect(&address).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    // Without the code of the link, the server only says so.
    assert!(reply.starts_with("HTTP/1.1 "), "{reply}");
}
