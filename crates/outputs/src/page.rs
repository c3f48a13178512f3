//! What one bounded read returns.
//!
//! A page is as full as cut points allow and holds at least one cut unit (a character, a replaced
//! run of bytes, or CR LF), so that following `next` from anywhere ends, and reaches every byte.
//! The limit counts the text that leaves; as base64 it counts raw bytes, and no character is heeded.

use crate::limits::{LONGEST_CUT_UNIT, LimitError};
use crate::text::{self, Kind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::ops::Range;

mod ask;

pub use ask::{Ask, Extent, PageCaps, Start};

/// How a page's bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Encoding {
    /// As text; what is not UTF-8 is replaced and `lossy` says so.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// The exact bytes, as base64.
    #[serde(rename = "base64")]
    Base64,
}

/// One bounded read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Text, or base64.
    pub content: String,
    /// How `content` is encoded.
    pub encoding: Encoding,
    /// Where `content` begins, in raw bytes.
    pub offset: u64,
    /// Where the next page begins; null at the end of a finished output.
    pub next: Option<u64>,
    /// Whether there is more after this page.
    pub truncated: bool,
    /// Raw bytes of the whole output.
    pub total: u64,
    /// Whether something in `content` stands for bytes that are not text.
    pub lossy: bool,
    /// The line (from 1) that `content` begins in; null where nobody has counted, and where there is no content.
    pub line: Option<u64>,
    /// `blake3:` and hex of the file, as far as it is known.
    pub digest: Option<String>,
    /// Whether the file was compared with that digest for this page.
    pub verified: bool,
}

/// Of what a page is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Raw bytes that are there now.
    pub total: u64,
    /// Whether no more will come.
    pub finished: bool,
}

/// A read of bytes from an offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    offset: u64,
    extent: Extent,
}

impl PageRequest {
    /// `limit` is clamped to what a page may carry; 0 is refused.
    pub fn new(offset: u64, limit: u64, encoding: Encoding) -> Result<Self, LimitError> {
        let extent = Extent::new(Some(limit), None, encoding, PageCaps::default())?;
        Ok(Self::at(offset, extent))
    }

    /// As much as `extent` says.
    pub fn at(offset: u64, extent: Extent) -> Self {
        Self { offset, extent }
    }

    /// The bytes that [`PageRequest::page`] needs: those before the offset tell whether it is
    /// inside a character, those after the page whether its end is. At most the page's limit and
    /// a few; empty at or beyond the end.
    pub fn range(&self, total: u64) -> Range<u64> {
        if self.offset >= total {
            return total..total;
        }
        let limit = u64::from(self.extent.limit);
        let (before, after) = match self.extent.encoding {
            Encoding::Utf8 => {
                let unit = LONGEST_CUT_UNIT as u64;
                (unit - 1, limit.max(unit) + 2 * unit)
            }
            Encoding::Base64 => (0, limit),
        };
        self.offset.saturating_sub(before)..self.offset.saturating_add(after).min(total)
    }

    /// The page, from the bytes of [`PageRequest::range`].
    pub fn page(&self, window: &[u8], source: Source) -> Page {
        if self.offset >= source.total {
            return self.empty(source);
        }
        match self.extent.encoding {
            Encoding::Utf8 => self.text_page(window, source),
            Encoding::Base64 => {
                let bytes = &window[..window.len().min(self.extent.limit as usize)];
                let bytes = first_lines(bytes, self.extent.lines);
                let end = self.offset + bytes.len() as u64;
                let page = self.between(self.offset..end, end < source.total, source);
                Page {
                    content: STANDARD.encode(bytes),
                    ..page
                }
            }
        }
    }

    fn text_page(&self, window: &[u8], source: Source) -> Page {
        let range = self.range(source.total);
        // At most LONGEST_CUT_UNIT - 1.
        let before = usize::try_from(self.offset - range.start).unwrap_or(0);
        let at_present_end = !source.finished && range.end == source.total;
        let start = match text::spanning(window, before) {
            // What is not there yet decides where the next character begins.
            Some((_, unit)) if at_present_end && unit.kind == Kind::Unfinished => {
                return self.empty(source);
            }
            Some((from, unit)) => from + unit.raw,
            None => before,
        };
        let rest = window.get(start..).unwrap_or_default();
        let readable = if at_present_end {
            rest.len() - undecided(rest)
        } else {
            rest.len()
        };
        let end = cut(rest, self.extent).min(readable);
        let (content, lossy) = text::decode(&rest[..end]);
        let from = range.start + start as u64;
        let page = self.between(from..from + end as u64, end < readable, source);
        Page {
            content,
            lossy,
            ..page
        }
    }

    /// A page without content: at or beyond the end, `offset` is what was asked.
    fn empty(&self, source: Source) -> Page {
        self.between(self.offset..self.offset, false, source)
    }

    /// A page of these bytes. `more`: there is more to read now.
    fn between(&self, bytes: Range<u64>, more: bool, source: Source) -> Page {
        let at_end = source.finished && bytes.end >= source.total;
        Page {
            content: String::new(),
            encoding: self.extent.encoding,
            offset: bytes.start,
            next: (!at_end).then_some(bytes.end),
            truncated: more,
            total: source.total,
            lossy: false,
            line: None,
            digest: None,
            verified: false,
        }
    }
}

/// Raw length of a page that begins with `bytes`.
fn cut(bytes: &[u8], extent: Extent) -> usize {
    let lines = first_lines(bytes, extent.lines);
    match text::prefix_within(lines, extent.limit as usize) {
        0 if bytes.starts_with(b"\r\n") => 2,
        0 => text::first_unit(bytes).map_or(0, |unit| unit.raw),
        raw => raw,
    }
}

