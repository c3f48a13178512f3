//! Characters and lines in bytes that may not be UTF-8.
//!
//! Bytes are read as a row of *units*: each is one character, or one maximal ill-formed subpart,
//! which shows as one U+FFFD exactly as in [`String::from_utf8_lossy`]. NUL, which no consumer of
//! text takes gladly, shows as U+FFFD, too. So the text of some bytes is never shorter than they are.
//!
//! Only LF ends a line. A cut falls between units and never between CR and LF.

use crate::limits::{LONGEST_CUT_UNIT, SNIFF_BYTES};

/// What stands for bytes that are not text.
pub const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// One character, or one run of bytes that shows as one replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Raw bytes.
    pub raw: usize,
    /// How it shows.
    pub kind: Kind,
}

/// How a unit shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As itself.
    Character,
    /// NUL: valid UTF-8, and replaced all the same.
    Nul,
    /// Ill-formed, whatever follows.
    Ill,
    /// The beginning of a character, where the bytes end. Ill-formed if nothing follows.
    Unfinished,
}

impl Unit {
    /// UTF-8 bytes of its text.
    pub fn text(self) -> usize {
        if self.is_replaced() {
            REPLACEMENT.len_utf8()
        } else {
            self.raw
        }
    }

    /// Whether it shows as a replacement.
    pub fn is_replaced(self) -> bool {
        self.kind != Kind::Character
    }
}

/// The first unit of `bytes`; `None` if they are empty. (Unicode 16, table 3-7.)
pub fn first_unit(bytes: &[u8]) -> Option<Unit> {
    let (length, second) = match *bytes.first()? {
        0 => {
            return Some(Unit {
                raw: 1,
                kind: Kind::Nul,
            });
        }
        0x01..=0x7f => {
            return Some(Unit {
                raw: 1,
                kind: Kind::Character,
            });
        }
        0xc2..=0xdf => (2, 0x80..=0xbf),
        0xe0 => (3, 0xa0..=0xbf),
        0xed => (3, 0x80..=0x9f),
        0xe1..=0xef => (3, 0x80..=0xbf),
        0xf0 => (4, 0x90..=0xbf),
        0xf1..=0xf3 => (4, 0x80..=0xbf),
        0xf4 => (4, 0x80..=0x8f),
        _ => {
            return Some(Unit {
                raw: 1,
                kind: Kind::Ill,
            });
        }
    };
    let good = |(i, b): (usize, &u8)| {
        if i == 0 {
            second.contains(b)
        } else {
            is_continuation(*b)
        }
    };
    let raw = 1 + bytes[1..]
        .iter()
        .take(length - 1)
        .enumerate()
        .take_while(|&x| good(x))
        .count();
    let kind = match raw {
        _ if raw == length => Kind::Character,
        _ if raw == bytes.len() => Kind::Unfinished,
        _ => Kind::Ill,
    };
    Some(Unit { raw, kind })
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// The units of `bytes`, which begin at one.
pub fn units(bytes: &[u8]) -> impl Iterator<Item = Unit> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let unit = first_unit(rest)?;
        rest = &rest[unit.raw..];
        Some(unit)
    })
}

/// Whether the text of `bytes` is exactly `bytes`: valid UTF-8 without NUL.
pub fn is_exact(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() && memchr::memchr(0, bytes).is_none()
}

/// The text of `bytes`, and whether something in it was replaced.
pub fn decode(bytes: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(bytes);
    if is_exact(bytes) {
        return (text.into_owned(), false);
    }
    (text.replace('\0', "\u{fffd}"), true)
}

/// UTF-8 bytes of the text of `bytes`, without making it.
pub fn text_len(bytes: &[u8]) -> usize {
    if is_exact(bytes) {
        bytes.len()
    } else {
        units(bytes).map(Unit::text).sum()
    }
}

