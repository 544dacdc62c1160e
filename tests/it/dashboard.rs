//! The dashboard on a real terminal: when it opens, its keys, the questions that it asks in place, and
//! the terminal that it gives back, whatever ends it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::approvals::approval_answers;
use crate::project::Project;
use crate::scripted_team::{agent, answer_replies, team};
use crate::terminal::{CTRL_C, ENTER, ESCAPE, TAB, Terminal};

const CTRL_Z: &str = "\u{1a}";
/// Enters and leaves the alternate screen.
const COVERS: &str = "\u{1b}[?1049h";
const UNCOVERS: &str = "\u{1b}[?1049l";
/// Clears the line that is overwritten.
const CLEARS_LINE: &str = "\u{1b}[2K";
/// Makes the mouse wheel send keys, and restores what it did.
const WHEEL_SENDS_KEYS: &str = "\u{1b}[?1007s\u{1b}[?1007h";
const WHEEL_IS_RESTORED: &str = "\u{1b}[?1007r";
/// Longer than a question ignores keys.
const ANSWER_DELAY: Duration = Duration::from_millis(900);
/// How often two runs are compared in which agents may be late.
const COMPARED_MAX: u32 = 5;

fn on_terminal(project: Project) -> Project {
    project.env("TERM", "xterm").env("NO_COLOR", "1")
}

/// Returns a project with two agents that answer after this delay, and then vote.
fn two_agents(delay_ms: u32, rest: &str) -> Project {
    // The first reply is the answer.
    let late = format!("delay_ms: {delay_ms}");
    let replies = |answer: &str, candidate: &str| {
        answer_replies(answer, candidate, 0).replacen("delay_ms: 0", &late, 1)
    };
    let agents = [
        agent("ann", "", &replies("cats", "agent2")),
        agent("ben", "", &replies("dogs", "agent1")),
    ];
    on_terminal(
        Project::new()
            .config(&team(&agents, rest))
            .args(["Cats or dogs?"]),
    )
}

/// Returns the lines on the screen that are not empty.
fn lines(terminal: &Terminal) -> Vec<String> {
    let mut lines = terminal.lines();
    lines.retain(|line| !line.is_empty());
    lines
}

/// Waits until the terminal is as massgen found it and `last` was written since, and returns what was:
/// a view of the dashboard may have shown `last` before.
#[track_caller]
fn lines_after_dashboard(terminal: &Terminal, last: &str) -> String {
    let lines = || {
        let written = terminal.all_output();
        let after = written.rsplit_once(UNCOVERS).map(|(_, after)| after);
        after.unwrap_or_default().to_owned()
    };
    terminal.wait(
        || !terminal.is_on_alternate_screen() && terminal.has_cursor() && lines().contains(last),
        || format!("expected {last:?} after the dashboard\n{}", lines()),
    );
    lines()
}

