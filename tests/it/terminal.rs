//! A terminal on which the real binary runs: tests type keys and check the screen.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process_group};
use vt100::Parser;

use crate::project::Project;

/// Timeout for expected content of the screen.
const SCREEN_TIME_MAX: Duration = Duration::from_mins(2);
/// Polling interval of the screen.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of lines of a terminal.
const ROWS: u16 = 24;
/// The pause without a key before one that answers a question; massgen's is shorter.
const ANSWER_PAUSE: Duration = Duration::from_millis(900);
/// What the dashboard writes before and after a frame: a terminal shows it when it is whole.
const FRAME_BEGIN: &[u8] = b"\x1b[?2026h";
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// Special keys.
pub(crate) const ENTER: &str = "\r";
pub(crate) const TAB: &str = "\t";
pub(crate) const ESCAPE: &str = "\u{1b}";
pub(crate) const UP: &str = "\u{1b}[A";
pub(crate) const DOWN: &str = "\u{1b}[B";
pub(crate) const LEFT: &str = "\u{1b}[D";
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const CTRL_W: &str = "\u{17}";

/// A terminal in which massgen runs.
pub(crate) struct Terminal {
    /// First, so that the process ends before its project is removed.
    child: TerminalChild,
    project: Project,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<ShownScreen>>,
    /// The mode of the terminal before the process started, in words.
    mode_before: String,
}

/// The process on a terminal. It is killed with its process group when this is dropped.
pub(crate) struct TerminalChild(pub(crate) Box<dyn Child + Send + Sync>);

impl Drop for TerminalChild {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.0.try_wait() {
            return;
        }
        // It leads a process group, because it leads the session of its terminal.
        let id = self.0.process_id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = id.and_then(Pid::from_raw) {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        let _status = self.0.wait();
    }
}

/// Content that was shown.
struct ShownScreen {
    parser: Parser,
    /// Every byte of it.
    bytes: Vec<u8>,
    /// Number of bytes that are on the screen: all but those of a frame that has not ended.
    on_screen: usize,
    /// Every frame that was shown on the alternate screen, without the cursor.
    frames: Vec<String>,
}

impl ShownScreen {
    fn new(columns: u16) -> Self {
        Self {
            parser: Parser::new(ROWS, columns, 0),
            bytes: Vec::new(),
            on_screen: 0,
            frames: Vec::new(),
        }
    }

    /// Shows `piece`, except for a frame that has not ended: a test that looks at a part of one would
    /// take what is left of the frame before it for the effect of its last key.
    fn show(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        loop {
            // A mark may be in two pieces.
            let from = self.on_screen.saturating_sub(FRAME_BEGIN.len());
            let begin = find_mark(&self.bytes, FRAME_BEGIN, from);
            let Some(begin) = begin else {
                return self.show_until(self.bytes.len());
            };
            let Some(end) = find_mark(&self.bytes, FRAME_END, begin) else {
                return self.show_until(begin);
            };
            self.show_until(end + FRAME_END.len());
            let screen = self.parser.screen();
            if screen.alternate_screen() && screen.hide_cursor() {
                self.frames.push(screen.contents());
            }
        }
    }

    fn show_until(&mut self, end: usize) {
        if end > self.on_screen {
            self.parser.process(&self.bytes[self.on_screen..end]);
            self.on_screen = end;
        }
    }
}

fn mode_text(master: &(dyn MasterPty + Send)) -> String {
    format!("{:?}", master.get_termios())
}

/// Returns where `mark` begins in `bytes`, at `from` or later.
fn find_mark(bytes: &[u8], mark: &[u8], from: usize) -> Option<usize> {
    let found = bytes[from..]
        .windows(mark.len())
        .position(|found| found == mark);
    found.map(|found| from + found)
}

