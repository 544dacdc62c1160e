//! Another machine: an engine of containers and a server of SSH in namespaces of their own, behind a link
//! that can be slow or cut. It can be switched off and on again. Requires root.
#![expect(clippy::print_stderr, reason = "a test says why it has nothing to do")]

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use massgen::world::sandbox::docker::engine::ContainerEngine;
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::docker::{ContainerFixture, Daemon, TmpfsMount};
use crate::repetition::is_long;
use crate::slurm_cluster::{TIME_MAX, free_ports};
use crate::ssh_server::{run_server, write_server_files, write_ssh};
use crate::waiting::wait_until;

/// The name by which `ssh` reaches it.
const NAME: &str = "build1";
/// Its network interface.
const REMOTE_INTERFACE: &str = "link0";
/// What it does first: what is in `/run` is gone when a machine is switched off.
const BOOT: &str =
    "mount -t tmpfs none /run && mkdir /run/sshd && ip link set lo up && echo up && exec cat";
/// Options with which `ssh` notices within 5 seconds that a host is gone. In the long suite it takes as long as
/// massgen's own options say.
const SHORT_TIMEOUTS: &str =
    "-o ServerAliveInterval=1 -o ServerAliveCountMax=4 -o ConnectTimeout=5";
/// Timeout for the system to forget connections whose other end does not answer.
const FORGET_TIME_MAX: Duration = Duration::from_mins(10);
/// How much a relay keeps: parts of this size, and their number.
const RELAYED_BYTES: usize = 4096;
const RELAYED_PARTS: usize = 16;

/// Another machine. It is gone when this is dropped, also if its process is killed.
pub(crate) struct LinkedHost {
    pub(crate) daemon: Daemon,
    /// Its disk, if that is a small one.
    _disk: Option<TmpfsMount>,
    /// The files of its server, and `bin/ssh`.
    dir: TempDir,
    machine: Child,
    /// The process of its namespaces.
    init_pid: u32,
    /// The end of the link here.
    local_interface: String,
    /// The addresses at both ends of the link.
    addresses: [String; 2],
    port: u16,
}

