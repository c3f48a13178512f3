//! Both ends of what the line-local view shows of a stream, in memory bounded by the limits.
//!
//! The head is filled once; a line that is written over gives its place back. The tail holds lines that
//! have ended; the line that is being written stands beside it, so that writing over it costs no line
//! before it.

use super::traced::{Mark, Traced, Tracer};
use super::{LF, LineView, Step};
use serde::{Deserialize, Serialize};

/// Both ends of a view, each at most [`crate::limits::Limits::window`] bytes of text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rendered {
    /// The first bytes that are shown: all of them where they fit the window.
    pub head: Traced,
    /// The last bytes that are shown; may overlap `head`; empty where `head` is all.
    pub tail: Traced,
}

impl Rendered {
    /// Whether `head` is all that is shown.
    pub fn is_whole(&self) -> bool {
        self.tail.text.is_empty()
    }

    /// The window on the end of what is shown.
    pub fn end(&self) -> &Traced {
        if self.is_whole() {
            &self.head
        } else {
            &self.tail
        }
    }
}

/// What there is of a stream when something in it first is not shown as it is.
#[derive(Debug, Clone, Copy)]
pub struct Before<'a> {
    /// Bytes before that point.
    pub size: u64,
    /// LFs before that point.
    pub newlines: u64,
    /// The first of the bytes: all, or as many as the window.
    pub head: &'a [u8],
    /// The last of them, in two slices: all, or at least as many as the window.
    pub last: [&'a [u8]; 2],
}

/// A view and what it shows.
#[derive(Debug)]
pub struct Rendering {
    view: LineView,
    ends: Ends,
}

impl Rendering {
    /// A rendering that begins behind bytes that are all shown. The tail may miss lines from before a
    /// current line that fills `before.last`, should that line be written over.
    pub fn begin(window: usize, before: Before<'_>) -> Self {
        Self {
            view: LineView::new(before.size),
            ends: Ends::begin(window, before),
        }
    }

    /// The next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Self { view, ends } = self;
        view.feed(bytes, |step| match step {
            Step::Shown { from, bytes } => ends.show(from, bytes),
            Step::Restart => ends.restart(),
        });
    }

    /// The stream is at its end.
    pub fn finish(self) -> Rendered {
        self.ends.finish()
    }
}

#[derive(Debug)]
struct Ends {
    window: usize,
    head: Tracer,
    /// Whether something shown is not in the head.
    beyond: bool,
    /// Where the current line begins in the head, and whether something before it is not there.
    line_in_head: (Mark, bool),
    /// The current line, or its last bytes.
    line: Tracer,
    /// Whether the line's beginning is gone.
    line_is_cut: bool,
    /// Lines that have ended.
    tail: Tracer,
}

impl Ends {
    fn begin(window: usize, before: Before<'_>) -> Self {
        let mut ends = Self {
            window,
            head: Tracer::default(),
            beyond: before.size > before.head.len() as u64,
            line_in_head: (Mark::default(), false),
            line: Tracer::default(),
            line_is_cut: false,
            tail: Tracer::default(),
        };
        ends.begin_head(before);
        let known: usize = before.last.iter().map(|part| part.len()).sum();
        let mut from = before.size - known as u64;
        // Until an LF comes, it is a line whose beginning is not known.
        ends.line_is_cut = from > 0;
        for part in before.last {
            let (lines, line) = part.split_at(behind_last_lf(part));
            ends.hold(from, lines, line);
            from += part.len() as u64;
        }
        ends
    }

    /// The current line begins behind the head's last LF, unless there are others behind the head.
    fn begin_head(&mut self, Before { newlines, head, .. }: Before<'_>) {
        let ended = behind_last_lf(head);
        self.head.push(0, &head[..ended]);
        self.line_in_head = (self.head.mark(), false);
        self.head.push(ended as u64, &head[ended..]);
        if newlines > bytecount::count(head, LF) as u64 {
            self.line_in_head = (self.head.mark(), true);
        }
    }

    fn show(&mut self, from: u64, bytes: &[u8]) {
        let ended = behind_last_lf(bytes);
        let (lines, line) = bytes.split_at(ended);
        if ended > 0 {
            self.show_in_head(from, lines);
            self.line_in_head = (self.head.mark(), self.beyond);
        }
        self.show_in_head(from + ended as u64, line);
        self.hold(from, lines, line);
    }

