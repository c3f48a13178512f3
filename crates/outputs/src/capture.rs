//! The core of capturing one stream: bytes go in; head and tail windows, exact counts, and
//! what has to be written to a file come out. Memory is O(limits), whatever the stream's size.
//!
//! ```text
//!              commit: past a limit          wrote all, lost, or the policy's cap
//!   fits ──────────────────────────► kept ──────────────────────────────────────► drained
//!     └── the view drops something, or ─┘
//!         end: text is not bytes
//! ```
//!
//! While the stream fits, nothing is pending. At the crossing everything so far is, later each
//! chunk as it arrives. A job's stream is kept from its first byte on. Drained means: counted, shown in the tail, and not in the file.
//!
//! Of a stream that a view changes, both ends of the view are held, too (see [`crate::view`]).
//!
//! The shell reads straight into a ring that doubles as the tail window, so that no byte is copied
//! but those of the head window.

use crate::index::{IndexBuilder, LineIndex};
use crate::limits::{FIRST_READ_CHUNK, Limits, READ_CHUNK, SNIFF_WINDOW};
use crate::terminal::Size;
use crate::text;
use crate::view::Rendered;
use serde::{Deserialize, Serialize};

mod policy;
mod viewing;

use policy::Rule;
pub use policy::{Loss, Policy};
use viewing::Viewing;

/// What stands in the file of a stream when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kept")]
pub enum Kept {
    /// The stream passed straight through; there is no file.
    NotNeeded,
    /// There is a file with the first `stored` bytes of the stream.
    File {
        /// Bytes in the file.
        stored: u64,
        /// `blake3:` and hex of the file, where it was made at the seal.
        digest: Option<String>,
        /// Why the file is shorter than the stream, if it is.
        loss: Option<Loss>,
    },
    /// A file was needed and nothing could be kept.
    Nothing {
        /// Why.
        loss: Loss,
    },
}

/// A whole stream, as the capture saw it: all that a preview needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Bytes read from the stream.
    pub total_size: u64,
    /// LF bytes in the stream.
    pub newlines: u64,
    /// The first bytes of the stream: all of it where the stream fits the window.
    /// At most [`Limits::window`] bytes.
    #[serde(skip)]
    pub head: Vec<u8>,
    /// The last bytes of the stream; may overlap `head`; empty where `head` is the whole stream.
    /// At most [`Limits::window`] bytes.
    #[serde(skip)]
    pub tail: Vec<u8>,
    /// Both ends of what the line-local view shows, where it changed something. `head` and `tail` then only
    /// say what kind of bytes these are, and have at most [`SNIFF_WINDOW`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<Rendered>,
    /// The terminal that a PTY's stream is to be read on, unless it is to be shown as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Size>,
    /// What stands in the file.
    #[serde(flatten)]
    pub kept: Kept,
}

impl Captured {
    /// Lines of the stream; a last line without LF is a line, an empty stream has none.
    pub fn total_lines(&self) -> u64 {
        let last = self.end().last();
        self.newlines + u64::from(last.is_some_and(|&b| b != b'\n'))
    }

    /// The window on the end of the stream.
    pub(crate) fn end(&self) -> &[u8] {
        if self.tail.is_empty() {
            &self.head
        } else {
            &self.tail
        }
    }

    /// Whether nothing of it may leave: see [`Policy::Reject`].
    pub fn is_rejected(&self) -> bool {
        matches!(
            self.kept,
            Kept::Nothing {
                loss: Loss::Rejected
            }
        )
    }

    /// Whether `head` is the whole stream.
    pub(crate) fn is_whole(&self) -> bool {
        self.head.len() as u64 == self.total_size
    }
}

/// Captures one stream. The shell reads into [`Capture::space`], says how much with
/// [`Capture::commit`], writes what [`Capture::pending`] holds, and repeats; at the end of the
/// stream it calls [`Capture::end`], writes what is pending then, and [`Capture::finish`].
#[derive(Debug)]
pub struct Capture {
    limits: Limits,
    policy: Policy,
    rule: Rule,
    total: u64,
    newlines: u64,
    /// Of what the file may have.
    index: IndexBuilder,
    /// Whether the last byte is not an LF: an unfinished line counts, too.
    open_line: bool,
    must_keep: bool,
    stored: u64,
    loss: Option<Loss>,
    viewing: Viewing,
    terminal: Option<Size>,
    head: Vec<u8>,
    ring: Vec<u8>,
    /// Where the next byte goes in the ring.
    at: usize,
    /// How much of the ring before `at` is the newest chunk.
    newest: usize,
    /// What the next read may take.
    read_chunk: usize,
}

