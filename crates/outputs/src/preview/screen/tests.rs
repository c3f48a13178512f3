use super::*;
use crate::capture::{Capture, Kept, Policy};
use crate::preview::{Place, degraded, preview};
use crate::receipt::Receipt;
use crate::view::Mode;
use proptest::prelude::{Just, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

const PLACE: Place<'_> = Place {
    file_path: "/o/r.tty.txt",
    output: "r/tty",
};

fn size() -> Size {
    Size::new(6, 40)
}

/// What a PTY wrote, and its file.
fn captured(stream: &[u8], limits: Limits, mode: Mode) -> (Captured, Vec<u8>) {
    let policy = Policy::Keep { max_kept: u64::MAX };
    let mut capture = Capture::new(limits, policy).on_terminal(size(), mode);
    let (mut rest, mut file) = (stream, Vec::new());
    while !rest.is_empty() {
        let space = capture.space();
        let n = space.len().min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        capture.commit(n);
        file.extend(capture.pending().concat());
        capture.wrote(capture.pending().concat().len());
        rest = &rest[n..];
    }
    capture.end();
    (capture.finish(None), file)
}

fn show_as(strategy: Strategy, stream: &[u8], max_bytes: u32, max_lines: u32) -> Receipt {
    let limits = Limits::new(max_bytes, max_lines).expect("limits of a test");
    let (captured, file) = captured(stream, limits, Mode::Auto);
    assert!(file == stream, "a PTY's stream always has a file");
    preview(&captured, limits, strategy, PLACE)
}

fn show(stream: &[u8], max_bytes: u32, max_lines: u32) -> Receipt {
    show_as(Strategy::HeadTail, stream, max_bytes, max_lines)
}

fn read_all(bytes: &[u8]) -> String {
    let read = Model::new(size()).read(bytes, 1 << 20, 1 << 20);
    read.expect("little")
}

fn numbered(n: u32) -> Vec<String> {
    (1..=n).map(|i| format!("\x1b[1m{i}\x1b[0m\r\n")).collect()
}

#[test]
fn what_fits_is_what_was_seen_and_always_has_a_file() {
    let stream = b"$ make\r\n\r10%\r\x1b[32m100%\x1b[0m\r\ndone\r\n";
    let receipt = show(stream, 1000, 100);
    assert_eq!(receipt.result, "$ make\n100%\ndone\n");
    assert!(!receipt.truncated && receipt.rendered && receipt.saved && !receipt.lossy);
    assert_eq!(receipt.view, View::Rendered);
    let receipt = show(b"no newline", 1000, 100);
    assert_eq!(
        (receipt.view, receipt.rendered, receipt.saved),
        (View::Text, false, true)
    );
}

#[test]
fn a_raw_view_shows_the_bytes() {
    let limits = Limits::default();
    let (captured, _) = captured(b"a\r\n\x1b[mb\r\n", limits, Mode::Raw);
    let receipt = preview(&captured, limits, Strategy::HeadTail, PLACE);
    assert_eq!(receipt.result, "a\r\n\x1b[mb\r\n");
    assert!(!receipt.rendered && receipt.saved);
    assert!(matches!(captured.kept, Kept::File { stored: 9, .. }));
}

#[test]
fn binary_comes_first() {
    let receipt = show(b"\x1b[2Ja\0b", 1000, 100);
    assert_eq!((receipt.view, receipt.rendered), (View::Binary, false));
}

#[test]
fn head_and_tail_are_lines_of_either_end() {
    let lines = numbered(1000);
    let receipt = show(lines.concat().as_bytes(), 2000, 20);
    let omitted = receipt.omitted.expect("cut");
    // 20 lines less 3 of the marker: 9 and 8.
    assert_eq!(
        (omitted.from_line, omitted.to_line, omitted.lines),
        (10, 992, 983)
    );
    assert_eq!(omitted.offset, lines[..9].concat().len() as u64);
    assert_eq!(omitted.bytes, lines[9..992].concat().len() as u64);
    let head = "1\n2\n3\n4\n5\n6\n7\n8\n9\n[... ";
    assert!(receipt.result.starts_with(head), "{}", receipt.result);
    let tail = "]\n993\n994\n995\n996\n997\n998\n999\n1000\n";
    assert!(receipt.result.ends_with(tail), "{}", receipt.result);
}

#[test]
fn a_progress_bar_longer_than_the_windows_shows_how_it_began_and_ended() {
    let bar: Vec<String> = (0..200_000)
        .map(|i| format!("\r{:>3}% of it", i / 2000))
        .collect();
    let receipt = show(bar.concat().as_bytes(), 3000, 100);
    let (head, rest) = receipt.result.split_once('\n').expect("lines");
    assert!(head.ends_with("% of it") && head.len() == 10, "{head}");
    assert!(rest.ends_with("]\n 99% of it"), "{rest}");
    assert!(receipt.truncated && receipt.rendered);
}

