//! The real agent with shell scripts as its roles: what matters here is who is started, asked and reaped, and when.
#![expect(
    clippy::expect_used,
    reason = "a test that cannot begin has to say so at once"
)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(20);

/// Says its name and pid at the start and its name at the end. The spawner has a runner below it.
const SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
name=$(basename "$0")
if [ "$name" = willcall-runner ]; then
    sh -c 'printf wc-run-test > /proc/self/comm; trap "echo runner >> ended; exit 0" TERM
           echo $$ > runner.pid; while :; do sleep 0.05; done' &
fi
trap 'echo "$name" >> ended; exit 0' TERM
echo $$ > "$name.new"; mv "$name.new" "$name.pid"
while :; do sleep 0.05; done
"#;

struct Agent {
    dir: TempDir,
    child: Child,
}

#[expect(clippy::disallowed_methods, reason = "between two looks at a file")]
fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Agent {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let agent = dir.path().join("willcall-agent");
        fs::copy(env!("CARGO_BIN_EXE_willcall-agent"), &agent).expect("copy");
        for role in ["willcall-runner", "willcall-executor", "willcall-link"] {
            let script = dir.path().join(role);
            fs::write(&script, SCRIPT).expect("script");
            fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("mode");
        }
        let mut command = Command::new(&agent);
        command
            .args([
                "run",
                "--gateway",
                "wss://x/",
                "--identity",
                "i",
                "--ca",
                "c",
                "--state",
            ])
            .arg(dir.path().join("state"));
        // Another test that forks at this moment holds the copy open for writing until it executes.
        let child = soon("a copy that nobody writes", || match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => None,
            started => Some(started.expect("the agent starts")),
        });
        Self { dir, child }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The pid that a process wrote down, if it is another than `old`.
    fn pid(&self, name: &str, old: Option<i32>) -> i32 {
        let file = self.path().join(format!("{name}.pid"));
        soon(name, || {
            let pid = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
            (Some(pid) != old).then_some(pid)
        })
    }

    fn stop(mut self) -> (Option<i32>, String) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("TERM");
        let status = soon("the agent's end", || self.child.try_wait().expect("wait"));
        let ended = fs::read_to_string(self.path().join("ended")).unwrap_or_default();
        (status.code(), ended)
    }
}

fn is_there(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

#[test]
fn everything_ends_in_order() {
    let agent = Agent::start();
    let roles = [
        "willcall-runner",
        "willcall-executor",
        "willcall-link",
        "runner",
    ];
    let pids = roles.map(|name| agent.pid(name, None));
    let (code, ended) = agent.stop();
    assert_eq!(code, Some(0));
    assert_eq!(
        ended,
        "willcall-link\nwillcall-executor\nrunner\nwillcall-runner\n"
    );
    assert!(!pids.into_iter().any(is_there), "{pids:?}");
}

#[test]
fn what_is_killed_comes_back_and_its_orphans_are_ended_and_reaped() {
    let agent = Agent::start();
    let link = agent.pid("willcall-link", None);
    kill(Pid::from_raw(link), Signal::SIGKILL).expect("KILL");
    let link = agent.pid("willcall-link", Some(link));
    let (spawner, orphan) = (
        agent.pid("willcall-runner", None),
        agent.pid("runner", None),
    );
    kill(Pid::from_raw(spawner), Signal::SIGKILL).expect("KILL");
    agent.pid("willcall-runner", Some(spawner));
    let runner = agent.pid("runner", Some(orphan));
    assert!(is_there(orphan));
    let (code, ended) = agent.stop();
    assert_eq!(code, Some(0));
    assert_eq!(ended.matches("runner\n").count(), 3, "{ended}");
    assert!(![link, orphan, runner].into_iter().any(is_there));
}

#[test]
fn a_run_directory_with_too_long_a_path_is_refused_by_name() {
    let long = "r".repeat(120);
    let output = Command::new(env!("CARGO_BIN_EXE_willcall-agent"))
        .args([
            "run",
            "--gateway",
            "wss://x/",
            "--identity",
            "i",
            "--ca",
            "c",
        ])
        .args(["--state", "/nonexistent/state", "--run-dir"])
        .arg(format!("/tmp/{long}"))
        .output()
        .expect("the agent runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("too long") && said.contains("--run-dir"),
        "{said}"
    );
}
