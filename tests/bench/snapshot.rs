//! A snapshot of 10,000 files after one of them has changed, beside `cp -a` of the same tree. Both
//! are timed in turns in one run, because only their ratio means something on another machine. The
//! tree lies in `TMPDIR`, which chooses the file system.

use std::cell::{Cell, RefCell};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use divan::Bencher;
use massgen::id::{AgentId, AgentNumber, AnswerLabel};
use massgen::path::AbsPath;
use massgen::world::store::snapshot::AgentSnapshots;
use massgen::world::store::workspace;
use tempfile::TempDir;

const DIRECTORIES: u32 = 100;
const FILES_PER_DIRECTORY: u32 = 100;
const FILE_BYTES: usize = 2048;
const ROUNDS: usize = 5;

/// Takes the figures and prints them.
pub(crate) fn measure() {
    // First, because ext4 is slow at making files for a while after many were removed, and `cp`
    // makes more of them.
    print_ratio();
    divan::main();
}

/// A tree of files of which one snapshot has been taken.
struct Tree {
    dir: TempDir,
    workspace: AbsPath,
    snapshots: RefCell<AgentSnapshots>,
    copies: Cell<u32>,
}

impl Tree {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = AbsPath::new(dir.path()).unwrap();
        let workspace = root.join("workspace");
        for directory in 0..DIRECTORIES {
            let directory = workspace.join(format!("directory_{directory}"));
            fs::create_dir_all(directory.as_path()).unwrap();
            for file in 0..FILES_PER_DIRECTORY {
                let file = directory.join(format!("file_{file}.txt"));
                fs::write(file.as_path(), [b'x'; FILE_BYTES]).unwrap();
            }
        }
        // Files that changed within the last tick of the kernel's clock are not shared yet.
        std::thread::sleep(Duration::from_millis(100));
        let shared = root.join("temp/run");
        workspace::make_new(&shared).unwrap();
        let agent = AgentId::parse("a").unwrap();
        let snapshots = AgentSnapshots::new(agent, shared, root.join("snapshots"));
        let tree = Self {
            dir,
            workspace,
            snapshots: RefCell::new(snapshots),
            copies: Cell::new(0),
        };
        tree.take_snapshot();
        tree
    }

    fn change_one_file(&self) -> u32 {
        let number = self.copies.get() + 1;
        self.copies.set(number);
        let file = self.workspace.join("directory_7/file_7.txt");
        fs::write(file.as_path(), format!("change {number}")).unwrap();
        number
    }

    fn take_snapshot(&self) {
        let ordinal = self.copies.get() + 1;
        self.copies.set(ordinal);
        let agent = AgentNumber::from_index(0);
        let label = AnswerLabel { agent, ordinal };
        let taken = self.snapshots.borrow_mut().take(&self.workspace, label);
        assert_eq!(
            taken.unwrap().unwrap().files,
            u64::from(DIRECTORIES * FILES_PER_DIRECTORY)
        );
    }

    fn copy_with_cp(&self) {
        let target = self.dir.path().join(format!("cp_{}", self.copies.get()));
        let copied = Command::new("cp")
            .arg("-a")
            .arg(self.workspace.as_path())
            .arg(target)
            .status();
        assert!(copied.unwrap().success());
    }
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn snapshot_after_one_change(bencher: Bencher<'_, '_>) {
    let tree = Tree::new();
    bencher
        .with_inputs(|| tree.change_one_file())
        .bench_local_values(|_| tree.take_snapshot());
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn cp_a_of_the_same_tree(bencher: Bencher<'_, '_>) {
    let tree = Tree::new();
    bencher
        .with_inputs(|| tree.change_one_file())
        .bench_local_values(|_| tree.copy_with_cp());
}

/// The medians of both, taken in turns.
fn print_ratio() {
    let tree = Tree::new();
    let timed = |work: &dyn Fn()| {
        tree.change_one_file();
        let began = Instant::now();
        work();
        began.elapsed()
    };
    let (mut snapshots, mut copies): (Vec<_>, Vec<_>) = (0..ROUNDS)
        .map(|_| {
            (
                timed(&|| tree.take_snapshot()),
                timed(&|| tree.copy_with_cp()),
            )
        })
        .unzip();
    let (snapshot, copy) = (median(&mut snapshots), median(&mut copies));
    println!(
        "snapshot of 10,000 files after one change: {snapshot:.1?}; cp -a: {copy:.1?}; ratio {:.2}",
        snapshot.as_secs_f64() / copy.as_secs_f64()
    );
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