impl LinkedHost {
    /// Starts it, with a disk of `disk_mib` if that is named. `None` if this user cannot.
    pub(crate) fn start(disk_mib: Option<u32>) -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can start another machine");
            return None;
        }
        let port = free_ports(1)[0];
        // A network of four addresses for each port, in the range for tests of devices.
        let first_address = u32::from(port) * 4;
        let address = |number: u32| {
            let [_, high, middle, low] = (first_address + number).to_be_bytes();
            format!("198.{}.{middle}.{low}", 18 + high)
        };
        let addresses = [address(1), address(2)];
        let local_interface = format!("mg{}p{port}", std::process::id());
        let dir = tempfile::tempdir().unwrap();
        let login = write_server_files(dir.path(), (&addresses[1], port), "");
        let limits = if is_long() { "" } else { SHORT_TIMEOUTS };
        let options = format!("-o HostName={} {limits} {login}", addresses[1]);
        write_ssh(dir.path(), "bin", &options, port);
        let files = tempfile::tempdir().unwrap();
        let disk = disk_mib.map(|mib| {
            let disk = TmpfsMount::at(&files.path().join("data"));
            let size = format!("remount,size={mib}m");
            run("mount", &["-o", &size, &disk.0.display().to_string()]);
            disk
        });
        let (machine, init_pid) = boot();
        let daemon = Daemon::start_in(files, enter_command(init_pid));
        let host = Self {
            daemon,
            _disk: disk,
            dir,
            machine,
            init_pid,
            local_interface,
            addresses,
            port,
        };
        host.connect();
        Some(host)
    }

    /// Returns the address of its engine.
    pub(crate) fn host(&self) -> String {
        format!("ssh://{NAME}{}", self.daemon.socket().display())
    }

    /// Returns a `PATH` with the `ssh` that reaches it.
    pub(crate) fn program_path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.dir.path().join("bin").display())
    }

    /// Returns a user's directories, for commands in its containers.
    pub(crate) fn fixture(&self) -> ContainerFixture {
        let env = [("PATH".to_owned(), self.program_path())].into();
        ContainerFixture::with_engine(ContainerEngine::open(Some(&self.host()), &env).unwrap())
    }

    /// Cuts the link. Nothing says so at this end.
    pub(crate) fn cut(&self) {
        self.run_inside(&["ip", "link", "set", REMOTE_INTERFACE, "down"]);
    }

    /// Ends the connections at this end, and says so to nobody, as the system does when a link stays cut.
    pub(crate) fn forget_connections(&self) {
        let there = self.addresses[1].as_str();
        run("ss", &["--kill", "--tcp", "dst", there]);
        // A kernel that cannot end them forgets them by itself.
        wait_until("end of the connections", FORGET_TIME_MAX, || {
            let listed = Command::new("ss")
                .args(["--no-header", "--tcp", "state", "big", "dst", there])
                .output();
            listed.unwrap().stdout.is_empty()
        });
    }

    /// Restores the link, and waits until this end has noticed it.
    pub(crate) fn restore(&self) {
        self.run_inside(&["ip", "link", "set", REMOTE_INTERFACE, "up"]);
        wait_until("restored link", TIME_MAX, || {
            TcpStream::connect((self.addresses[1].as_str(), self.port)).is_ok()
        });
    }

    /// Lets no more than this pass in each direction, such as `256kbit`.
    pub(crate) fn slow_down(&self, rate: &str) {
        let words = |interface| {
            [
                "tc", "qdisc", "replace", "dev", interface, "root", "tbf", "rate", rate,
            ]
            .into_iter()
            .chain(["burst", "8k", "latency", "400ms"])
            .collect::<Vec<&str>>()
        };
        let local_command = words(&self.local_interface);
        run(local_command[0], &local_command[1..]);
        self.run_inside(&words(REMOTE_INTERFACE));
    }

    /// Undoes [`Self::slow_down`].
    pub(crate) fn speed_up(&self) {
        run(
            "tc",
            &["qdisc", "del", "dev", &self.local_interface, "root"],
        );
        self.run_inside(&["tc", "qdisc", "del", "dev", REMOTE_INTERFACE, "root"]);
    }

    /// Delays everything that `ssh` sends and receives from its next connection on.
    pub(crate) fn delay(&self, time: Duration) {
        let to = (self.addresses[1].clone(), self.port);
        let port = relay(to, time);
        let ssh = self.dir.path().join("bin/ssh");
        let script = fs::read_to_string(&ssh).unwrap();
        let script = script.replace(&format!("-p {}", self.port), &format!("-p {port}"));
        let script = script.replace(
            &format!("HostName={}", self.addresses[1]),
            "HostName=127.0.0.1",
        );
        fs::write(ssh, script).unwrap();
    }

    /// Waits until `bytes` more than `earlier` have crossed the link in one direction, `tx` or `rx`.
    pub(crate) fn wait_for_bytes(&self, direction: &str, earlier: u64, bytes: u64) {
        wait_until("bytes on the link", TIME_MAX, || {
            self.bytes(direction) >= earlier + bytes
        });
    }

    /// Returns how many bytes have crossed the link in one direction, `tx` or `rx`.
    pub(crate) fn bytes(&self, direction: &str) -> u64 {
        let counter = format!(
            "/sys/class/net/{}/statistics/{direction}_bytes",
            self.local_interface
        );
        // The list of interfaces may be that of another namespace.
        let text = fs::read_to_string(&counter);
        let text = text.unwrap_or_else(|error| panic!("{counter}: {error}"));
        text.trim().parse().unwrap()
    }

    /// Switches it off: nothing of it ends in an orderly way, and nothing says so at this end.
    pub(crate) fn switch_off(&mut self) {
        self.machine.kill().unwrap();
        self.machine.wait().unwrap();
        wait_until("end of the machine", TIME_MAX, || {
            !PathBuf::from(format!("/proc/{}", self.init_pid)).exists()
        });
    }

    /// Switches it on again.
    pub(crate) fn switch_on(&mut self) {
        // Its end of the link may be gone by now.
        Command::new("ip")
            .args(["link", "del", &self.local_interface])
            .stderr(Stdio::null())
            .status()
            .unwrap();
        (self.machine, self.init_pid) = boot();
        self.daemon.restart_in(enter_command(self.init_pid));
        self.connect();
    }

    /// Creates the link and starts the server of SSH.
    fn connect(&self) {
        let init_pid = self.init_pid.to_string();
        let [local_address, remote_address] = self
            .addresses
            .clone()
            .map(|address| format!("{address}/30"));
        let local_interface = self.local_interface.as_str();
        run(
            "ip",
            &[
                "link",
                "add",
                local_interface,
                "type",
                "veth",
                "peer",
                "name",
                REMOTE_INTERFACE,
                "netns",
                &init_pid,
            ],
        );
        run(
            "ip",
            &["addr", "add", &local_address, "dev", local_interface],
        );
        run("ip", &["link", "set", local_interface, "up"]);
        self.run_inside(&[
            "ip",
            "addr",
            "add",
            &remote_address,
            "dev",
            REMOTE_INTERFACE,
        ]);
        self.run_inside(&["ip", "link", "set", REMOTE_INTERFACE, "up"]);
        // It ends with the machine.
        drop(run_server(
            self.dir.path(),
            (&self.addresses[1], self.port),
            &enter_command(self.init_pid),
        ));
    }

    /// Runs a command there.
    fn run_inside(&self, words: &[&str]) {
        let command = enter_command(self.init_pid);
        let words: Vec<&str> = command
            .iter()
            .map(String::as_str)
            .chain(words.iter().copied())
            .collect();
        run(words[0], &words[1..]);
    }
}