impl Capture {
    /// A capture of an empty stream, shown as it is. Allocates nothing yet.
    pub fn new(limits: Limits, policy: Policy) -> Self {
        Self {
            limits,
            policy,
            rule: policy.rule(),
            total: 0,
            newlines: 0,
            index: IndexBuilder::default(),
            open_line: false,
            must_keep: false,
            stored: 0,
            loss: None,
            viewing: Viewing::Off,
            terminal: None,
            head: Vec::new(),
            ring: Vec::new(),
            at: 0,
            newest: 0,
            read_chunk: FIRST_READ_CHUNK,
        }
    }

    /// Contiguous free space to read into: never empty, at most [`crate::limits::READ_CHUNK`].
    /// Anything that was pending must have been written (or given up) before: what was not
    /// counts as lost by [`Loss::IoError`], since its bytes are about to be overwritten.
    pub fn space(&mut self) -> &mut [u8] {
        if !self.pending().iter().all(|slice| slice.is_empty()) {
            self.lost(Loss::IoError);
        }
        self.newest = 0;
        self.grow();
        if self.at == self.ring.len() {
            self.at = 0;
        }
        let end = self.ring.len().min(self.at + self.read_chunk);
        &mut self.ring[self.at..end]
    }

    /// Makes room for a read beside the tail window. Until the stream is longer than the window the
    /// ring only grows, so growing never meets one that has wrapped.
    fn grow(&mut self) {
        let full = self.limits.window() + READ_CHUNK;
        let needed = match usize::try_from(self.total) {
            Ok(total) if total < self.limits.window() => total + self.read_chunk,
            _ => full,
        };
        if self.ring.len() < needed {
            let len = needed.max(2 * self.ring.len()).min(full);
            self.ring.reserve_exact(len - self.ring.len());
            self.ring.resize(len, 0);
        }
    }

    /// The first `n` bytes of [`Capture::space`] now hold the next bytes of the stream.
    /// `n` beyond that space counts as all of it.
    pub fn commit(&mut self, n: usize) {
        let n = n.min(self.read_chunk).min(self.ring.len() - self.at);
        let chunk = &self.ring[self.at..self.at + n];
        let Some(&last) = chunk.last() else { return };
        self.open_line = last != b'\n';
        let kept = self.rule.max_kept.saturating_sub(self.total);
        let kept = usize::try_from(kept).map_or(n, |kept| kept.min(n));
        let (kept, beyond) = chunk.split_at(kept);
        self.newlines += self.index.feed(kept) + text::count_newlines(beyond) as u64;
        self.total += n as u64;
        extend_window(&mut self.head, chunk, self.limits.window());
        if n == self.read_chunk {
            self.read_chunk = (4 * self.read_chunk).min(READ_CHUNK);
        }
        self.at += n;
        self.newest = n;
        self.must_keep |= self.rule.from_start || !self.within_limits();
        self.view(n);
    }

    /// Text is never shorter than its bytes: raw bytes beyond the limit never fit. Whether text
    /// made longer by replacements fits matters to nobody here, since it is kept either way.
    fn within_limits(&self) -> bool {
        self.total <= u64::from(self.limits.max_bytes())
            && self.newlines + u64::from(self.open_line) <= u64::from(self.limits.max_lines())
    }

    /// Whether the stream has to be in a file from now on. Becomes true at the byte that passes a limit.
    pub fn must_keep(&self) -> bool {
        self.must_keep
    }

    /// Whether the stream has more bytes than its job's file may have: the run has to be ended, all of it.
    /// What is up to the cap is pending or written; what follows is drained and counted. A stream whose file
    /// ended early for another reason never is: nobody is killed for a full disk.
    pub fn is_over_cap(&self) -> bool {
        matches!(self.policy, Policy::Background { cap } if self.total > cap) && self.loss.is_none()
    }

    /// Whether nothing of the stream will leave, whatever still comes: a shell may stop reading.
    pub fn is_rejected(&self) -> bool {
        self.policy == Policy::Reject && !self.within_limits()
    }

