//! A command in a pod that a script there supervises. Its output and its exit status are files,
//! which are read by offset: a connection that breaks loses nothing, and a start that is repeated
//! starts nothing twice.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::path::AbsPath;
use crate::text::count_noun;
use crate::text::shell_words::quote_word;
use crate::world::sandbox::pod::cluster::PodCluster;
use crate::world::sandbox::pod::pod_instance::{PodError, PodInstance};
use crate::world::sandbox::pod::pod_manifest::{PodContainer, SUPERVISOR_DIR};
use crate::world::sandbox::pod::retry_pause::RetryPause;

/// The beginning of the supervisor.
const SUPERVISOR_START: &str = include_str!("supervised.sh");
/// What runs the command and kills what it leaves behind.
const COMMAND_SCRIPT: &str = include_str!("../docker/command.sh");
/// Runs a program that massgen itself needs in the pod: the arguments after the directory of the
/// command.
const PROGRAM_SCRIPT: &str = "shift 2\n\"$@\"\nstatus=$?\n";
/// The end of the supervisor.
const SUPERVISOR_END: &str = include_str!("status.sh");
/// Script that waits for output and prints it.
const POLL_SCRIPT: &str = include_str!("poll.sh");
/// The most of each stream that is read at once, in bytes.
const PART_BYTES_MAX: u64 = 512 * 1024;
/// The longest line before the streams, in bytes.
const HEADER_BYTES_MAX: u64 = 512;
/// With more unread output than this, the middle is skipped, in bytes: one part takes a fraction of
/// a second.
const UNREAD_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Stands in place of the proof if the supervisor was killed.
const KILLED_PROOF: &str = "-";
/// The same if it was killed because there were too many processes.
const CROWDED_PROOF: &str = "crowded";
/// The limit of processes where massgen's own programs run.
const PROCESSES_UNLIMITED: u64 = 1 << 30;
/// The exit status of a command whose supervisor was killed.
const KILLED_STATUS: i32 = 128 + 9;
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// What a supervisor runs.
#[derive(Clone, Debug)]
pub(super) enum PodProgram {
    /// The command line of an agent, in this directory and with these variables.
    Line {
        line: String,
        dir: AbsPath,
        env: BTreeMap<String, String>,
        /// Limits of each process, as lines for the shell.
        limits: String,
        /// The most processes of all commands.
        processes_max: u64,
    },
    /// A program that massgen itself needs in the pod, with its arguments.
    Words(Vec<String>),
}

/// A command in a pod.
#[derive(Debug)]
pub(super) struct SupervisedCommand {
    cluster: PodCluster,
    pod: Arc<PodInstance>,
    container: PodContainer,
    number: u64,
    /// The environment variable that marks its processes, and its value.
    mark: Option<(String, String)>,
    /// Proves that an exit status was written by its supervisor.
    proof: String,
    program: PodProgram,
    is_started: bool,
    /// How much of each stream was read, in bytes.
    offsets: [u64; 2],
    /// How much was skipped, in bytes.
    skipped_bytes: u64,
    /// Whether the middle of long output may be skipped.
    may_skip: bool,
    /// Whether everything was killed because there were too many processes.
    was_crowded: bool,
}

/// What was read of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PodOutputPart {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Its exit status, once it has ended and all of it was read.
    pub(super) status: Option<i32>,
}

/// The line before what was read.
#[derive(Debug, PartialEq, Eq)]
struct PartHeader<'a> {
    /// The lengths of the two parts that follow, in bytes.
    lengths: [u64; 2],
    /// The lengths of the whole streams.
    totals: [u64; 2],
    /// The proof and the status.
    status: Option<(&'a str, i32)>,
}

