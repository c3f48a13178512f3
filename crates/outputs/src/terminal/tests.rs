use super::*;
use proptest::prelude::*;

fn read_on(rows: u16, cols: u16, bytes: &[u8]) -> String {
    Model::new(Size::new(rows, cols))
        .read(bytes, 1_000_000, 1_000_000)
        .expect("little")
}

/// On a terminal of 5 rows and 20 columns.
#[track_caller]
fn check(bytes: &str, expected: &str) {
    assert_eq!(read_on(5, 20, bytes.as_bytes()), expected);
}

#[test]
fn plain_lines_are_what_was_written() {
    check("", "");
    check("one\r\ntwo\r\n", "one\ntwo\n");
    check("one\r\n\r\n\r\n", "one\n\n\n");
    check("\r\n\r\none", "\n\none");
    check("one\r\n$ ", "one\n$");
    check("\ttab\r\n", "        tab\n");
}

#[test]
fn lines_that_scrolled_off_are_there() {
    let lines = |end: &str| {
        let lines: Vec<String> = (1..=2000).map(|i| format!("line {i}{end}")).collect();
        lines.concat()
    };
    check(&lines("\r\n"), &lines("\n"));
}

#[test]
fn rows_that_were_wrapped_are_one_line() {
    let long = "0123456789".repeat(30);
    check(&format!("{long}\r\nend\r\n"), &format!("{long}\nend\n"));
    check(&"x".repeat(20), &"x".repeat(20));
    check(
        &format!("{}\r\n", "x".repeat(20)),
        &format!("{}\n", "x".repeat(20)),
    );
}

#[test]
fn progress_bars_are_what_they_ended_as() {
    check("\r10%\r50%\r100%\r\ndone\r\n", "100%\ndone\n");
    check("downloading\r\x1b[Kdone\r\n", "done\n");
    check("abcdef\rxy\r\n", "xycdef\n");
    check("loading...\x08\x08\x08   \r\n", "loading\n");
}

#[test]
fn frames_drawn_over_each_other_leave_the_last() {
    let frame = |n: u32| format!("a {n}\x1b[K\r\nb {n}\x1b[K\r\n");
    let mut stream = frame(0);
    for n in 1..100 {
        stream += "\x1b[2A";
        stream += &frame(n);
    }
    check(
        &format!("start\r\n{stream}end\r\n"),
        "start\na 99\nb 99\nend\n",
    );
}

#[test]
fn a_full_screen_program_leaves_what_was_before_it() {
    let during = "before\r\n\x1b[?1049h\x1b[2J\x1b[Hediting\x1b[3;1Hstatus";
    check(during, "before\nediting\n\nstatus\n");
    check(&format!("{during}\x1b[?1049lafter\r\n"), "before\nafter\n");
}

#[test]
fn what_was_cleared_had_been_seen() {
    check("one\r\n\x1b[2J\x1b[Htwo\r\n", "one\ntwo\n");
    check("one\r\n\x1bctwo\r\n", "one\ntwo\n");
}

#[test]
fn colours_titles_and_links_are_not_read() {
    check(
        "\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\r\n",
        "red link\n",
    );
}

#[test]
fn wide_characters_are_whole() {
    check("日本語\r\n😀é\r\n", "日本語\n😀é\n");
    // At the edge a wide one goes to the next row.
    let wide = format!("{}日本", "x".repeat(19));
    let read = read_on(5, 20, wide.as_bytes());
    assert!(read.ends_with("日本"), "{read}");
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(read_on(5, 20, b"caf\xe9\r\n"), "caf\u{fffd}\n");
}

#[test]
fn limits_are_inclusive() {
    let read = |bytes: &str, max_bytes, max_lines| {
        Model::new(Size::new(3, 10)).read(bytes.as_bytes(), max_bytes, max_lines)
    };
    assert_eq!(read("one\r\ntwo\r\n", 8, 2).as_deref(), Some("one\ntwo\n"));
    assert_eq!(read("one\r\ntwo\r\n", 7, 2), None);
    assert_eq!(read("one\r\ntwo\r\n", 8, 1), None);
    assert_eq!(
        read("1\r\n2\r\n3\r\n4\r\n5\r\n", 10, 5).as_deref(),
        Some("1\n2\n3\n4\n5\n")
    );
    assert_eq!(read("1\r\n2\r\n3\r\n4\r\n5\r\n", 10, 4), None);
    assert_eq!(
        read("1\r\n2\r\n3\r\n4\r\n5", 9, 5).as_deref(),
        Some("1\n2\n3\n4\n5")
    );
    assert_eq!(
        read(&"x".repeat(100), 100, 1).map(|text| text.len()),
        Some(100)
    );
    assert_eq!(read(&"x".repeat(101), 100, 1), None);
}

#[test]
fn work_and_size_are_bounded() {
    let mut model = Model::new(Size::new(u16::MAX, u16::MAX));
    let dear = b"x\x1b[65535b\x1b[65535L".repeat(20_000);
    assert_eq!(model.read(&dear, 1 << 30, usize::MAX), None);
    assert_eq!(
        model.read(&dear, 1 << 30, usize::MAX),
        None,
        "there is no more"
    );
    assert_eq!(read_on(0, 0, b""), "");
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(
        bytes in prop::collection::vec(prop_oneof![
            3 => any::<u8>(),
            2 => prop::sample::select(b"\x1b[;0159ABCDEHJKLMPSTXbfhlmrsu?\r\n\x08".as_slice()),
        ], 0..2000),
        rows in 0..8u16, cols in 0..12u16,
    ) {
        let mut model = Model::new(Size::new(rows, cols));
        if let Some(text) = model.read(&bytes, 500, 20) {
            prop_assert!(text.len() <= 500 && text.split_inclusive('\n').count() <= 20);
        }
    }
}