/// Returns `text` without the places at which its lines were wrapped: these depend on the length of
/// the project's path.
pub(crate) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Terminal {
    /// Runs the command line of `project` on a terminal of this many columns.
    pub(crate) fn open(project: Project, columns: u16) -> Self {
        let command = project.terminal_command();
        Self::run(project, command, columns)
    }

    /// Runs a shell with job control on a terminal of this many columns. Its variable `massgen` is
    /// the binary.
    pub(crate) fn shell(project: Project, columns: u16) -> Self {
        let shell = project.shell();
        Self::run(project, shell, columns)
    }

    fn run(project: Project, command: CommandBuilder, columns: u16) -> Self {
        let size = PtySize {
            rows: ROWS,
            cols: columns,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pty = native_pty_system().openpty(size).expect("a terminal");
        let mode_before = mode_text(&*pty.master);
        let child = pty.slave.spawn_command(command).expect("the binary starts");
        let child = TerminalChild(child);
        drop(pty.slave);
        let screen = Arc::new(Mutex::new(ShownScreen::new(columns)));
        let mut shown = pty.master.try_clone_reader().unwrap();
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = shown.read(&mut piece) {
                seen.lock().unwrap().show(&piece[..count]);
            }
        });
        Self {
            child,
            project,
            keys: pty.master.take_writer().unwrap(),
            master: pty.master,
            screen,
            mode_before,
        }
    }

    /// Types `keys`.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Types a key that answers a question, after the pause that such a key needs.
    pub(crate) fn type_answer(&mut self, key: &str) {
        sleep(ANSWER_PAUSE);
        self.type_keys(key);
    }

    /// Types `keys` where `vanishing` is on the screen, and waits until it is no longer there and `shown` is:
    /// the keys had their effect, so that the next ones are read apart from them. `vanishing` must stay on
    /// the screen until the keys are typed. To wait for `shown` alone proves nothing if it was there
    /// before, and Escape with a key after it is read as one key.
    #[track_caller]
    pub(crate) fn type_and_wait(&mut self, vanishing: &str, keys: &str, shown: &str) {
        self.wait_for_text(vanishing);
        self.type_keys(keys);
        self.wait(
            || !self.has(vanishing) && self.has(shown),
            || format!("expected {shown:?} and not {vanishing:?} after {keys:?}"),
        );
    }

    /// Resizes the terminal to this width.
    pub(crate) fn resize(&mut self, columns: u16) {
        self.screen
            .lock()
            .unwrap()
            .parser
            .screen_mut()
            .set_size(ROWS, columns);
        let size = PtySize {
            rows: ROWS,
            cols: columns,
            pixel_width: 0,
            pixel_height: 0,
        };
        self.master.resize(size).unwrap();
    }

    /// Returns the lines on the screen, without trailing spaces.
    pub(crate) fn lines(&self) -> Vec<String> {
        let seen = self.screen.lock().unwrap();
        let screen = seen.parser.screen();
        let (_, columns) = screen.size();
        let root = self.project.path("");
        let root = root.to_str().unwrap().trim_end_matches('/');
        let lines = screen.rows(0, columns);
        lines
            .map(|line| line.trim_end().replace(root, "[PROJECT]"))
            .collect()
    }

    /// Returns whether the alternate screen is shown.
    pub(crate) fn is_on_alternate_screen(&self) -> bool {
        let seen = self.screen.lock().unwrap();
        seen.parser.screen().alternate_screen()
    }

    /// Returns whether the cursor is shown.
    pub(crate) fn has_cursor(&self) -> bool {
        let seen = self.screen.lock().unwrap();
        !seen.parser.screen().hide_cursor()
    }

    /// Returns the mode of the terminal, in words.
    pub(crate) fn mode(&self) -> String {
        mode_text(&*self.master)
    }

    /// Returns the mode of the terminal before the process started, in words.
    pub(crate) fn mode_before(&self) -> &str {
        &self.mode_before
    }

    /// Waits until a line on the screen contains `text`.
    #[track_caller]
    pub(crate) fn wait_for_text(&self, text: &str) {
        self.wait(
            || self.has(text),
            || format!("expected {text:?} on the screen"),
        );
    }

    /// Returns whether a line on the screen contains `text`.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }

    /// Waits until a frame of the dashboard contains `text`, now or earlier: for what a run shows for a
    /// time only.
    #[track_caller]
    pub(crate) fn wait_for_frame(&self, text: &str) {
        self.wait(
            || {
                let seen = self.screen.lock().unwrap();
                seen.frames.iter().any(|frame| frame.contains(text))
            },
            || format!("expected {text:?} in a frame"),
        );
    }

    /// Forgets the frames that were shown.
    pub(crate) fn forget_frames(&self) {
        self.screen.lock().unwrap().frames.clear();
    }

    /// Returns the last prompt on the screen and everything below it.
    pub(crate) fn prompt(&self) -> Vec<String> {
        let mut lines = self.lines();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        let begin = lines.iter().rposition(|line| line.starts_with('>'));
        lines.split_off(begin.unwrap_or(lines.len()))
    }

    /// Returns everything that was ever written to the terminal.
    pub(crate) fn all_output(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap().bytes).into_owned()
    }

    /// Waits until the last prompt and everything below it are these lines.
    #[track_caller]
    pub(crate) fn wait_for_prompt(&self, expected: &[&str]) {
        self.wait(
            || self.prompt() == expected,
            || format!("expected {expected:#?}"),
        );
    }

    /// Waits until `text` was written. If it is one line, it may have been wrapped.
    #[track_caller]
    pub(crate) fn wait_for_output(&self, text: &str) {
        let named = || {
            let root = self.project.path("");
            self.all_output()
                .replace(root.to_str().unwrap().trim_end_matches('/'), "[PROJECT]")
        };
        let is_written = |output: &str| {
            output.contains(text) || (!text.contains('\n') && words(output).contains(&words(text)))
        };
        self.wait(
            || is_written(&named()),
            || format!("expected {text:?}\n{}", named()),
        );
    }

    /// Waits until the last line on the screen ends with `question`, so that what is typed next
    /// answers it: what was typed before a question is asked is discarded.
    #[track_caller]
    pub(crate) fn wait_for_question(&self, question: &str) {
        let last = || {
            let mut lines = self.lines().into_iter();
            lines.rfind(|line| !line.is_empty()).unwrap_or_default()
        };
        self.wait(
            || last().ends_with(question.trim_end()),
            || format!("expected the question {question:?}"),
        );
    }

    /// Waits until `condition` is true.
    #[track_caller]
    pub(crate) fn wait(&self, condition: impl Fn() -> bool, expected: impl Fn() -> String) {
        let start = Instant::now();
        while !condition() {
            assert!(
                start.elapsed() < SCREEN_TIME_MAX,
                "{}\n--- the screen\n{}",
                expected(),
                self.lines().join("\n")
            );
            sleep(POLL_INTERVAL);
        }
    }

    /// Waits until massgen ends, and checks its exit status.
    #[track_caller]
    pub(crate) fn wait_for_end(mut self, code: u32) -> Project {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                break status;
            }
            assert!(
                start.elapsed() < SCREEN_TIME_MAX,
                "{}",
                self.lines().join("\n")
            );
            sleep(POLL_INTERVAL);
        };
        assert_eq!(status.exit_code(), code, "{}", self.lines().join("\n"));
        self.project
    }

    /// Returns the id of massgen's process.
    pub(crate) fn process(&self) -> u32 {
        self.child.0.process_id().unwrap()
    }

    /// Returns the project in which massgen runs.
    pub(crate) fn project(&self) -> &Project {
        &self.project
    }
}

