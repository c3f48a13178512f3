//! A state directory whose disk is full.

use crate::gateway::shell;
use crate::host::{Host, wait_for};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory of one MiB; it goes when this is dropped.
struct Tiny(PathBuf);

impl Tiny {
    /// Mounts it over a directory; `None` where this process may not mount.
    fn mount(at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tiny"]);
        if mount.arg(at).status().unwrap().success() {
            return Some(Self(at.to_owned()));
        }
        eprintln!("skipped: this process may not mount a file system");
        None
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn an_end_that_finds_no_room_is_told_once_and_entered_when_there_is() {
    let mut host = Host::start();
    wait_for("the ledger", || host.path("state/ledger.db").exists());
    host.kill_executor();
    let Some(_tiny) = Tiny::mount(&host.path("state")) else {
        return;
    };
    host.start_executor();
    let mut gateway = host.connect();
    let (ready, go) = (host.path("ready"), host.path("go"));
    let mut asked = shell(&format!(
        "touch {}; until test -e {}; do sleep 0.01; done; yes | head -c 250000",
        ready.display(),
        go.display()
    ));
    asked.limits.max_bytes = Some(262_144);
    asked.limits.max_lines = Some(1_000_000);
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    let ballast = host.path("state/ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write(&[0; 4096]).is_ok() {}
    drop(file);
    std::fs::write(go, "").unwrap();
    let log = |text| host.executor_log().matches(text).count();
    wait_for("three tries", || log("still not entered") >= 2);
    assert_eq!(log("cannot be entered yet"), 1);
    std::fs::remove_file(ballast).unwrap();
    let (_, report) = gateway.finished(asked.run);
    assert_eq!(report.stdout.unwrap().total_size, 250_000);
}
