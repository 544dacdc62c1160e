//! Owns what is said about Docker and Podman. This version runs no commands, so no run needs them.

use crate::cli::doctor::finding::{Area, Finding, Verdict};
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::probe::docker::{Daemon, ask, usual_sockets};

/// Asks the daemon that a client on this machine would ask, or else every usual one.
pub(crate) async fn look(host: &Host) -> Finding {
    let named = host.env("DOCKER_HOST");
    let sockets = match named.map(|name| (name, name.strip_prefix("unix://"))) {
        None => usual_sockets(),
        Some((_, Some(path))) => AbsPath::new(path).into_iter().collect(),
        Some((_, None)) => {
            let message = "`DOCKER_HOST` names no socket of this machine, and is not asked";
            return Area::Docker.finds(Verdict::Skipped, "daemon", message);
        }
    };
    let mut worst = None;
    for socket in &sockets {
        let found = ask(socket).await;
        match found {
            Daemon::Answers(_) => return judge(socket, &found),
            Daemon::NoSocket => {}
            Daemon::Denied | Daemon::Silent | Daemon::Hangs | Daemon::Strange(_) => {
                worst = worst.or(Some((socket, found)));
            }
        }
    }
    if let Some((socket, found)) = worst {
        return judge(socket, &found);
    }
    let places: Vec<String> = sockets.iter().map(ToString::to_string).collect();
    let places = places.join(", ");
    let message = format!("no daemon of Docker or Podman: nothing is at {places}");
    Area::Docker
        .finds(Verdict::Warning, "daemon", message)
        .remedy("sudo apt-get install docker.io   # no run of this version needs it")
}

fn judge(socket: &AbsPath, found: &Daemon) -> Finding {
    let finds =
        |verdict, what: &str| Area::Docker.finds(verdict, "daemon", format!("`{socket}` {what}"));
    let start = "sudo systemctl restart docker";
    match found {
        Daemon::Answers(who) => finds(Verdict::Ok, &format!("answers: {who}")),
        Daemon::Denied => finds(Verdict::Warning, "is not open to you").remedy(
            "sudo usermod -aG docker \"$USER\"   # then log in again; the group is as good as root",
        ),
        Daemon::Silent => finds(Verdict::Warning, "has nobody listening").remedy(start),
        Daemon::Hangs => {
            finds(Verdict::Warning, "takes questions and does not answer").remedy(start)
        }
        Daemon::Strange(how) => finds(Verdict::Warning, how).remedy(start),
        Daemon::NoSocket => finds(Verdict::Warning, "is not there").remedy(start),
    }
}
