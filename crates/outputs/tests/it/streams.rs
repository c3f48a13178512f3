//! Streams as awkward programs write them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// One thing that a program writes, and how often in a row.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![
        6 => "[a-z ]{1,12}".prop_map(String::into_bytes),
        5 => Just(b"\n".to_vec()),
        3 => Just(b"\r\n".to_vec()),
        2 => Just(b"\r".to_vec()),
        4 => "[a-zé€😀]{0,6}\n".prop_map(String::into_bytes),
        3 => "[é€😀\u{feff}\u{2028}\u{85}]{1,4}".prop_map(String::into_bytes),
        2 => prop::sample::select(BROKEN).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 1..6),
    ];
    let times = prop_oneof![12 => Just(1usize), 2 => 2..9usize, 1 => 9..300usize];
    (bytes, times).prop_map(|(bytes, times)| bytes.repeat(times))
}

/// What programs write that think that they write to a terminal, whole and cut short.
const SEQUENCES: &[&str] = &[
    "\x1b[0m",
    "\x1b[1;31m",
    "\x1b[K",
    "\x1b[2J\x1b[H",
    "\x1b[?25l",
    "\x1b[",
    "\x1b[3",
    "\x1b",
    "\x1b\x1b",
    "\x1b(B",
    "\x1b(",
    "\x1b7",
    "\x1b\\",
    "\x1b]0;a title\x07",
    "\x1b]8;;https://example.org/é\x1b\\",
    "\x1b]0;",
    "\x1bP1$r\x1b\\",
    "\x1b_",
    "\x1b^x\x07",
    "\x1bX",
    "\x07",
    "\r",
    "\r\r\n",
    "\r\x1b[K",
    "\r\x1b[K\n",
    "\r50%",
    "\x1b[32m#\x1b[0m",
];

/// Mostly with sequences and bare CRs among other pieces.
pub(crate) fn terminal_stream() -> impl Strategy<Value = Vec<u8>> {
    let sequence = prop::sample::select(SEQUENCES).prop_map(|s| s.as_bytes().to_vec());
    let times = prop_oneof![12 => Just(1usize), 2 => 2..9usize, 1 => 9..300usize];
    let sequence = (sequence, times).prop_map(|(bytes, times)| bytes.repeat(times));
    let pieces = vec(prop_oneof![1 => piece(), 1 => sequence], 0..40);
    (beginning(), pieces).prop_map(|(mut stream, pieces)| {
        stream.extend(pieces.concat());
        stream
    })
}

/// Ill-formed in every way: cut short, overlong, surrogates, too large, stray, and NUL.
const BROKEN: &[&[u8]] = &[
    b"\0",
    b"\xff",
    b"\x80",
    b"\xe2\x82",
    b"\xe2\x82\xe2\x82\xac",
    b"\xf0\x9f\x98",
    b"\xf0\x9f\x98\n",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf0\x90\x80\x80\x80",
];

/// Mostly short; sometimes with a long beginning of text, so that NULs come too late to make the
/// stream binary; sometimes longer than every window.
pub(crate) fn stream() -> impl Strategy<Value = Vec<u8>> {
    (beginning(), vec(piece(), 0..40)).prop_map(|(mut stream, pieces)| {
        stream.extend(pieces.concat());
        stream
    })
}

fn beginning() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => Just(Vec::new()),
        1 => (8185..8200usize).prop_map(|n| vec![b'x'; n]),
        1 => (100..1200usize).prop_map(|n| b"0123456\n".repeat(n)),
        1 => (2000..9000usize).prop_map(|n| "€".repeat(n).into_bytes()),
    ]
}

/// Where reads end.
pub(crate) fn cuts() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 0..12)
}

/// The stream in the chunks that the cuts make, empty ones included.
pub(crate) fn chunks<'a>(stream: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    ends.push(stream.len());
    ends.sort_unstable();
    let mut from = 0;
    let mut chunk = |end| &stream[std::mem::replace(&mut from, end)..end];
    ends.into_iter().map(&mut chunk).collect()
}