#[track_caller]
fn check_terminates(terminal: &Terminal, signal: &str) {
    let process = terminal.process().to_string();
    let sent = Command::new("kill").args([signal, &process]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn several_agents_are_shown_side_by_side_and_the_lines_of_the_run_remain() {
    let replies = |answer: &str, candidate: &str| answer_replies(answer, candidate, 700);
    let agents = [
        agent("ann", "", &replies("cats", "agent2")),
        agent("ben", "", &replies("dogs", "agent1")),
    ];
    let project = Project::new().config(&team(&agents, ""));
    let terminal = Terminal::open(on_terminal(project.args(["Cats or dogs?"])), 80);
    // On the alternate screen, without the cursor.
    terminal.wait_for_frame(" Cats or dogs?");
    terminal.wait_for_frame("2 ben");
    terminal.wait_for_frame("ballot");
    terminal.wait_for_frame("agent1.1 ann");
    let story = lines_after_dashboard(&terminal, "done: ");
    for line in [
        "task: Cats or dogs?",
        "winner: ann",
        "done: ",
        "all of it: massgen logs follow last --dashboard",
    ] {
        assert!(story.contains(line), "{line}\n{story}");
    }
    assert_eq!(story.matches("final: cats").count(), 1, "{story}");
    assert!(!story.contains("I think of"), "{story}");
    assert!(story.lines().count() < 12, "{story}");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn the_answer_alone_goes_to_standard_output() {
    let mut terminal = Terminal::shell(two_agents(400, ""), 80);
    terminal.type_keys("\"$massgen\" task > out; echo $?-$((1+1))\r");
    terminal.wait_for_text("0-2");
    assert!(terminal.all_output().contains(COVERS));
    lines_after_dashboard(&terminal, "done: ");
    let out = fs::read_to_string(terminal.project().path("out")).unwrap();
    assert_eq!(out, "final: cats\n");
    terminal.type_keys("exit\r");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn lines_are_shown_where_a_dashboard_is_not_wanted() {
    #[track_caller]
    fn check(project: Project, is_covered: bool) {
        let terminal = Terminal::open(project, 80);
        terminal.wait_for_output("done: ");
        let written = terminal.all_output();
        assert_eq!(written.contains(COVERS), is_covered, "{written}");
        let answers = lines(&terminal);
        let answers = answers
            .iter()
            .filter(|line| line.ends_with("cats"))
            .filter(|line| !line.starts_with('['));
        assert_eq!(answers.count(), 1, "{written}");
        let _project = terminal.wait_for_end(0);
    }
    let solo = |rest| {
        let agents = [agent("ann", "", &answer_replies("cats", "agent1", 0))];
        on_terminal(Project::new().config(&team(&agents, rest)).args(["task"]))
    };
    check(two_agents(0, "").args(["--plain"]), false);
    check(two_agents(0, "").args(["--screen-reader"]), false);
    check(two_agents(0, "").env("MASSGEN_PLAIN", "1"), false);
    check(two_agents(0, "").env("CI", "1"), false);
    check(two_agents(0, "").env("TERM", "dumb"), false);
    check(two_agents(0, "ui: {dashboard: never}"), false);
    check(solo(""), false);
    // Controls.
    check(two_agents(0, "").env("CI", ""), true);
    check(
        two_agents(
            0,
            "ui: {display_type: rich_terminal, logging_enabled: true}",
        ),
        true,
    );
    check(two_agents(0, "").env("CI", "1").args(["--dashboard"]), true);
    check(solo("").args(["--dashboard"]), true);
    check(solo("ui: {dashboard: always}"), true);
}

#[test]
fn a_terminal_that_takes_no_line_back_gets_none_that_is_overwritten() {
    let open = |project: Project| Terminal::open(project.env("MASSGEN_PLAIN", "1"), 80);
    let dumb = open(two_agents(6_000, "").env("TERM", "dumb"));
    let reader = open(two_agents(6_000, "").args(["--screen-reader"]));
    let variable = open(two_agents(6_000, "").env("MASSGEN_SCREEN_READER", "1"));
    let control = open(two_agents(6_000, ""));
    control.wait_for_output("waiting for ann, ben");
    let _project = control.wait_for_end(0);
    for terminal in [dumb, reader, variable] {
        terminal.wait_for_output("done: ");
        let written = terminal.all_output();
        assert!(!written.contains("waiting for ann"), "{written}");
        assert!(!written.contains(CLEARS_LINE), "{written}");
        let _project = terminal.wait_for_end(0);
    }
}

#[test]
fn without_a_terminal_nothing_is_drawn() {
    // Both ask their models before one of them has answered: the lines say who sees which answers. On a
    // busy machine, one of them may be late.
    for tries in 1.. {
        let piped = two_agents(1000, "").success();
        assert!(!piped.stderr().contains('\u{1b}'), "{}", piped.stderr());
        assert_eq!(piped.stdout(), "final: cats\n");
        let lines = without_times(piped.stderr());
        let plain = piped.then(["--plain", "Cats or dogs?"]).success();
        let plain = without_times(plain.stderr());
        if plain == lines {
            break;
        }
        assert!(tries < COMPARED_MAX, "{plain:#?}\n{lines:#?}");
    }
    let forced = two_agents(0, "").args(["--dashboard"]).failure(2);
    assert!(
        forced.stderr().contains("needs a terminal"),
        "{}",
        forced.stderr()
    );
    let mut terminal = Terminal::shell(two_agents(0, ""), 80);
    terminal.type_keys("\"$massgen\" task 2> err; echo $?-$((1+1))\r");
    terminal.wait_for_text("0-2");
    assert!(!terminal.all_output().contains(COVERS));
    let err = fs::read_to_string(terminal.project().path("err")).unwrap();
    assert!(!err.contains('\u{1b}') && err.contains("done: "), "{err}");
    terminal.type_keys("exit\r");
    let _project = terminal.wait_for_end(0);
}

/// Returns the lines in order, without durations.
fn without_times(text: &str) -> Vec<String> {
    let times = regex::Regex::new(r"\d+\.\d s").unwrap();
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| times.replace_all(line, "N s").into_owned())
        .collect();
    lines.sort();
    lines
}

#[test]
fn keys_open_views_and_lines() {
    // What is shown before the answers is looked at meanwhile.
    let mut terminal = Terminal::open(two_agents(15_000, ""), 80);
    terminal.wait_for_text("waits for its model");
    terminal.type_and_wait("1 ann", "?", "Everywhere");
    terminal.type_and_wait("Everywhere", ESCAPE, "1 ann");
    // The wheel sends these keys; the mouse stays with the terminal, which selects text with it.
    terminal.type_keys("\u{1b}[B");
    terminal.wait_for_text(">2 ben");
    terminal.type_keys("\u{1b}[A");
    terminal.wait_for_text(">1 ann");
    let written = terminal.all_output();
    assert!(written.contains(WHEEL_SENDS_KEYS), "{written:?}");
    for mode in [9, 1000, 1001, 1002, 1003] {
        assert!(
            !written.contains(&format!("\u{1b}[?{mode}h")),
            "{written:?}"
        );
    }
    terminal.type_keys(TAB);
    terminal.wait_for_text(">2 ben");
    terminal.type_and_wait(">2 ben", ENTER, "Esc overview");
    terminal.type_and_wait(" 2 ben", "1", " 1 ann");
    terminal.type_and_wait("Esc overview", "q", ">1 ann");
    terminal.type_keys("q");
    terminal.wait_for_text("the run continues");
    terminal.type_keys("v");
    terminal.wait_for_text("no vote yet");
    terminal.type_keys("c");
    terminal.wait_for_text("requests");
    terminal.type_keys("t");
    terminal.wait_for_text("= model");
    terminal.type_keys("d");
    terminal.wait_for_text("no delivery yet");
    terminal.type_keys("f");
    terminal.wait_for_text("there is no winner yet");
    terminal.type_keys("l");
    lines_after_dashboard(&terminal, "agents: ann, ben");
    assert!(terminal.all_output().contains(WHEEL_IS_RESTORED));
    terminal.wait_for_output("waiting for ann, ben");
    terminal.wait_for_output("I think of cats.");
    terminal.wait_for_output("done: ");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn the_help_explains_the_words_of_the_views() {
    let mut terminal = Terminal::open(two_agents(60_000, ""), 80);
    terminal.wait_for_text("waits for its model");
    terminal.type_and_wait("1 ann", "?", "Everywhere");
    // The end of the list.
    terminal.type_keys("\u{1b}[F");
    terminal.wait_for_text("answer 2 of agent 1");
    terminal.wait_for_text("its answer has won the vote");
    terminal.type_keys(CTRL_C);
    lines_after_dashboard(&terminal, "ended: ");
    let _project = terminal.wait_for_end(130);
}

#[test]
fn keys_typed_together_with_the_one_that_leaves_begin_a_message() {
    let mut terminal = Terminal::open(two_agents(60_000, ""), 80);
    terminal.wait_for_text("2 ben");
    terminal.type_keys("vlhal");
    lines_after_dashboard(&terminal, "you: hal");
    terminal.type_keys("lo\r");
    terminal.wait_for_output("you to all: hallo");
    terminal.type_keys(CTRL_C);
    terminal.wait_for_output("ended: ");
    let _project = terminal.wait_for_end(130);
}

#[test]
fn a_message_to_the_agents_is_written_below_the_views() {
    let mut terminal = Terminal::open(two_agents(30_000, ""), 80);
    terminal.wait_for_text("waits for its model");
    terminal.type_keys("i");
    terminal.wait_for_text("to all, or NAME: text > _");
    terminal.type_keys("prefer quiet pets\r");
    terminal.wait_for_text("1 message not read yet");
    terminal.type_keys("2:");
    terminal.wait_for_text("> ben:");
    terminal.type_keys("and small ones\r");
    // Pasted keys open no view, and pasted lines are one message.
    terminal.type_keys("\u{1b}[200~l\rq\u{1b}[201~");
    terminal.wait_for_text("not pasted: press i first");
    terminal.type_keys("i");
    terminal.type_keys("\u{1b}[200~feed them\rtwice a day\r\u{1b}[201~");
    terminal.wait_for_text("> ben: [pasted 2 lines]_");
    terminal.type_keys(" please\r");
    terminal.type_keys("e");
    terminal.wait_for_text("you to ben: and small ones");
    assert!(terminal.all_output().contains("\u{1b}[?2004h"));
    terminal.type_keys(CTRL_C);
    lines_after_dashboard(&terminal, "ended: ");
    assert!(terminal.all_output().contains("\u{1b}[?2004l"));
    let project = terminal.wait_for_end(130);
    let shown = project.retyped(["logs", "show", "last"]).success();
    let story = shown.stdout();
    assert!(story.contains("you to all: prefer quiet pets"), "{story}");
    assert!(story.contains("you to ben: and small ones"), "{story}");
    assert!(story.contains("twice a day please"), "{story}");
}

#[test]
fn another_size_is_drawn_from_the_model() {
    let mut terminal = Terminal::open(two_agents(20_000, ""), 80);
    terminal.wait_for_text("2 ben");
    terminal.resize(120);
    terminal.wait(
        || {
            lines(&terminal)
                .first()
                .is_some_and(|line| line.contains("coordinating"))
        },
        || "a header of one row".to_owned(),
    );
    terminal.resize(62);
    terminal.wait(
        || {
            lines(&terminal)
                .iter()
                .any(|line| line.contains("2 ben") && !line.contains("1 ann"))
        },
        || "cells in two rows".to_owned(),
    );
    assert!(terminal.is_on_alternate_screen());
    terminal.type_keys(CTRL_C);
    assert!(lines_after_dashboard(&terminal, "ended: ").contains("task: "));
    let _project = terminal.wait_for_end(130);
}

#[test]
fn signals_give_the_terminal_back() {
    for signal in ["-INT", "-TERM", "-QUIT", "-HUP", "-USR1"] {
        let terminal = Terminal::open(two_agents(30_000, ""), 80);
        terminal.wait_for_text("waits for its model");
        assert_ne!(terminal.mode(), terminal.mode_before());
        check_terminates(&terminal, signal);
        assert!(lines_after_dashboard(&terminal, "ended: ").contains("task: "));
        terminal.wait(
            || terminal.mode() == terminal.mode_before(),
            || format!("expected the mode {}", terminal.mode_before()),
        );
        let _project = terminal.wait_for_end(130);
    }
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_the_process_continues() {
    let mut terminal = Terminal::shell(two_agents(10_000, ""), 80);
    terminal.type_keys("\"$massgen\" task; echo $?-$((1+1))\r");
    terminal.wait_for_text("waits for its model");
    terminal.type_keys(CTRL_Z);
    terminal.wait_for_output("Stopped");
    assert!(!terminal.is_on_alternate_screen() && terminal.has_cursor());
    // The answers may be due before the process continues: the dashboard is soon left then.
    terminal.forget_frames();
    terminal.type_keys("fg\r");
    terminal.wait_for_frame("2 ben");
    lines_after_dashboard(&terminal, "done: ");
    terminal.type_keys("exit\r");
    let _project = terminal.wait_for_end(0);
}

/// Returns the process that the shell of `terminal` started.
#[track_caller]
fn started_process(terminal: &Terminal) -> String {
    let shell = terminal.process();
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let mut children = children.split_whitespace();
    children.next().expect("a process").to_owned()
}

#[test]
fn a_process_that_another_one_stops_gives_the_terminal_back_until_it_continues() {
    let mut terminal = Terminal::shell(two_agents(60_000, ""), 80);
    terminal.type_keys("\"$massgen\" task; echo $?-$((1+1))\r");
    terminal.wait_for_text("waits for its model");
    let process = started_process(&terminal);
    for stops in 1..=2 {
        let sent = Command::new("kill").args(["-TSTP", &process]).status();
        assert!(sent.unwrap().success());
        terminal.wait(
            || terminal.all_output().matches("Stopped").count() == stops,
            || format!("stop {stops}"),
        );
        assert!(!terminal.is_on_alternate_screen() && terminal.has_cursor());
        terminal.forget_frames();
        terminal.type_keys("fg\r");
        terminal.wait_for_frame("2 ben");
    }
    // Without the dashboard, the signal stops the process by itself.
    terminal.type_keys("l");
    lines_after_dashboard(&terminal, "agents: ann, ben");
    terminal.type_keys(CTRL_Z);
    terminal.wait(
        || terminal.all_output().matches("Stopped").count() == 3,
        || "the third stop".to_owned(),
    );
    terminal.type_keys("fg\r");
    let sent = Command::new("kill").args(["-TERM", &process]).status();
    assert!(sent.unwrap().success());
    terminal.wait_for_output("ended: ");
    terminal.type_keys("exit 0\r");
    let _project = terminal.wait_for_end(0);
}

/// Returns a project with two agents of which the first writes a file and needs approval for it. Only that
/// one is asked for an answer.
fn approval_project() -> Project {
    approval_team("orchestrator: {skip_coordination_rounds: true}")
}

/// Returns a project with both agents at work, and these keys of the config.
fn approval_team(keys: &str) -> Project {
    let writes = "
- calls: [{name: write_file, arguments: {path: a.txt, content: one}}]
- calls: [{name: new_answer, arguments: {content: done}}]
- {text: done, repeat: true}
";
    let agents = [
        agent("ann", "cwd: w", writes),
        agent("ben", "", &answer_replies("dogs", "agent1", 0)),
    ];
    let rest =
        format!("permissions: {{ask: ['write_file(*.txt)'], ask_timeout_seconds: 600}}\n{keys}");
    on_terminal(
        Project::new()
            .config(&team(&agents, &rest))
            .args(["task", "--cwd-context", "ro"]),
    )
}

#[test]
fn a_call_is_approved_in_place() {
    for (key, outcome) in [("o", "once"), ("n", "no")] {
        let mut terminal = Terminal::open(approval_project(), 80);
        terminal.wait_for_text("ann asks to use write_file:");
        terminal.wait_for_text("write `a.txt` in the workspace");
        terminal.wait_for_text("o once");
        let written = terminal.all_output();
        assert!(written.contains("(1) massgen") && written.contains('\u{7}'));
        // Other views do not cover it.
        terminal.type_keys("v");
        terminal.wait_for_text("no vote yet");
        terminal.wait_for_text("o once");
        sleep(ANSWER_DELAY);
        terminal.type_keys(key);
        lines_after_dashboard(&terminal, "done: ");
        let project = terminal.wait_for_end(0);
        assert_eq!(approval_answers(&project), [outcome]);
    }
}

#[test]
fn the_timeline_shows_who_waits_for_whom() {
    let mut terminal = Terminal::open(approval_team(""), 80);
    terminal.wait_for_text("ann asks to use write_file:");
    terminal.type_keys("t");
    terminal.wait_for_text("waits: . to try again  - for other agents");
    // ann waits for the user, and ben for ann.
    terminal.wait_for_text("???");
    terminal.wait_for_text("A--");
    sleep(ANSWER_DELAY);
    terminal.type_keys("n");
    lines_after_dashboard(&terminal, "done: ");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn an_agent_whose_request_waits_for_another_is_not_idle() {
    let writes = |file: &str| {
        format!(
            "
- {{when: {{system: the final agent}}, text: done}}
- calls: [{{name: write_file, arguments: {{path: {file}, content: one}}}}]
- calls: [{{name: new_answer, arguments: {{content: done}}}}]
- {{calls: [{{name: vote, arguments: {{agent_id: agent1, reason: x}}}}], repeat: true}}
"
        )
    };
    let agents = [
        agent("ann", "cwd: w", &writes("a.txt")),
        agent("ben", "cwd: v", &writes("b.txt")),
    ];
    let rest = "permissions: {ask: ['write_file(*.txt)'], ask_timeout_seconds: 600}";
    let project = Project::new()
        .config(&team(&agents, rest))
        .args(["task", "--cwd-context", "ro"]);
    let mut terminal = Terminal::open(on_terminal(project), 120);
    terminal.wait_for_text("? asks for approval of write_file");
    terminal.wait_for_text("? waits to ask for approval of write_file");
    sleep(ANSWER_DELAY);
    terminal.type_keys("o");
    terminal.wait(
        || !terminal.has("waits to ask for approval"),
        || "the other request".to_owned(),
    );
    terminal.wait_for_text("? asks for approval of write_file");
    sleep(ANSWER_DELAY);
    terminal.type_keys("o");
    lines_after_dashboard(&terminal, "done: ");
}

/// Types what would allow a call at the moment when the question appears. Returns the terminal if the
/// question is still there: a machine that is busy for so long may read keys when they count.
fn type_at_question() -> Option<Terminal> {
    let mut terminal = Terminal::open(approval_project(), 80);
    terminal.wait_for_output("\u{1b}]0;(1) massgen");
    terminal.type_keys("oooov");
    terminal.wait(
        || terminal.has("no vote yet") || terminal.all_output().contains("done: "),
        || "the view that the last key opens".to_owned(),
    );
    terminal.has("o once").then_some(terminal)
}

#[test]
fn keys_typed_as_a_question_appears_do_not_answer_it() {
    const TRIES_MAX: usize = 10;
    let found = (0..TRIES_MAX).find_map(|_| type_at_question());
    let mut terminal = found.expect("a question that is not answered");
    sleep(ANSWER_DELAY);
    assert!(terminal.is_on_alternate_screen());
    terminal.wait_for_text("o once");
    terminal.type_keys("l");
    // The question is asked again in lines.
    terminal.wait_for_output("[o]nce, for this [s]ession");
    assert!(!terminal.is_on_alternate_screen());
    terminal.type_answer("n");
    terminal.wait_for_output("the user refuses it");
    terminal.wait_for_output("done: ");
}

/// Returns a project whose first agent changes two distant lines and creates a file.
fn review_project() -> Project {
    let text = |first: &str, last: &str| {
        let middle = "the same\\n".repeat(18);
        format!("{first}\\n{middle}{last}\\n")
    };
    let changed = text("first new", "last new");
    let presents = format!(
        r#"
- calls:
  - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/long.txt", content: "{changed}"}}}}
  - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/new.txt", content: "new\n"}}}}
- calls: [{{name: new_answer, arguments: {{content: done}}}}]
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: good}}}}]
  repeat: true
"#
    );
    let votes = "
- calls: [{name: vote, arguments: {agent_id: agent1, reason: good}}]
  repeat: true
";
    let agents = [
        agent(
            "ann",
            "cwd: w\nenforce_read_before_delete: false",
            &presents,
        ),
        agent("ben", "", votes),
    ];
    let old = text("first old", "last old").replace("\\n", "\n");
    on_terminal(Project::new().config(&team(&agents, "delivery: review")))
        .file("long.txt", old)
        .args(["--cwd-context", "rw", "Change it"])
}

#[test]
fn a_delivery_is_reviewed_by_file_and_hunk() {
    let mut terminal = Terminal::open(review_project(), 100);
    terminal.wait_for_text("the delivery waits for your review");
    terminal.wait_for_text("waits for review");
    terminal.wait_for_text("[x] ~ 2/2 hunks  long.txt  +2 -2");
    terminal.wait_for_text("[x] + new.txt  +1 -0");
    terminal.wait_for_text("> [x] @@ -1,4 +1,4 @@");
    sleep(ANSWER_DELAY);
    terminal.type_keys("]h");
    terminal.wait_for_text("[~] ~ 1/2 hunks  long.txt");
    terminal.wait_for_text("> [ ] @@");
    terminal.type_keys("\t ");
    terminal.wait_for_text("[ ] + new.txt");
    terminal.wait_for_text("selected: 1/2 files, 1/3 hunks");
    terminal.type_answer("y");
    terminal.wait_for_output("done: ");
    let project = terminal.wait_for_end(0);
    let long = fs::read_to_string(project.path("long.txt")).unwrap();
    assert!(
        long.starts_with("first new\n") && long.ends_with("last old\n"),
        "{long}"
    );
    assert!(!project.path("new.txt").exists());
}

#[test]
fn a_delivery_is_only_applied_from_its_review() {
    let mut terminal = Terminal::open(review_project(), 100);
    terminal.wait_for_text("the delivery waits for your review");
    sleep(ANSWER_DELAY);
    terminal.type_and_wait("Esc overview", ESCAPE, ">1 ann");
    terminal.type_keys("y");
    terminal.wait_for_text("the delivery waits for your review");
    terminal.type_keys("d");
    terminal.type_answer("x");
    let story = lines_after_dashboard(&terminal, "done: ");
    assert!(story.contains("not applied"), "{story}");
    let project = terminal.wait_for_end(0);
    let long = fs::read_to_string(project.path("long.txt")).unwrap();
    assert!(long.starts_with("first old\n"), "{long}");
}

#[test]
fn control_sequences_of_a_model_do_not_reach_the_terminal() {
    let speaks = r#"
- text: "a\e[2J\e]0;evil\a\e]52;c;aGk=\a\u202etxt\n"
  calls: [{name: new_answer, arguments: {content: "c\e]0;evil\a"}}]
- calls: [{name: vote, arguments: {agent_id: agent1, reason: "r\e]0;evil\a\e[?1049l"}}]
  repeat: true
"#;
    let agents = [agent("ann", "", speaks), agent("ben", "", speaks)];
    let project = Project::new().config(&team(&agents, ""));
    let terminal = Terminal::open(on_terminal(project.args(["t\u{202e}ask"])), 80);
    terminal.wait_for_output("done: ");
    let written = terminal.all_output();
    for evil in ["\u{1b}]0;evil", "\u{1b}]52", "\u{202e}"] {
        assert!(!written.contains(evil), "{written:?}");
    }
    assert_eq!(written.matches(UNCOVERS).count(), 1);
    // Without an alternate screen, nothing of the dashboard is left between the lines.
    assert!(written.contains(&format!("\u{1b}[1;1H\u{1b}[2J{UNCOVERS}")));
    let _project = terminal.wait_for_end(0);
}

#[test]
fn a_recorded_run_is_shown_until_the_user_closes_it() {
    let finished = two_agents(0, "limits: {max_tokens_total: 9000000}").success();
    let project = finished.then(["logs", "follow", "--dashboard"]);
    let mut terminal = Terminal::open(project, 100);
    terminal.wait_for_text("+ ann wins with agent1.1");
    terminal.wait_for_text(">1 ann  * winner");
    terminal.wait_for_text("ended");
    terminal.wait_for_text("of 9.0M tokens");
    terminal.type_keys("v");
    terminal.wait_for_text("agent2 is good");
    terminal.type_keys("f");
    terminal.wait_for_text("the final answer:");
    terminal.type_keys("q");
    terminal.wait_for_text("q quit");
    terminal.type_keys("q");
    assert_eq!(
        lines_after_dashboard(&terminal, "")
            .matches("done: ")
            .count(),
        0
    );
    let project = terminal.wait_for_end(0);
    let lines = Terminal::open(project.retyped(["logs", "follow", "--dashboard"]), 100);
    let mut terminal = lines;
    terminal.wait_for_text("q quit");
    terminal.type_keys("l");
    terminal.wait_for_output("done: ");
    let project = terminal.wait_for_end(0);
    let piped = project
        .retyped(["logs", "follow", "--dashboard"])
        .failure(2);
    assert!(
        piped.stderr().contains("needs a terminal"),
        "{}",
        piped.stderr()
    );
}

#[test]
fn the_winner_is_marked_in_the_table_and_in_full() {
    let names = ["ann", "ben", "cid", "dee", "eve"];
    let agents = names.map(|name| {
        let candidate = if name == "ann" { "agent2" } else { "agent1" };
        agent(name, "", &answer_replies(name, candidate, 400))
    });
    let project = Project::new().config(&team(&agents, ""));
    let finished = on_terminal(project.args(["Cats or dogs?"])).success();
    let project = finished.then(["logs", "follow", "--dashboard"]);
    let mut terminal = Terminal::open(project, 80);
    terminal.wait_for_text("ann             * winner");
    terminal.wait_for_text("ben             + voted for ann");
    let marked = lines(&terminal);
    let marked = marked.iter().filter(|line| line.contains("* winner"));
    assert_eq!(marked.count(), 1, "{:?}", terminal.lines());
    terminal.type_keys("1");
    terminal.wait_for_text(" 1 ann  * winner");
    terminal.type_and_wait("Esc overview", "q", "q quit");
    terminal.type_keys("q");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn a_message_that_is_typed_as_the_run_ends_begins_the_next_prompt() {
    let mut terminal = Terminal::open(two_agents(60_000, "").retyped::<&str>([]), 80);
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("Cats or dogs?\r");
    terminal.wait_for_text("2 ben");
    terminal.type_keys("i");
    terminal.type_keys("ann: and bird");
    terminal.wait_for_text("> ann: and bird_");
    terminal.type_keys(CTRL_C);
    lines_after_dashboard(&terminal, "ended: ");
    terminal.wait_for_prompt(&["> ann: and bird"]);
    terminal.type_keys("s");
    terminal.wait_for_prompt(&["> ann: and birds"]);
    // Keys of the dashboard are no text.
    terminal.type_keys("\u{15}Cats or dogs?\r");
    terminal.wait(
        || terminal.all_output().matches(COVERS).count() == 2,
        || "a second turn".to_owned(),
    );
    terminal.wait_for_text("2 ben");
    terminal.type_keys("v");
    terminal.wait_for_text("Esc overview");
    terminal.type_keys(CTRL_C);
    lines_after_dashboard(&terminal, "ended: ");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("\u{4}");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn a_turn_of_a_session_is_shown_on_the_dashboard_and_the_prompt_returns() {
    let mut terminal = Terminal::open(two_agents(500, "").retyped::<&str>([]), 80);
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("Cats or dogs?\r");
    terminal.wait_for_output(COVERS);
    // It stays in its end state, whose keys go nowhere else.
    terminal.wait_for_text("or Enter: back to the prompt");
    terminal.type_and_wait("or Enter: back to the prompt", "v", "Votes");
    terminal.type_and_wait("Votes", ESCAPE, "or Enter: back to the prompt");
    terminal.type_keys("\r");
    terminal.wait_for_output("done: ");
    terminal.wait_for_output("all of it: /dashboard");
    terminal.wait_for_prompt(&[">"]);
    assert!(!terminal.is_on_alternate_screen());
    terminal.type_keys("And birds?\r");
    terminal.wait(
        || terminal.all_output().matches(COVERS).count() == 2,
        || "a second dashboard".to_owned(),
    );
    terminal.wait_for_text("or Enter: back to the prompt");
    terminal.type_keys("q");
    terminal.wait(
        || terminal.all_output().matches("\ndone: ").count() == 2,
        || "a second turn".to_owned(),
    );
    terminal.wait_for_prompt(&[">"]);
    assert_eq!(terminal.all_output().matches(COVERS).count(), 2);
    terminal.type_keys("\u{4}");
    let _project = terminal.wait_for_end(0);
}
