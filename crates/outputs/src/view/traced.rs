//! Shown bytes, and where in the stream each of them stood.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Bytes of a stream with others left out between them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traced {
    /// Offset in the stream of the first byte.
    pub from: u64,
    /// The bytes.
    #[serde(skip)]
    pub text: Vec<u8>,
    /// Pairs of numbers in LEB128: after so many bytes of the text, so many of the stream are left out.
    /// What follows the last pair stands in a row. Two bytes for a usual escape sequence.
    #[serde(skip)]
    pub gaps: Vec<u8>,
}

impl Traced {
    /// Where in the stream a byte of the text stood. Linear in the number of gaps before it.
    pub fn offset_of(&self, index: usize) -> u64 {
        self.runs()
            .find(|(_, run)| run.contains(&index))
            .map_or(self.from, |(from, run)| {
                from.saturating_add((index - run.start) as u64)
            })
    }

    /// The parts of the text that stand in a row in the stream, each with its offset there.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u64, Range<usize>)> + '_ {
        let (mut gaps, mut from, mut at) = (self.gaps.as_slice(), self.from, 0);
        std::iter::from_fn(move || {
            let left = self.text.len() - at;
            let (shown, dropped) = pair(&mut gaps).unwrap_or((left, 0));
            let shown = shown.min(left);
            let run = (from, at..at + shown);
            at += shown;
            from = from.saturating_add(shown as u64).saturating_add(dropped);
            (shown > 0).then_some(run)
        })
    }
}

/// Makes a [`Traced`] as the bytes come.
#[derive(Debug, Default)]
pub struct Tracer {
    traced: Traced,
    /// Bytes since the last gap.
    row: usize,
    /// Offset in the stream behind the last byte.
    end: u64,
}

/// A point to go back to. Worth nothing after bytes before it were dropped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    text: usize,
    gaps: usize,
    row: usize,
    end: u64,
}

impl Tracer {
    /// Bytes that stand at `from` in the stream, behind all that came before.
    pub fn push(&mut self, from: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.traced.text.is_empty() {
            self.clear();
            self.traced.from = from;
        } else if from > self.end {
            put(&mut self.traced.gaps, self.row as u64);
            put(&mut self.traced.gaps, from - self.end);
            self.row = 0;
        }
        self.traced.text.extend_from_slice(bytes);
        self.row += bytes.len();
        self.end = from + bytes.len() as u64;
    }

    /// The same with all bytes of another, which stand behind these.
    pub(super) fn append(&mut self, other: &Self) {
        for (from, run) in other.traced.runs() {
            self.push(from, &other.traced.text[run]);
        }
    }

    /// Leaves only the last `len` bytes.
    pub(super) fn keep_last(&mut self, len: usize) {
        let mut gone = self.traced.text.len().saturating_sub(len);
        if gone == 0 {
            return;
        }
        self.traced.text.drain(..gone);
        let mut gaps = self.traced.gaps.as_slice();
        let mut rest = Vec::new();
        let mut from = self.traced.from;
        loop {
            match pair(&mut gaps) {
                Some((shown, dropped)) if shown <= gone => {
                    gone -= shown;
                    from += shown as u64 + dropped;
                }
                Some((shown, dropped)) => {
                    put(&mut rest, (shown - gone) as u64);
                    put(&mut rest, dropped);
                    rest.extend_from_slice(gaps);
                    break;
                }
                None => {
                    self.row -= gone;
                    break;
                }
            }
        }
        self.traced.from = from + gone as u64;
        self.traced.gaps = rest;
    }

    pub(super) fn len(&self) -> usize {
        self.traced.text.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.traced.text.capacity() + self.traced.gaps.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.go_back(Mark::default());
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            text: self.traced.text.len(),
            gaps: self.traced.gaps.len(),
            row: self.row,
            end: self.end,
        }
    }

    pub(super) fn go_back(&mut self, mark: Mark) {
        self.traced.text.truncate(mark.text);
        self.traced.gaps.truncate(mark.gaps);
        self.row = mark.row;
        self.end = mark.end;
    }

    /// What was traced.
    pub fn finish(self) -> Traced {
        self.traced
    }
}

fn put(to: &mut Vec<u8>, mut number: u64) {
    while let Some(rest) = Some(number >> 7).filter(|&rest| rest > 0) {
        to.push(low(number) | 0x80);
        number = rest;
    }
    to.push(low(number));
}

/// The lowest seven bits.
fn low(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// The next number; `None` at the end, or where it is not one.
fn number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn pair(from: &mut &[u8]) -> Option<(usize, u64)> {
    let shown = usize::try_from(number(from)?).ok()?;
    Some((shown, number(from)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (offset, bytes) pieces, traced; every byte is where it was.
    #[track_caller]
    fn check(pieces: &[(u64, &str)], keep: usize) {
        let mut tracer = Tracer::default();
        let mut offsets = Vec::new();
        let mut text = String::new();
        for (from, piece) in pieces {
            tracer.push(*from, piece.as_bytes());
            offsets.extend(*from..*from + piece.len() as u64);
            text.push_str(piece);
        }
        tracer.keep_last(keep);
        let gone = text.len().saturating_sub(keep);
        // What comes later joins what is left.
        let end = offsets.last().map_or(7, |last| last + 300);
        tracer.push(end, b"!");
        offsets.push(end);
        text.push('!');
        let traced = tracer.finish();
        assert_eq!(traced.text, &text.as_bytes()[gone..]);
        let seen: Vec<u64> = (0..traced.text.len())
            .map(|i| traced.offset_of(i))
            .collect();
        assert_eq!(seen, &offsets[gone..], "{pieces:?} cut to {keep}");
    }

    #[test]
    fn every_byte_is_where_it_was_however_much_is_kept() {
        let pieces = [
            (3, "abc"),
            (6, "d"),
            (10, "e"),
            (1 << 40, "fgh"),
            (u64::from(u32::MAX) << 20, "i"),
        ];
        for keep in 0..12 {
            check(&pieces, keep);
        }
        check(&[], 0);
        check(&[(0, "abc")], 2);
    }

    #[test]
    fn what_stands_in_a_row_costs_nothing() {
        let mut tracer = Tracer::default();
        tracer.push(5, b"abc");
        tracer.push(8, b"def");
        assert!(tracer.finish().gaps.is_empty());
    }

    #[test]
    fn a_mark_leads_back() {
        let mut tracer = Tracer::default();
        tracer.push(0, b"ab");
        tracer.push(5, b"c");
        let mark = tracer.mark();
        tracer.push(6, b"d");
        tracer.push(9, b"e");
        tracer.go_back(mark);
        tracer.push(6, b"x");
        tracer.push(20, b"y");
        let traced = tracer.finish();
        assert_eq!(traced.text, b"abcxy");
        let seen: Vec<u64> = (0..5).map(|i| traced.offset_of(i)).collect();
        assert_eq!(seen, [0, 1, 5, 6, 20]);
    }

    #[test]
    fn numbers_that_contradict_the_text_give_some_offset_and_no_panic() {
        for gaps in [&[0xff; 12][..], &[200, 1], &[1], &[0, 0, 0, 0], &[255, 255]] {
            let traced = Traced {
                from: u64::MAX - 1,
                text: b"abc".to_vec(),
                gaps: gaps.to_vec(),
            };
            for index in 0..4 {
                let _ = traced.offset_of(index);
            }
        }
    }
}
