//! A host: spawner and executor as processes in a directory of their own.

use crate::gateway::Gateway;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use willcall_protocol::ids::RunId;

/// What a test waits for comes long before this, on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Host {
    dir: TempDir,
    spawner: Child,
    executor: Child,
}

impl Host {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(dir.path().join("run")).unwrap();
        let spawner = spawner(dir.path());
        let executor = executor(dir.path());
        let host = Self {
            dir,
            spawner,
            executor,
        };
        wait_for("the spawner's socket", || {
            host.run_dir().join("spawner.sock").exists()
        });
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// Connects as the link and the gateway behind it do.
    pub(crate) fn connect(&self) -> Gateway {
        Gateway::connect(&self.run_dir().join("link.sock"), 0)
    }

    /// As [`Host::connect`], for a gateway that has every result up to `seq`.
    pub(crate) fn resume(&self, seq: u64) -> Gateway {
        Gateway::connect(&self.run_dir().join("link.sock"), seq)
    }

    pub(crate) fn kill_executor(&mut self) {
        self.executor.kill().unwrap();
        self.executor.wait().unwrap();
    }

    /// Ends it as a service manager does. Returns how long that took.
    pub(crate) fn stop_executor(&mut self) -> Duration {
        let began = Instant::now();
        signal(self.executor.id(), "TERM");
        let status = self.executor.wait().unwrap();
        assert!(status.success(), "{status}");
        began.elapsed()
    }

    pub(crate) fn start_executor(&mut self) {
        self.executor = executor(self.dir.path());
    }

    pub(crate) fn start_as(&mut self, command: &mut Command) {
        self.executor = command.spawn().unwrap();
    }

    pub(crate) fn kill_spawner(&mut self) {
        self.spawner.kill().unwrap();
        self.spawner.wait().unwrap();
    }

    pub(crate) fn start_spawner(&mut self) {
        self.spawner = spawner(self.dir.path());
    }

    pub(crate) fn executor_log(&self) -> String {
        std::fs::read_to_string(self.path("executor.log")).unwrap()
    }

    pub(crate) fn spool(&self, run: RunId) -> PathBuf {
        self.path("state/spool").join(run.to_string())
    }

    /// Whoever holds the spool of a run: its runner. Waits until it does.
    pub(crate) fn runner_of(&self, run: RunId) -> u32 {
        let spool = self.spool(run);
        let mut runner = None;
        wait_for("the run's runner", || {
            runner = processes().find(|pid| holds(*pid, &spool) && *pid != self.executor.id());
            runner.is_some()
        });
        runner.unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for child in [&mut self.executor, &mut self.spawner] {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            for log in ["executor.log", "spawner.log"] {
                let log = std::fs::read_to_string(self.path(log)).unwrap_or_default();
                eprintln!("{log}");
            }
        }
    }
}

/// What `seq 1 LAST` prints.
pub(crate) fn numbers(last: u32) -> String {
    (1..=last)
        .flat_map(|n| [n.to_string(), "\n".to_owned()])
        .collect()
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

fn executor(dir: &Path) -> Child {
    executor_command(dir).spawn().unwrap()
}

/// An executor in a directory, before it is started.
pub(crate) fn executor_command(dir: &Path) -> Command {
    let log = File::options()
        .create(true)
        .append(true)
        .open(dir.join("executor.log"))
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_willcall-executor"));
    command
        .arg("run")
        .arg("--state")
        .arg(dir.join("state"))
        .arg("--run-dir")
        .arg(dir.join("run"))
        .arg("--workspace")
        .arg(dir.join("workspace"))
        .env("WILLCALL_LOG", "debug")
        .env("NOTIFY_SOCKET", "/must/not/leak")
        .stdin(Stdio::null())
        .stderr(log);
    let config = dir.join("config.toml");
    if config.exists() {
        command.arg("--config").arg(config);
    }
    command
}

fn spawner(dir: &Path) -> Child {
    let binary =
        Path::new(env!("CARGO_BIN_EXE_willcall-executor")).with_file_name("willcall-runner");
    assert!(
        binary.exists(),
        "{} is missing: these tests need the real spawner; run `cargo build -p willcall-runner`",
        binary.display()
    );
    let log = File::options()
        .create(true)
        .append(true)
        .open(dir.join("spawner.log"))
        .unwrap();
    Command::new(binary)
        .arg("spawner")
        .arg("--socket")
        .arg(dir.join("run/spawner.sock"))
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn holds(pid: u32, file: &Path) -> bool {
    let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    fds.flatten()
        .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|target| target == file))
}
