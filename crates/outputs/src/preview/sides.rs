//! How much of one end of a stream a side of the preview takes.
//!
//! Whole lines while their number and text fit. The first that does not fit is left out, unless
//! its text alone is longer than the whole side may be: then it is cut and the side filled.

use crate::text;

/// What one side may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Side {
    /// UTF-8 bytes of its text.
    pub(super) bytes: usize,
    /// Lines, a partly shown one included.
    pub(super) lines: usize,
}

/// What becomes of the next line.
enum Next {
    /// It is taken whole.
    Whole {
        /// Bytes of its text.
        text: usize,
    },
    /// It is cut, and the side filled.
    Cut,
    /// It is left out.
    Left,
}

impl Side {
    /// Head and tail: the odd byte and the odd line are the head's.
    pub(super) fn halves(self) -> (Self, Self) {
        let tail = Self {
            bytes: self.bytes / 2,
            lines: self.lines / 2,
        };
        (
            Self {
                bytes: self.bytes - tail.bytes,
                lines: self.lines - tail.lines,
            },
            tail,
        )
    }

    /// The part of `window` that the head shows. `whole`: the stream ends where the window does.
    /// Else the window is at least twice as long as the side may be.
    pub(super) fn of_beginning(self, window: &[u8], whole: bool) -> &[u8] {
        let (mut at, mut left) = (0, self);
        while at < window.len() && left.lines > 0 {
            let newline = memchr::memchr(b'\n', &window[at..]);
            let line = &window[at..newline.map_or(window.len(), |i| at + i + 1)];
            match self.next(left, line, whole || newline.is_some()) {
                Next::Whole { text } => left.take(text),
                Next::Cut => return &window[..at + text::prefix_within(line, left.bytes)],
                Next::Left => break,
            }
            at += line.len();
        }
        &window[..at]
    }

    /// The part of `window` that the tail shows. `whole`: the stream begins where the window does.
    /// Else the window is at least twice as long as the side may be, or a view has lost what was before:
    /// then a line whose beginning is not there is left out, unless it is the only one.
    pub(super) fn of_end(self, window: &[u8], whole: bool) -> &[u8] {
        let (mut at, mut left) = (window.len(), self);
        while at > 0 && left.lines > 0 {
            let newline = memchr::memrchr(b'\n', &window[..at - 1]);
            let from = newline.map_or(0, |i| i + 1);
            let line = &window[from..at];
            match self.next(left, line, whole || newline.is_some()) {
                Next::Whole { text } => left.take(text),
                Next::Cut => return &window[from + text::suffix_within(line, left.bytes)..],
                Next::Left if at == window.len() => return line,
                Next::Left => break,
            }
            at = from;
        }
        &window[at..]
    }

    /// A line of which the window holds only a part is longer than any side: that part is.
    fn next(self, left: Self, line: &[u8], complete: bool) -> Next {
        let text = text::text_len(line);
        if complete && text <= left.bytes {
            Next::Whole { text }
        } else if text > self.bytes {
            Next::Cut
        } else {
            Next::Left
        }
    }

    fn take(&mut self, text: usize) {
        self.bytes -= text;
        self.lines -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Side;

    #[track_caller]
    fn check(stream: &str, bytes: usize, lines: usize, head: &str, tail: &str) {
        let side = Side { bytes, lines };
        let stream = stream.as_bytes();
        assert_eq!(side.of_beginning(stream, true), head.as_bytes(), "head");
        assert_eq!(side.of_end(stream, true), tail.as_bytes(), "tail");
    }

    #[test]
    fn whole_lines_while_they_fit() {
        check("aa\nbb\ncc\n", 6, 9, "aa\nbb\n", "bb\ncc\n");
        check("aa\nbb\ncc\n", 8, 9, "aa\nbb\n", "bb\ncc\n");
        check("aa\nbb\ncc", 5, 9, "aa\n", "bb\ncc");
        check("aa\nbb\ncc\n", 99, 1, "aa\n", "cc\n");
        check("aa\nbb\ncc\n", 99, 0, "", "");
    }

    #[test]
    fn a_line_that_would_fit_alone_is_left_out() {
        check("a\nbbbbb\nc\n", 6, 9, "a\n", "c\n");
    }

    #[test]
    fn a_line_longer_than_the_side_is_cut() {
        check("a\nbbbbbb\nc\n", 6, 9, "a\nbbbb", "bbb\nc\n");
        check("bbbbbb", 4, 9, "bbbb", "bbbb");
        check("bbbb\n", 4, 9, "bbbb", "bbb\n");
    }

    #[test]
    fn a_line_is_cut_only_while_a_line_is_left() {
        check("a\nbbbbbb\nc\n", 6, 1, "a\n", "c\n");
    }

    #[test]
    fn cuts_fall_between_characters_and_never_inside_crlf() {
        check("€€€", 4, 9, "€", "€");
        check("€€€", 2, 9, "", "");
        check("abc\r\n", 4, 9, "abc", "bc\r\n".get(0..).expect("whole"));
        check("abc\r\n", 1, 9, "a", "");
    }
}
