//! Programs that try to escape their restrictions. Each is tested against all layers, against every
//! single layer that should stop it, and without any, where it must do harm.

use massgen::code_mode::language::ProgramDialect;
use massgen::code_mode::lint_program;
use massgen::code_mode::package::PathChecks;
use massgen::tools::tool_selection::CommandOffering;
use massgen::world::sandbox::program_environment::ProgramSafeguards;

use crate::program_fixture::{
    AgentAccess, CANARY, FixtureProgram, PANDAS, PYTHON, ProgramCase, ProgramFixture, parse_cases,
    report_field, run_plainly,
};
use crate::repetition::repetitions;

const TABLE: &str = include_str!("../cases/programs/attacks.txt");

/// Neither the program nor the paths are checked before the gate.
const ONLY_GATE_AND_SANDBOX: ProgramSafeguards = ProgramSafeguards {
    analysis: PathChecks::Disabled,
    package: PathChecks::Disabled,
};
/// Without the analysis, which would otherwise mask what the package does.
const WITHOUT_ANALYSIS: ProgramSafeguards = ProgramSafeguards {
    analysis: PathChecks::Disabled,
    package: PathChecks::Enabled,
};

fn attacks(dialect: ProgramDialect) -> Vec<ProgramCase> {
    let rows = parse_cases(TABLE).into_iter();
    rows.filter(|row| row.dialect == dialect).collect()
}

/// Returns whether the attack that `run` runs does harm, and its output.
fn does_harm(
    fixture: &ProgramFixture,
    run: impl FnOnce(&ProgramFixture) -> String,
) -> (bool, String) {
    let before = fixture.state();
    let output = run(fixture);
    (output.contains(CANARY) || fixture.state() != before, output)
}

/// Returns the output of a program, or why it was not run.
fn run_attack(
    fixture: &ProgramFixture,
    attack: &ProgramCase,
    layers: ProgramSafeguards,
    access: AgentAccess,
) -> String {
    match fixture.run(attack.dialect, layers, access, &attack.text) {
        Ok(observation) => observation.content,
        Err(denial) => denial.to_string(),
    }
}

/// Each attack is also tried against the gate and the sandbox alone, so the short suite tries only some.
fn check_all(dialect: ProgramDialect) {
    let attacks = attacks(dialect);
    for attack in attacks.iter().step_by(repetitions(3, 1)) {
        let fixture = ProgramFixture::new();
        let run = |fixture: &ProgramFixture| {
            run_attack(
                fixture,
                attack,
                ProgramSafeguards::default(),
                AgentAccess::Guarded,
            )
        };
        let (harm, output) = does_harm(&fixture, run);
        assert!(!harm, "{}: {output}", attack.name);
    }
}

fn check_analysis(dialect: ProgramDialect) {
    for attack in attacks(dialect) {
        let expected = attack.rest[0].contains("analysis");
        let refused = lint_program(dialect, &attack.text, CommandOffering::Offered).is_err();
        assert_eq!(refused, expected, "{}", attack.name);
    }
}

fn check_gate_and_sandbox(dialect: ProgramDialect) {
    for attack in attacks(dialect) {
        assert!(attack.rest[0].contains("sandbox"), "{}", attack.name);
        let fixture = ProgramFixture::new();
        let run = |fixture: &ProgramFixture| {
            run_attack(
                fixture,
                &attack,
                ONLY_GATE_AND_SANDBOX,
                AgentAccess::Guarded,
            )
        };
        let (harm, output) = does_harm(&fixture, run);
        assert!(!harm, "{}: {output}", attack.name);
        assert!(
            !output.starts_with("error: the program was not run"),
            "{}: {output}",
            attack.name
        );
    }
}

