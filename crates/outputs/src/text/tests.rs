use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that are likely to meet in interesting ways.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let likely = prop::sample::select(
        &b"a\0\r\n\x80\xbf\x90\xa0\xc0\xc2\xe0\xe2\xed\xef\xf0\xf1\xf4\xf5\xff"[..],
    );
    let piece = prop_oneof![
        4 => likely.prop_map(|byte| vec![byte]),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        2 => Just(b"\r\n".to_vec()),
        1 => "[é€😀]".prop_map(String::into_bytes),
    ];
    vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

/// Where units begin and how they end, by the standard library.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    for chunk in bytes.utf8_chunks() {
        let from = ends[ends.len() - 1];
        ends.extend(
            chunk
                .valid()
                .char_indices()
                .map(|(at, c)| from + at + c.len_utf8()),
        );
        let to = from + chunk.valid().len() + chunk.invalid().len();
        if !chunk.invalid().is_empty() {
            ends.push(to);
        }
    }
    ends
}

proptest! {
    #[test]
    fn units_are_those_of_the_standard_library(bytes in bytes()) {
        let mut at = 0;
        let ends = units(&bytes).map(|unit| { at += unit.raw; at });
        prop_assert_eq!([0].into_iter().chain(ends).collect::<Vec<_>>(), boundaries(&bytes));
    }

    #[test]
    fn text_is_that_of_the_standard_library(bytes in bytes()) {
        let expected = String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}");
        prop_assert_eq!(text_len(&bytes), expected.len());
        prop_assert!(expected.len() >= bytes.len());
        let exact = expected.as_bytes() == bytes;
        prop_assert_eq!(decode(&bytes), (expected, !exact));
    }

    /// A position is judged by its neighbourhood, as in the window of a longer stream.
    #[test]
    fn a_boundary_needs_three_bytes_on_each_side(bytes in bytes(), at in 0..64usize) {
        let at = at.min(bytes.len());
        let expected = boundaries(&bytes).into_iter().find(|&end| end >= at);
        let window = at.saturating_sub(3)..bytes.len().min(at + 3);
        let from = window.start;
        let found = from + next_boundary(&bytes[window], at - from);
        prop_assert_eq!(Some(found), expected);
    }

    #[test]
    fn prefixes_and_suffixes_are_the_longest(bytes in bytes(), budget in 0..40usize) {
        let cuts = boundaries(&bytes).into_iter().filter(|&at| !splits_crlf(&bytes, at));
        let cuts: Vec<usize> = cuts.collect();
        let head = cuts.iter().rfind(|&&at| text_len(&bytes[..at]) <= budget);
        let tail = cuts.iter().find(|&&at| text_len(&bytes[at..]) <= budget);
        prop_assert_eq!(Some(&prefix_within(&bytes, budget)), head);
        prop_assert_eq!(Some(&suffix_within(&bytes, budget)), tail);
    }

    #[test]
    fn only_what_more_bytes_could_finish_is_unfinished(bytes in bytes()) {
        let cut_short = |from: &usize| {
            std::str::from_utf8(&bytes[*from..]).is_err_and(|error| {
                error.valid_up_to() == 0 && error.error_len().is_none()
            })
        };
        let expected = boundaries(&bytes).into_iter().find(cut_short);
        prop_assert_eq!(unfinished(&bytes), expected.map_or(0, |from| bytes.len() - from));
    }
}

#[track_caller]
fn check_lines(bytes: &[u8], lines: usize) {
    assert_eq!(count_lines(bytes), lines, "{bytes:?}");
}

#[test]
fn only_lf_ends_a_line() {
    check_lines(b"", 0);
    check_lines(b"\n", 1);
    check_lines(b"a", 1);
    check_lines(b"a\nb", 2);
    check_lines(b"a\nb\n", 2);
    check_lines("a\rb\u{b}c\u{c}d\u{85}e\u{2028}f".as_bytes(), 1);
}

#[track_caller]
fn check_binary(parts: &[&[u8]], expected: bool) {
    assert_eq!(is_binary(&parts.concat()), expected);
}

#[test]
fn a_nul_among_the_first_characters_is_binary() {
    let text = [b'a'; SNIFF_BYTES];
    check_binary(&[b""], false);
    check_binary(&[b"a\0"], true);
    check_binary(&[&text[1..], b"\0"], true);
    check_binary(&[&text, b"\0"], false);
}

#[test]
fn more_than_three_tenths_of_undecodable_bytes_are_binary() {
    check_binary(&[b"aaaaaaa\xff\xff\xff"], false);
    check_binary(&[b"aaaaaa\xff\xff\xff"], true);
    check_binary(&[b"aaaaaaa\xe2\x82"], false);
    check_binary(&[b"aaaa\xe2\x82"], true);
    check_binary(&["€".repeat(3000).as_bytes()], false);
    check_binary(&[b"caf\xe9 ", &b"latin text ".repeat(9)], false);
}

/// The last character that begins in the first bytes counts whole, those after it not at all.
#[test]
fn characters_count_where_they_begin() {
    let ill = SNIFF_BYTES * 3 / 10;
    let text = vec![b'a'; SNIFF_BYTES - 1 - ill];
    let euro = "€".as_bytes();
    check_binary(&[&vec![0xff; ill], &text, euro, &[0xff; 9]], false);
    check_binary(&[&vec![0xff; ill], &text, b"\xe2\x82", &[b'a'; 9]], true);
}
