//! A machine that a real server of SSH reaches, and an `ssh` with a key of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::project::make_program;

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
