//! A real server of SSH on this machine, and an `ssh` that reaches it with a key of its own.
#![expect(clippy::disallowed_types, reason = "a server writes a log")]

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::project::make_program;
use crate::slurm_cluster::{free_ports, wait_until};

/// A running server.
pub(crate) struct SshServer {
    pub(crate) process: Child,
    pub(crate) port: u16,
}

/// Starts a server whose files are in `dir`. `bin/ssh` there is `ssh` that reaches it under any name.
pub(crate) fn start_ssh_server(dir: &Path, settings: &str) -> SshServer {
    for name in ["host", "user"] {
        let key = dir.join(name).display().to_string();
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &key])
            .status();
        assert!(
            made.expect("install SSH: apt-get install openssh-server")
                .success()
        );
    }
    fs::create_dir_all("/run/sshd").unwrap();
    let (place, port) = (dir.display(), free_ports(1)[0]);
    let server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nStrictModes no\nPidFile none\n\
         AuthorizedKeysFile {place}/user.pub\nUsePAM no\nPermitRootLogin yes\n{settings}"
    );
    let conf = dir.join("sshd_config");
    fs::write(&conf, server).unwrap();
    let options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";
    write_ssh(dir, "bin", &format!("-i {place}/user {options}"), port);
    let log = File::create(dir.join("sshd.log")).unwrap();
    let process = Command::new("/usr/sbin/sshd")
        .args(["-D", "-e", "-f"])
        .arg(&conf)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("install SSH: apt-get install openssh-server");
    wait_until("sshd", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    SshServer { process, port }
}

/// Writes `ssh` to the directory `name` in `dir`, which connects to this machine with `options`.
pub(crate) fn write_ssh(dir: &Path, name: &str, options: &str, port: u16) {
    let script = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F none -p {port} -o HostName=127.0.0.1 -o LogLevel=ERROR {options} \"$@\"\n"
    );
    let bin = dir.join(name);
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("ssh"), script).unwrap();
    make_program(&bin.join("ssh"));
}
