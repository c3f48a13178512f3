//! A host whose disk takes nothing: commands run, results come back, and nothing is promised that is not there.

use crate::binary;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use willcall_testkit::Dev;

/// A file system of 1 MiB over a directory, as long as the value lives.
struct Tiny(PathBuf);

impl Tiny {
    /// `None`, said loudly, where mounting is refused.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn over(path: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m,mode=0711", "tmpfs"]);
        let mounted = mount.arg(path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(path.to_owned()));
        }
        eprintln!("SKIPPED: mounting a tmpfs is refused here");
        None
    }

    fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        let status = mount.args(["-o", options]).arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "{options}");
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The workspace, as a receipt's path shows it.
fn workspace(dev: &Dev) -> PathBuf {
    let stdout = stdout_of(dev, "default", "seq 5000");
    let path = PathBuf::from(stdout["file_path"].as_str().expect("held"));
    path.ancestors()
        .nth(3)
        .expect("session, store, workspace")
        .to_owned()
}

/// Runs a script that exits with 5; returns its standard output's receipt.
#[track_caller]
fn stdout_of(dev: &Dev, session: &str, script: &str) -> Value {
    let script = format!("{script}; echo err >&2; exit 5");
    let args = [
        "exec",
        "--json",
        "--session",
        session,
        "--",
        "sh",
        "-c",
        &script,
    ];
    let ran = dev.willcall(&args);
    assert_eq!(ran.code, 5, "{script}: {}", ran.stderr);
    let outcome = ran.json();
    assert_eq!(
        (&outcome["state"], &outcome["stderr"]["result"]),
        (&json!("exited"), &json!("err\n"))
    );
    outcome["stdout"].clone()
}

#[track_caller]
fn check_nothing(stdout: &Value, reason: &str) {
    assert_eq!(stdout["reason"], reason, "{stdout}");
    assert_eq!(
        (&stdout["saved"], &stdout["complete"], &stdout["truncated"]),
        (&json!(false), &json!(false), &json!(true))
    );
    assert_eq!(stdout["dropped_bytes"], stdout["total_size"]);
    for field in ["file_path", "output", "digest"] {
        assert_eq!(stdout[field], Value::Null, "{field}");
    }
    let text = stdout["result"].as_str().expect("text");
    assert!(
        text.contains("not saved") && text.contains("cannot be recovered"),
        "{text}"
    );
    assert!(!text.contains(".outputs"), "a path is invented: {text}");
}

#[test]
fn a_workspace_on_a_tiny_disk() {
    let dev = Dev::start(binary());
    let workspace = workspace(&dev);
    let Some(disk) = Tiny::over(&workspace) else {
        return dev.stop();
    };
    dev.kill_role("executor");
    dev.wait_connected();
    // Full after a part.
    let part = stdout_of(&dev, "default", "yes 0123456789abcde | head -n 200000");
    assert_eq!(
        (&part["saved"], &part["complete"], &part["reason"]),
        (&json!(true), &json!(false), &json!("disk_full"))
    );
    let path = Path::new(part["file_path"].as_str().expect("a path"));
    let stored = path.metadata().expect("the file").len();
    assert!(stored > 100_000, "{stored}");
    assert_eq!(part["dropped_bytes"], 3_200_000 - stored);
    let text = part["result"].as_str().expect("text");
    assert!(text.contains(&format!("first {stored} bytes")), "{text}");
    // Full from the first byte on.
    check_nothing(&stdout_of(&dev, "default", "seq 100000"), "disk_full");
    let small = stdout_of(&dev, "default", "echo hi");
    assert_eq!(
        (&small["result"], &small["complete"], &small["reason"]),
        (&json!("hi\n"), &json!(true), &Value::Null)
    );
    disk.remount("remount,ro");
    check_nothing(&stdout_of(&dev, "default", "seq 100000"), "read_only");
    // Where a session's directory cannot even be made.
    check_nothing(&stdout_of(&dev, "another", "seq 100000"), "read_only");
    assert_eq!(stdout_of(&dev, "another", "echo hi")["result"], "hi\n");
    dev.stop();
}

#[test]
fn a_session_whose_place_is_taken() {
    let dev = Dev::start(binary());
    let outputs = workspace(&dev).join(".outputs");
    std::fs::write(outputs.join("taken"), "no directory").expect("written");
    check_nothing(&stdout_of(&dev, "taken", "seq 100000"), "unsafe_directory");
    let left = std::fs::read(outputs.join("taken")).expect("still there");
    assert_eq!(left, b"no directory");
    dev.stop();
}