    /// What has to be appended to the file now: two slices, in order, either may be empty.
    /// Empty while nothing has to be kept, and after a loss or the cap.
    pub fn pending(&self) -> [&[u8]; 2] {
        if !self.must_keep || self.loss.is_some() {
            return [&[], &[]];
        }
        let newest_from = self.total - self.newest as u64;
        let allowed = self.total.min(self.rule.max_kept);
        let old = self.stored.min(newest_from)..allowed.min(newest_from);
        let new = self.stored.max(newest_from)..allowed.max(newest_from);
        let newest = &self.ring[self.at - self.newest..self.at];
        [part(&self.head, old, 0), part(newest, new, newest_from)]
    }

    /// `n` bytes of [`Capture::pending`] are in the file.
    pub fn wrote(&mut self, n: usize) {
        let pending: usize = self.pending().iter().map(|slice| slice.len()).sum();
        debug_assert!(n <= pending, "{n} bytes written of {pending}");
        self.stored += n.min(pending) as u64;
    }

    /// The file cannot take more: nothing is pending from now on; further bytes count as dropped.
    pub fn lost(&mut self, loss: Loss) {
        self.loss.get_or_insert(loss);
    }

    /// The stream is at its end. Small output whose text is not exactly its bytes (invalid
    /// UTF-8, NUL) has to be kept, too: afterwards [`Capture::pending`] may hold the whole of it.
    pub fn end(&mut self) {
        self.end_view();
        // What is within the limits is within the head window.
        self.must_keep |= !text::is_exact(&self.head);
        if self.policy == Policy::Reject && self.must_keep && !self.text_fits() {
            self.loss = Some(Loss::Rejected);
        }
    }

    /// Whether what would leave is within the limits; replacements make a text longer than its bytes.
    fn text_fits(&self) -> bool {
        let max = self.limits.max_bytes() as usize;
        self.within_limits()
            && (text::is_binary(&self.head) || text::decode(&self.head).0.len() <= max)
    }

    /// Bytes read so far.
    pub fn total_size(&self) -> u64 {
        self.total
    }

    /// Bytes in the file so far.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Where lines are in the file as it is so far.
    pub fn line_index(&self) -> LineIndex {
        self.index.index_of(self.stored)
    }

    /// The finished capture. `digest` is that of the file, where there is one and it was made.
    /// What is still pending counts as lost.
    pub fn finish(mut self, digest: Option<String>) -> Captured {
        self.end();
        let kept = self.kept(digest);
        let rendered = self.rendered();
        let mut window = self.limits.window();
        if rendered.is_some() {
            self.head.truncate(SNIFF_WINDOW);
            window = SNIFF_WINDOW;
        }
        let whole = self.head.len() as u64 == self.total;
        let tail = if whole {
            Vec::new()
        } else {
            self.linear_tail(window)
        };
        Captured {
            total_size: self.total,
            newlines: self.newlines,
            head: self.head,
            tail,
            rendered,
            terminal: self.terminal,
            kept,
        }
    }

    fn kept(&self, digest: Option<String>) -> Kept {
        let cause = match self.loss {
            Some(loss) => loss,
            None if self.stored == self.rule.max_kept => self.rule.beyond,
            None => Loss::IoError,
        };
        if !self.must_keep {
            Kept::NotNeeded
        } else if self.stored == 0 {
            Kept::Nothing { loss: cause }
        } else {
            let loss = (self.stored < self.total).then_some(cause);
            Kept::File {
                stored: self.stored,
                digest,
                loss,
            }
        }
    }

    /// The ring, oldest byte first, cut to a window. In place: a copy would double the memory.
    fn linear_tail(&mut self, window: usize) -> Vec<u8> {
        let mut ring = std::mem::take(&mut self.ring);
        ring.rotate_left(self.at);
        let written = usize::try_from(self.total).unwrap_or(usize::MAX);
        let window = window.min(written).min(ring.len());
        ring.drain(..ring.len() - window);
        ring
    }
}

/// Appends to `head` what still fits in its window; the allocation doubles up to the window, never beyond.
fn extend_window(head: &mut Vec<u8>, chunk: &[u8], window: usize) {
    let taken = chunk.len().min(window - head.len());
    let needed = head.len() + taken;
    if head.capacity() < needed {
        let capacity = needed.max(2 * head.capacity()).min(window);
        head.reserve_exact(capacity - head.len());
    }
    head.extend_from_slice(&chunk[..taken]);
}

/// The bytes of a slice that begins at `offset` of the stream, for a range of the stream.
/// Ranges are within the slice by construction; the empty slice stands for one that is not.
fn part(slice: &[u8], range: std::ops::Range<u64>, offset: u64) -> &[u8] {
    let index = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
    slice
        .get(index(range.start)..index(range.end))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