/// Lines of `bytes`: each LF ends one, and what follows the last LF is one.
pub fn count_lines(bytes: &[u8]) -> usize {
    count_newlines(bytes) + usize::from(bytes.last().is_some_and(|&b| b != b'\n'))
}

/// LF bytes.
pub fn count_newlines(bytes: &[u8]) -> usize {
    bytecount::count(bytes, b'\n')
}

/// The first position at or after `at` that is not inside a unit.
///
/// Only the up to 3 bytes before `at` and the up to 3 after it decide: a unit that spans `at`
/// begins with the nearest byte before it that is not a continuation.
pub fn next_boundary(bytes: &[u8], at: usize) -> usize {
    spanning(bytes, at).map_or(at, |(start, unit)| start + unit.raw)
}

/// The unit that `at` is inside of, and where it begins.
pub fn spanning(bytes: &[u8], at: usize) -> Option<(usize, Unit)> {
    let near = at.saturating_sub(LONGEST_CUT_UNIT - 1);
    let before = bytes.get(near..at)?;
    let start = near + before.iter().rposition(|&b| !is_continuation(b))?;
    let unit = first_unit(&bytes[start..])?;
    (start + unit.raw > at).then_some((start, unit))
}

/// Whether `at` stands between a CR and its LF.
pub fn splits_crlf(bytes: &[u8], at: usize) -> bool {
    at > 0 && bytes.get(at - 1..=at) == Some(b"\r\n")
}

/// Raw length of the longest prefix that ends at a cut point and whose text has at most `budget` bytes.
pub fn prefix_within(bytes: &[u8], budget: usize) -> usize {
    let mut raw = 0;
    let mut left = budget;
    for unit in units(bytes) {
        if unit.text() > left {
            break;
        }
        left -= unit.text();
        raw += unit.raw;
    }
    if splits_crlf(bytes, raw) {
        raw - 1
    } else {
        raw
    }
}

/// Where the longest suffix begins that begins at a cut point and whose text has at most `budget`
/// bytes. `bytes` may begin inside a unit if they are longer than `budget` by 3 bytes or more.
pub fn suffix_within(bytes: &[u8], budget: usize) -> usize {
    // Text is never shorter than its bytes: what lies before this is out.
    let mut start = next_boundary(bytes, bytes.len().saturating_sub(budget));
    let mut excess = text_len(&bytes[start..]).saturating_sub(budget);
    while excess > 0 {
        let Some(unit) = first_unit(&bytes[start..]) else {
            break;
        };
        start += unit.raw;
        excess = excess.saturating_sub(unit.text());
    }
    if splits_crlf(bytes, start) {
        start + 1
    } else {
        start
    }
}

/// Length of the unfinished character at the end of `bytes`, 0 if there is none.
pub fn unfinished(bytes: &[u8]) -> usize {
    let near = bytes.len().saturating_sub(LONGEST_CUT_UNIT - 1);
    let Some(start) = bytes[near..].iter().rposition(|&b| !is_continuation(b)) else {
        return 0;
    };
    match first_unit(&bytes[near + start..]) {
        Some(Unit {
            raw,
            kind: Kind::Unfinished,
        }) => raw,
        _ => 0,
    }
}

/// Whether a stream that begins with `head` is binary: a NUL, or more than 30 % undecodable bytes,
/// among the characters that begin in its first [`SNIFF_BYTES`]. `head` is the whole stream, or
/// longer than those by at least [`LONGEST_CUT_UNIT`] − 1 bytes.
pub fn is_binary(head: &[u8]) -> bool {
    let (mut seen, mut ill) = (0, 0);
    for unit in units(head) {
        if seen >= SNIFF_BYTES {
            break;
        }
        match unit.kind {
            Kind::Nul => return true,
            Kind::Ill | Kind::Unfinished => ill += unit.raw,
            Kind::Character => {}
        }
        seen += unit.raw;
    }
    ill * 10 > seen * 3
}

#[cfg(test)]
mod tests;
