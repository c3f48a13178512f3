//! What a fork of a spawner does to become a runner, up to the point where only Go is missing.

use super::LaunchFds;
use crate::command::Command;
use crate::output::Output;
use crate::sys;
use crate::wire::{Launch, SpawnError, Stage};
use anyhow::Context as _;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, dup2_stdin, dup2_stdout, setpgid};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use willcall_outputs::record::Stream;

/// Leaves everything behind that is the spawner's.
pub(super) fn become_runner(
    launch: &Launch,
    fds: &LaunchFds,
    notices: BorrowedFd<'_>,
) -> anyhow::Result<(SignalFd, File)> {
    let directory = fds.directory.as_ref().map(AsRawFd::as_raw_fd);
    let mut keep = vec![
        fds.executor.as_raw_fd(),
        fds.spool.as_raw_fd(),
        notices.as_raw_fd(),
    ];
    keep.extend(directory);
    sys::close_all_but(&keep);
    // A group is enough to be out of everybody's group kill. A session would cost milliseconds on a
    // busy host: the scheduler makes a newcomer of each, behind all others (autogroup).
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).context("cannot make a group for the runner")?;
    // Whoever loses its parent below us stays below us.
    nix::sys::prctl::set_child_subreaper(true).context("cannot become a subreaper")?;
    name_ourselves(launch);
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.context("cannot open /dev/null")?;
    dup2_stdin(&null)
        .and_then(|()| dup2_stdout(&null))
        .context("cannot leave the terminal")?;
    let signals = catch_signals().context("cannot receive signals")?;
    Ok((signals, null))
}

/// `ps` tells runs apart by the end of their ids: ids of one minute begin alike.
fn name_ourselves(launch: &Launch) {
    let id = launch.run.simple().to_string();
    let name = format!("wc-run-{}", id.get(24..).unwrap_or_default());
    if let Ok(name) = CString::new(name) {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// Nothing but KILL ends a runner: those signals that ask for its end cancel its run, through a
/// descriptor; all others are blocked (a file size limit is an error of a write and no more).
fn catch_signals() -> nix::Result<SignalFd> {
    SigSet::all().thread_set_mask()?;
    let heard: SigSet = [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ]
    .into_iter()
    .collect();
    SignalFd::with_flags(&heard, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// A command, and the ends of the pipes that it will have.
#[derive(Debug)]
pub(super) struct Armed {
    command: Command,
    stdin: File,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Armed {
    /// Prepares everything but the execution; our ends of the pipes go to `outputs`.
    pub(super) fn prepare(
        launch: &Launch,
        stdin: File,
        outputs: &mut Vec<Output>,
    ) -> Result<Self, SpawnError> {
        let mut open = |stream| {
            let (output, writer) = Output::open(stream, launch).map_err(|e| no_pipes(launch, e))?;
            outputs.push(output);
            Ok(writer)
        };
        let (stdout, stderr) = (open(Stream::Stdout)?, open(Stream::Stderr)?);
        Ok(Self {
            command: Command::prepare(launch)?,
            stdin,
            stdout,
            stderr,
        })
    }

    /// Executes the command; returns its process id. Our copies of its ends are closed with `self`.
    pub(super) fn execute(self) -> Result<i32, SpawnError> {
        let stdio: [BorrowedFd<'_>; 3] =
            [self.stdin.as_fd(), self.stdout.as_fd(), self.stderr.as_fd()];
        self.command.execute(stdio)
    }
}

fn no_pipes(launch: &Launch, errno: Errno) -> SpawnError {
    let on = launch.argv.first().cloned().unwrap_or_default();
    SpawnError {
        stage: Stage::Pipes,
        errno: errno as i32,
        on,
    }
}
