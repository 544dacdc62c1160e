//! Compares a delivery of 10,000 small files with `cp -a` of the same files and `sync -f`. Both are timed in
//! turns in one run, because only their ratio applies to other machines. The tree is in `TMPDIR`, which
//! selects the file system. `MASSGEN_BENCH_FILES` sets another number. Memory usage is printed too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use massgen::path::AbsPath;
use massgen::permissions::grant::{Grant, GrantKind, Permission};
use massgen::world::delivery::planning::plan;
use massgen::world::delivery::store::{
    DeliverySource, OpenDelivery, SourceDirectory, SourceLayout,
};
use massgen::world::delivery::transaction::{SelectionOrigin, apply};
use massgen::world::io::locate::locate;

const FILES: u32 = 10_000;
const FILES_PER_DIRECTORY: u32 = 100;
const FILE_BYTES: usize = 2048;
const ROUNDS: u32 = 5;

/// Takes the figures and prints them.
pub(crate) fn measure() {
    let files = std::env::var("MASSGEN_BENCH_FILES")
        .ok()
        .and_then(|files| files.parse().ok());
    let files = files.unwrap_or(FILES);
    let (mut copied, mut delivered) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        copied.push(copy(files));
        delivered.push(deliver(files));
    }
    copied.sort();
    delivered.sort();
    let middle = usize::try_from(ROUNDS / 2).unwrap();
    let (copied, (delivered, planned)) = (copied[middle], delivered[middle]);
    println!("{files} files of {FILE_BYTES} bytes, medians of {ROUNDS}:");
    println!("cp -a and sync -f  {copied:?}");
    println!("delivery           {delivered:?}, of which {planned:?} for the plan");
    println!(
        "ratio              {:.2}",
        delivered.as_secs_f64() / copied.as_secs_f64()
    );
    println!("peak memory        {}", peak());
}

/// A tree of files that all hold the same byte.
fn tree(root: &Path, files: u32, byte: u8) -> PathBuf {
    let tree = root.join(format!("tree_{byte}"));
    for file in 0..files {
        let directory = tree.join(format!("directory_{}", file / FILES_PER_DIRECTORY));
        if file % FILES_PER_DIRECTORY == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::write(
            directory.join(format!("file_{file}.txt")),
            [byte; FILE_BYTES],
        )
        .unwrap();
    }
    tree
}

fn sync(path: &Path) {
    assert!(
        Command::new("sync")
            .arg("-f")
            .arg(path)
            .status()
            .unwrap()
            .success()
    );
}

fn copy(files: u32) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), files, b'x');
    sync(dir.path());
    let began = Instant::now();
    let copied = Command::new("cp")
        .arg("-a")
        .arg(&tree)
        .arg(dir.path().join("copy"))
        .status();
    assert!(copied.unwrap().success());
    sync(dir.path());
    began.elapsed()
}

/// How long a delivery took, and its plan.
fn deliver(files: u32) -> (Duration, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let upper = tree(&root, files, b'x');
    let user = root.join("user");
    fs::create_dir(&user).unwrap();
    sync(&root);
    let abs = |path: &Path| AbsPath::new(path).unwrap();
    let grant = Grant::tree(
        locate(&abs(&user)).unwrap().into_real(),
        GrantKind::Context,
        Permission::Write,
    );
    let source = DeliverySource {
        grants: vec![grant],
        source_dirs: vec![Some(SourceDirectory {
            path: abs(&upper),
            layout: SourceLayout::OverlayLayer,
            left_out: Vec::new(),
        })],
        began_ns: i64::MAX,
        restart: 0,
        left_out_of_answers: Vec::new(),
    };
    let began = Instant::now();
    let delivery = OpenDelivery::create(&abs(&root.join("deliveries")), "log_1").unwrap();
    let planned = plan(&delivery, &source, None).unwrap();
    let plan_took = began.elapsed();
    let choices = planned.select_all();
    let changes = apply(
        &delivery,
        &planned,
        &choices,
        SelectionOrigin::Default,
        None,
    )
    .unwrap();
    assert_eq!(u32::try_from(changes.len()).unwrap(), files);
    (began.elapsed(), plan_took)
}

/// The most memory that the process has used.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or_default().trim().to_owned()
}
