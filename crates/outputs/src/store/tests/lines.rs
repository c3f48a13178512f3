//! Reads by line: with an index, without one, with one that is damaged.

use super::*;
use crate::capture::{Capture, Policy};
use crate::index::IndexBuilder;
use crate::limits::{INDEX_ABOVE, Limits};
use crate::page::{Ask, Extent, Page, PageCaps, Start};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn ask(start: Start, lines: Option<u64>) -> Ask {
    let extent = Extent::new(None, lines, Encoding::Utf8, PageCaps::default());
    Ask {
        start,
        extent: extent.expect("sound"),
        verify: false,
    }
}

/// Where each line begins, by looking at every byte.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let after = bytes.iter().enumerate().filter(|&(_, &b)| b == b'\n');
    let all = std::iter::once(0).chain(after.map(|(at, _)| at + 1));
    all.filter(|&start| start < bytes.len()).collect()
}

/// Lines of all lengths, the first of them longer than a block of the index, and some empty.
fn text(size: usize, ends_open: bool) -> Vec<u8> {
    let mut text = vec![b'x'; 100_000];
    let mut n = 0u64;
    while text.len() < size {
        text.extend_from_slice(format!("\n{n}").as_bytes());
        let filler = usize::try_from(n * 7919 % 300).expect("small");
        text.resize(text.len() + filler, b'.');
        n += 1;
    }
    text.truncate(size);
    *text.last_mut().expect("not empty") = if ends_open { b'z' } else { b'\n' };
    text
}

impl Fixture {
    fn line(&self, key: &OutputKey, line: i64, lines: Option<u64>) -> Page {
        let start = Start::new(0, Some(line)).expect("a line");
        self.store.page(key, ask(start, lines)).expect("a page")
    }

    fn index_path(&self, key: &OutputKey) -> PathBuf {
        self.path(key).with_extension("idx")
    }
}

/// Every line that `lines` names is found, from the beginning and from the end, with its number.
#[track_caller]
fn check_lines(
    fixture: &Fixture,
    key: &OutputKey,
    bytes: &[u8],
    lines: impl Iterator<Item = usize>,
) {
    let starts = starts(bytes);
    for at in lines {
        let (start, number) = (starts[at], at as u64 + 1);
        let end = starts.get(at + 1).copied().unwrap_or(bytes.len());
        let shown = &bytes[start..end.min(start + 102_400)];
        let back = i64::try_from(at).expect("small") - i64::try_from(starts.len()).expect("small");
        for line in [i64::try_from(number).expect("small"), back] {
            let page = fixture.line(key, line, Some(1));
            assert_eq!(page.content.as_bytes(), shown, "line {line}");
            assert_eq!((page.offset, page.line), (start as u64, Some(number)));
            let next = start + shown.len();
            let more = (next < bytes.len()).then_some(next as u64);
            assert_eq!((page.next, page.truncated), (more, more.is_some()));
        }
    }
}

#[test]
fn every_line_is_found_with_and_without_an_index() {
    let fixture = Fixture::new();
    for (run, size, ends_open) in [(1, 1_500_000, false), (2, 1_048_577, true)] {
        let bytes = text(size, ends_open);
        let key = fixture.hold("s", run, &bytes, true);
        assert!(!fixture.index_path(&key).exists());
        let count = starts(&bytes).len();
        check_lines(&fixture, &key, &bytes, (0..count).step_by(97));
        assert!(fixture.index_path(&key).exists(), "the first read kept it");
        assert_eq!(mode(&fixture.index_path(&key)), 0o640);
        check_lines(&fixture, &key, &bytes, (0..count).chain([count - 1]));
    }
}

#[test]
fn every_line_of_random_small_files_is_found() {
    let fixture = Fixture::new();
    let run = std::cell::Cell::new(0);
    let small = prop::collection::vec(prop::sample::select(&b"ab\n\n"[..]), 1..200);
    TestRunner::new(Config::with_cases(64))
        .run(&small, |bytes| {
            run.set(run.get() + 1);
            let key = fixture.hold("s", run.get(), &bytes, run.get().is_multiple_of(2));
            let starts = starts(&bytes);
            for (at, &start) in starts.iter().enumerate() {
                let page = fixture.line(&key, i64::try_from(at + 1).expect("small"), Some(1));
                prop_assert_eq!(
                    (page.offset, page.line),
                    (start as u64, Some(at as u64 + 1))
                );
                let by_offset = fixture
                    .store
                    .page(&key, ask(Start::Offset(start as u64), None));
                prop_assert_eq!(by_offset.expect("a page").line, Some(at as u64 + 1));
            }
            Ok(())
        })
        .expect("every line");
}

#[test]
fn the_index_of_a_capture_is_that_of_its_file() {
    let bytes = text(2_500_000, true);
    for (max_kept, running) in [(u64::MAX, false), (2_000_000, true)] {
        let mut capture = Capture::new(Limits::default(), Policy::Keep { max_kept });
        let (mut rest, mut file) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let space = capture.space();
            let n = space.len().min(rest.len()).min(10_007);
            space[..n].copy_from_slice(&rest[..n]);
            capture.commit(n);
            rest = &rest[n..];
            let pending = capture.pending().concat();
            file.extend_from_slice(&pending);
            capture.wrote(pending.len());
        }
        let mut builder = IndexBuilder::default();
        builder.feed(&file);
        assert_eq!(capture.line_index(), builder.index_of(u64::MAX));
        assert_eq!(file.len() < bytes.len(), running);
    }
}

