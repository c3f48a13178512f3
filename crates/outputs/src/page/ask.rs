//! What a caller asks of a page, parsed.

use super::Encoding;
use crate::limits::{CEILING_MAX_BYTES, LimitError, MAX_PAGE_BYTES, MAX_PAGE_LINES};

/// What any page of a host may hold, whatever the caller asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCaps {
    max_bytes: u32,
    max_lines: u32,
}

impl Default for PageCaps {
    fn default() -> Self {
        Self {
            max_bytes: MAX_PAGE_BYTES,
            max_lines: MAX_PAGE_LINES,
        }
    }
}

impl PageCaps {
    /// Both at least 1; bytes at most [`CEILING_MAX_BYTES`], so that a page fits a message.
    pub fn new(max_bytes: u32, max_lines: u32) -> Result<Self, LimitError> {
        for (name, cap) in [("page_max_bytes", max_bytes), ("page_max_lines", max_lines)] {
            if cap == 0 {
                return Err(LimitError::Zero { name });
            }
        }
        if max_bytes > CEILING_MAX_BYTES {
            return Err(LimitError::AboveCeiling {
                asked: max_bytes.into(),
                ceiling: CEILING_MAX_BYTES,
            });
        }
        Ok(Self {
            max_bytes,
            max_lines,
        })
    }
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At that many raw bytes from the beginning.
    Offset(u64),
    /// At that line, from 1.
    Line(u64),
    /// At the last of the lines, or the one that many before the end: 1 is the last.
    FromEnd(u64),
}

impl Start {
    /// `line` counts from 1, or from -1 for the last one; it and an `offset` above 0 exclude each other.
    pub fn new(offset: u64, line: Option<i64>) -> Result<Self, LimitError> {
        match line {
            None => Ok(Self::Offset(offset)),
            Some(_) if offset != 0 => Err(LimitError::LineAndOffset),
            Some(0) => Err(LimitError::LineZero),
            Some(line) if line < 0 => Ok(Self::FromEnd(line.unsigned_abs())),
            Some(line) => Ok(Self::Line(line.unsigned_abs())),
        }
    }
}

/// How much a page may hold, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub(super) limit: u32,
    pub(super) lines: Option<u32>,
    pub(super) encoding: Encoding,
}

impl Extent {
    /// `limit` (bytes) and `lines` are clamped to what a page may carry, and are that where they are not given; 0 is refused.
    /// As base64, `limit` counts raw bytes, and only lines that were asked for bound a page.
    pub fn new(
        limit: Option<u64>,
        lines: Option<u64>,
        encoding: Encoding,
        caps: PageCaps,
    ) -> Result<Self, LimitError> {
        for (name, asked) in [("limit", limit), ("lines", lines)] {
            if asked == Some(0) {
                return Err(LimitError::Zero { name });
            }
        }
        let clamped = |asked: Option<u64>, most: u32| {
            asked.map_or(most, |asked| u32::try_from(asked).unwrap_or(most).min(most))
        };
        let (most, lines) = match encoding {
            Encoding::Utf8 => (caps.max_bytes, Some(clamped(lines, caps.max_lines))),
            // Base64 makes 4 characters of 3 bytes.
            Encoding::Base64 => (
                (caps.max_bytes / 4 * 3).max(1),
                lines.map(|_| clamped(lines, caps.max_lines)),
            ),
        };
        Ok(Self {
            limit: clamped(limit, most),
            lines,
            encoding,
        })
    }
}

/// A read of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Where it begins.
    pub start: Start,
    /// How much of it.
    pub extent: Extent,
    /// Whether the file's digest has to be that of its record.
    pub verify: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(offset: u64, line: Option<i64>, expected: Result<Start, LimitError>) {
        assert_eq!(Start::new(offset, line), expected);
    }

    #[test]
    fn a_page_begins_at_one_place() {
        check(7, None, Ok(Start::Offset(7)));
        check(0, Some(3), Ok(Start::Line(3)));
        check(0, Some(-100), Ok(Start::FromEnd(100)));
        check(0, Some(i64::MIN), Ok(Start::FromEnd(1 << 63)));
        check(0, Some(0), Err(LimitError::LineZero));
        check(1, Some(1), Err(LimitError::LineAndOffset));
    }

    #[test]
    fn what_is_asked_is_clamped_and_nothing_is_refused() {
        let caps = PageCaps::new(1000, 10).expect("sound");
        let of = |limit, lines, encoding| Extent::new(limit, lines, encoding, caps);
        let utf8 = of(Some(5000), Some(u64::MAX), Encoding::Utf8).expect("clamped");
        assert_eq!((utf8.limit, utf8.lines), (1000, Some(10)));
        let unasked = of(None, None, Encoding::Base64).expect("the caps");
        assert_eq!((unasked.limit, unasked.lines), (750, None));
        let little = of(Some(1), Some(2), Encoding::Base64).expect("as asked");
        assert_eq!((little.limit, little.lines), (1, Some(2)));
        for (limit, lines, name) in [(Some(0), None, "limit"), (None, Some(0), "lines")] {
            assert_eq!(
                of(limit, lines, Encoding::Utf8),
                Err(LimitError::Zero { name })
            );
        }
    }

    #[test]
    fn caps_are_bounded_themselves() {
        assert!(PageCaps::new(0, 1).is_err() && PageCaps::new(1, 0).is_err());
        assert!(PageCaps::new(CEILING_MAX_BYTES, u32::MAX).is_ok());
        assert!(PageCaps::new(CEILING_MAX_BYTES + 1, 1).is_err());
    }
}
