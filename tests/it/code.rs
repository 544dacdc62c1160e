//! Programs that agents write instead of single calls: ordinary work, the result, and what ends
//! them.

use std::fs;

use massgen::code_mode::language::ProgramDialect;
use massgen::code_mode::package::PathChecks;
use massgen::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use massgen::tools::parse::parse;
use massgen::tools::served::ToolCatalogue;
use massgen::world::exec;
use massgen::world::exec::program::check_language;
use massgen::world::exec::tool_result::ActionOutcome;
use massgen::world::io::file_change::ChangeKind;
use massgen::world::sandbox::interrupt::CommandInterrupt;
use massgen::world::sandbox::program_environment::ProgramSafeguards;
use serde_json::json;

use crate::program_fixture::{
    AgentAccess, PANDAS, PYTHON, ProgramCase, ProgramFixture, parse_cases, report_field, run_at,
    sandbox_of,
};

const TABLE: &str = include_str!("../cases/programs/ordinary.txt");

const LAYERS: ProgramSafeguards = ProgramSafeguards {
    analysis: PathChecks::Enabled,
    package: PathChecks::Enabled,
};

/// Runs ordinary programs one after another, each on its own disk, with one package cache.
fn check_ordinary(dialect: ProgramDialect, count_min: usize) {
    let ordinary = |row: &ProgramCase| row.dialect == dialect;
    let rows: Vec<ProgramCase> = parse_cases(TABLE).into_iter().filter(ordinary).collect();
    assert!(rows.len() >= count_min);
    for row in rows {
        let (program, expected): (Vec<&str>, Vec<&str>) =
            row.text.lines().partition(|line| !line.starts_with("--- "));
        let expected: Vec<&str> = expected
            .iter()
            .filter_map(|line| line.strip_prefix("--- "))
            .collect();
        let fixture = ProgramFixture::new();
        let ran = fixture.run(dialect, LAYERS, AgentAccess::Guarded, &program.join("\n"));
        let observation = ran.unwrap_or_else(|denial| panic!("{}: {denial}", row.name));
        let wrote = report_field(&observation, "stdout");
        let wrote = wrote.as_str().unwrap().trim_end();
        assert_eq!(
            observation.outcome,
            ActionOutcome::Done,
            "{}: {}",
            row.name,
            observation.content
        );
        if expected == ["denied"] {
            assert!(wrote.contains("denied"), "{}: {wrote}", row.name);
        } else {
            let lines: Vec<&str> = wrote.lines().filter(|line| !line.is_empty()).collect();
            let joined = lines.join("\n").replace("\n <nil>", " <nil>");
            assert_eq!(
                joined,
                expected.join("\n"),
                "{}: {}",
                row.name,
                observation.content
            );
        }
    }
}

#[test]
fn ordinary_python_programs_work() {
    check_ordinary(PYTHON, 25);
}

#[test]
fn ordinary_programs_with_tables_work() {
    check_ordinary(PANDAS, 6);
}

#[test]
fn ordinary_go_programs_work() {
    check_ordinary(ProgramDialect::Go, 10);
}

#[test]
fn each_language_is_tried_before_it_is_used() {
    for dialect in [PYTHON, PANDAS, ProgramDialect::Go] {
        let fixture = ProgramFixture::new();
        assert_eq!(check_language(&fixture.programs(dialect, LAYERS)), Ok(()));
    }
}

#[test]
fn programs_run_at_every_level() {
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
    ] {
        let Some(sandbox) = sandbox_of(SandboxLevelChoice::Only(level)) else {
            continue;
        };
        for (dialect, program) in [
            (
                PYTHON,
                "import workspace_tools as w\nw.write_file('b.txt', 'x')\nprint('said')\n",
            ),
            (
                ProgramDialect::Go,
                "package main\n\nimport (\n\t\"fmt\"\n\tw \"workspace_tools\"\n)\n\nfunc main() {\n\t\
                 w.WriteFile(w.WriteFileParams{Path: \"b.txt\", Content: \"x\"})\n\tfmt.Println(\"said\")\n}\n",
            ),
        ] {
            let fixture = ProgramFixture::new();
            let programs = fixture.programs_in(sandbox.clone(), dialect, LAYERS);
            let ran = run_at(&fixture.gate(programs, AgentAccess::Guarded), program).unwrap();
            assert_eq!(
                report_field(&ran, "stdout"),
                "said\n",
                "level {level}: {}",
                ran.content
            );
            assert!(fixture.path("ws/b.txt").exists(), "level {level}");
        }
    }
}

