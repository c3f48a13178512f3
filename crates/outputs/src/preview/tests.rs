use super::*;
use crate::capture::{Capture, Loss, Policy};

const PLACE: Place<'_> = Place {
    file_path: "/o/r.stdout.txt",
    output: "r/stdout",
};

/// A capture whose file takes everything.
fn captured(stream: &[u8], limits: Limits) -> Captured {
    let mut capture = Capture::new(limits, Policy::Keep { max_kept: u64::MAX });
    let mut rest = stream;
    while !rest.is_empty() {
        let space = capture.space();
        let n = space.len().min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        capture.commit(n);
        capture.wrote(capture.pending().concat().len());
        rest = &rest[n..];
    }
    capture.end();
    capture.wrote(capture.pending().concat().len());
    capture.finish(Some("blake3:00".into()))
}

fn show_as(strategy: Strategy, stream: &[u8], max_bytes: u32, max_lines: u32) -> Receipt {
    let limits = Limits::new(max_bytes, max_lines).expect("limits of a test");
    preview(&captured(stream, limits), limits, strategy, PLACE)
}

fn show(stream: &[u8], max_bytes: u32, max_lines: u32) -> Receipt {
    show_as(Strategy::HeadTail, stream, max_bytes, max_lines)
}

#[test]
fn what_fits_goes_through_without_a_slip() {
    let receipt = show(b"one\ntwo", 7, 2);
    assert_eq!(receipt.result, "one\ntwo");
    assert!(!receipt.truncated && !receipt.saved && receipt.complete && !receipt.lossy);
    assert_eq!(
        (receipt.file_path, receipt.output, receipt.digest),
        (None, None, None)
    );
    assert_eq!(
        (receipt.omitted, receipt.reason, receipt.dropped_bytes),
        (None, None, 0)
    );
}

#[test]
fn a_lossy_text_that_fits_is_whole_and_kept() {
    let receipt = show(b"hello\xffworld\n", 100, 10);
    assert_eq!(receipt.result, "hello\u{fffd}world\n");
    assert!(!receipt.truncated && receipt.lossy && receipt.saved);
    assert_eq!(receipt.file_path.as_deref(), Some(PLACE.file_path));
}

/// 12 raw bytes, 14 of text.
#[test]
fn limits_count_the_text_and_not_the_bytes() {
    assert!(!show(b"hello\xffworld\n", 14, 10).truncated);
    assert!(show(b"hello\xffworld\n", 13, 10).truncated);
}

#[test]
fn head_marker_and_tail_add_up() {
    let stream = (1..=1000)
        .map(|i| i.to_string())
        .collect::<Vec<_>>()
        .join("\n")
        + "\n";
    let receipt = show(stream.as_bytes(), 102_400, 20);
    let omitted = receipt.omitted.expect("truncated");
    // 20 lines less 3 of the marker: 9 and 8.
    assert_eq!(
        (omitted.from_line, omitted.to_line, omitted.lines),
        (10, 992, 983)
    );
    assert_eq!(omitted.offset, 18);
    assert!(
        receipt
            .result
            .starts_with("1\n2\n3\n4\n5\n6\n7\n8\n9\n[... ")
    );
    assert!(
        receipt
            .result
            .ends_with("]\n993\n994\n995\n996\n997\n998\n999\n1000\n")
    );
    assert_eq!(receipt.digest.as_deref(), Some("blake3:00"));
}

#[test]
fn a_head_cut_inside_a_line_is_ended_by_the_marker() {
    let receipt = show(&[b'a'; 1000], 100, 2000);
    let omitted = receipt.omitted.expect("truncated");
    assert_eq!(
        (omitted.from_line, omitted.to_line, omitted.lines),
        (1, 1, 0)
    );
    let expected = format!(
        "{}\n[... {} bytes, 0 lines omitted ...]\n{}",
        "a".repeat(31),
        omitted.bytes,
        "a".repeat(30)
    );
    assert_eq!(receipt.result, expected);
}

#[test]
fn one_side_alone_shows_the_end_that_was_asked_for() {
    let stream = b"one\ntwo\nthree";
    assert_eq!(show(stream, 100, 1).result, "one\n");
    assert_eq!(show_as(Strategy::Head, stream, 100, 1).result, "one\n");
    assert_eq!(show_as(Strategy::Tail, stream, 100, 1).result, "three");
}

#[test]
fn the_marker_stands_where_something_is_missing() {
    let stream = b"0123456\n".repeat(1000);
    let head = show_as(Strategy::Head, &stream, 2000, 2000).result;
    let tail = show_as(Strategy::Tail, &stream, 2000, 2000).result;
    assert!(head.starts_with("0123456\n") && head.ends_with("]\n"));
    assert!(tail.starts_with("[... ") && tail.ends_with("0123456\n"));
}

