//! The spool files: for each run one, locked by its runner for as long as it lives.

use super::machine::SpoolState;
use crate::sockets::private_dir;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use willcall_protocol::ids::RunId;
use willcall_runner::wire::{self, FromRunner, MAX_BODY, RunResult, SPOOL_GO};

/// The directory of the spool files.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    dir: PathBuf,
}

impl Spool {
    /// Makes the directory if it is missing. Where that fails, so will every launch, by name.
    pub(crate) fn open(dir: PathBuf) -> Self {
        if let Err(error) = private_dir(&dir) {
            tracing::error!(dir = %dir.display(), %error, "cannot make the directory of spool files");
        }
        Self { dir }
    }

    /// Makes the spool of a new run, and locks it: the lock goes to the runner with the file.
    pub(crate) fn create(&self, run: RunId) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.path(run))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            // Nobody else knows of the file yet.
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// What the spool of a run says.
    pub(crate) fn look(&self, run: RunId) -> io::Result<SpoolState> {
        let file = match File::open(self.path(run)) {
            Ok(file) => file,
            // It is made before the launch and removed after the end has been entered: somebody else took it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(SpoolState::Missing);
            }
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            Ok(()) => read(file, run),
            Err(TryLockError::WouldBlock) => Ok(SpoolState::Held),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes the spool of a run that is over.
    pub(crate) fn remove(&self, run: RunId) {
        match std::fs::remove_file(self.path(run)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%run, %error, "cannot remove a spool file");
            }
            _ => {}
        }
    }

    /// Every run that has a spool file.
    pub(crate) fn list(&self) -> io::Result<Vec<RunId>> {
        let mut runs = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            if let Some(run) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            {
                runs.push(run);
            }
        }
        Ok(runs)
    }

    fn path(&self, run: RunId) -> PathBuf {
        self.dir.join(run.to_string())
    }
}

fn read(file: File, run: RunId) -> io::Result<SpoolState> {
    let mut bytes = Vec::new();
    file.take(MAX_BODY as u64 + 64).read_to_end(&mut bytes)?;
    Ok(parse(&bytes, run))
}

/// What the bytes of a spool say whose runner is gone. What is torn says nothing.
fn parse(bytes: &[u8], run: RunId) -> SpoolState {
    match bytes {
        [SPOOL_GO, frame @ ..] => parse_result(frame)
            .filter(|result| result.run == run.0)
            .map_or(SpoolState::Started, SpoolState::Result),
        _ => SpoolState::Unstarted,
    }
}

fn parse_result(bytes: &[u8]) -> Option<Box<RunResult>> {
    let len = wire::frame_len(bytes, MAX_BODY).ok()??;
    match wire::decode_from_runner(bytes.get(..len)?).ok()? {
        FromRunner::Finished(result) => Some(result),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use willcall_runner::wire::{Ending, Status};

    fn run(n: u128) -> RunId {
        RunId(Uuid::from_u128(n))
    }

    fn result(n: u128) -> Box<RunResult> {
        Box::new(RunResult {
            run: Uuid::from_u128(n),
            ending: Ending::Ended {
                status: Status::Exited(0),
                killed: None,
            },
            duration_ms: 1,
            cpu_ms: 1,
            max_rss_kib: 1,
            streams: Vec::new(),
            ended: Vec::new(),
            detached: Vec::new(),
        })
    }

    #[test]
    fn a_spool_torn_at_any_byte_never_lies() {
        let frame = wire::encode_from_runner(&FromRunner::Finished(result(1))).expect("fits");
        let whole = [&[SPOOL_GO], frame.as_slice()].concat();
        assert_eq!(parse(&[], run(1)), SpoolState::Unstarted);
        for len in 1..whole.len() {
            assert_eq!(
                parse(&whole[..len], run(1)),
                SpoolState::Started,
                "{len} bytes"
            );
        }
        assert_eq!(parse(&whole, run(1)), SpoolState::Result(result(1)));
        assert_eq!(parse(&whole, run(2)), SpoolState::Started);
    }

    #[test]
    fn the_lock_says_whether_the_runner_lives() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let spool = Spool::open(dir.path().join("spool"));
        assert_eq!(spool.look(run(1)).expect("readable"), SpoolState::Missing);
        let held = spool.create(run(1)).expect("new");
        assert!(spool.create(run(1)).is_err());
        assert_eq!(spool.look(run(1)).expect("readable"), SpoolState::Held);
        drop(held);
        assert_eq!(spool.look(run(1)).expect("readable"), SpoolState::Unstarted);
        assert_eq!(spool.list().expect("readable"), [run(1)]);
        spool.remove(run(1));
        assert_eq!(spool.list().expect("readable"), []);
    }
}
