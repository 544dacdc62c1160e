//! The agent that a container is created for, and the labels that record its origin, by which later
//! runs recognise it.

use std::collections::BTreeMap;

use crate::id::AgentId;
use crate::layout::RunName;
use crate::path::AbsPath;
use crate::sandbox_policy::ResourceLimits;
use crate::world::sys::proc;

/// The run that it belongs to.
const RUN_LABEL: &str = "massgen.run";
/// The directory of that run's state.
const STATE_LABEL: &str = "massgen.state";
/// The machine of that directory: one engine may serve several machines.
const MACHINE_LABEL: &str = "massgen.machine";
/// The id of the process that created it.
const PROCESS_LABEL: &str = "massgen.pid";
/// The pid namespace of that id: massgen may itself run in a container, alongside others.
const NAMESPACE_LABEL: &str = "massgen.pid.namespace";
/// Start time of that process, in ticks since boot.
const START_TIME_LABEL: &str = "massgen.pid.started";

/// Owner of a container, and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct ContainerOwner<'a> {
    /// The agent.
    pub agent: &'a AgentId,
    /// The run.
    pub origin: ContainerOrigin<'a>,
    /// The agent's workspace.
    pub workspace: &'a AbsPath,
    /// Limits of its processes.
    pub limits: &'a ResourceLimits,
    /// Variables that the user sets in the config (`env`).
    pub config_env: &'a BTreeMap<String, String>,
}

/// Origin of a container.
#[derive(Clone, Copy, Debug)]
pub struct ContainerOrigin<'a> {
    /// The run.
    pub run: RunName,
    /// The directory of its state.
    pub state: &'a AbsPath,
    /// An empty directory with a random name. It is mounted, too, so that an engine that does not
    /// see the files of this machine fails, whatever else it has at the same paths.
    pub unique_directory: &'a AbsPath,
}

impl ContainerOrigin<'_> {
    /// Returns the labels for objects that this process creates.
    pub(in crate::world::sandbox) fn labels(&self) -> [(String, String); 6] {
        let own_pid = std::process::id();
        let start_time = proc::start_time(own_pid).unwrap_or_default();
        [
            (RUN_LABEL, self.run.to_string()),
            (STATE_LABEL, self.state.to_string()),
            (MACHINE_LABEL, proc::machine_identity()),
            (PROCESS_LABEL, own_pid.to_string()),
            (NAMESPACE_LABEL, proc::pid_namespace().unwrap_or_default()),
            (START_TIME_LABEL, start_time.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }
}

/// Returns the engine filter that finds all objects created for runs in `state`.
pub(in crate::world::sandbox) fn state_filter(state: &AbsPath) -> String {
    format!("{STATE_LABEL}={state}")
}

/// Returns whether the process that created an object is gone. An object without these labels must
/// not be removed, nor one that was created in another pid namespace or on another machine.
pub(in crate::world::sandbox) fn is_orphaned<'a>(
    label: impl Fn(&str) -> Option<&'a String>,
) -> bool {
    let is_of_this_machine = label(NAMESPACE_LABEL)
        == Some(&proc::pid_namespace().unwrap_or_default())
        && label(MACHINE_LABEL) == Some(&proc::machine_identity());
    let number = |name| label(name).and_then(|value| value.parse::<u64>().ok());
    let (Some(pid), Some(start_time)) = (number(PROCESS_LABEL), number(START_TIME_LABEL)) else {
        return false;
    };
    let current_start_time = u32::try_from(pid).ok().and_then(proc::start_time);
    is_of_this_machine && current_start_time != Some(start_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(edit: impl Fn(&mut BTreeMap<String, String>), expected: bool) {
        let state = AbsPath::new("/p/.massgen").unwrap();
        let origin = ContainerOrigin {
            run: RunName::new(1),
            state: &state,
            unique_directory: &state,
        };
        let mut labels = BTreeMap::from(origin.labels());
        edit(&mut labels);
        assert_eq!(is_orphaned(|name| labels.get(name)), expected, "{labels:?}");
    }

    #[test]
    fn only_what_a_gone_process_has_made_is_left_over() {
        check(|_| {}, false);
        check(BTreeMap::clear, false);
        let set = |name: &'static str, value: &'static str| {
            move |labels: &mut BTreeMap<String, String>| {
                labels.insert(name.to_owned(), value.to_owned());
            }
        };
        check(set(START_TIME_LABEL, "1"), true);
        check(set(PROCESS_LABEL, "4294967295"), true);
        check(set(PROCESS_LABEL, "x"), false);
        let elsewhere = |labels: &mut BTreeMap<String, String>| {
            set(START_TIME_LABEL, "1")(labels);
            set(NAMESPACE_LABEL, "pid:[1]")(labels);
        };
        check(elsewhere, false);
        let on_another_machine = |labels: &mut BTreeMap<String, String>| {
            set(START_TIME_LABEL, "1")(labels);
            set(MACHINE_LABEL, "1/laptop")(labels);
        };
        check(on_another_machine, false);
    }
}