#[test]
fn a_program_begins_with_nothing_of_the_one_before() {
    let fixture = ProgramFixture::new();
    let layers = ProgramSafeguards {
        analysis: PathChecks::Disabled,
        ..LAYERS
    };
    let gate = fixture.gate(fixture.programs(PYTHON, layers), AgentAccess::Guarded);
    let program = "import os\nprint(os.listdir('.'))\nos.mkdir('a')\nopen('a/b', 'w')\n";
    for _ in 0..2 {
        let ran = run_at(&gate, program).unwrap();
        assert_eq!(report_field(&ran, "stdout"), "[]\n", "{}", ran.content);
    }
}

#[test]
fn the_result_of_a_program_lists_its_output_and_calls() {
    let fixture = ProgramFixture::new();
    let program = "import sys_is_missing_here";
    let denial = fixture
        .run(PYTHON, LAYERS, AgentAccess::Guarded, program)
        .unwrap_err();
    assert_eq!(denial.rule, "program");
    assert!(denial.to_string().starts_with(
        "denied: the program was not run:\nline 1, column 8: the module `sys_is_missing_here` is not allowed"
    ));
    let program = "import workspace_tools as w\nw.write_file('new.txt', 'x')\nprint('said')\n\
                   try:\n    w._call\nexcept NameError:\n    pass\n";
    let denial = fixture
        .run(PYTHON, LAYERS, AgentAccess::Guarded, program)
        .unwrap_err();
    assert!(
        denial
            .reason
            .starts_with("line 5, column 7: `_call` is private"),
        "{denial}"
    );
    let program = "import workspace_tools as w\nw.write_file('new.txt', 'x')\nprint('said')\n\
                   w.read_text_file('link/secret.txt')\n";
    let observation = fixture
        .run(PYTHON, LAYERS, AgentAccess::Guarded, program)
        .unwrap();
    assert_eq!(observation.outcome, ActionOutcome::Failed);
    assert_eq!(observation.exit_code, Some(1));
    assert_eq!(report_field(&observation, "stdout"), "said\n");
    assert_eq!(
        report_field(&observation, "calls"),
        json!([
            "write_file new.txt: done",
            "read_text_file link/secret.txt: denied"
        ])
    );
    let stderr = report_field(&observation, "stderr").to_string();
    assert!(stderr.contains("program.py\\\", line 4"), "{stderr}");
    assert!(
        stderr.contains("is not within any of the allowed paths"),
        "{stderr}"
    );
    assert!(!stderr.contains("run.py"), "{stderr}");
    let created = |kind: &ChangeKind| matches!(kind, ChangeKind::Created);
    assert_eq!(observation.changes.len(), 1);
    assert!(created(&observation.changes[0].kind));
    assert_eq!(observation.denials.len(), 1);
    let summary = observation.summary.unwrap();
    assert!(
        summary.contains("2 calls: write_file new.txt: done"),
        "{summary}"
    );
}

#[test]
fn the_package_is_regenerated_with_the_grants() {
    let fixture = ProgramFixture::new();
    let programs = fixture.programs(PYTHON, LAYERS);
    let program = fixture
        .expand_placeholders("import workspace_tools as w\nw.write_file('$OUT/harm', 'x')\n");
    let closed = run_at(
        &fixture.gate(programs.clone(), AgentAccess::Guarded),
        &program,
    )
    .unwrap();
    assert_eq!(report_field(&closed, "calls"), json!([]));
    assert!(
        closed.content.contains("outside allowed write boundaries"),
        "{}",
        closed.content
    );
    let open = run_at(&fixture.gate(programs, AgentAccess::Everything), &program).unwrap();
    assert_eq!(open.outcome, ActionOutcome::Done, "{}", open.content);
    assert!(fixture.path("outside/harm").exists());
}

#[test]
fn a_program_has_nothing_but_its_directory() {
    let fixture = ProgramFixture::new();
    let layers = ProgramSafeguards {
        analysis: PathChecks::Disabled,
        ..LAYERS
    };
    let program = "import os\nopen('own.txt', 'w').write('x')\nprint(os.listdir('.'))\n\
                   for path in ['$ROOT/ws', '$ROOT/room/package/run.py', '$ROOT/home']:\n    \
                   try:\n        print(os.access(path, os.W_OK), bool(os.listdir(path)))\n    \
                   except OSError as error:\n        print(type(error).__name__)\n";
    let ran = fixture
        .run(PYTHON, layers, AgentAccess::Guarded, program)
        .unwrap();
    let wrote = report_field(&ran, "stdout");
    let wrote = wrote.as_str().unwrap();
    assert!(wrote.starts_with("['own.txt']\n"), "{}", ran.content);
    assert!(!wrote.contains("True"), "{wrote}");
}

