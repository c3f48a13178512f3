//! Both ends of the text that a preview is cut from: the bytes of the stream, or what a view left of them.

use crate::capture::Captured;
use crate::receipt::Omitted;
use crate::text;
use crate::view::Rendered;

/// Two windows on a text, and what is known of the stream around them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends<'a> {
    /// The window on its beginning.
    pub(super) head: &'a [u8],
    /// The window on its end.
    pub(super) tail: &'a [u8],
    /// Whether each window is the whole text.
    pub(super) whole: bool,
    captured: &'a Captured,
    rendered: Option<&'a Rendered>,
}

impl<'a> Ends<'a> {
    /// The ends of what is to be shown of a stream.
    pub(super) fn of(captured: &'a Captured) -> Self {
        match &captured.rendered {
            None => Self::of_bytes(captured),
            Some(rendered) => Self {
                head: &rendered.head.text,
                tail: &rendered.end().text,
                whole: rendered.is_whole(),
                captured,
                rendered: Some(rendered),
            },
        }
    }

    /// The ends of the stream itself.
    pub(super) fn of_bytes(captured: &'a Captured) -> Self {
        Self {
            head: &captured.head,
            tail: captured.end(),
            whole: captured.is_whole(),
            captured,
            rendered: None,
        }
    }

    /// What lies between the first `head` and the last `tail` bytes of the text, which are within the windows.
    /// It is never empty: together they are within the limits, and the text is not.
    pub(super) fn omitted(&self, head: usize, tail: usize) -> Omitted {
        let captured = self.captured;
        let (head_text, tail_from) = (&self.head[..head], self.tail.len() - tail);
        let newlines = |bytes| text::count_newlines(bytes) as u64;
        // A line keeps its LF in every view: what the tail shows from its beginning begins there in the stream, too.
        let last_omitted = match tail {
            0 => captured.end().last(),
            _ => self.tail[..tail_from].last(),
        };
        let ends_with_line = last_omitted == Some(&b'\n');
        let from_line = newlines(head_text) + 1;
        let before_tail = captured
            .newlines
            .saturating_sub(newlines(&self.tail[tail_from..]));
        let to_line = before_tail + u64::from(!ends_with_line);
        let head_is_open = !head_text.is_empty() && !head_text.ends_with(b"\n");
        let tail_is_open = tail > 0 && !ends_with_line;
        let offset = self.behind_head(head);
        Omitted {
            bytes: self
                .before_tail(tail, ends_with_line)
                .saturating_sub(offset),
            lines: (to_line + 1)
                .saturating_sub(from_line)
                .saturating_sub(u64::from(head_is_open))
                .saturating_sub(u64::from(tail_is_open)),
            from_line,
            to_line,
            offset,
        }
    }

    /// Offset in the stream behind the last byte that the head shows.
    fn behind_head(&self, head: usize) -> u64 {
        match (self.rendered, head.checked_sub(1)) {
            (_, None) => 0,
            (None, Some(_)) => head as u64,
            (Some(rendered), Some(last)) => rendered.head.offset_of(last) + 1,
        }
    }

    /// Offset in the stream where the tail begins: with its first byte, or with its first line if it shows
    /// that one whole.
    fn before_tail(&self, tail: usize, begins_line: bool) -> u64 {
        let total = self.captured.total_size;
        let first = self.tail.len() - tail;
        match self.rendered {
            _ if tail == 0 => total,
            None => total.saturating_sub(tail as u64),
            Some(rendered) if begins_line => rendered.end().offset_of(first - 1) + 1,
            Some(rendered) => rendered.end().offset_of(first),
        }
    }
}
