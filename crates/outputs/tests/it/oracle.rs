//! The law, written down naively over whole strings. It shares no code with the engine; of the
//! marker it knows only what it is told: what was reserved for it.

use willcall_outputs::limits::{Limits, Strategy};
use willcall_outputs::receipt::Omitted;

/// What shows as one: a character, or one replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glyph {
    pub(crate) raw: usize,
    pub(crate) text: String,
    pub(crate) replaced: bool,
}

impl Glyph {
    fn is(&self, text: &str) -> bool {
        self.text == text && !self.replaced
    }
}

pub(crate) fn glyphs(bytes: &[u8]) -> Vec<Glyph> {
    let replacement = |raw| Glyph {
        raw,
        text: "\u{fffd}".into(),
        replaced: true,
    };
    let mut all = Vec::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let plain = Glyph {
                raw: c.len_utf8(),
                text: c.to_string(),
                replaced: false,
            };
            all.push(if c == '\0' { replacement(1) } else { plain });
        }
        if !chunk.invalid().is_empty() {
            all.push(replacement(chunk.invalid().len()));
        }
    }
    all
}

pub(crate) fn text(glyphs: &[Glyph]) -> String {
    glyphs.iter().map(|g| g.text.as_str()).collect()
}

pub(crate) fn raw(glyphs: &[Glyph]) -> usize {
    glyphs.iter().map(|g| g.raw).sum()
}

fn lines(glyphs: &[Glyph]) -> Vec<&[Glyph]> {
    glyphs.split_inclusive(|g| g.is("\n")).collect()
}

pub(crate) fn count_lines(text: &str) -> usize {
    text.split_inclusive('\n').count()
}

pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let (mut at, mut ill, mut nul) = (0, 0, false);
    for glyph in glyphs(bytes) {
        if at >= 8192 {
            break;
        }
        nul |= glyph.replaced && bytes[at] == 0;
        ill += if glyph.replaced && bytes[at] != 0 {
            glyph.raw
        } else {
            0
        };
        at += glyph.raw;
    }
    nul || 100 * ill > 30 * at
}

pub(crate) fn fits(bytes: &[u8], limits: Limits) -> bool {
    let text = text(&glyphs(bytes));
    text.len() <= limits.max_bytes() as usize && count_lines(&text) <= limits.max_lines() as usize
}

/// Takes whole lines in the order given; `cut` shortens one to a budget.
fn side<'a>(
    lines: impl Iterator<Item = &'a [Glyph]>,
    max_bytes: usize,
    max_lines: usize,
    cut: impl Fn(&'a [Glyph], usize) -> &'a [Glyph],
) -> usize {
    let (mut taken, mut bytes) = (0, 0);
    for line in lines.take(max_lines) {
        let len = text(line).len();
        if bytes + len <= max_bytes {
            bytes += len;
            taken += line.len();
            continue;
        }
        if len > max_bytes {
            taken += cut(line, max_bytes - bytes).len();
        }
        break;
    }
    taken
}

/// How many glyphs have at most `budget` bytes of text together.
fn within<'a>(glyphs: impl Iterator<Item = &'a Glyph>, budget: usize) -> usize {
    let sum = |sum: &mut usize, glyph: &Glyph| {
        *sum += glyph.text.len();
        Some(*sum)
    };
    glyphs.scan(0, sum).take_while(|&sum| sum <= budget).count()
}

fn cut_end(line: &[Glyph], budget: usize) -> &[Glyph] {
    let mut n = within(line.iter(), budget);
    if n > 0 && n < line.len() && line[n - 1].is("\r") && line[n].is("\n") {
        n -= 1;
    }
    &line[..n]
}

fn cut_beginning(line: &[Glyph], budget: usize) -> &[Glyph] {
    let mut n = line.len() - within(line.iter().rev(), budget);
    if n > 0 && n < line.len() && line[n - 1].is("\r") && line[n].is("\n") {
        n += 1;
    }
    &line[n..]
}

/// What is reserved for the marker, if there is one.
pub(crate) type Reserved = Option<(usize, usize)>;

/// Head and tail of a text that does not fit.
pub(crate) fn head_and_tail(
    bytes: &[u8],
    limits: Limits,
    strategy: Strategy,
    reserved: Reserved,
) -> (Vec<Glyph>, Vec<Glyph>) {
    let (marker_bytes, marker_lines) = reserved.unwrap_or((0, 0));
    let rest_bytes = limits.max_bytes() as usize - marker_bytes;
    let rest_lines = limits.max_lines() as usize - marker_lines;
    let all = glyphs(bytes);
    let head = |b, l| side(lines(&all).into_iter(), b, l, cut_end);
    let tail = |b, l| side(lines(&all).into_iter().rev(), b, l, cut_beginning);
    let (h, t) = match strategy {
        Strategy::HeadTail if reserved.is_some() => (
            head(rest_bytes.div_ceil(2), rest_lines.div_ceil(2)),
            tail(rest_bytes / 2, rest_lines / 2),
        ),
        Strategy::HeadTail | Strategy::Head => (head(rest_bytes, rest_lines), 0),
        Strategy::Tail => (0, tail(rest_bytes, rest_lines)),
    };
    (all[..h].to_vec(), all[all.len() - t..].to_vec())
}

/// What lies between the first `head` and the last `tail` bytes, byte by byte.
pub(crate) fn omitted(bytes: &[u8], head: usize, tail: usize) -> Omitted {
    let out = head..bytes.len() - tail;
    let line_of = |at: usize| bytes[..at].split(|&b| b == b'\n').count() as u64;
    let (mut from, mut whole) = (0, 0);
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        whole += u64::from(out.start <= from && from + line.len() <= out.end);
        from += line.len();
    }
    Omitted {
        bytes: out.len() as u64,
        lines: whole,
        from_line: line_of(out.start),
        to_line: line_of(out.end - 1),
        offset: out.start as u64,
    }
}

/// The raw range of the page that begins at or after `offset`.
pub(crate) fn page(bytes: &[u8], offset: usize, limit: usize) -> (usize, usize) {
    let (mut start, mut all) = (0, glyphs(bytes).into_iter().peekable());
    while start < offset {
        start += all.next().expect("an offset inside the stream").raw;
    }
    let rest: Vec<Glyph> = all.collect();
    let (mut n, mut len, mut newlines) = (0, 0, 0);
    while n < rest.len() && newlines < 2000 && len + rest[n].text.len() <= limit {
        len += rest[n].text.len();
        newlines += usize::from(rest[n].is("\n"));
        n += 1;
    }
    if n > 0 && n < rest.len() && rest[n - 1].is("\r") && rest[n].is("\n") {
        n -= 1;
    }
    if n == 0 && !rest.is_empty() {
        let crlf = rest.len() > 1 && rest[0].is("\r") && rest[1].is("\n");
        n = if crlf { 2 } else { 1 };
    }
    (start, start + raw(&rest[..n]))
}