#[test]
fn a_line_longer_than_a_side_is_cut_outside_sequences() {
    let one = |i: u32| {
        let letter = char::from(b'a' + u8::try_from(i % 26).expect("small"));
        format!("\x1b[38;5;{}m{letter}", i % 256)
    };
    let line: Vec<String> = (0..3000).map(one).collect();
    let receipt = show(line.concat().as_bytes(), 1000, 100);
    let check = |text: Option<&str>| {
        let text = text.expect("a line");
        let letters = text.bytes().all(|b| b.is_ascii_lowercase());
        assert!(letters && text.len() > 200, "{text}");
    };
    check(receipt.result.lines().next());
    check(receipt.result.lines().last());
}

#[test]
fn frames_that_would_all_fit_still_omit_something() {
    let frame = |n: u32| format!("\x1b[H{n} one\x1b[K\r\n{n} two\x1b[K\r\n{n} three\x1b[K\r\n");
    let frames: Vec<String> = (0..400).map(frame).collect();
    let stream = frames.concat();
    let omitted = show(stream.as_bytes(), 1000, 2).omitted.expect("cut");
    assert!(omitted.bytes > 0 && omitted.from_line <= omitted.to_line);
    let last = "399 one\n399 two\n399 three\n";
    let limits = Limits::new(100_000, 3).expect("above 0");
    let (captured, _) = captured(stream.as_bytes(), limits, Mode::Auto);
    let receipt = preview(&captured, limits, Strategy::HeadTail, PLACE);
    assert_eq!((receipt.result.as_str(), receipt.truncated), (last, false));
}

#[test]
fn a_degraded_one_is_read_on_the_terminal_too() {
    let limits = Limits::default();
    let (captured, _) = captured(numbered(1000).concat().as_bytes(), limits, Mode::Auto);
    let receipt = degraded(&captured, limits, 200, PLACE);
    assert!(
        receipt.result.starts_with("1\n2\n3\n"),
        "{}",
        receipt.result
    );
    assert!(receipt.result.ends_with(" ...]\n") && receipt.result.len() <= 200);
    assert!(receipt.rendered);
}

fn stream() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    let sequences = vec![
        "\r",
        "\x1b[2A",
        "\x1b[K",
        "\x1b[31m",
        "\x1b[H",
        "\x1b[2J",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b[5;3H",
        "\x08",
        "\t",
        "\x1b[3",
        "\x1b]0;t\x07",
        "\x1bc",
        "\n",
    ];
    let piece = prop_oneof![
        4 => "[a-z é€日]{0,60}",
        4 => Just("\r\n".to_owned()),
        2 => prop::sample::select(sequences).prop_map(str::to_owned),
    ];
    let ill = prop::option::of(any::<prop::sample::Index>());
    (prop::collection::vec(piece, 0..150), ill).prop_map(|(pieces, ill)| {
        let mut bytes = pieces.concat().into_bytes();
        if let (Some(ill), false) = (ill, bytes.is_empty()) {
            let at = ill.index(bytes.len());
            bytes[at] = 0xff;
        }
        bytes
    })
}

proptest! {
    /// Never beyond the limits; head and tail are what is read of the parts that are not omitted.
    #[test]
    fn screens_obey_the_law(
        stream in stream(),
        max_bytes in prop_oneof![1..40u32, 40..900u32],
        max_lines in prop_oneof![1..5u32, 5..40u32],
        strategy in prop_oneof![Just(Strategy::HeadTail), Just(Strategy::Head), Just(Strategy::Tail)],
    ) {
        let receipt = show_as(strategy, &stream, max_bytes, max_lines);
        prop_assert!(receipt.result.len() <= max_bytes as usize);
        prop_assert!(text::count_lines(receipt.result.as_bytes()) <= max_lines as usize);
        prop_assert_eq!(receipt.truncated, receipt.omitted.is_some());
        prop_assert!(receipt.saved != stream.is_empty());
        let Some(omitted) = receipt.omitted else {
            prop_assert_eq!(receipt.result, read_all(&stream));
            return Ok(());
        };
        prop_assert!(omitted.bytes > 0);
        let index = |n: u64| usize::try_from(n).expect("short");
        let (head, tail) = (index(omitted.offset), index(omitted.offset + omitted.bytes));
        prop_assert!(tail <= stream.len());
        if receipt.result.bytes().all(|b| b == b'.') {
            return Ok(());
        }
        prop_assert!(receipt.result.starts_with(&read_all(&stream[..head])));
        prop_assert!(receipt.result.ends_with(&read_all(&stream[tail..])));
    }
}
