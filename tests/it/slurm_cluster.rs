//! A real Slurm of four nodes on this machine, in a directory of its own. Each node has its own host
//! name and its own identity of a boot, so that massgen takes them for different hosts. Requires root.
#![expect(
    clippy::print_stderr,
    clippy::disallowed_types,
    reason = "a test says why it has nothing to do, and gives the daemons a log"
)]

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::waiting::wait_until;

/// Timeout of anything that the cluster is waited for.
pub(crate) const TIME_MAX: Duration = Duration::from_mins(2);
/// The names of the nodes.
pub(crate) const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// A running cluster; it ends with the value.
pub(crate) struct SlurmCluster {
    dir: TempDir,
    daemons: Vec<(String, Child)>,
}

impl SlurmCluster {
    /// Starts a cluster whose arrays have at most `array_max` jobs; `None` without root.
    pub(crate) fn start(array_max: usize) -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: a cluster is started as root");
            return None;
        }
        let mut cluster = Self {
            dir: tempfile::tempdir().unwrap(),
            daemons: Vec::new(),
        };
        cluster.write_files(array_max);
        let path = |name: &str| cluster.path(name).display().to_string();
        let (conf, munge) = (path("slurm.conf"), path("munge"));
        let munged = [
            "--key-file",
            "--socket",
            "--pid-file",
            "--log-file",
            "--seed-file",
        ];
        let munged = munged.map(|option| {
            let file = option.trim_start_matches("--").trim_end_matches("-file");
            format!("{option}={munge}/{file}")
        });
        let munged: Vec<&str> = munged.iter().map(String::as_str).collect();
        cluster.daemon(
            "munged",
            &[&["munged", "--force", "--foreground"], munged.as_slice()].concat(),
        );
        wait_until("munged", TIME_MAX, || cluster.path("munge/socket").exists());
        cluster.daemon("slurmctld", &["slurmctld", "-D", "-c", "-f", &conf]);
        for node in NODES {
            let line = format!(
                "hostname {node} && mount --bind {}/boot.{node} /proc/sys/kernel/random/boot_id && \
                 exec slurmd -D -f {conf} -N {node}",
                cluster.dir.path().display()
            );
            cluster.daemon(node, &["unshare", "-m", "-u", "sh", "-c", &line]);
        }
        wait_until("four idle nodes", TIME_MAX, || {
            let idle = cluster.run("sinfo", &["--noheader", "--Node", "--format=%t"]);
            idle.lines().filter(|state| state.trim() == "idle").count() == NODES.len()
        });
        Some(cluster)
    }

    /// Returns the path of the file `name` of the cluster.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a command of Slurm and returns its output, whatever its exit status.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .env("SLURM_CONF", self.path("slurm.conf"))
            .output();
        let output = output.expect("install Slurm: apt-get install slurm-wlm munge");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the jobs that run, as `NODE JOB` without those that wait.
    pub(crate) fn running(&self) -> Vec<(String, String)> {
        let listed = self.run(
            "squeue",
            &["--noheader", "--array", "--format=%N %i", "--state=R"],
        );
        let jobs = listed.lines().filter_map(|line| {
            let (node, job) = line.trim().split_once(' ')?;
            Some((node.to_owned(), job.to_owned()))
        });
        jobs.collect()
    }

    /// Kills a node with everything that runs on it, as if its power had failed.
    pub(crate) fn pull_the_plug(&self, node: &str) {
        let (_, daemon) = self.daemons.iter().find(|(name, _)| name == node).unwrap();
        let uts = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/uts")).ok();
        let of_node = uts(daemon.id()).unwrap();
        for pid in processes() {
            if uts(pid).as_ref() == Some(&of_node) {
                kill_by_id(pid);
            }
        }
    }

    fn daemon(&mut self, name: &str, arguments: &[&str]) {
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        let child = Command::new(arguments[0])
            .args(&arguments[1..])
            .env("SLURM_CONF", self.path("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let child = child.expect("install Slurm: apt-get install slurm-wlm munge");
        self.daemons.push((name.to_owned(), child));
    }

    fn write_files(&self, array_max: usize) {
        fs::create_dir(self.path("munge")).unwrap();
        fs::create_dir(self.path("state")).unwrap();
        let key: Vec<u8> = NODES
            .iter()
            .flat_map(|_| random_uuid().into_bytes())
            .collect();
        fs::write(self.path("munge/key"), key).unwrap();
        for file in ["munge", "munge/key"] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(self.path(file), mode).unwrap();
        }
        for node in NODES {
            fs::create_dir(self.path(&format!("spool.{node}"))).unwrap();
            fs::write(self.path(&format!("boot.{node}")), random_uuid()).unwrap();
        }
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let dir = self.dir.path().display();
        let ports = free_ports(NODES.len() + 1);
        let nodes = NODES.iter().zip(&ports).map(|(node, port)| {
            format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2\n")
        });
        let nodes: String = nodes.collect();
        let conf = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={dir}/munge/socket\nStateSaveLocation={dir}/state\n\
             SlurmdSpoolDir={dir}/spool.%n\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/%n.pid\nSlurmctldPort={}\nProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             SchedulerParameters=batch_sched_delay=0,sched_interval=1\nReturnToService=2\n\
             SlurmdTimeout=3\nKillWait=5\nMaxArraySize={array_max}\nMpiDefault=none\n\
             AccountingStorageType=accounting_storage/none\n{nodes}\
             PartitionName=main Nodes=ALL Default=YES\n",
            ports[NODES.len()]
        );
        fs::write(self.path("slurm.conf"), conf).unwrap();
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        // Processes of jobs outlive the daemons. Their environment names this cluster.
        let conf = format!("SLURM_CONF={}\0", self.path("slurm.conf").display());
        for (_, daemon) in &mut self.daemons {
            let _ended = daemon.kill();
            let _status = daemon.wait();
        }
        for pid in processes() {
            let env = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if contains(&env, conf.as_bytes()) && pid != std::process::id() {
                kill_by_id(pid);
            }
        }
    }
}

/// Returns whether `text` contains `part`.
pub(crate) fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Returns the numbers of all processes.
pub(crate) fn processes() -> Vec<u32> {
    let entries = fs::read_dir(Path::new("/proc")).unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn kill_by_id(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(pid, Signal::KILL);
    }
}

fn random_uuid() -> String {
    fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap()
}

/// Returns ports that no other call returns and nothing listens on. The kernel gives ports from 32768 to
/// a process that asks for any: one of them could be taken before a daemon listens on it.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    // None of them is that of a model server that massgen looks for.
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 9_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Other processes with tests begin elsewhere.
    let begin = std::process::id().wrapping_mul(97);
    let numbers = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
    let ports = numbers
        .map(|number| FIRST + begin.wrapping_add(number) % COUNT)
        .map(|port| u16::try_from(port).unwrap());
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.filter(is_free).take(count).collect()
}
