//! The opening of a session of one GiB for its next turn, beside that of a small one, and the copying
//! of its last workspace to an agent. They lie in `TMPDIR`, which chooses the file system.

use std::fs;

use divan::Bencher;
use massgen::path::{AbsPath, RealPath};
use massgen::world::io::locate::locate;
use massgen::world::store::redact::Redactor;
use massgen::world::store::sessions::find;
use massgen::world::store::sessions::session::Session;
use massgen::world::store::workspace::RunWorkspace;
use tempfile::TempDir;

const TURNS: u32 = 16;
const FILES: u32 = 16;

/// A directory of sessions that holds one, with so many bytes in each file of its workspaces.
fn sessions(file_bytes: usize) -> (TempDir, AbsPath) {
    let dir = tempfile::tempdir().unwrap();
    let root = AbsPath::new(dir.path().canonicalize().unwrap()).unwrap();
    for turn in 1..=TURNS {
        let turn_dir = dir.path().join(format!("session_a/turn_{turn}"));
        let workspace = turn_dir.join("workspace");
        fs::create_dir_all(&workspace).unwrap();
        let metadata = format!(
            "{{\"turn\":{turn},\"timestamp\":\"2026-11-02T14:03:22.000000+00:00\",\
             \"winning_agent\":\"a\",\"task\":\"t\",\"session_id\":\"session_a\",\"cwd\":\"/p\",\
             \"config\":null,\"log_dir\":\"/p/l\",\"opened\":[]}}"
        );
        fs::write(turn_dir.join("metadata.json"), metadata).unwrap();
        fs::write(turn_dir.join("answer.txt"), "yes").unwrap();
        for file in 0..FILES {
            fs::write(workspace.join(file.to_string()), vec![b'x'; file_bytes]).unwrap();
        }
    }
    (dir, root)
}

/// 4 KiB and 4 MiB a file: one MiB and one GiB a session.
#[divan::bench(args = [4 << 10, 4 << 20], sample_count = 20)]
fn open_for_the_next_turn(bencher: Bencher<'_, '_>, file_bytes: usize) {
    let (_dir, sessions) = sessions(file_bytes);
    bencher.bench_local(|| {
        let place = find("last", &sessions).unwrap();
        let session = Session::open(place, Redactor::default()).unwrap();
        session.previous_turns().len()
    });
}

#[divan::bench(args = [4 << 10, 4 << 20], sample_count = 5)]
fn copy_the_last_workspace(bencher: Bencher<'_, '_>, file_bytes: usize) {
    let (_dir, sessions) = sessions(file_bytes);
    let seed: RealPath = locate(&sessions.join("session_a/turn_16/workspace"))
        .unwrap()
        .into_real();
    let mut made = 0_u32;
    bencher.bench_local(|| {
        made += 1;
        let planned = sessions.join(format!("workspace_{made}"));
        RunWorkspace::make(&planned, Some(&seed)).unwrap()
    });
}
