//! What a run has left that ended without telling: its runner is gone, and wrote no account.

use super::{OutputKey, Store, dir};
use crate::capture::{Capture, Captured, Kept, Loss, Policy};
use crate::limits::Limits;
use crate::view::Mode;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode as FileMode;
use std::fs::File;
use std::io::{self, Read};

impl Store {
    /// What the file of a stream that nobody writes to any more holds, as its capture would have had it; `None`
    /// where there is none, or nothing in it. Reads the file from end to end, in the memory of a capture. What the
    /// command wrote beside it is not known: the file counts as incomplete, by [`Loss::RunnerLost`].
    pub fn left_of(
        &self,
        key: &OutputKey,
        limits: Limits,
        view: Mode,
    ) -> io::Result<Option<Captured>> {
        let Some(mut file) = self.open_left(key)? else {
            return Ok(None);
        };
        // What is read is in a file already.
        let mut capture = Capture::new(limits, Policy::Discard).with_view(view);
        loop {
            match file.read(capture.space()) {
                Ok(0) => break,
                Ok(n) => capture.commit(n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut captured = capture.finish(None);
        captured.kept = Kept::File {
            stored: captured.total_size,
            digest: None,
            loss: Some(Loss::RunnerLost),
        };
        Ok((captured.total_size > 0).then_some(captured))
    }

    fn open_left(&self, key: &OutputKey) -> io::Result<Option<File>> {
        let dir = match dir::open_dir(&self.root_dir().dir, &key.session) {
            Ok(dir) => dir,
            Err(dir::DirError::Io(errno)) if errno != Errno::ENOENT => return Err(errno.into()),
            Err(_) => return Ok(None),
        };
        match dir::open(&dir, &key.file_name(), OFlag::O_RDONLY, FileMode::empty()) {
            Ok(fd) => {
                let file = File::from(fd);
                Ok(file.metadata()?.is_file().then_some(file))
            }
            Err(Errno::ENOENT | Errno::ELOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}
