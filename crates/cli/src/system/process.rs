//! One role as a child process.

use super::{Log, pause};
use crate::limits::{LOG_TAIL, LOOK};
use crate::problem::Failure;
use crate::role::TIED;
use crate::stop::Stop;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// The longest line that a role says on stdout.
const MAX_LINE: u64 = 4096;

/// This program, as the roles that it contains.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    log: Log,
}

/// A role that runs. Ended with the value.
#[derive(Debug)]
pub(super) struct Process {
    role: &'static str,
    child: Child,
    log: Log,
    grace: Duration,
}

impl Program {
    pub(super) fn this(log: Log) -> Result<Self, Failure> {
        let path = std::env::current_exe();
        let path = path.map_err(local("this program's own path cannot be found"))?;
        Ok(Self { path, log })
    }

    /// Runs a role to its end.
    pub(super) fn run(&self, role: &'static str, args: &[&OsStr]) -> Result<(), Failure> {
        let mut command = self.command(role, args)?;
        let status = command.stdout(Stdio::null()).status();
        let status = status.map_err(local("a child process cannot be started"))?;
        if status.success() {
            return Ok(());
        }
        let words: Vec<_> = args
            .iter()
            .take(1)
            .map(|word| word.to_string_lossy())
            .collect();
        let what = format!("{role} {} {}", words.join(" "), ended(status));
        Err(failure(what, &self.log))
    }

    /// Starts a role that stays.
    pub(super) fn start(
        &self,
        role: &'static str,
        args: &[&OsStr],
        grace: Duration,
    ) -> Result<Process, Failure> {
        let mut command = self.command(role, args)?;
        let child = command.stdout(Stdio::piped()).spawn();
        Ok(Process {
            role,
            child: child.map_err(local("a child process cannot be started"))?,
            log: self.log.clone(),
            grace,
        })
    }

    /// In a process group of its own: a terminal's Ctrl-C is ours to handle, in order.
    fn command(&self, role: &str, args: &[&OsStr]) -> Result<Command, Failure> {
        let mut command = Command::new(&self.path);
        command
            .args(["role", role])
            .args(args)
            .env(TIED, "1")
            .stdin(Stdio::null())
            .process_group(0);
        if let Log::File(path) = &self.log {
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).mode(0o600).open(path);
            command.stderr(file.map_err(local("the log cannot be written"))?);
        }
        Ok(command)
    }
}

impl Process {
    /// The first line that it says on stdout. What comes after it is not read.
    pub(super) fn first_line(&mut self, limit: Duration, stop: &Stop) -> Result<String, Failure> {
        let Some(stdout) = self.child.stdout.take() else {
            return Err(self.failure(format!("the {} has no stdout", self.role)));
        };
        let (sender, receiver) = sync_channel(1);
        // Ends with the pipe, and so with the process.
        std::thread::spawn(move || {
            let mut line = String::new();
            let mut reader = BufReader::new(stdout.take(MAX_LINE));
            let _ = sender.send(reader.read_line(&mut line).map(|_| line));
        });
        let deadline = Instant::now() + limit;
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(Ok(line)) if line.ends_with('\n') => return Ok(line),
                Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(
                        self.failure(format!("the {} ended before it was ready", self.role))
                    );
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    return Err(
                        self.failure(format!("the {} was not ready within {limit:?}", self.role))
                    );
                }
                Err(RecvTimeoutError::Timeout) => pause(stop)?,
            }
        }
    }

    /// Fails if it has ended.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(self.failure(format!("the {} {}", self.role, ended(status)))),
            _ => Ok(()),
        }
    }

    /// A failure with the end of its log.
    pub(super) fn failure(&self, what: String) -> Failure {
        failure(what, &self.log)
    }

    /// TERM, and KILL after the grace. Fails if it did not end by itself, or badly.
    pub(super) fn end(&mut self, grace: Duration) -> Result<(), Failure> {
        if let Ok(Some(_)) = self.child.try_wait() {
            return Ok(());
        }
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // Not reaped yet, so the pid is still its own.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let deadline = Instant::now() + grace;
        let never = Stop::never();
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(self.failure(format!("the {} {}", self.role, ended(status))));
                }
                _ => _ = never.pause(LOOK),
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        Err(self.failure(format!("the {} did not end within {grace:?}", self.role)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Whoever wants to know how it ended has called `end`.
        let _ = self.end(self.grace);
    }
}

fn ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => format!("ended: {status}"),
    }
}

fn local(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |source| Failure::Local {
        what: what.to_owned(),
        source,
    }
}

fn failure(what: String, log: &Log) -> Failure {
    let log = match log {
        Log::Stderr => String::new(),
        Log::File(path) => tail(path).unwrap_or_default(),
    };
    Failure::System { what, log }
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let bound = u64::try_from(LOG_TAIL).unwrap_or(u64::MAX);
    file.seek(SeekFrom::Start(length.saturating_sub(bound)))?;
    let mut bytes = Vec::new();
    file.take(bound).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