impl SupervisedCommand {
    /// Prepares a command, which is started when it is first read.
    pub(super) fn prepare(
        cluster: &PodCluster,
        pod: &Arc<PodInstance>,
        container: PodContainer,
        program: PodProgram,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            pod: Arc::clone(pod),
            container,
            number: pod.next_command_number(),
            mark: None,
            proof: Uuid::new_v4().simple().to_string(),
            program,
            is_started: false,
            offsets: [0; 2],
            skipped_bytes: 0,
            may_skip: false,
            was_crowded: false,
        }
    }

    /// Marks its processes, and skips the middle of more output than a person reads.
    pub(super) fn with_mark(mut self, mark: (String, String)) -> Self {
        self.mark = Some(mark);
        self.may_skip = true;
        self
    }

    /// Returns notes about how it ended.
    pub(super) fn notes(&self) -> Vec<String> {
        let skipped_bytes = usize::try_from(self.skipped_bytes).unwrap_or(usize::MAX);
        let skip_note = (skipped_bytes > 0).then(|| {
            let bytes = count_noun(skipped_bytes, "byte");
            format!("{bytes} in the middle of the output were not read: it was too much")
        });
        let kill_note = self.was_crowded.then(|| {
            let processes = self.processes_max();
            format!(
                "there were more than {processes} processes, so everything that ran in the pod was killed"
            )
        });
        skip_note.into_iter().chain(kill_note).collect()
    }

    fn processes_max(&self) -> u64 {
        match &self.program {
            PodProgram::Line { processes_max, .. } => *processes_max,
            PodProgram::Words(_) => PROCESSES_UNLIMITED,
        }
    }

    /// Reads what it has written since the last time, and waits for a while if that is nothing. If
    /// the connection breaks, it is tried again for a while.
    pub(super) async fn read(&mut self) -> Result<PodOutputPart, PodError> {
        let deadline = Instant::now() + self.cluster.connection_timeout;
        let mut pause = RetryPause::up_to(PAUSE_MAX);
        loop {
            match self.try_read().await {
                Err(PodError::RemoteFailure(reason)) if Instant::now() >= deadline => {
                    let message = format!("the connection to the cluster was lost: {reason}");
                    return Err(PodError::RemoteFailure(message));
                }
                Err(PodError::RemoteFailure(_)) => pause.wait().await,
                read_result => return read_result,
            }
        }
    }

    async fn try_read(&mut self) -> Result<PodOutputPart, PodError> {
        let start = if self.is_started {
            String::new()
        } else {
            self.start_script()
        };
        let (dir, [out, err]) = (self.dir(), self.offsets);
        let processes = self.processes_max();
        // A shell runs no function of which it has read only a part.
        let script = format!(
            "massgen() {{\nd={dir}\n{start}o={out}\ne={err}\nm={PART_BYTES_MAX}\n\
             p={processes}\n{POLL_SCRIPT}}}\nmassgen\n"
        );
        let bytes_max = HEADER_BYTES_MAX.saturating_add(PART_BYTES_MAX.saturating_mul(2));
        let execution = self.pod.exec(
            &self.cluster,
            self.container,
            &["/bin/sh"],
            script.as_bytes(),
            bytes_max,
        );
        let part = self.take_part(&execution.await?)?;
        if part.status.is_some() {
            let mut ended_commands = self
                .pod
                .ended_commands
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            ended_commands.push((self.container, self.number));
        }
        Ok(part)
    }

    fn take_part(&mut self, bytes: &[u8]) -> Result<PodOutputPart, PodError> {
        let incomplete_answer =
            || PodError::RemoteFailure("the answer of its shell is incomplete".to_owned());
        let end = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or_else(incomplete_answer)?;
        let (line, after_line) = bytes.split_at_checked(end).ok_or_else(incomplete_answer)?;
        let content = after_line.get(1..).unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| incomplete_answer())?;
        if line == "massgen gone" {
            let reason = "the files of the running command were removed there";
            return Err(PodError::PodGone(reason.to_owned()));
        }
        let header = PartHeader::parse(line).ok_or_else(incomplete_answer)?;
        let [out, err] = header
            .lengths
            .map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        let (stdout, stderr) = content
            .split_at_checked(out)
            .ok_or_else(incomplete_answer)?;
        if stderr.len() != err {
            return Err(incomplete_answer());
        }
        // Only a complete answer shows that it was started; until then the start is repeated.
        self.is_started = true;
        let [mut read_out, mut read_err] = self.offsets;
        read_out = read_out.saturating_add(header.lengths[0]);
        read_err = read_err.saturating_add(header.lengths[1]);
        self.offsets = [read_out, read_err];
        if self.may_skip {
            self.skip_unread(header.totals);
        }
        self.was_crowded |= header
            .status
            .is_some_and(|(proof, _)| proof == CROWDED_PROOF);
        let is_complete = self
            .offsets
            .iter()
            .zip(header.totals)
            .all(|(read, total)| *read >= total);
        let status = match header.status {
            // Any process in the pod can claim this, but it never counts as a success.
            Some((KILLED_PROOF | CROWDED_PROOF, _)) if is_complete => Some(KILLED_STATUS),
            Some((KILLED_PROOF | CROWDED_PROOF, _)) => None,
            Some((proof, _)) if proof != self.proof => {
                let reason = "a process in it has forged the exit status of a command";
                return Err(PodError::PodGone(reason.to_owned()));
            }
            Some((_, status)) if is_complete => Some(status),
            Some(_) | None => None,
        };
        Ok(PodOutputPart {
            stdout: stdout.to_vec(),
            stderr: stderr.to_vec(),
            status,
        })
    }

    /// Skips what is not read in time, except for the end.
    fn skip_unread(&mut self, totals: [u64; 2]) {
        for (offset, total) in self.offsets.iter_mut().zip(totals) {
            if total.saturating_sub(*offset) > UNREAD_BYTES_MAX {
                let end = total.saturating_sub(PART_BYTES_MAX);
                self.skipped_bytes = self
                    .skipped_bytes
                    .saturating_add(end.saturating_sub(*offset));
                *offset = end;
            }
        }
    }

    fn dir(&self) -> String {
        format!("{SUPERVISOR_DIR}/{}", self.number)
    }

    /// Returns the script that starts it, unless it was started. Values of variables are not on any
    /// command line: they reach the pod as the standard input of its shell.
    fn start_script(&self) -> String {
        let ended_numbers = self.take_ended_commands().into_iter();
        let removals = ended_numbers.map(|number| format!("rm -rf -- {SUPERVISOR_DIR}/{number}\n"));
        let removals = removals.collect::<Vec<String>>().concat();
        let mark = self
            .mark
            .as_ref()
            .map_or_else(String::new, |(name, value)| {
                format!("export {name}={value}\n")
            });
        let (settings, supervisor_command) = self.settings_and_supervisor();
        let proof = &self.proof;
        format!(
            "{removals}if mkdir -m 700 \"$d\" 2>/dev/null; then\n: >\"$d/out\"\n: >\"$d/err\"\n\
             printf '%64s\\n' ' ' >\"$d/next\"\n(\n{settings}{mark}exec setsid /bin/sh -c {supervisor_command}\n\
             ) </dev/null >\"$d/out\" 2>\"$d/err\" 3<<'END' &\n{proof}\nEND\necho $! >\"$d/pid\"\nfi\n"
        )
    }

    /// Returns the lines that are run before its supervisor starts, and the words with which it
    /// starts.
    fn settings_and_supervisor(&self) -> (String, String) {
        match &self.program {
            PodProgram::Line {
                line,
                dir,
                env,
                limits,
                ..
            } => {
                let variables = env
                    .iter()
                    .map(|(name, value)| format!("export {name}={}\n", quote_word(value)));
                let variables = variables.collect::<Vec<String>>().concat();
                let (proof, dir) = (&self.proof, quote_word(&dir.to_string()));
                // `.local/bin` has programs that are installed for one user.
                let settings = format!(
                    "{variables}export PATH=\"$HOME/.local/bin:$PATH\"\n\
                     cd -- {dir} || {{ echo '{proof} 126' >\"$d/status\"; exit; }}\n{limits}"
                );
                (settings, supervisor_command(COMMAND_SCRIPT, line))
            }
            PodProgram::Words(words) => {
                // Each word stays an argument of its own, because the length of one is limited.
                let words: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
                let supervisor_command = format!(
                    "{} {}",
                    supervisor_command(PROGRAM_SCRIPT, ""),
                    words.join(" ")
                );
                (String::new(), supervisor_command)
            }
        }
    }

    /// Returns the numbers of the commands that are over in the same container.
    fn take_ended_commands(&self) -> Vec<u64> {
        let mut ended_commands = self
            .pod
            .ended_commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let container = self.container;
        let extracted = ended_commands.extract_if(.., |(of, _)| *of == container);
        extracted.map(|(_, number)| number).collect()
    }
}

