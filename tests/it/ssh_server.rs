//! A real server of SSH on this machine, and an `ssh` that reaches it with a key of its own.
#![expect(clippy::disallowed_types, reason = "a server writes a log")]

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::project::make_program;
use crate::slurm_cluster::{TIME_MAX, free_ports};
use crate::waiting::wait_until;

/// The address of this machine.
const LOOPBACK: &str = "127.0.0.1";

/// A running server.
pub(crate) struct SshServer {
    pub(crate) process: Child,
}

/// Starts a server whose files are in `dir`. `bin/ssh` there is `ssh` that reaches it under any name.
pub(crate) fn start_ssh_server(dir: &Path, settings: &str) -> SshServer {
    let port = free_ports(1)[0];
    let address = format!("Port {port}\nListenAddress {LOOPBACK}\n{settings}");
    write_server_files(dir, &address);
    write_ssh(dir, &format!("-p {port} -o HostName={LOOPBACK}"));
    fs::create_dir_all("/run/sshd").unwrap();
    let log = File::create(dir.join("sshd.log")).unwrap();
    let process = Command::new("/usr/sbin/sshd")
        .args(["-D", "-e", "-f"])
        .arg(dir.join("sshd_config"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("install SSH: apt-get install openssh-server");
    wait_until("sshd", TIME_MAX, || {
        TcpStream::connect((LOOPBACK, port)).is_ok()
    });
    SshServer { process }
}

/// Makes a machine with processes and a loopback of its own. `bin/ssh` in `dir` reaches it under any name,
/// and each connection has a machine that ends with it.
pub(crate) fn make_ssh_machine(dir: &Path, settings: &str) {
    write_server_files(dir, settings);
    fs::create_dir_all("/run/sshd").unwrap();
    let machine = format!(
        "#!/bin/sh\nexec unshare --net --pid --fork --kill-child --mount-proc sh -c \
         'ip link set lo up; exec /usr/sbin/sshd -i -f \"$0\"' '{}'\n",
        dir.join("sshd_config").display()
    );
    fs::write(dir.join("machine"), machine).unwrap();
    make_program(&dir.join("machine"));
    let machine = dir.join("machine").display().to_string();
    write_ssh(dir, &format!("-o ProxyCommand={machine}"));
}

/// Writes the keys and the settings of a server to `dir`.
fn write_server_files(dir: &Path, settings: &str) {
    for name in ["host", "user"] {
        let key = dir.join(name).display().to_string();
        let keygen_output = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &key])
            .status();
        assert!(
            keygen_output
                .expect("install SSH: apt-get install openssh-server")
                .success()
        );
    }
    let shown_dir = dir.display();
    let server = format!(
        "HostKey {shown_dir}/host\nStrictModes no\nPidFile none\n\
         AuthorizedKeysFile {shown_dir}/user.pub\nUsePAM no\nPermitRootLogin yes\n{settings}"
    );
    fs::write(dir.join("sshd_config"), server).unwrap();
}

/// Writes `ssh` to `bin` in `dir`, which connects with `options`.
fn write_ssh(dir: &Path, options: &str) {
    let script = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F none -o LogLevel=ERROR -i {}/user -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null {options} \"$@\"\n",
        dir.display()
    );
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("ssh"), script).unwrap();
    make_program(&bin.join("ssh"));
}