impl Drop for LinkedHost {
    fn drop(&mut self) {
        let _ended = self.machine.kill();
        let _status = self.machine.wait();
    }
}

/// Starts the first process of a machine; returns what keeps it, and its id here.
fn boot() -> (Child, u32) {
    let mut machine = Command::new("unshare")
        .args([
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .args(["sh", "-c", BOOT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut greeting = [0; 3];
    let stdout = machine.stdout.as_mut().unwrap();
    stdout
        .read_exact(&mut greeting)
        .expect("namespaces for another machine");
    let id = machine.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    (machine, children.trim().parse().unwrap())
}

/// Returns the words before a command that runs on the machine of this process.
fn enter_command(init_pid: u32) -> Vec<String> {
    let words = format!("nsenter --target {init_pid} --mount --net --pid --");
    words.split(' ').map(str::to_owned).collect()
}

#[track_caller]
fn run(program: &str, words: &[&str]) {
    let ran = Command::new(program).args(words).output();
    let ran = ran.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(ran.status.success(), "{program} {words:?}: {ran:?}");
}

/// Starts a relay that passes everything on after `delay`; returns its port.
fn relay(to: (String, u16), delay: Duration) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.unwrap();
            let Ok(far) = TcpStream::connect(&to) else {
                continue;
            };
            let ends = [near.try_clone().unwrap(), far.try_clone().unwrap()];
            for (from, to) in [
                (near, far),
                (ends[1].try_clone().unwrap(), ends[0].try_clone().unwrap()),
            ] {
                thread::spawn(move || pass_on(from, to, delay));
            }
        }
    });
    port
}

/// Passes on what comes from one end of a connection, after a delay.
fn pass_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (parts, received): (_, Receiver<(Instant, Vec<u8>)>) = sync_channel(RELAYED_PARTS);
    let writing = thread::spawn(move || -> io::Result<()> {
        for (at, part) in received {
            sleep((at + delay).saturating_duration_since(Instant::now()));
            to.write_all(&part)?;
        }
        to.shutdown(Shutdown::Write)
    });
    let mut part = vec![0; RELAYED_BYTES];
    while let Ok(count @ 1..) = from.read(&mut part) {
        if parts
            .send((Instant::now(), part[..count].to_vec()))
            .is_err()
        {
            break;
        }
    }
    drop(parts);
    // The other end may be gone.
    let _written = writing.join().unwrap();
}