/// Returns the script of a supervisor that runs `line` with `run`, and its first arguments.
fn supervisor_command(run: &str, line: &str) -> String {
    let script = [SUPERVISOR_START, run, SUPERVISOR_END].concat();
    format!(
        "{} massgen {} \"$d\"",
        quote_word(&script),
        quote_word(line)
    )
}

impl<'a> PartHeader<'a> {
    /// Parses `massgen LENGTH LENGTH TOTAL TOTAL PROOF STATUS`; without a status, that is `- -`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.strip_prefix("massgen ")?.split(' ');
        let mut length = || words.next()?.parse::<u64>().ok();
        let lengths = [length()?, length()?];
        let totals = [length()?, length()?];
        let is_short = lengths.iter().all(|length| *length <= PART_BYTES_MAX);
        let status = match (words.next()?, words.next()?) {
            (KILLED_PROOF, "-") => None,
            (proof, status) => Some((proof, status.parse().ok()?)),
        };
        (is_short && words.next().is_none()).then_some(Self {
            lengths,
            totals,
            status,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_complete_or_none() {
        let header = |line| PartHeader::parse(line);
        assert_eq!(
            header("massgen 1 0 9 0 - -"),
            Some(PartHeader {
                lengths: [1, 0],
                totals: [9, 0],
                status: None,
            })
        );
        let killed_header = header("massgen 0 0 0 0 - 137").unwrap();
        assert_eq!(killed_header.status, Some((KILLED_PROOF, 137)));
        let crowded = header("massgen 0 0 0 0 crowded 137").unwrap();
        assert_eq!(crowded.status, Some((CROWDED_PROOF, 137)));
        let ended_header = header("massgen 0 0 0 0 abc 137").unwrap();
        assert_eq!(ended_header.status, Some(("abc", 137)));
        for line in [
            "",
            "massgen",
            "massgen gone",
            "massgen 1 0 9 0 -",
            "massgen 1 0 9 0 abc x",
            "massgen 1 0 9 0 - - -",
            "massgen -1 0 9 0 - -",
            "massgen 999999999 0 999999999 0 - -",
            "sh: not found",
        ] {
            assert_eq!(header(line), None, "{line}");
        }
    }
}
