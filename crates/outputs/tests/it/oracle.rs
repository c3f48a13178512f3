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

/// What is seen of a stream: some of its bytes, each with its offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen(pub(crate) Vec<(usize, u8)>);

impl Seen {
    pub(crate) fn all(stream: &[u8]) -> Self {
        Self(stream.iter().copied().enumerate().collect())
    }

    /// The line-local view: line by line, first without escape sequences, then without what is written over.
    pub(crate) fn by_line(stream: &[u8]) -> Self {
        let (mut seen, mut at) = (Vec::new(), 0);
        for line in stream.split_inclusive(|&b| b == b'\n') {
            let content = line.strip_suffix(b"\n").unwrap_or(line);
            let content = match content.strip_suffix(b"\r") {
                Some(content) if line.ends_with(b"\n") => content,
                _ => content,
            };
            let mut left = without_escapes(content);
            while left.last().is_some_and(|&(_, b)| b == b'\r') {
                left.pop();
            }
            let last_cr = left.iter().rposition(|&(_, b)| b == b'\r');
            left.drain(..last_cr.map_or(0, |cr| cr + 1));
            left.extend((content.len()..line.len()).map(|i| (i, line[i])));
            seen.extend(left.into_iter().map(|(i, b)| (at + i, b)));
            at += line.len();
        }
        Self(seen)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.iter().map(|&(_, b)| b).collect()
    }

    /// What of the stream lies between the first `head` and the last `tail` of the bytes seen.
    pub(crate) fn between(&self, stream: &[u8], head: usize, tail: usize) -> (usize, usize) {
        let from = self.0[..head].last().map_or(0, |&(at, _)| at + 1);
        let (before, shown) = self.0.split_at(self.0.len() - tail);
        let to = match (before.last(), shown.first()) {
            (_, None) => stream.len(),
            // A line that is seen from its beginning counts from its beginning.
            (Some(&(at, b'\n')), _) => at + 1,
            (_, Some(&(at, _))) => at,
        };
        (from, to)
    }
}

fn without_escapes(line: &[u8]) -> Vec<(usize, u8)> {
    let (mut left, mut at) = (Vec::new(), 0);
    while at < line.len() {
        if line[at] == 0x1b {
            at += escape_len(&line[at..]);
        } else {
            left.push((at, line[at]));
            at += 1;
        }
    }
    left
}

/// Length of the sequence that a line begins with.
fn escape_len(line: &[u8]) -> usize {
    let run = |from: usize, bytes: std::ops::RangeInclusive<u8>| {
        line[from..]
            .iter()
            .take_while(|b| bytes.contains(b))
            .count()
    };
    let one = |at: usize, bytes: std::ops::RangeInclusive<u8>| {
        usize::from(line.get(at).is_some_and(|b| bytes.contains(b)))
    };
    match line.get(1) {
        Some(b'[') => {
            let at = 2 + run(2, 0x20..=0x3f);
            at + one(at, 0x40..=0x7e)
        }
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let bell = line.iter().position(|&b| b == 7).map(|at| at + 1);
            let st = line[2..]
                .windows(2)
                .position(|pair| pair == b"\x1b\\")
                .map(|at| at + 4);
            bell.into_iter().chain(st).min().unwrap_or(line.len())
        }
        _ => {
            let at = 1 + run(1, 0x20..=0x2f);
            at + one(at, 0x30..=0x7e)
        }
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