/// The bytes up to the end of that many lines.
fn first_lines(bytes: &[u8], lines: Option<u32>) -> &[u8] {
    let Some(lines) = lines else { return bytes };
    let last = memchr::memchr_iter(b'\n', bytes).nth((lines as usize).saturating_sub(1));
    &bytes[..last.map_or(bytes.len(), |newline| newline + 1)]
}

/// Length of what may become something else at the end of a running output: an unfinished
/// character, or a CR whose LF may come.
fn undecided(bytes: &[u8]) -> usize {
    match text::unfinished(bytes) {
        0 => usize::from(bytes.ends_with(b"\r")),
        raw => raw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a page of `bytes` as a store does.
    fn read(bytes: &[u8], offset: u64, limit: u64, finished: bool) -> Page {
        read_as(Encoding::Utf8, bytes, offset, limit, finished)
    }

    fn read_as(encoding: Encoding, bytes: &[u8], offset: u64, limit: u64, finished: bool) -> Page {
        let request = PageRequest::new(offset, limit, encoding).expect("a limit above 0");
        let source = Source {
            total: bytes.len() as u64,
            finished,
        };
        let range = request.range(source.total);
        let index = |at| usize::try_from(at).expect("short");
        request.page(&bytes[index(range.start)..index(range.end)], source)
    }

    #[track_caller]
    fn check(bytes: &[u8], offset: u64, limit: u64, expected: (&str, u64, Option<u64>, bool)) {
        let page = read(bytes, offset, limit, true);
        assert_eq!(
            (
                page.content.as_str(),
                page.offset,
                page.next,
                page.truncated
            ),
            expected
        );
    }

    #[track_caller]
    fn running(bytes: &[u8], offset: u64, limit: u64, expected: (&str, u64, u64, bool)) {
        let page = read(bytes, offset, limit, false);
        let next = page.next.expect("a running output has no end");
        assert_eq!(
            (page.content.as_str(), page.offset, next, page.truncated),
            expected
        );
    }

    #[test]
    fn finished_outputs_end() {
        check(b"0123", 0, 2, ("01", 0, Some(2), true));
        check(b"0123", 2, 2, ("23", 2, None, false));
        check(b"0123", 4, 2, ("", 4, None, false));
        check(b"0123", u64::MAX, 2, ("", u64::MAX, None, false));
        check(b"", 0, 1, ("", 0, None, false));
    }

    #[test]
    fn a_page_holds_at_least_one_cut_unit() {
        check("€b".as_bytes(), 0, 1, ("€", 0, Some(3), true));
        check(b"\r\nb", 0, 1, ("\r\n", 0, Some(2), true));
        check(b"\r\r\nb", 0, 2, ("\r", 0, Some(1), true));
        check(b"\xf0\x9f\x98", 0, 1, ("\u{fffd}", 0, None, false));
    }

    #[test]
    fn an_offset_inside_a_character_moves_forward() {
        check("€b".as_bytes(), 1, 9, ("b", 3, None, false));
        check("a€".as_bytes(), 2, 9, ("", 4, None, false));
        check(b"a\r\nb", 2, 9, ("\nb", 2, None, false));
        check(b"\x80\x80\x80\x80\x80", 4, 9, ("\u{fffd}", 4, None, false));
    }

    #[test]
    fn replaced_bytes_count_as_they_show() {
        check(
            b"\x80\x80\x80",
            0,
            8,
            ("\u{fffd}\u{fffd}", 0, Some(2), true),
        );
        check(b"a\0b", 0, 4, ("a\u{fffd}", 0, Some(2), true));
        assert!(read(b"a\0b", 0, 4, true).lossy && !read(b"a\0b", 2, 4, true).lossy);
    }

    #[test]
    fn lines_bound_a_page() {
        let lines = "\n".repeat(2001);
        let page = read(lines.as_bytes(), 0, 100_000, true);
        assert_eq!((page.content.len(), page.next), (2000, Some(2000)));
    }

    #[test]
    fn a_running_output_waits_for_what_is_undecided() {
        running(b"ab", 0, 9, ("ab", 0, 2, false));
        running(b"ab", 2, 9, ("", 2, 2, false));
        running(b"ab", 7, 9, ("", 7, 7, false));
        running(b"ab", 0, 1, ("a", 0, 1, true));
        running(b"ab\xe2\x82", 0, 9, ("ab", 0, 2, false));
        running(b"ab\xe2\x82", 2, 1, ("", 2, 2, false));
        running(b"ab\xe2\x82", 3, 1, ("", 3, 3, false));
        running(b"ab\r", 0, 9, ("ab", 0, 2, false));
        running(b"ab\r\n", 0, 9, ("ab\r\n", 0, 4, false));
        running(b"a\rb", 0, 2, ("a\r", 0, 2, true));
        running(b"ab\xff", 0, 9, ("ab\u{fffd}", 0, 3, false));
    }

    #[test]
    fn base64_is_the_exact_bytes_within_the_cap() {
        let bytes = "€".repeat(40_000).into_bytes();
        let page = read_as(Encoding::Base64, &bytes, 1, 2, true);
        assert_eq!((page.offset, page.next), (1, Some(3)));
        assert_eq!(STANDARD.decode(&page.content).expect("base64"), bytes[1..3]);
        let page = read_as(Encoding::Base64, &bytes, 0, u64::MAX, true);
        assert_eq!((page.content.len(), page.next), (102_400, Some(76_800)));
        let page = read_as(Encoding::Base64, b"\xe2\x82", 0, 9, false);
        assert_eq!((page.next, page.truncated), (Some(2), false));
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        let refused = PageRequest::new(0, 0, Encoding::Utf8);
        assert_eq!(refused, Err(LimitError::Zero { name: "limit" }));
    }
}
