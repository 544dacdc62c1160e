//! What the command parser takes a word for is what bash takes it for.

use std::process::Command;

use massgen::commands::parse::parse;

#[test]
fn escapes_of_two_characters_mean_what_they_mean_to_bash() {
    let printable = || (' '..='~').filter(|second| *second != '\'');
    let words: Vec<String> = (' '..='~')
        .flat_map(|first| printable().map(move |second| format!("$'\\{first}{second}z'")))
        .collect();
    let lines: Vec<String> = words.chunks(500).map(|words| words.join(" ")).collect();
    let script: Vec<String> = lines
        .iter()
        .map(|line| format!("printf '%s\\0' {line}"))
        .collect();
    let output = Command::new("bash")
        .args(["-c", &script.join("\n")])
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let expected: Vec<&str> = output.split_terminator('\0').collect();
    assert_eq!(expected.len(), words.len());
    let commands = lines
        .iter()
        .flat_map(|line| parse(&format!("echo {line}")).commands);
    let actual = commands.flat_map(|command| {
        let words = command.words.into_iter().skip(1);
        words.map(|word| word.known_text())
    });
    let actual: Vec<Option<String>> = actual.collect();
    assert_eq!(actual.len(), words.len());
    for ((word, actual), expected) in words.iter().zip(&actual).zip(expected) {
        assert_eq!(actual.as_deref(), Some(expected), "{word}");
    }
}
