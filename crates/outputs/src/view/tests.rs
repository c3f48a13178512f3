use super::*;

/// What is shown of a stream that comes in these chunks.
fn shown(chunks: &[&[u8]]) -> Vec<u8> {
    let (mut view, mut text, mut line) = (LineView::new(0), Vec::new(), 0);
    let stream = chunks.concat();
    for chunk in chunks {
        view.feed(chunk, |step| match step {
            Step::Shown { from, bytes } => {
                let from = usize::try_from(from).expect("short");
                assert_eq!(bytes, &stream[from..from + bytes.len()], "bytes and offset");
                text.extend_from_slice(bytes);
                line = text.iter().rposition(|&b| b == LF).map_or(0, |i| i + 1);
            }
            Step::Restart => text.truncate(line),
        });
    }
    text
}

/// Whole, byte by byte, and cut in two everywhere.
#[track_caller]
fn check(stream: &[u8], expected: &[u8]) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(text(&shown(&bytes)), text(expected), "byte by byte");
    for at in 0..=stream.len() {
        let (one, two) = stream.split_at(at);
        assert_eq!(text(&shown(&[one, two])), text(expected), "cut at {at}");
        check_change(stream, &[one, two], expected);
    }
    check_change(stream, &bytes, expected);
}

/// A change is found exactly where the view shows something else, and everything before it is shown.
#[track_caller]
fn check_change(stream: &[u8], chunks: &[&[u8]], expected: &[u8]) {
    let (mut held_cr, mut at) = (false, 0);
    for chunk in chunks {
        let found = first_change(chunk, &mut held_cr).map(|change| match change {
            Change::At(index) => at + index,
            Change::CrBefore => at - 1,
        });
        if let Some(found) = found {
            assert!(matches!(stream[found], ESC | CR) && stream != expected);
            let plain = &stream[..found];
            assert_eq!(shown(&[plain]), plain, "all before {found} is shown");
            return;
        }
        at += chunk.len();
    }
    // A CR at the very end is bare.
    assert_eq!(stream == expected, !held_cr);
}

#[test]
fn what_has_neither_escapes_nor_bare_crs_stays() {
    for text in [
        "",
        "\n",
        "a\nb",
        "a\r\nb\r\n",
        "\r\n\r\n",
        "tab\tbell\x07 é€😀\n",
    ] {
        check(text.as_bytes(), text.as_bytes());
    }
}

#[test]
fn control_sequences_go_with_all_their_bytes() {
    check(b"\x1b[31mred\x1b[0m\n", b"red\n");
    check(b"\x1b[m\x1b[38;5;123;1mx\x1b[K", b"x");
    check(b"\x1b[?25l\x1b[2J\x1b[H\x1b[1 q\x1b[!p\x1b[>4;2mx", b"x");
    check(b"a\x1b[200~b\x1b[@c\x1b[", b"abc");
}

#[test]
fn a_byte_that_cannot_go_on_with_a_sequence_ends_it_and_stays() {
    check("a\x1b[31é\n".as_bytes(), "aé\n".as_bytes());
    check(b"a\x1b[3\nb", b"a\nb");
    check(b"a\x1b[3\r\nb", b"a\r\nb");
    check(b"a\x1b[3\x1b[4mb", b"ab");
    check(b"a\x1b[3\x07b", b"a\x07b");
    check(b"a\x1b[3\rb", b"b");
    check("\x1bé".as_bytes(), "é".as_bytes());
    check(b"\x1b(\nx", b"\nx");
    check(b"\x1b\r\nx", b"\r\nx");
}

#[test]
fn strings_end_at_their_terminator_or_with_the_line() {
    for kind in ["]", "P", "X", "^", "_"] {
        let of = |rest: &str| format!("a\x1b{kind}{rest}").into_bytes();
        check(&of("0;title\x07b"), b"ab");
        check(&of("0;title\x1b\\b"), b"ab");
        check(&of("0;é\x1b[31m\x1b\x1b\\b"), b"ab");
        check(&of("0;title\nb"), b"a\nb");
        check(&of("0;title\r\nb"), b"a\r\nb");
        check(&of("0;ti\rtle\x07b"), b"ab");
        check(&of("0;title\x1b\nb"), b"a\nb");
        check(&of("0;title\r\r\nb"), b"a\r\nb");
        check(&of("never ends"), b"a");
        check(&of("\x1b\r\nb"), b"a\r\nb");
        check(&of("\x1b\x07b"), b"ab");
    }
    let link = "\x1b]8;;https://example.org\x1b\\text\x1b]8;;\x1b\\\n";
    check(link.as_bytes(), b"text\n");
}

#[test]
fn other_sequences_are_intermediates_and_one_byte() {
    check(
        b"\x1b(B\x1b)0\x1b7\x1b8\x1b=\x1b>\x1bcx\x1bM\x1b#8\x1b %Gy",
        b"xy",
    );
    check(b"\x1b\x1b\x1b7x\x1b", b"x");
    // After an intermediate a bracket is a final byte like any other.
    check(b"\x1b([31mx", b"31mx");
    check(b"\x1b\\x", b"x");
}

#[test]
fn of_a_line_with_bare_crs_the_last_part_is_left() {
    check(b"10%\r50%\r100%\n", b"100%\n");
    check(b"50%\r", b"50%");
    check(b"50%\r\r\r", b"50%");
    check(b"50%\r\n", b"50%\r\n");
    check(b"50%\r\r\n", b"50%\r\n");
    check(b"10%\r50%\r\r\nx", b"50%\r\nx");
    check(b"one\ntwo\rthree\nfour", b"one\nthree\nfour");
    check(b"\rx", b"x");
    check(b"\r\r\n\r", b"\r\n");
    check(b"a\r \n", b" \n");
}

#[test]
fn what_is_not_shown_does_not_follow_a_cr() {
    check(b"50%\r\x1b[K", b"50%");
    check(b"50%\r\x1b[K\n", b"50%\n");
    check(b"50%\r\x1b[K\r\n", b"50%\r\n");
    check(b"50%\r\x1b[K51%\n", b"51%\n");
    check(b"\x1b[32m50%\x1b[0m\r\x1b[32m51%\x1b[0m\r", b"51%");
    check(b"50%\r\x1b]0;51%\x07", b"50%");
}

#[test]
fn bytes_that_are_no_text_pass_through() {
    check(b"\xff\x1b[m\0\x9b31m\n", b"\xff\0\x9b31m\n");
}
