//! Lines of stored files: from a line to its offset and back, by the line index where there is one.

use crate::index::{IndexBuilder, LineIndex};
use crate::limits::INDEX_BLOCK;
use crate::page::Start;
use crate::text::count_newlines;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What one read of a scan takes.
const SCAN_CHUNK: usize = 256 * 1024;

/// A file and its line index.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    file: &'a File,
    index: LineIndex,
}

/// A place in a file, and the number (from 1) of the line that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineStart {
    pub(super) offset: u64,
    pub(super) line: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: &'a File, index: LineIndex) -> Self {
        Self { file, index }
    }

    pub(super) fn index(&self) -> &LineIndex {
        &self.index
    }

    /// Where the page begins that `start` means; beyond the end is the end. `None` if the index is not that of
    /// the file.
    pub(super) fn find(&self, start: Start) -> io::Result<Option<LineStart>> {
        let line = match start {
            Start::Offset(offset) => return self.line_at(offset).map(Some),
            Start::Line(line) => line.max(1),
            Start::FromEnd(n) => (self.total()? + 1).saturating_sub(n).max(1),
        };
        let start = |offset| LineStart { offset, line };
        Ok(self.start_of(line)?.map(start))
    }

    /// The line that the byte at `offset` is in.
    pub(super) fn line_at(&self, offset: u64) -> io::Result<LineStart> {
        let anchor = self.index.before(offset.min(self.index.size()));
        let newlines = count_between(self.file, anchor.offset, offset)?;
        Ok(LineStart {
            offset,
            line: anchor.newlines + newlines + 1,
        })
    }

    fn start_of(&self, line: u64) -> io::Result<Option<u64>> {
        let n = line - 1;
        if n == 0 {
            return Ok(Some(0));
        }
        let (size, anchor) = (self.index.size(), self.index.before_newline(n));
        let in_last = anchor == self.index.last();
        let end = if in_last {
            size
        } else {
            anchor.offset + self.index.block()
        };
        let newline = nth_newline(self.file, anchor.offset, end, n - anchor.newlines)?;
        Ok(match newline {
            Some(at) => Some(at + 1),
            None if in_last => Some(size),
            None => None,
        })
    }

    /// Lines of the file; a last line without LF is one.
    fn total(&self) -> io::Result<u64> {
        let (anchor, size) = (self.index.last(), self.index.size());
        let newlines = anchor.newlines + count_between(self.file, anchor.offset, size)?;
        let mut last = [b'\n'];
        if size > 0 {
            self.file.read_exact_at(&mut last, size - 1)?;
        }
        Ok(newlines + u64::from(last != *b"\n"))
    }
}

/// The index of the first `size` bytes of a file, made by reading them.
pub(super) fn scan(file: &File, size: u64) -> io::Result<LineIndex> {
    let mut builder = IndexBuilder::default();
    each_chunk(file, 0, size, SCAN_CHUNK, |_, chunk| {
        builder.feed(chunk);
        true
    })?;
    Ok(builder.index_of(size))
}

/// LF bytes between two offsets.
pub(super) fn count_between(file: &File, from: u64, to: u64) -> io::Result<u64> {
    let mut newlines = 0;
    each_chunk(file, from, to, block(), |_, chunk| {
        newlines += count_newlines(chunk) as u64;
        true
    })?;
    Ok(newlines)
}

/// Where the `n`th LF (from 1) between two offsets is.
fn nth_newline(file: &File, from: u64, to: u64, n: u64) -> io::Result<Option<u64>> {
    let (mut left, mut found) = (n, None);
    each_chunk(file, from, to, block(), |at, chunk| {
        let here = count_newlines(chunk) as u64;
        if here < left {
            left -= here;
            return true;
        }
        let nth = usize::try_from(left - 1).unwrap_or(usize::MAX);
        let newline = memchr::memchr_iter(b'\n', chunk).nth(nth);
        found = newline.map(|newline| at + newline as u64);
        false
    })?;
    Ok(found)
}

fn block() -> usize {
    usize::try_from(INDEX_BLOCK).unwrap_or(SCAN_CHUNK)
}

/// Gives a range of a file to `take` in pieces, each with its offset, until that has enough. A file that ends before the range
/// does is an error: it has changed meanwhile.
fn each_chunk(
    file: &File,
    from: u64,
    to: u64,
    chunk: usize,
    mut take: impl FnMut(u64, &[u8]) -> bool,
) -> io::Result<()> {
    let left = to.saturating_sub(from);
    let mut buffer = vec![0; usize::try_from(left).unwrap_or(chunk).min(chunk)];
    let mut at = from;
    while at < to {
        let n = usize::try_from(to - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        file.read_exact_at(&mut buffer[..n], at)?;
        if !take(at, &buffer[..n]) {
            break;
        }
        at += n as u64;
    }
    Ok(())
}