#[test]
fn a_frame_is_on_the_screen_when_it_is_whole() {
    let first =
        b"\x1b[?1049h\x1b[?25l\x1b[?2026h\x1b[1;1Hone\x1b[2;1Hold keys\x1b[?2026l".as_slice();
    let second = b"\x1b[?2026h\x1b[1;1Htwo\x1b[2;1Hnew keys\x1b[?2026l\r\nend".as_slice();
    let shown = |pieces: &[&[u8]]| {
        let mut seen = ShownScreen::new(80);
        for piece in pieces {
            seen.show(piece);
        }
        (seen.parser.screen().contents(), seen.frames)
    };
    for cut in 0..second.len() {
        let (begun, rest) = second.split_at(cut);
        let (screen, _) = shown(&[first, begun]);
        let is_whole = begun.ends_with(FRAME_END) || begun.contains(&b'\r');
        let expected = if is_whole {
            "two\nnew keys"
        } else {
            "one\nold keys"
        };
        assert!(screen.starts_with(expected), "{cut}: {screen}");
        let (screen, frames) = shown(&[first, begun, rest]);
        assert!(screen.ends_with("end"), "{cut}: {screen}");
        assert_eq!(frames, ["one\nold keys", "two\nnew keys"], "{cut}");
    }
}

#[test]
fn a_dropped_terminal_leaves_no_process() {
    let terminal = Terminal::shell(Project::new(), 80);
    let process = PathBuf::from(format!("/proc/{}", terminal.process()));
    assert!(process.exists());
    drop(terminal);
    assert!(!process.exists());
}
