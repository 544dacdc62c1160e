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
    pub(crate) port: u16,
}

/// Starts a server whose files are in `dir`. `bin/ssh` there is `ssh` that reaches it under any name.
pub(crate) fn start_ssh_server(dir: &Path, settings: &str) -> SshServer {
    let port = free_ports(1)[0];
    let options = write_server_files(dir, (LOOPBACK, port), settings);
    write_ssh(dir, "bin", &options, port);
    run_server(dir, (LOOPBACK, port), &[])
}

/// Writes the keys and the settings of a server at `address` to `dir`. Returns the options with which `ssh`
/// may log in there.
pub(crate) fn write_server_files(
    dir: &Path,
    (address, port): (&str, u16),
    settings: &str,
) -> String {
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
        "Port {port}\nListenAddress {address}\nHostKey {shown_dir}/host\nStrictModes no\nPidFile none\n\
         AuthorizedKeysFile {shown_dir}/user.pub\nUsePAM no\nPermitRootLogin yes\n{settings}"
    );
    fs::write(dir.join("sshd_config"), server).unwrap();
    format!("-i {shown_dir}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null")
}

/// Starts the server whose files are in `dir`, by a command that begins with `enter`, and waits until it
/// answers.
pub(crate) fn run_server(dir: &Path, (address, port): (&str, u16), enter: &[String]) -> SshServer {
    fs::create_dir_all("/run/sshd").unwrap();
    let log = File::create(dir.join("sshd.log")).unwrap();
    let mut arguments = enter.iter().map(String::as_str).chain(["/usr/sbin/sshd"]);
    let process = Command::new(arguments.next().unwrap())
        .args(arguments)
        .args(["-D", "-e", "-f"])
        .arg(dir.join("sshd_config"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("install SSH: apt-get install openssh-server");
    wait_until("sshd", TIME_MAX, || {
        TcpStream::connect((address, port)).is_ok()
    });
    SshServer { process, port }
}

/// Writes `ssh` to the directory `name` in `dir`, which connects with `options`, and to this machine unless
/// they name another address.
pub(crate) fn write_ssh(dir: &Path, name: &str, options: &str, port: u16) {
    let script = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F none -p {port} -o LogLevel=ERROR {options} -o HostName={LOOPBACK} \"$@\"\n"
    );
    let bin = dir.join(name);
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("ssh"), script).unwrap();
    make_program(&bin.join("ssh"));
}
