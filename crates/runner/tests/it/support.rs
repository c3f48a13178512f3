//! A small executor: sends launches with descriptors, talks to runners.

use nix::poll::PollTimeout;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uuid::Uuid;
use willcall_outputs::capture::Policy;
use willcall_outputs::limits::Limits;
use willcall_outputs::record::Stream;
use willcall_outputs::view::Mode;
use willcall_runner::wire::{
    self, Ending, FromRunner, Hello, KillCause, Launch, Launched, MAX_BODY, RunResult, SpawnError,
    Status, StreamResult, ToRunner,
};

/// Nothing that is waited for takes this long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A spawner process and a directory for all that belongs to it.
pub(crate) struct Spawner {
    pub(crate) process: Child,
    pub(crate) dir: TempDir,
}

impl Spawner {
    pub(crate) fn start() -> Self {
        let dir = TempDir::new().expect("a directory");
        let process = spawner_command(&dir.path().join("spawner.sock"))
            .spawn()
            .expect("a spawner");
        let spawner = Self { process, dir };
        eventually("the spawner listens", || {
            UnixStream::connect(spawner.socket()).ok()
        });
        spawner
    }

    /// A spawner that is started otherwise, by the user `uid`; `None` if it does not come up.
    pub(crate) fn start_as(otherwise: impl FnOnce(&mut Command), uid: u32) -> Option<Self> {
        let dir = TempDir::new().expect("a directory");
        std::os::unix::fs::chown(dir.path(), Some(uid), None).expect("ours to give");
        let mut command = spawner_command(&dir.path().join("spawner.sock"));
        otherwise(&mut command);
        let process = command.stderr(Stdio::null()).spawn().ok()?;
        let mut spawner = Self { process, dir };
        let up = eventually("the spawner listens, or ends", || {
            let ended = spawner.process.try_wait().expect("ours").map(|_| false);
            ended.or_else(|| UnixStream::connect(spawner.socket()).ok().map(|_| true))
        });
        up.then_some(spawner)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("spawner.sock")
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(self.socket()).expect("a spawner that listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket
    }

    /// A launch of `argv` with small files all around it.
    pub(crate) fn launch(&self, argv: &[&str]) -> Launch {
        let run = Uuid::now_v7();
        Launch {
            run,
            argv: argv.iter().map(ToString::to_string).collect(),
            cwd: "/".to_owned(),
            env: BTreeMap::from([
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("WC_TEST_RUN".to_owned(), run.to_string()),
            ]),
            timeout_ms: None,
            grace_ms: 300,
            limits: Limits::default(),
            policy: Policy::Keep { max_kept: 1 << 30 },
            view: Mode::Auto,
            digest_at_seal: 1 << 26,
            has_directory: true,
            no_directory: None,
            redial: self.dir.path().join("runner.sock").display().to_string(),
        }
    }

    /// Launches, and waits until the runner is armed.
    pub(crate) fn arm(&self, launch: Launch) -> Run {
        let outputs = self.dir.path().to_owned();
        self.arm_in(launch, outputs)
    }

    /// The same, with outputs elsewhere.
    pub(crate) fn arm_in(&self, launch: Launch, outputs: PathBuf) -> Run {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let spool_path = self.dir.path().join(format!("{}.spool", launch.run));
        let spool = spool_at(&spool_path);
        let mut fds = vec![OwnedFd::from(theirs), spool.into()];
        if launch.has_directory {
            fds.push(File::open(&outputs).expect("the directory").into());
        }
        let mut spawner = self.connect();
        send_launch(&spawner, &launch, &fds);
        drop(fds);
        let launched = wire::decode(&read_frame(&mut spawner)).expect("an answer");
        let Launched::Forked { run, pid } = launched else {
            panic!("{launched:?}")
        };
        assert_eq!(run, launch.run);
        let mut run = Run {
            launch,
            socket: ours,
            pid,
            spool: spool_path,
            outputs,
        };
        run.socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout");
        let hello = run.hello();
        assert_eq!(
            (hello.run, hello.pid, hello.phase),
            (run.launch.run, pid, wire::Phase::Armed)
        );
        run
    }

    /// Launches, executes, collects.
    pub(crate) fn run(&self, launch: Launch) -> RunResult {
        let mut run = self.arm(launch);
        run.tell(ToRunner::Go);
        run.result()
    }

    /// Runs a script by `sh` with nothing special.
    pub(crate) fn sh(&self, script: &str) -> RunResult {
        self.run(self.launch(&["sh", "-c", script]))
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn spawner_command(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_willcall-runner"));
    command
        .args(["spawner", "--socket"])
        .arg(socket)
        .stdin(Stdio::null());
    command
}

/// What a spool is before the run: empty and locked.
fn spool_at(path: &Path) -> File {
    let mut options = File::options();
    let spool = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .expect("a spool");
    spool.lock().expect("nobody else has it");
    spool
}

pub(crate) fn send_launch(socket: &UnixStream, launch: &Launch, fds: &[OwnedFd]) {
    send_bytes(socket, &wire::encode(launch).expect("a launch"), fds);
}

/// Sends bytes, with descriptors beside the first.
pub(crate) fn send_bytes(mut socket: &UnixStream, bytes: &[u8], fds: &[OwnedFd]) {
    let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let (first, rest) = bytes.split_at(1);
    let flags = MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(first)],
        &rights,
        flags,
        None,
    )
    .expect("sent");
    socket.write_all(rest).expect("sent");
}

pub(crate) fn read_frame(socket: &mut UnixStream) -> Vec<u8> {
    let mut frame = vec![0; 4];
    socket
        .read_exact(&mut frame)
        .expect("the beginning of a frame");
    let len = wire::frame_len(&frame, MAX_BODY)
        .expect("a length")
        .expect("four bytes");
    frame.resize(len, 0);
    socket
        .read_exact(&mut frame[4..])
        .expect("the rest of the frame");
    frame
}

/// One run, from an executor's side.
pub(crate) struct Run {
    pub(crate) launch: Launch,
    pub(crate) socket: UnixStream,
    pub(crate) pid: i32,
    pub(crate) spool: PathBuf,
    pub(crate) outputs: PathBuf,
}

impl Run {
    pub(crate) fn tell(&mut self, message: ToRunner) {
        self.socket
            .write_all(&wire::encode(&message).expect("a word"))
            .expect("the runner hears");
    }

