//! The `willcall` program, run with a deadline.

use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than anything in the suite takes, even on a busy machine.
const DEADLINE: Duration = Duration::from_mins(2);

/// What a program that ran to its end left.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; 128 + n where signal n ended it.
    pub code: i32,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error, as text.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
}

impl Ran {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("stdout is UTF-8")
    }

    /// Standard output as the one JSON value that it has to be.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not one JSON value ({error}): {self:?}"))
    }
}

/// Runs `binary` to its end.
pub fn willcall(binary: &Path, args: &[&str]) -> Ran {
    run(Command::new(binary).args(args))
}

/// Runs a prepared command to its end; kills it and panics at the deadline.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let stdout = collect(child.stdout.take().expect("piped"));
    let stderr = collect(child.stderr.take().expect("piped"));
    let mut left = DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break status;
        }
        if left.is_zero() {
            child.kill().expect("kill");
            panic!("{command:?} did not end within {DEADLINE:?}");
        }
        left = DEADLINE.saturating_sub(began.elapsed());
        pause();
    };
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    Ran {
        code: status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0)),
        stdout: stdout.join().expect("reader"),
        stderr: String::from_utf8_lossy(&stderr.join().expect("reader")).into_owned(),
        took: began.elapsed(),
    }
}

fn collect(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("read");
        bytes
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a child's end has no portable wait with a deadline"
)]
fn pause() {
    thread::sleep(Duration::from_millis(2));
}
