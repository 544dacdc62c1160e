//! Programs that try to get round what holds them. Each is tried against all layers, against every
//! layer alone that is said to hold it, and where nothing holds it.

use massgen::programs::package::Checks;
use massgen::programs::{Language, judge};
use massgen::tools::menu::Commands;
use massgen::world::programs::Layers;

use crate::program_scene::{CANARY, Given, Row, Scene, rows, told};

const TABLE: &str = include_str!("../cases/programs/attacks.txt");

/// Neither the program nor the paths are looked at before the gate.
const ONLY_GATE_AND_SANDBOX: Layers = Layers {
    analysis: Checks::LeftOut,
    package: Checks::LeftOut,
};
/// What the package does is not hidden by what is done before.
const WITHOUT_ANALYSIS: Layers = Layers {
    analysis: Checks::LeftOut,
    package: Checks::Made,
};

fn attacks(language: Language) -> Vec<Row> {
    let rows = rows(TABLE).into_iter();
    rows.filter(|row| row.language == language).collect()
}

/// Whether `attack` does harm when `run` runs it, and what it wrote.
fn does_harm(scene: &Scene, run: impl FnOnce(&Scene) -> String) -> (bool, String) {
    let before = scene.state();
    let wrote = run(scene);
    (wrote.contains(CANARY) || scene.state() != before, wrote)
}

/// What a program wrote, or why it was not run.
fn wrote(scene: &Scene, attack: &Row, layers: Layers, given: Given) -> String {
    match scene.run(attack.language, layers, given, &attack.text) {
        Ok(observation) => observation.content,
        Err(denial) => denial.to_string(),
    }
}

fn check_all(language: Language) {
    let attacks = attacks(language);
    for attack in &attacks {
        let scene = Scene::new();
        let run = |scene: &Scene| wrote(scene, attack, Layers::default(), Given::Guarded);
        let (harm, wrote) = does_harm(&scene, run);
        assert!(!harm, "{}: {wrote}", attack.name);
    }
}

fn check_analysis(language: Language) {
    for attack in attacks(language) {
        let expected = attack.rest[0].contains("analysis");
        let refused = judge(language, &attack.text, Commands::Offered).is_err();
        assert_eq!(refused, expected, "{}", attack.name);
    }
}

fn check_gate_and_sandbox(language: Language) {
    for attack in attacks(language) {
        assert!(attack.rest[0].contains("sandbox"), "{}", attack.name);
        let scene = Scene::new();
        let run = |scene: &Scene| wrote(scene, &attack, ONLY_GATE_AND_SANDBOX, Given::Guarded);
        let (harm, wrote) = does_harm(&scene, run);
        assert!(!harm, "{}: {wrote}", attack.name);
        assert!(
            !wrote.starts_with("error: the program was not run"),
            "{}: {wrote}",
            attack.name
        );
    }
}

/// The package alone: nothing but the calls of tools that it looks at itself reaches massgen.
fn check_package(language: Language) {
    let held = |row: &Row| row.rest[0].contains("package");
    let attacks: Vec<Row> = attacks(language).into_iter().filter(held).collect();
    assert!(attacks.len() >= 4);
    let leads_out = |attack: &Row, layers: Layers| {
        let ran = Scene::new().run(language, layers, Given::Guarded, &attack.text);
        let calls = told(&ran.unwrap(), "calls").to_string();
        let mut outside = ["outside", "ws-other", "/ro/"].iter();
        outside.any(|path| calls.contains(path))
    };
    for attack in attacks {
        assert!(!leads_out(&attack, WITHOUT_ANALYSIS), "{}", attack.name);
        assert!(leads_out(&attack, ONLY_GATE_AND_SANDBOX), "{}", attack.name);
    }
}

fn check_controls(language: Language) {
    for attack in attacks(language) {
        let scene = Scene::new();
        let (harm, wrote) = match attack.rest[1].as_str() {
            "plain" => does_harm(&scene, |scene| scene.run_plainly(language, &attack.text)),
            "granted" => does_harm(&scene, |scene| {
                wrote(scene, &attack, ONLY_GATE_AND_SANDBOX, Given::Everything)
            }),
            reason => {
                assert!(reason.contains(' '), "{}", attack.name);
                continue;
            }
        };
        assert!(harm, "{} does no harm anywhere: {wrote}", attack.name);
    }
}

#[test]
fn the_table_is_long_enough() {
    assert!(rows(TABLE).len() >= 80);
}

#[test]
fn no_python_program_gets_round_all_layers() {
    check_all(Language::Python);
}

#[test]
fn no_go_program_gets_round_all_layers() {
    check_all(Language::Go);
}

#[test]
fn the_analysis_alone_refuses_what_it_is_for() {
    check_analysis(Language::Python);
    check_analysis(Language::Go);
}

#[test]
fn the_package_alone_lets_no_call_out_with_a_path_outside() {
    check_package(Language::Python);
    check_package(Language::Go);
}

#[test]
fn the_gate_and_the_sandbox_alone_hold_every_python_program() {
    check_gate_and_sandbox(Language::Python);
}

#[test]
fn the_gate_and_the_sandbox_alone_hold_every_go_program() {
    check_gate_and_sandbox(Language::Go);
}

#[test]
fn where_nothing_holds_them_python_programs_do_harm() {
    check_controls(Language::Python);
}

#[test]
fn where_nothing_holds_them_go_programs_do_harm() {
    check_controls(Language::Go);
}
