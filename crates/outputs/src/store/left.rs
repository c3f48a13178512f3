//! What a run has left that ended without telling: its runner is gone, and wrote no account.

use super::{OutputKey, Store, dir};
use crate::limits::{READ_CHUNK, SNIFF_BYTES};
use crate::record::StoredStream;
use crate::{media, text};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::{self, Read};

impl Store {
    /// What the file of a stream that nobody writes to any more holds, for its record; `None` where there is
    /// none, or nothing in it. Reads the file from end to end. What the command wrote beside it is not
    /// known: the file counts as incomplete.
    pub fn left_of(&self, key: &OutputKey) -> io::Result<Option<StoredStream>> {
        let Some(mut file) = self.open_left(key)? else {
            return Ok(None);
        };
        let (mut size, mut newlines, mut last) = (0, 0, b'\n');
        let (mut beginning, mut chunk) = (Vec::new(), vec![0; READ_CHUNK]);
        loop {
            let bytes = match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => &chunk[..n],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            size += bytes.len() as u64;
            newlines += text::count_newlines(bytes) as u64;
            last = bytes.last().copied().unwrap_or(last);
            beginning.extend(bytes.iter().take(SNIFF_BYTES - beginning.len()));
        }
        Ok((size > 0).then(|| StoredStream {
            stored: size,
            total_size: size,
            total_lines: newlines + u64::from(last != b'\n'),
            digest: None,
            complete: false,
            dropped_bytes: 0,
            mime: media::type_of(&beginning).into(),
        }))
    }

    fn open_left(&self, key: &OutputKey) -> io::Result<Option<File>> {
        let dir = match dir::open_dir(&self.dir, &key.session) {
            Ok(dir) => dir,
            Err(dir::DirError::Io(errno)) if errno != Errno::ENOENT => return Err(errno.into()),
            Err(_) => return Ok(None),
        };
        match dir::open(&dir, &key.file_name(), OFlag::O_RDONLY, Mode::empty()) {
            Ok(fd) => {
                let file = File::from(fd);
                Ok(file.metadata()?.is_file().then_some(file))
            }
            Err(Errno::ENOENT | Errno::ELOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}
