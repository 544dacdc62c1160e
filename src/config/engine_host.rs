//! The address of a container engine on another machine, which the user's own `ssh` reaches.

use std::fmt;
use std::str::FromStr;

use crate::path::AbsPath;

/// The scheme of these addresses.
pub const SSH_SCHEME: &str = "ssh://";
/// The hint about an invalid address.
pub const ADDRESS_HINT: &str = "write it like `ssh://build1`, a name that `ssh build1` reaches";
/// The longest address, in bytes.
const BYTES_MAX: usize = 512;
/// The error about an address of another form.
const SYNTAX_ERROR: &str = "expected `ssh://[USER@]HOST[:PORT][/PATH/OF/SOCKET]`";

/// The address of a container engine that is reached over SSH.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SshEngineHost {
    destination: String,
    port: Option<u16>,
    socket: Option<AbsPath>,
}

impl SshEngineHost {
    /// Returns the host as `ssh` takes it, with the user if the address names one: `USER@HOST`.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Returns the port of the SSH server, if the address names one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the path of the engine's socket on the host, if the address names one.
    pub fn socket(&self) -> Option<&AbsPath> {
        self.socket.as_ref()
    }
}

impl FromStr for SshEngineHost {
    type Err = &'static str;

    /// Parses an address. Refuses parts that `ssh` could take for an option, or a shell for syntax.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix(SSH_SCHEME).ok_or(SYNTAX_ERROR)?;
        if text.len() > BYTES_MAX {
            return Err("it is longer than 512 bytes");
        }
        let (authority, socket) = rest.split_once('/').unwrap_or((rest, ""));
        let is_in_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
        if !socket.bytes().all(is_in_path) {
            return Err(
                "the path of its socket has other characters than letters, digits and `/._-+@`",
            );
        }
        let socket = match socket {
            "" => None,
            path => Some(AbsPath::new(format!("/{path}")).ok_or(SYNTAX_ERROR)?),
        };
        let (user, server) = match authority.rsplit_once('@') {
            Some((user, server)) => (Some(user), server),
            None => (None, authority),
        };
        let (host, port) = split_port(server)?;
        if !user.is_none_or(is_name) {
            return Err("its user has other characters than letters, digits and `._-`");
        }
        let address_in_brackets = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_address = |host: &str| {
            host.bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        };
        let host = match address_in_brackets {
            Some(address) if !address.is_empty() && is_address(address) => address,
            None if is_name(host) => host,
            Some(_) | None => return Err(SYNTAX_ERROR),
        };
        Ok(Self {
            destination: user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}")),
            port,
            socket,
        })
    }
}

/// Returns whether a word can be the name of a user or a host, and no option.
fn is_name(word: &str) -> bool {
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_in_name)
}

/// Splits `HOST:PORT`.
fn split_port(server: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        Some(_) | None => return Ok((server, None)),
    };
    match port.parse() {
        Ok(number) if number > 0 => Ok((host, Some(number))),
        Ok(_) | Err(_) => Err("its port is not a number from 1 to 65535"),
    }
}

impl fmt::Display for SshEngineHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, host) = match self.destination.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, self.destination.as_str()),
        };
        f.write_str(SSH_SCHEME)?;
        if let Some(user) = user {
            write!(f, "{user}@")?;
        }
        if host.contains(':') {
            write!(f, "[{host}]")?;
        } else {
            f.write_str(host)?;
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        self.socket
            .as_ref()
            .map_or(Ok(()), |socket| write!(f, "{socket}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in [
            "ssh://build1",
            "ssh://me@build1.example.org:2222",
            "ssh://me@10.0.0.7/run/user/1000/podman/podman.sock",
            "ssh://[fe80::1]:22",
            "ssh://u@[::1]",
        ] {
            let host: SshEngineHost = text.parse().unwrap();
            assert_eq!(host.to_string(), text);
        }
        let host: SshEngineHost = "ssh://u@[::1]:7/s".parse().unwrap();
        assert_eq!((host.destination(), host.port()), ("u@::1", Some(7)));
        assert_eq!(host.socket(), AbsPath::new("/s").as_ref());
        assert_eq!("ssh://h/".parse::<SshEngineHost>().unwrap().socket(), None);
    }

    #[test]
    fn engine_addresses_cannot_be_options_or_shell_words() {
        for text in [
            "ssh://",
            "ssh:///socket",
            "ssh://@h",
            "ssh://-oProxyCommand=x",
            "ssh://u@-h",
            "ssh://-u@h",
            "ssh://u:secret@h",
            "ssh://h h",
            "ssh://h;id",
            "ssh://h$(id)",
            "ssh://h'",
            "ssh://h:0",
            "ssh://h:99999",
            "ssh://h:x",
            "ssh://[::1",
            "ssh://[h]",
            "ssh://::1",
            "ssh://h/a b",
            "ssh://h/$(id)",
            "ssh://h/a'b",
            "ssh://h\n",
            "tcp://h",
            "unix:///h",
            "build1",
        ] {
            assert!(text.parse::<SshEngineHost>().is_err(), "{text}");
        }
        let long = format!("ssh://{}", "h".repeat(600));
        assert!(long.parse::<SshEngineHost>().is_err());
    }
}
