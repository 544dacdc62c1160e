//! An engine that synchronous callers can wait for: a thread runs its event loop. They must not run
//! on an event loop themselves.

use std::fmt::{self, Display, Formatter};
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use rustix::process::{getgid, getuid};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::docker::{IMAGE, SUDO_IMAGE};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::world::sandbox::docker::engine_error::{engine_failure, is_missing};
use crate::world::sandbox::docker::socket::{
    DaemonStatus, EngineDiscovery, EngineKind, find_engine,
};

/// Timeout for one reply of an engine. Committing a large container takes long.
const ANSWER_TIME_MAX: Duration = Duration::from_mins(10);
/// Longest time that the end of a run waits for the removal of a container.
const FINISH_TIME_MAX: Duration = Duration::from_secs(20);
/// Default `PATH` if an image sets none, the same as Docker's.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A Docker or Podman engine on this machine. Clones share one thread, which ends when the last of
/// them is dropped.
#[derive(Clone, Debug)]
pub struct ContainerEngine {
    pub(super) api: Docker,
    pub(super) socket: AbsPath,
    pub(super) properties: EngineProperties,
    event_loop: Handle,
    _stop_on_drop: Arc<oneshot::Sender<()>>,
}

/// How an engine creates containers and isolates them from the user.
#[derive(Clone, Debug, Default)]
pub(super) struct EngineProperties {
    /// Docker or Podman.
    pub(super) kind: EngineKind,
    /// Whether it runs as the user, who is root inside containers.
    is_rootless: bool,
    /// Whether it maps users of containers to other user ids on the machine.
    pub(super) maps_users: bool,
    /// Whether `SELinux` would deny containers access to the mounted directories.
    pub(super) has_selinux: bool,
    /// Where it stores containers, if that is a directory of this machine.
    pub(super) storage: Option<AbsPath>,
}

/// The user and the group that a command in a container runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContainerUser {
    /// The user id.
    pub(super) uid: u32,
    /// The group id.
    pub(super) gid: u32,
}

impl ContainerUser {
    /// The root user.
    pub(super) const ROOT: Self = Self { uid: 0, gid: 0 };
}

impl Display for ContainerUser {
    /// Writes it as the engine reads it: `UID:GID`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

impl ContainerEngine {
    /// Connects to the engine that `host` names, as `DOCKER_HOST` does, or otherwise to the first
    /// that answers at a default socket. The error reports what was found instead and how to fix it.
    pub fn open(host: Option<&str>) -> Result<Self> {
        let start_error = |error| {
            let message = "cannot start the thread for docker";
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("check the limits of open files and processes: `ulimit -a`")
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(start_error)?;
        let event_loop = runtime.handle().clone();
        let (stop_on_drop, stop_receiver) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("docker".to_owned());
        let run_until_dropped = move || drop(runtime.block_on(stop_receiver));
        thread.spawn(run_until_dropped).map_err(start_error)?;
        let (api, socket, properties) = event_loop.block_on(connect(host))?;
        Ok(Self {
            api,
            socket,
            properties,
            event_loop,
            _stop_on_drop: Arc::new(stop_on_drop),
        })
    }

    /// Returns the isolation of what runs in a container of `image`, for people.
    pub(super) fn isolation(image: &str) -> ExecutionIsolation {
        ExecutionIsolation::Container {
            image: image.to_owned(),
        }
    }

    /// Refuses an image that is not on this machine. Nothing is pulled: the user must request an
    /// image from elsewhere explicitly. Returns its `PATH`.
    pub fn expect_image(&self, name: &str) -> Result<String> {
        let image = self.block_on(self.api.inspect_image(name));
        let image = image.map_err(|error| {
            if is_missing(&error) {
                return missing_image_error(name);
            }
            engine_failure(&format!("cannot inspect the image `{name}`"), error)
        })?;
        let variables = image.config.and_then(|config| config.env);
        let variables = variables.unwrap_or_default();
        let path = variables.iter().find_map(|line| line.strip_prefix("PATH="));
        Ok(path.unwrap_or(PATH_DEFAULT).to_owned())
    }

    /// Returns the user of commands, chosen so that files that they create belong to the user
    /// outside.
    pub(super) fn container_user(&self) -> ContainerUser {
        if self.properties.is_rootless {
            ContainerUser::ROOT
        } else {
            ContainerUser {
                uid: getuid().as_raw(),
                gid: getgid().as_raw(),
            }
        }
    }

    /// Runs an operation of the engine and waits for it.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.event_loop.block_on(work)
    }

    /// Runs an operation and waits for it for a limited time, even where an event loop must not be
    /// blocked on.
    pub(super) fn finish_detached(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::sync_channel(1);
        drop(self.spawn(async move {
            work.await;
            // If it took too long, the receiver is gone.
            sender.send(()).unwrap_or_default();
        }));
        receiver.recv_timeout(FINISH_TIME_MAX).unwrap_or_default();
    }

    /// Runs an operation in the background.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.event_loop.spawn(work)
    }
}

async fn connect(host: Option<&str>) -> Result<(Docker, AbsPath, EngineProperties)> {
    let discovery = find_engine(host).await;
    let EngineDiscovery::Socket(socket, DaemonStatus::Answers(kind, _)) = &discovery else {
        let error = Error::new(ErrorKind::Environment, discovery.describe());
        let error = discovery.remedy().into_iter().fold(error, Error::with_hint);
        return Err(error.with_hint(
            "or run commands without containers: remove `command_line_execution_mode: docker`",
        ));
    };
    let request_info = async {
        let path = socket.to_string();
        let api = Docker::connect_with_unix(&path, ANSWER_TIME_MAX.as_secs(), API_DEFAULT_VERSION);
        let api = api?.negotiate_version().await?;
        let info = api.info().await?;
        Ok((api, info))
    };
    let (api, info) = request_info
        .await
        .map_err(|error| engine_failure("cannot connect to the container engine", error))?;
    let options = info.security_options.unwrap_or_default();
    let has_option = |name: &str| {
        let mut words = options.iter().flat_map(|option| option.split(','));
        words.any(|word| word == format!("name={name}"))
    };
    let properties = EngineProperties {
        kind: *kind,
        is_rootless: has_option("rootless"),
        maps_users: has_option("userns"),
        has_selinux: has_option("selinux"),
        storage: info.docker_root_dir.and_then(AbsPath::new),
    };
    Ok((api, socket.clone(), properties))
}

fn missing_image_error(name: &str) -> Error {
    let message = format!("the image `{name}` is not on this machine");
    let error = Error::new(ErrorKind::Environment, message);
    match name {
        IMAGE => error.with_hint("massgen docker build"),
        SUDO_IMAGE => error.with_hint("massgen docker build --sudo"),
        _ => error.with_hint(format!("docker pull {name}")),
    }
}