    fn show_in_head(&mut self, from: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let room = self.window - self.head.len();
        self.head.push(from, &bytes[..bytes.len().min(room)]);
        self.beyond |= bytes.len() > room;
    }

    /// Lines go to the tail, behind the current one, which they end; the rest begins a line or goes on with it.
    fn hold(&mut self, from: u64, lines: &[u8], line: &[u8]) {
        if !lines.is_empty() {
            self.end_line();
            push_within(&mut self.tail, self.window, from, lines);
        }
        let from = from + lines.len() as u64;
        self.line_is_cut |= push_within(&mut self.line, self.window, from, line);
    }

    fn end_line(&mut self) {
        // No line before one that fills the window belongs to the tail.
        if std::mem::take(&mut self.line_is_cut) {
            self.tail.clear();
        }
        self.tail.append(&self.line);
        self.line.clear();
    }

    fn restart(&mut self) {
        let (mark, beyond) = self.line_in_head;
        self.head.go_back(mark);
        self.beyond = beyond;
        self.line.clear();
        self.line_is_cut = false;
    }

    fn finish(mut self) -> Rendered {
        let mut tail = Traced::default();
        if self.beyond {
            self.end_line();
            self.tail.keep_last(self.window);
            tail = self.tail.finish();
        }
        Rendered {
            head: self.head.finish(),
            tail,
        }
    }
}

/// Where the line begins that `bytes` do not end.
fn behind_last_lf(bytes: &[u8]) -> usize {
    let last = match bytes.len() {
        // A search of its own would cost more than these.
        0..16 => bytes.iter().rposition(|&b| b == LF),
        _ => memchr::memrchr(LF, bytes),
    };
    last.map_or(0, |i| i + 1)
}

/// Appends to a window on the last bytes; whether some had to go for it. They go in large parts, so that
/// each byte is moved a few times at most.
fn push_within(to: &mut Tracer, window: usize, from: u64, bytes: &[u8]) -> bool {
    let skipped = bytes.len().saturating_sub(window);
    if skipped > 0 {
        to.clear();
    }
    to.push(from + skipped as u64, &bytes[skipped..]);
    let over = to.len() > window + window / 2;
    if over {
        to.keep_last(window);
    }
    over || skipped > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn begin(window: usize, stream: &[u8]) -> Rendering {
        let before = Before {
            size: stream.len() as u64,
            newlines: bytecount::count(stream, LF) as u64,
            head: &stream[..stream.len().min(window)],
            last: [&[], stream],
        };
        Rendering::begin(window, before)
    }

    fn held(rendering: &Rendering) -> usize {
        let ends = &rendering.ends;
        [&ends.head, &ends.line, &ends.tail]
            .map(Tracer::capacity)
            .iter()
            .sum()
    }

    /// Whatever is written, and however much of it.
    #[test]
    fn memory_is_bounded_by_the_window() {
        let window = 10_000;
        let lolcat = b"\x1b[38;5;123mx\x1b[39m".repeat(80);
        for part in [
            &b"\r12%"[..],
            b"\x1b[31mred\x1b[0m\n",
            &[&lolcat[..], b"\n"].concat(),
            &lolcat,
            &[&b"x".repeat(30_000)[..], b"\r"].concat(),
            &b"\x1b]0;title\x07y\n".repeat(5000),
        ] {
            let mut rendering = begin(window, b"");
            let mut most = 0;
            for _ in 0..2_000_000 / part.len() {
                rendering.feed(part);
                most = most.max(held(&rendering));
            }
            assert!(
                most <= 16 * window,
                "{most} bytes for {:?}",
                &part[..9.min(part.len())]
            );
        }
    }

    proptest! {
        /// A rendering that begins late shows the same as one that saw everything.
        #[test]
        fn the_beginning_may_be_any_byte(
            plain in "[a-c\n]{0,60}", rest in "[a-c\n\r\u{1b}]{0,40}", window in 4..30usize,
        ) {
            let mut late = begin(window, plain.as_bytes());
            late.feed(rest.as_bytes());
            let mut early = begin(window, b"");
            early.feed(plain.as_bytes());
            early.feed(rest.as_bytes());
            prop_assert_eq!(late.finish(), early.finish());
        }
    }
}
