//! Concurrent edits: the user saves a file while a call replaces, moves or deletes it. Their
//! version is never lost. Each race covers the whole duration of a call in small steps.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use massgen::permissions::grant::Phase;

use serde_json::{Value, json};

use crate::disk::{Disk, call_successfully, call_tool};

/// Number of moments of a call at which the user saves.
const MOMENTS: u32 = 80;

/// Saves like an editor; `false` if the directory is gone.
fn save_like_editor(path: &Path) -> bool {
    let beside = path.with_extension("saved");
    fs::write(&beside, "the user's words").is_ok() && fs::rename(&beside, path).is_ok()
}

/// Returns whether the user's version is in one of the files.
fn is_kept(disk: &Disk, paths: &[&str]) -> bool {
    let text = |path: &&str| fs::read_to_string(disk.path(path)).unwrap_or_default();
    paths
        .iter()
        .any(|path| text(path).contains("the user's words"))
}

/// The agent creates `rw/d/f` and calls `tool`, while the user saves `rw/d/f` once.
#[track_caller]
fn race_with_editor(tool: &str, arguments: impl Fn(&Disk) -> Value) {
    let disk = Disk::new();
    let mut duration = Duration::from_millis(1);
    for moment in 0..MOMENTS {
        for left in ["rw/d", "ws/taken"] {
            let path = disk.path(left);
            let _missing = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        let gate = disk.run_gate_from_now(Phase::Final);
        let path = disk.path("rw/d/f");
        let arguments_of_write = json!({"path": path, "content": "ours\n"});
        call_successfully(&gate, "write_file", &arguments_of_write);
        let arguments = arguments(&disk);
        let wait = duration * moment / MOMENTS;
        let began = Instant::now();
        let saved = thread::scope(|scope| {
            let user = scope.spawn(|| {
                while began.elapsed() < wait {
                    std::hint::spin_loop();
                }
                save_like_editor(&path)
            });
            let _answer = call_tool(&gate, tool, &arguments);
            user.join().unwrap()
        });
        duration = duration.max(began.elapsed()).min(Duration::from_millis(20));
        assert!(
            !saved || is_kept(&disk, &["rw/d/f", "ws/taken", "ws/taken/f"]),
            "{tool} at moment {moment}: {:?}",
            disk.state("rw/d")
        );
        let litter = disk.state("rw/d").into_keys().find(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(".massgen-")
        });
        assert_eq!(litter, None, "{tool} at moment {moment}");
    }
}

#[test]
fn while_it_is_written() {
    race_with_editor(
        "write_file",
        |disk| json!({"path": disk.path("rw/d/f"), "content": "new\n"}),
    );
    race_with_editor("edit_file", |disk| {
        let edits = json!([{"oldText": "o", "newText": "O"}]);
        json!({"path": disk.path("rw/d/f"), "edits": edits})
    });
}

#[test]
fn while_it_is_copied_over() {
    race_with_editor("copy_file", |disk| {
        disk.file("ws/from", "copied\n");
        json!({"source_path": "from", "destination_path": disk.path("rw/d/f"), "overwrite": true})
    });
}

#[test]
fn while_it_is_deleted() {
    race_with_editor("delete_file", |disk| json!({"path": disk.path("rw/d/f")}));
    race_with_editor("delete_file", |disk| json!({"path": disk.path("rw/d")}));
    race_with_editor(
        "delete_files_batch",
        |disk| json!({"base_path": disk.path("rw/d")}),
    );
}

#[test]
fn while_it_is_moved() {
    race_with_editor(
        "move_file",
        |disk| json!({"source": disk.path("rw/d/f"), "destination": "taken"}),
    );
    race_with_editor(
        "move_file",
        |disk| json!({"source": disk.path("rw/d"), "destination": "taken"}),
    );
}
