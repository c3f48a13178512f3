//! A spawner driven directly, without executor: what the capture rows measure is the runner.

use anyhow::{Context, bail};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::BTreeMap;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use uuid::Uuid;
use willcall_outputs::capture::Policy;
use willcall_outputs::limits::{DIGEST_AT_SEAL, Limits, MAX_RUN_BYTES};
use willcall_outputs::view::Mode;
use willcall_runner::wire::{self, FromRunner, Launch, Launched, RunResult, ToRunner};
use willcall_testkit::{processes, wait_for};

/// A running spawner. Ends with the value.
#[derive(Debug)]
pub(crate) struct Spawner {
    child: Child,
    socket: UnixStream,
    folder: PathBuf,
}

/// What one run took.
#[derive(Debug)]
pub(crate) struct Measured {
    /// From `Go` to the result.
    pub(crate) took: Duration,
    pub(crate) result: RunResult,
    /// Peak resident memory of the runner, in KiB.
    pub(crate) peak_kib: u64,
}

impl Spawner {
    pub(crate) fn start(willcall: &Path, folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("spawner.sock");
        let child = Command::new(willcall)
            .args(["role", "spawner", "--socket"])
            .arg(&path)
            .env("WILLCALL_LOG", "warn")
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the spawner")?;
        let socket = wait_for("the spawner's socket", Duration::from_secs(10), || {
            UnixStream::connect(&path).ok()
        });
        Ok(Self {
            child,
            socket,
            folder: folder.to_path_buf(),
        })
    }

    /// Runs a command to its end and removes what it wrote.
    pub(crate) fn run(&mut self, argv: &[&str]) -> anyhow::Result<Measured> {
        let run = Uuid::now_v7();
        let spool = self.folder.join("spool");
        let spool_file = std::fs::File::create(&spool).context("cannot create a spool file")?;
        let directory: OwnedFd = std::fs::File::open(&self.folder)
            .context("cannot open the directory")?
            .into();
        let (mut ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
        self.launch(
            run,
            argv,
            &[
                theirs.as_raw_fd(),
                spool_file.as_raw_fd(),
                directory.as_raw_fd(),
            ],
        )?;
        drop(theirs);
        let Launched::Forked { pid, .. } = wire::decode(&read_frame(&mut self.socket)?)? else {
            bail!("the spawner forked no runner");
        };
        let FromRunner::Hello(_) = wire::decode_from_runner(&read_frame(&mut ours)?)? else {
            bail!("the runner did not say hello");
        };
        let began = Instant::now();
        ours.write_all(&wire::encode(&ToRunner::Go)?)?;
        let result = loop {
            if let FromRunner::Finished(result) = wire::decode_from_runner(&read_frame(&mut ours)?)?
            {
                break *result;
            }
        };
        let took = began.elapsed();
        let peak_kib =
            processes::status_kib(pid, "VmHWM").context("the runner is gone before it was told")?;
        ours.write_all(&wire::encode(&ToRunner::Collected)?)?;
        let _ = std::fs::remove_file(self.folder.join(format!("{run}.stdout.txt")));
        let _ = std::fs::remove_file(spool);
        Ok(Measured {
            took,
            result,
            peak_kib,
        })
    }

    fn launch(&self, run: Uuid, argv: &[&str], descriptors: &[RawFd]) -> anyhow::Result<()> {
        let launch = Launch {
            run,
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            cwd: "/".into(),
            env: BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]),
            timeout_ms: None,
            grace_ms: 1000,
            limits: Limits::default(),
            policy: Policy::Keep {
                max_kept: MAX_RUN_BYTES,
            },
            view: Mode::Auto,
            digest_at_seal: DIGEST_AT_SEAL,
            has_directory: true,
            no_directory: None,
            redial: self
                .folder
                .join("runner.sock")
                .to_string_lossy()
                .into_owned(),
        };
        let frame = wire::encode(&launch)?;
        let message = [IoSlice::new(&frame)];
        let rights = [ControlMessage::ScmRights(descriptors)];
        let sent = sendmsg::<()>(
            self.socket.as_raw_fd(),
            &message,
            &rights,
            MsgFlags::empty(),
            None,
        )?;
        (&self.socket).write_all(&frame[sent..])?;
        Ok(())
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_frame(socket: &mut UnixStream) -> anyhow::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    socket.read_exact(&mut frame)?;
    let len = wire::frame_len(&frame, wire::MAX_BODY)?.context("no length")?;
    frame.resize(len, 0);
    socket.read_exact(&mut frame[4..])?;
    Ok(frame)
}
