//! Owns the connection to an engine, and what has to be known about it before a container is made.

use std::io;
use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::{API_DEFAULT_VERSION, Docker};
use rustix::process::{getgid, getuid};

use crate::config::docker::{IMAGE, SUDO_IMAGE};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::sandbox::docker::socket::{
    DaemonStatus, EngineDiscovery, EngineKind, find_engine,
};

/// How long an engine may take for one answer. Keeping a large container takes it long.
const ANSWER_TIME_MAX: Duration = Duration::from_mins(10);
/// What an engine answers about a thing that is not there.
const NOT_FOUND: u16 = 404;

/// A connection to an engine.
#[derive(Clone, Debug)]
pub struct EngineClient {
    pub(super) api: Docker,
    pub(super) socket: AbsPath,
    pub(super) manner: EngineProperties,
}

/// How an engine makes containers, and keeps them apart from the user.
#[derive(Clone, Debug, Default)]
pub(super) struct EngineProperties {
    /// Whose it is.
    pub(super) kind: EngineKind,
    /// It runs as the user, who is root inside.
    is_rootless: bool,
    /// It gives containers other users than the machine has.
    pub(super) maps_users: bool,
    /// `SELinux` would keep containers from the mounted directories.
    pub(super) has_labels: bool,
    /// Where it keeps containers, if that is a directory of this machine.
    pub(super) storage: Option<AbsPath>,
}

/// An image that is on this machine.
#[derive(Clone, Debug)]
pub struct LocalImage {
    /// Where its programs are looked for.
    pub(super) path: String,
}

impl EngineClient {
    /// Connects to the engine that `DOCKER_HOST` names, or else to the first that answers at a usual
    /// place. An error says what is there instead, and what to do.
    pub async fn connect(host: Option<&str>) -> Result<Self> {
        let found = find_engine(host).await;
        let EngineDiscovery::At(socket, DaemonStatus::Answers(maker, _)) = &found else {
            let error = Error::new(ErrorKind::Environment, found.describe());
            let error = found.remedy().into_iter().fold(error, Error::with_hint);
            return Err(error.with_hint(
                "or run commands without containers: remove `command_line_execution_mode: docker`",
            ));
        };
        let failed = |error| engine_failure("cannot talk to the engine", error);
        let seconds = ANSWER_TIME_MAX.as_secs();
        let api = Docker::connect_with_unix(&socket.to_string(), seconds, API_DEFAULT_VERSION);
        let api = api
            .map_err(failed)?
            .negotiate_version()
            .await
            .map_err(failed)?;
        let about = api.info().await.map_err(failed)?;
        let options = about.security_options.unwrap_or_default();
        let says = |what: &str| {
            let mut words = options.iter().flat_map(|option| option.split(','));
            words.any(|word| word == format!("name={what}"))
        };
        Ok(Self {
            api,
            socket: socket.clone(),
            manner: EngineProperties {
                kind: *maker,
                is_rootless: says("rootless"),
                maps_users: says("userns"),
                has_labels: says("selinux"),
                storage: about.docker_root_dir.and_then(AbsPath::new),
            },
        })
    }

    /// Looks at an image that a container is to be made from. Nothing is fetched: whoever wants an
    /// image from elsewhere has to say so.
    pub async fn expect_image(&self, name: &str) -> Result<LocalImage> {
        let found = match self.api.inspect_image(name).await {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Err(missing_image(name)),
            Err(error) => {
                return Err(engine_failure(
                    &format!("cannot look at the image `{name}`"),
                    error,
                ));
            }
        };
        let variables = found
            .config
            .and_then(|config| config.env)
            .unwrap_or_default();
        let path = variables.iter().find_map(|line| line.strip_prefix("PATH="));
        Ok(LocalImage {
            path: path.unwrap_or(PATH_DEFAULT).to_owned(),
        })
    }

    /// Who runs commands, so that what they make belongs to the user outside.
    pub(super) fn container_user(&self) -> (u32, u32) {
        if self.manner.is_rootless {
            (0, 0)
        } else {
            (getuid().as_raw(), getgid().as_raw())
        }
    }
}

/// Where programs are looked for if an image does not say it: Docker's own default.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn missing_image(name: &str) -> Error {
    let message = format!("the image `{name}` is not on this machine");
    let error = Error::new(ErrorKind::Environment, message);
    match name {
        IMAGE => error.with_hint("massgen docker build"),
        SUDO_IMAGE => error.with_hint("massgen docker build --sudo"),
        _ => error.with_hint(format!("docker pull {name}")),
    }
}

/// Whether an engine says that there is no such thing.
pub(super) fn is_missing(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::DockerResponseServerError {
            status_code: NOT_FOUND,
            ..
        }
    )
}

/// What became of a command, as its agent should know it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the list of errors is open")]
pub(super) fn command_error(error: EngineError) -> io::Error {
    io::Error::other(match error {
        EngineError::DockerResponseServerError { message, .. } => message,
        EngineError::RequestTimeoutError => {
            "the engine of the container does not answer in time".to_owned()
        }
        error => format!("the engine of the container has broken off: {error}"),
    })
}

/// What an engine did not do, in its own words.
pub(super) fn engine_failure(what: &str, error: EngineError) -> Error {
    Error::new(ErrorKind::Environment, what).with_source(error)
}
