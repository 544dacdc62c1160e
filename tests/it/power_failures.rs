//! Power failures on a block device that loses what was not synchronized: what was saved or paid for
//! is still there. Only root can mount such a device; other users test nothing here.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk themselves"
)]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::syncfs;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::mcp_images::CHAT;
use crate::project::Project;
use crate::scripted_team::{agent, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

/// The size of the disk, in bytes; most of it is a hole.
const DISK_BYTES: u64 = 256 * 1024 * 1024;

/// Writes a file in its workspace, answers, and presents.
const WORKS: &str = r#"
- when: {system: "the final agent"}
  text: "the result"
- when: {last: "notes.txt"}
  calls: [{name: new_answer, arguments: {content: "an answer"}}]
- calls: [{name: write_file, arguments: {path: "notes.txt", content: "notes\n"}}]
"#;

/// An ext4 disk whose power can be cut.
struct FailingDisk {
    root: PathBuf,
    images: TempDir,
    cuts: u32,
}

impl FailingDisk {
    /// Mounts an empty disk at the empty project; `None` unless root runs the test.
    fn mount_at(project: &Project) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let disk = Self {
            root: project.path(""),
            images: tempfile::tempdir().unwrap(),
            cuts: 0,
        };
        let image = disk.image();
        File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        disk.mount();
        Some(disk)
    }

    /// Waits until all that was written is on the disk.
    fn synchronize(&self) {
        syncfs(File::open(&self.root).unwrap()).unwrap();
    }

    fn image(&self) -> PathBuf {
        self.images.path().join(self.cuts.to_string())
    }

    fn mount(&self) {
        let image = self.image();
        run(Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, &self.root]));
    }

    /// Cuts the power while `process` works, if one does, and switches the machine on again: the
    /// disk has what had reached it by then.
    fn cut_power(&mut self, process: Option<Child>) {
        let signal = |child: &Child, signal| kill_process(Pid::from_child(child), signal).unwrap();
        if let Some(child) = &process {
            signal(child, Signal::STOP);
        }
        let before = self.image();
        self.cuts += 1;
        run(Command::new("cp")
            .arg("--sparse=always")
            .args([&before, &self.image()]));
        if let Some(mut child) = process {
            signal(&child, Signal::KILL);
            child.wait().unwrap();
        }
        wait_until("the disk is not in use", WAIT_TIME_MAX, || {
            let mut umount = Command::new("umount");
            umount.arg(&self.root).stderr(Stdio::null());
            umount.status().unwrap().success()
        });
        fs::remove_file(before).unwrap();
        self.mount();
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        let mut umount = Command::new("umount");
        drop(umount.arg("--lazy").arg(&self.root).status());
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

/// Returns the paths that match `pattern`, in which a `*` stands for any name.
fn find(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        let entries = found.iter().flat_map(|dir| match part {
            "*" => {
                let entries = fs::read_dir(dir).into_iter().flatten();
                entries.map(|entry| entry.unwrap().path()).collect()
            }
            name => vec![dir.join(name)],
        });
        found = entries.filter(|path| path.exists()).collect();
    }
    found
}

#[test]
fn the_disk_loses_what_was_not_synchronized() {
    let project = Project::new();
    let Some(mut disk) = FailingDisk::mount_at(&project) else {
        return;
    };
    fs::write(project.path("lost"), "text").unwrap();
    let mut kept = File::create(project.path("kept")).unwrap();
    kept.write_all(b"text").unwrap();
    kept.sync_all().unwrap();
    drop(kept);
    disk.cut_power(None);
    assert_eq!(fs::read(project.path("kept")).unwrap(), b"text");
    assert_eq!(fs::read(project.path("lost")).unwrap_or_default(), b"");
}