    pub(crate) fn hear(&mut self) -> FromRunner {
        wire::decode_from_runner(&read_frame(&mut self.socket)).expect("a message")
    }

    pub(crate) fn hello(&mut self) -> Hello {
        let message = self.hear();
        let FromRunner::Hello(hello) = message else {
            panic!("{message:?}")
        };
        hello
    }

    /// Says go; returns the command's process id.
    pub(crate) fn go(&mut self) -> i32 {
        self.tell(ToRunner::Go);
        let message = self.hear();
        let FromRunner::Started { pid } = message else {
            panic!("{message:?}")
        };
        pid
    }

    /// Waits for the result, collects it, and sees the runner end.
    pub(crate) fn result(&mut self) -> RunResult {
        loop {
            match self.hear() {
                FromRunner::Finished(result) => {
                    self.tell(ToRunner::Collected);
                    wait_gone(self.pid);
                    return *result;
                }
                FromRunner::Started { .. } => {}
                FromRunner::Hello(hello) => panic!("{hello:?}"),
            }
        }
    }

    /// The executor is gone.
    pub(crate) fn disconnect(&mut self) {
        let (nobody, _) = UnixStream::pair().expect("a pair");
        self.socket = nobody;
    }

    /// Loses the connection, and takes the runner's next one.
    pub(crate) fn accept_after_loss(&mut self, listener: &UnixListener) -> Hello {
        self.disconnect();
        self.accept(listener)
    }

    /// Waits at the place where runners dial again.
    pub(crate) fn listen(&self) -> UnixListener {
        UnixListener::bind(&self.launch.redial).expect("a listener")
    }

    /// Takes the runner's next connection.
    pub(crate) fn accept(&mut self, listener: &UnixListener) -> Hello {
        listener.set_nonblocking(true).expect("a flag");
        let (socket, _) = eventually("the runner dials", || listener.accept().ok());
        socket.set_nonblocking(false).expect("a flag");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        self.socket = socket;
        self.hello()
    }

    pub(crate) fn file(&self, stream: Stream) -> PathBuf {
        self.outputs
            .join(format!("{}.{}.txt", self.launch.run, stream.as_str()))
    }

    /// Whether somebody still answers for the run.
    pub(crate) fn is_locked(&self) -> bool {
        File::open(&self.spool)
            .expect("the spool")
            .try_lock()
            .is_err()
    }

    /// The result in the spool, behind its G.
    pub(crate) fn spooled(&self) -> RunResult {
        let bytes = std::fs::read(&self.spool).expect("the spool");
        assert_eq!(bytes.first(), Some(&wire::SPOOL_GO));
        let message = wire::decode_from_runner(&bytes[1..]).expect("a whole result");
        let FromRunner::Finished(result) = message else {
            panic!("{message:?}")
        };
        *result
    }
}

/// Looks again and again until there is a value.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        let _ = nix::poll::poll(&mut [], PollTimeout::from(5_u8));
    }
}

fn is_alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    !stat
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}

#[track_caller]
pub(crate) fn wait_gone(pid: i32) {
    eventually("the process is gone", || (!is_alive(pid)).then_some(()));
}

/// Processes that have a run's id in their environment: its command and all below it.
pub(crate) fn alive_of(run: Uuid) -> Vec<i32> {
    let needle = format!("WC_TEST_RUN={run}");
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == needle.as_bytes())
    };
    pids.filter(|pid| has(pid) && is_alive(*pid)).collect()
}

pub(crate) fn kill(pid: i32) {
    let pid = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it is alive");
}

/// What a test asks of a result.
pub(crate) trait Look {
    fn stream(&self, stream: Stream) -> &StreamResult;
    fn head(&self, stream: Stream) -> String;
    fn stdout(&self) -> String;
    fn stderr(&self) -> String;
    fn status(&self) -> Status;
    fn killed(&self) -> Option<KillCause>;
    fn error(&self) -> SpawnError;
}

impl Look for RunResult {
    #[track_caller]
    fn stream(&self, stream: Stream) -> &StreamResult {
        self.streams
            .iter()
            .find(|s| s.stream == stream)
            .expect("the stream")
    }

    #[track_caller]
    fn head(&self, stream: Stream) -> String {
        String::from_utf8(self.stream(stream).captured.head.clone()).expect("text")
    }

    #[track_caller]
    fn stdout(&self) -> String {
        self.head(Stream::Stdout)
    }

    #[track_caller]
    fn stderr(&self) -> String {
        self.head(Stream::Stderr)
    }

    #[track_caller]
    fn status(&self) -> Status {
        let Ending::Ended { status, .. } = &self.ending else {
            panic!("{:?}", self.ending)
        };
        *status
    }

    #[track_caller]
    fn killed(&self) -> Option<KillCause> {
        let Ending::Ended { killed, .. } = &self.ending else {
            panic!("{:?}", self.ending)
        };
        *killed
    }

    #[track_caller]
    fn error(&self) -> SpawnError {
        let Ending::NotStarted { error } = &self.ending else {
            panic!("{:?}", self.ending)
        };
        error.clone()
    }
}