/// Checks the package alone: only the tool calls that it checks itself reach massgen.
fn check_package(dialect: ProgramDialect) {
    let is_stopped = |row: &ProgramCase| row.rest[0].contains("package");
    let attacks: Vec<ProgramCase> = attacks(dialect).into_iter().filter(is_stopped).collect();
    assert!(attacks.len() >= 4);
    let leads_out = |attack: &ProgramCase, layers: ProgramSafeguards| {
        let ran = ProgramFixture::new().run(dialect, layers, AgentAccess::Guarded, &attack.text);
        let calls = report_field(&ran.unwrap(), "calls").to_string();
        let mut outside = ["outside", "ws-other", "/ro/"].iter();
        outside.any(|path| calls.contains(path))
    };
    for attack in attacks {
        assert!(!leads_out(&attack, WITHOUT_ANALYSIS), "{}", attack.name);
        assert!(leads_out(&attack, ONLY_GATE_AND_SANDBOX), "{}", attack.name);
    }
}

fn check_controls(dialect: ProgramDialect) {
    let attacks = attacks(dialect);
    let (plain, others): (Vec<&ProgramCase>, Vec<&ProgramCase>) =
        attacks.iter().partition(|attack| attack.rest[1] == "plain");
    check_plain_controls(dialect, &plain);
    for attack in others {
        if attack.rest[1] != "granted" {
            assert!(attack.rest[1].contains(' '), "{}", attack.name);
            continue;
        }
        let run = |fixture: &ProgramFixture| {
            run_attack(
                fixture,
                attack,
                ONLY_GATE_AND_SANDBOX,
                AgentAccess::Everything,
            )
        };
        let (harm, output) = does_harm(&ProgramFixture::new(), run);
        assert!(harm, "{} does no harm anywhere: {output}", attack.name);
    }
}

/// Checks that each of these attacks does harm if a user runs it.
fn check_plain_controls(dialect: ProgramDialect, attacks: &[&ProgramCase]) {
    let programs: Vec<FixtureProgram<'_>> = attacks
        .iter()
        .map(|row| FixtureProgram {
            fixture: ProgramFixture::new(),
            row,
        })
        .collect();
    let states: Vec<_> = programs
        .iter()
        .map(|program| program.fixture.state())
        .collect();
    let outputs = run_plainly(dialect, &programs);
    for ((program, before), output) in programs.iter().zip(states).zip(outputs) {
        let harm = output.contains(CANARY) || program.fixture.state() != before;
        let name = &program.row.name;
        assert!(harm, "{name} does no harm anywhere: {output}");
    }
}

#[test]
fn the_table_is_long_enough() {
    assert!(parse_cases(TABLE).len() >= 80);
}

#[test]
fn no_python_program_bypasses_all_layers() {
    check_all(PYTHON);
}

#[test]
fn no_program_with_pandas_bypasses_all_layers() {
    check_all(PANDAS);
}

#[test]
fn no_go_program_bypasses_all_layers() {
    check_all(ProgramDialect::Go);
}

#[test]
fn the_analysis_alone_refuses_the_attacks_meant_for_it() {
    check_analysis(PYTHON);
    check_analysis(PANDAS);
    check_analysis(ProgramDialect::Go);
}

#[test]
fn the_package_alone_makes_no_call_with_a_path_outside() {
    check_package(PYTHON);
    check_package(ProgramDialect::Go);
}

#[test]
fn the_gate_and_the_sandbox_alone_stop_every_python_program() {
    check_gate_and_sandbox(PYTHON);
}

#[test]
fn the_gate_and_the_sandbox_alone_stop_every_program_with_tables() {
    check_gate_and_sandbox(PANDAS);
}

#[test]
fn the_gate_and_the_sandbox_alone_stop_every_go_program() {
    check_gate_and_sandbox(ProgramDialect::Go);
}

#[test]
fn without_protection_python_programs_do_harm() {
    check_controls(PYTHON);
}

#[test]
fn without_protection_programs_with_tables_do_harm() {
    check_controls(PANDAS);
}

#[test]
fn without_protection_go_programs_do_harm() {
    check_controls(ProgramDialect::Go);
}