#[test]
fn a_runner_leaves_an_index_beside_large_files_only() {
    let fixture = Fixture::new();
    let dir = fixture.store.session_dir("s").expect("a directory");
    for (run, size) in [(1, INDEX_ABOVE), (2, INDEX_ABOVE + 1)] {
        let bytes = text(usize::try_from(size).expect("small"), false);
        let key = key("s", run);
        let mut file = OutputFile::create(dir.as_fd(), key.run, key.stream).expect("a new file");
        file.append([&bytes, b""]).expect("room");
        let mut builder = IndexBuilder::default();
        builder.feed(&bytes);
        file.write_index(&builder.index_of(size)).expect("room");
        let index = fixture.index_path(&key);
        assert_eq!(index.exists(), size > INDEX_ABOVE);
        if size > INDEX_ABOVE {
            assert_eq!(mode(&index), 0o640);
            assert_eq!(
                fs::read(&index).expect("there"),
                builder.index_of(size).to_bytes()
            );
            file.write_index(&builder.index_of(size))
                .expect_err("never over another");
        }
    }
}

/// Whatever stands in the index's place: lines are found, and then it is sound again.
#[test]
fn a_damaged_index_is_made_again() {
    let fixture = Fixture::new();
    let bytes = text(1_500_000, false);
    let key = fixture.hold("s", 1, &bytes, true);
    fixture.line(&key, 2, None);
    let path = fixture.index_path(&key);
    let sound = fs::read(&path).expect("made");
    let mut lie = IndexBuilder::default();
    lie.feed(&b"\n".repeat(bytes.len()));
    let mut flipped = sound.clone();
    flipped[60] ^= 1;
    let damages = [
        Vec::new(),
        sound[..sound.len() - 1].to_vec(),
        flipped,
        vec![0; 1 << 20],
        // Sound by itself, and wrong about this file.
        lie.index_of(u64::MAX).to_bytes(),
    ];
    let count = starts(&bytes).len();
    for damage in damages {
        fs::write(&path, &damage).expect("ours");
        check_lines(&fixture, &key, &bytes, [count / 2, 1].into_iter());
        assert_eq!(fs::read(&path).expect("there"), sound);
    }
    fs::remove_file(&path).expect("ours");
    let elsewhere = fixture.workspace.path().join("elsewhere");
    fs::write(&elsewhere, b"theirs").expect("a file");
    symlink(&elsewhere, &path).expect("a link");
    check_lines(&fixture, &key, &bytes, [count / 2].into_iter());
    assert_eq!(fs::read(&elsewhere).expect("there"), b"theirs");
}

/// An offset far inside a large file has no line number without an index, and nobody reads the file for it.
#[test]
fn an_offset_has_a_line_number_where_that_is_cheap() {
    let fixture = Fixture::new();
    let bytes = text(1_500_000, false);
    let key = fixture.hold("s", 1, &bytes, true);
    let line_of = |offset: usize| {
        let ask = ask(Start::Offset(offset as u64), Some(1));
        fixture.store.page(&key, ask).expect("a page").line
    };
    let truth = |offset: usize| {
        let lines = bytes[..offset].split(|&b| b == b'\n').count();
        Some(lines as u64)
    };
    assert_eq!(line_of(1_000_000), truth(1_000_000));
    assert_eq!(line_of(1_400_000), None);
    assert!(!fixture.index_path(&key).exists());
    fixture.line(&key, 1, None);
    for offset in [1_048_577, 1_234_567, 1_400_000, 1_499_999] {
        assert_eq!(line_of(offset), truth(offset), "{offset}");
    }
    assert_eq!(line_of(1_500_000), None, "there is nothing");
}

#[test]
fn lines_beyond_the_end_are_an_empty_page_there() {
    let fixture = Fixture::new();
    for (run, bytes, finished) in [
        (1, &b"one\ntwo\n"[..], true),
        (2, b"one\ntwo", true),
        (3, b"", true),
        (4, b"one\n", false),
    ] {
        let key = fixture.hold("s", run, bytes, finished);
        let end = bytes.len() as u64;
        for line in [3, 4, i64::MAX] {
            let page = fixture.line(&key, line, None);
            assert_eq!(
                (page.content.as_str(), page.offset, page.line),
                ("", end, None)
            );
            let next = (!finished).then_some(end);
            assert_eq!((page.next, page.truncated, page.total), (next, false, end));
        }
        for line in [-100, i64::MIN] {
            let page = fixture.line(&key, line, None);
            assert_eq!((page.content.as_bytes(), page.offset), (bytes, 0));
        }
    }
    let key = key("s", 2);
    let last = fixture.line(&key, -1, None);
    assert_eq!((last.content.as_str(), last.line), ("two", Some(2)));
}

#[test]
fn a_page_ends_after_the_lines_that_were_asked() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"1\n2\n3\n4\n", true);
    let page = fixture.line(&key, 2, Some(2));
    assert_eq!((page.content.as_str(), page.next), ("2\n3\n", Some(6)));
    let from_offset = fixture.store.page(&key, ask(Start::Offset(1), Some(1)));
    assert_eq!(from_offset.expect("a page").content, "\n");
    let exact = Extent::new(None, Some(2), Encoding::Base64, PageCaps::default());
    let exact = Ask {
        start: Start::FromEnd(3),
        extent: exact.expect("sound"),
        verify: false,
    };
    let page = fixture.store.page(&key, exact).expect("a page");
    assert_eq!(
        (page.content.as_str(), page.offset, page.next),
        ("MgozCg==", 2, Some(6))
    );
}