#[test]
fn a_program_that_never_ends_is_killed() {
    let fixture = ProgramFixture::new();
    let gate = fixture.gate(fixture.programs(PYTHON, LAYERS), AgentAccess::Guarded);
    let ended = |program: &str| {
        let arguments = json!({"code": program, "timeout": 1}).to_string();
        let call = parse("execute_code", &arguments, &ToolCatalogue::default()).unwrap();
        let observation = exec::run(gate.check(call).unwrap());
        assert_eq!(observation.outcome, ActionOutcome::Failed);
        report_field(&observation, "notes").to_string()
    };
    let slow = "it took too long and was killed";
    assert!(ended("while True: pass").contains(slow));
    assert!(ended("import time\ntime.sleep(1000)").contains(slow));
    let calls = "import workspace_tools as w\nwhile True: w.list_directory()";
    let notes = ended(calls);
    assert!(
        notes.contains(slow) || notes.contains("2000 calls"),
        "{notes}"
    );
}

#[test]
fn an_interrupt_ends_a_program() {
    let fixture = ProgramFixture::new();
    let gate = fixture.gate(fixture.programs(PYTHON, LAYERS), AgentAccess::Guarded);
    let call = parse(
        "execute_code",
        &json!({"code": "while True: pass"}).to_string(),
        &ToolCatalogue::default(),
    )
    .unwrap();
    let interrupt = CommandInterrupt::new().unwrap();
    interrupt.raise();
    let observation = exec::run_until(gate.check(call).unwrap(), Some(&interrupt));
    assert!(
        observation.content.contains("it was interrupted"),
        "{}",
        observation.content
    );
}

#[test]
fn output_and_calls_are_bounded() {
    let fixture = ProgramFixture::new();
    let run = |program: &str| {
        fixture
            .run(PYTHON, LAYERS, AgentAccess::Guarded, program)
            .unwrap()
    };
    let loud = run("for _ in range(3000000): print('x' * 9)");
    assert!(
        loud.content.len() < 4 * 1024 * 1024,
        "{}",
        loud.content.len()
    );
    let many = run(
        "import workspace_tools as w\nfor n in range(2100):\n    try:\n        \
         w.get_file_info('a.txt')\n    except w.ToolError as error:\n        print(n, error)\n        break\n",
    );
    assert!(
        report_field(&many, "stdout")
            .as_str()
            .unwrap()
            .starts_with("2000 "),
        "{}",
        many.content
    );
    let calls = report_field(&many, "calls");
    assert_eq!(calls.as_array().unwrap().len(), 101);
    assert_eq!(calls[100], "and 1900 more");
}

#[test]
fn invalid_frames_of_a_program_close_its_socket_and_not_massgen() {
    let fixture = ProgramFixture::new();
    let layers = ProgramSafeguards {
        analysis: PathChecks::Disabled,
        ..LAYERS
    };
    for bytes in [
        "b'no call\\n'",
        "b'{' * 20000000",
        "b'[' * 100000 + b'\\n'",
        "b''",
    ] {
        let program = format!(
            "import os, workspace_tools as w\nrest = {bytes}\ntry:\n    while rest:\n        \
             rest = rest[os.write(w._connection, rest):]\nexcept OSError:\n    pass\n\
             try:\n    print(w.read_text_file('a.txt'))\nexcept w.ToolError as error:\n    print(error)\n"
        );
        let ran = fixture
            .run(PYTHON, layers, AgentAccess::Guarded, &program)
            .unwrap();
        assert_eq!(ran.outcome, ActionOutcome::Done, "{bytes}: {}", ran.content);
        let expected = if bytes == "b''" {
            "a\n"
        } else {
            "massgen takes no more calls\n"
        };
        let wrote = report_field(&ran, "stdout");
        assert_eq!(
            wrote.as_str().unwrap().trim(),
            expected.trim(),
            "{}",
            ran.content
        );
    }
}

#[test]
fn a_program_that_is_killed_is_reported() {
    let fixture = ProgramFixture::new();
    let layers = ProgramSafeguards {
        analysis: PathChecks::Disabled,
        ..LAYERS
    };
    let died = fixture.run(
        PYTHON,
        layers,
        AgentAccess::Guarded,
        "import os\nos.kill(os.getpid(), 9)",
    );
    let died = died.unwrap();
    assert_eq!(died.outcome, ActionOutcome::Failed);
    assert!(
        died.content.contains("signal 9 ended it") || died.content.contains("exit_code\":137"),
        "{}",
        died.content
    );
    let broken = fixture.run(
        ProgramDialect::Go,
        LAYERS,
        AgentAccess::Guarded,
        "package main\n\nfunc main() { x := 1 }\n",
    );
    let broken = broken.unwrap();
    assert!(
        report_field(&broken, "stderr")
            .as_str()
            .unwrap()
            .contains("program.go:3"),
        "{}",
        broken.content
    );
    assert!(fs::metadata(fixture.path("ws/a.txt")).is_ok());
}
