//! How long a user waits after typing `@` in a large tree: for the walk, for the first paths during it, and
//! for all of them after it. The tree is in `TMPDIR`.

use std::fs;
use std::time::{Duration, Instant};

use massgen::path::AbsPath;
use massgen::world::io::file_finder::{FileFinder, SearchExtent};

/// The size of the tree that the figures are about.
const DIRECTORIES: usize = 1500;
const FILES_PER_DIRECTORY: usize = 100;
/// As many rows as are shown at once.
const ROWS: usize = 8;
/// How long a key waits for the first rows.
const FIRST: Duration = Duration::from_millis(14);
/// What is typed one after the other.
const TYPED: &[&str] = &[
    "f",
    "fi",
    "file",
    "file_77",
    "directory_12/file",
    "d149f99",
    "nothing like it",
];
const ROUNDS: usize = 5;

/// Takes the figures and prints them.
pub(crate) fn measure() {
    let dir = tempfile::tempdir().unwrap();
    for directory in 0..DIRECTORIES {
        let directory = dir.path().join(format!("directory_{directory}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..FILES_PER_DIRECTORY {
            fs::write(directory.join(format!("file_{file}.txt")), "x").unwrap();
        }
    }
    let base = AbsPath::new(dir.path()).unwrap();
    for round in 0..ROUNDS {
        let browser = FileFinder::new(base.clone(), None);
        let begun = Instant::now();
        let first = browser.query("file", ROWS, FIRST);
        let took = begun.elapsed();
        println!(
            "round {round}: first {} rows after {took:.1?}",
            first.rows.len()
        );
        let all = browser.query("file", ROWS, Duration::MAX);
        assert_eq!(all.extent, SearchExtent::Whole);
        println!(
            "round {round}: the walk ended after {:.1?}",
            begun.elapsed()
        );
        for typed in TYPED {
            let begun = Instant::now();
            let rows = browser.query(typed, ROWS, Duration::MAX);
            let took = begun.elapsed();
            println!(
                "round {round}: `{typed}`: {} matched in {took:.1?}",
                rows.matched
            );
        }
    }
}