#[test]
fn not_even_one_character_fits() {
    for (max_bytes, expected) in [(1, "."), (2, ".."), (3, "...")] {
        let receipt = show("😀😀".as_bytes(), max_bytes, 1);
        assert_eq!(receipt.result, expected);
        assert_eq!(
            receipt
                .omitted
                .map(|omitted| (omitted.offset, omitted.bytes)),
            Some((0, 8))
        );
        assert!(receipt.truncated && !receipt.lossy && receipt.saved);
    }
    assert_eq!(show(b"\r\n\r\n", 1, 1).result, ".");
    assert_eq!(show("😀😀".as_bytes(), 4, 1).result, "😀");
}

/// The line before the last fits a side of its own, so it is left out; one byte more, and it is
/// cut. Which of the two is known only from all of it.
#[test]
fn a_long_line_is_judged_by_all_of_it() {
    let limits = Limits::new(20_000, 2000).expect("limits of a test");
    let last = vec![b'z'; 15_000];
    let shown = |len: usize| {
        let stream = [
            &vec![b'y'; 60_000][..],
            b"\n",
            &vec![b'Q'; len],
            b"\n",
            &last,
        ]
        .concat();
        let receipt = preview(&captured(&stream, limits), limits, Strategy::Tail, PLACE);
        (receipt.result.contains('Q'), receipt.result.len())
    };
    let (cut, full) = shown(30_000);
    assert!(cut && full > 19_990);
    let side = (10_000..20_000)
        .find(|&len| shown(len).0)
        .expect("some line is too long");
    assert!(!shown(side - 1).0 && (19_700..20_000).contains(&side));
}

/// The character on the edge of what is sniffed decides: whole it is text, cut short it would not be.
#[test]
fn the_window_holds_the_last_character_that_is_sniffed() {
    let ill = vec![0xff; 2458];
    let text = vec![b'a'; 8191 - ill.len()];
    let stream = [&ill, &text, "€".as_bytes(), &[b'b'; 9000]].concat();
    assert_eq!(show(&stream, 100, 10).view, View::Text);
    let stream = [&ill, &text, b"\xff".as_slice(), &[b'b'; 9000]].concat();
    assert_eq!(show(&stream, 100, 10).view, View::Binary);
}

#[test]
fn binary_is_size_type_and_dump() {
    let stream = [b"\x7fELF\x02\x01\x01\0".repeat(100), b"tail\n".to_vec()].concat();
    let receipt = show(&stream, 102_400, 2000);
    let mut lines = receipt.result.lines();
    assert_eq!(
        lines.next(),
        Some("[binary output: 805 bytes, application/x-elf]")
    );
    let dump = "00000000  7f 45 4c 46 02 01 01 00  7f 45 4c 46 02 01 01 00  |.ELF.....ELF....|";
    assert_eq!(lines.next(), Some(dump));
    assert_eq!(lines.count(), 7 + 2);
    assert!(receipt.result.contains(PLACE.file_path));
    assert_eq!(receipt.view, View::Binary);
    assert!(receipt.truncated && receipt.lossy && receipt.saved && !receipt.rendered);
    let omitted = receipt.omitted.expect("everything");
    assert_eq!((omitted.bytes, omitted.offset, omitted.lines), (805, 0, 1));
    assert_eq!((omitted.from_line, omitted.to_line), (1, 1));
}

#[test]
fn a_binary_view_keeps_to_its_limits() {
    assert_eq!(show(b"a\0b", 10, 10).result, "...");
    assert_eq!(show(b"a\0b", 102_400, 1).result.lines().count(), 1);
    for max_bytes in 1..600 {
        assert!(show(b"a\0b", max_bytes, 10).result.len() <= max_bytes as usize);
    }
}

#[test]
fn nothing_kept_of_a_small_lossy_text_leaves_the_text() {
    let limits = Limits::default();
    let mut lost = captured(b"caf\xe9 au lait\n", limits);
    lost.kept = Kept::Nothing {
        loss: Loss::ReadOnly,
    };
    let receipt = preview(&lost, limits, Strategy::HeadTail, PLACE);
    assert_eq!(receipt.result, "caf\u{fffd} au lait\n");
    assert!(!receipt.truncated && !receipt.saved && !receipt.complete);
    assert_eq!((receipt.file_path, receipt.dropped_bytes), (None, 13));
    assert_eq!(receipt.reason, Some(Loss::ReadOnly));
}