#[test]
fn saved_turns_survive_a_power_failure() {
    let project = Project::new();
    let Some(mut disk) = FailingDisk::mount_at(&project) else {
        return;
    };
    let project = project.file("team.yaml", team(&[agent("one", "cwd: ws", WORKS)], ""));
    disk.synchronize();
    let run_task = ["--config", "team.yaml", "work"];
    let finished = project.args(run_task).success();
    disk.cut_power(None);
    let finished = finished.then(["sessions", "fork", "last"]).success();
    let fork = finished.stdout().trim().to_owned();
    disk.cut_power(None);
    let finished = finished.then(["sessions", "list"]).success();
    assert_eq!(finished.stdout().matches("1 turn ").count(), 2);
    let notes = find(&disk.root, ".massgen/sessions/*/turn_1/workspace/notes.txt");
    assert_eq!(notes.len(), 2);
    for path in notes {
        assert_eq!(fs::read(path).unwrap(), b"notes\n");
    }
    let further = ["--config", "team.yaml", "--session-id", &fork, "again"];
    let finished = finished.then(further).success();
    disk.cut_power(None);
    let finished = finished.then(["sessions", "show", &fork]).success();
    for task in ["> work", "> again"] {
        assert!(finished.stdout().contains(task), "{}", finished.stdout());
    }
}

#[test]
fn a_paid_reply_is_on_the_disk_before_its_calls_run() {
    let project = Project::new();
    let Some(mut disk) = FailingDisk::mount_at(&project) else {
        return;
    };
    let endpoint = Endpoint::start_with(|request: &ReceivedRequest| {
        let next = ["0.txt", "1.txt", "2.txt"]
            .into_iter()
            .find(|name| !request.body.contains(name));
        match next {
            Some(name) => CHAT.calls("write_file", &json!({"path": name, "content": "x"})),
            None => ScriptedResponse::stream().await_close(),
        }
    });
    let config = format!(
        "agents:\n  - id: one\n    backend: {{type: {}, base_url: '{}', model: m, api_key: k, \
         cwd: ws}}\n",
        CHAT.vendor, endpoint.server.url
    );
    let project = project.file("team.yaml", config);
    disk.synchronize();
    let project = project.args(["--config", "team.yaml", "work"]);
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let process = command.spawn().unwrap();
    wait_until("the last call has run", WAIT_TIME_MAX, || {
        !find(&disk.root, ".massgen/workspaces/*/2.txt").is_empty()
    });
    disk.cut_power(Some(process));
    let logs = find(&disk.root, ".massgen/massgen_logs/*/turn_1/events.jsonl");
    let log = fs::read_to_string(&logs[0]).unwrap();
    assert_eq!(log.matches("\"type\":\"replied\"").count(), 3, "{log}");
    // The run is resumed: its next request has the recorded replies and their results.
    let requests_before = endpoint.server.requests().len();
    let project = project.retyped(["--continue"]);
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    wait_until("a request", WAIT_TIME_MAX, || {
        endpoint.server.requests().len() > requests_before
    });
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(
        endpoint.server.requests()[requests_before]
            .body
            .contains("2.txt")
    );
}

#[test]
fn each_cell_has_one_result_after_a_power_failure() {
    let project = Project::new();
    let Some(mut disk) = FailingDisk::mount_at(&project) else {
        return;
    };
    let cells = 0..8;
    let tasks: Vec<String> = cells
        .map(|number| json!({"id": format!("c{number}"), "text": "work"}).to_string())
        .collect();
    let project = project
        .file("team.yaml", team(&[agent("one", "cwd: ws", WORKS)], ""))
        .file("tasks.jsonl", tasks.join("\n"));
    disk.synchronize();
    let start = ["batch", "run", "tasks.jsonl", "--config", "team.yaml"];
    let project = project.args(start);
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // The cells are processes: while they write, the copy of the disk would be torn.
    assert!(command.status().unwrap().success());
    disk.cut_power(None);
    let mut finished = project.retyped(["batch", "resume"]).success();
    for _ in 0..2 {
        finished = finished.then(["batch", "results", "--json"]).success();
        let outcomes = finished.stdout().lines().map(|line| {
            let result: Value = serde_json::from_str(line).unwrap();
            result["outcome"].clone()
        });
        assert_eq!(outcomes.collect::<Vec<_>>(), ["completed"; 8]);
        disk.cut_power(None);
    }
    finished.then(["batch", "resume"]).success();
}
