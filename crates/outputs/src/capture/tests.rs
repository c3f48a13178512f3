use super::*;
use crate::limits::{CEILING_MAX_BYTES, DEFAULT_MAX_BYTES};

const EVERYTHING: Policy = Policy::Keep { max_kept: u64::MAX };

/// A shell in memory: feeds chunks, writes what is pending, and gives back file and capture.
struct Shell {
    capture: Capture,
    file: Vec<u8>,
    /// What the file may take before it is full.
    room: usize,
}

impl Shell {
    fn new(max_bytes: u32, max_lines: u32, max_kept: u64) -> Self {
        Self::with(max_bytes, max_lines, Policy::Keep { max_kept })
    }

    fn with(max_bytes: u32, max_lines: u32, policy: Policy) -> Self {
        let limits = Limits::new(max_bytes, max_lines).expect("limits of a test");
        let capture = Capture::new(limits, policy);
        Self {
            capture,
            file: Vec::new(),
            room: usize::MAX,
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) -> &mut Self {
        while !bytes.is_empty() {
            let space = self.capture.space();
            let n = space.len().min(bytes.len());
            space[..n].copy_from_slice(&bytes[..n]);
            self.capture.commit(n);
            bytes = &bytes[n..];
            self.write();
        }
        self
    }

    /// Writes in two steps, as a file system may.
    fn write(&mut self) {
        loop {
            let pending = self.capture.pending().concat();
            let n = pending.len().div_ceil(2).min(self.room - self.file.len());
            if pending.is_empty() {
                return;
            }
            if n == 0 {
                self.capture.lost(Loss::DiskFull);
                return;
            }
            self.file.extend_from_slice(&pending[..n]);
            self.capture.wrote(n);
        }
    }

    fn finish(mut self) -> (Captured, Vec<u8>) {
        self.capture.end();
        self.write();
        (self.capture.finish(None), self.file)
    }
}

#[test]
fn what_fits_is_not_kept() {
    let mut shell = Shell::new(10, 2, u64::MAX);
    shell.feed(b"12345\n78").feed(b"9\n");
    assert!(!shell.capture.must_keep());
    let (captured, file) = shell.finish();
    assert_eq!(
        (captured.head.as_slice(), captured.tail.as_slice()),
        (&b"12345\n789\n"[..], &[][..])
    );
    assert_eq!((captured.kept, file), (Kept::NotNeeded, vec![]));
}

#[test]
fn one_byte_too_many_keeps_everything() {
    let mut shell = Shell::new(10, 2, u64::MAX);
    shell.feed(b"12345\n78").feed(b"90").feed(b"!");
    let (captured, file) = shell.finish();
    assert_eq!(file, b"12345\n7890!");
    assert_eq!(
        captured.kept,
        Kept::File {
            stored: 11,
            digest: None,
            loss: None
        }
    );
}

#[test]
fn a_line_begins_with_its_first_byte() {
    let mut shell = Shell::new(100, 2, u64::MAX);
    shell.feed(b"a\nb\n");
    assert!(!shell.capture.must_keep());
    shell.feed(b"c");
    assert!(shell.capture.must_keep());
    let (captured, file) = shell.finish();
    assert_eq!(
        (captured.total_lines(), file.as_slice()),
        (3, &b"a\nb\nc"[..])
    );
}

#[test]
fn small_output_that_is_not_text_is_kept_at_its_end() {
    for bytes in [&b"caf\xe9\n"[..], b"a\0b", b"\xe4\xbd"] {
        let mut shell = Shell::new(100, 10, u64::MAX);
        shell.feed(bytes);
        assert!(!shell.capture.must_keep());
        assert_eq!(shell.finish().1, bytes);
    }
}

#[test]
fn a_character_split_across_reads_is_text() {
    let mut shell = Shell::new(100, 10, u64::MAX);
    shell.feed(b"\xe4\xbd").feed(b"\xa0\n");
    assert_eq!(shell.finish().0.kept, Kept::NotNeeded);
}

#[test]
fn the_file_ends_exactly_at_the_cap() {
    let mut shell = Shell::new(4, 10, 10);
    shell.feed(b"123").feed(b"456").feed(b"789abc").feed(b"def");
    let (captured, file) = shell.finish();
    assert_eq!(file, b"123456789a");
    assert_eq!(captured.total_size, 15);
    assert_eq!(
        captured.kept,
        Kept::File {
            stored: 10,
            digest: None,
            loss: Some(Loss::RunCap)
        }
    );
    assert!(captured.head.ends_with(b"def"));
}

#[test]
fn a_stream_as_long_as_the_cap_is_complete() {
    let mut shell = Shell::new(4, 10, 10);
    shell.feed(b"123456").feed(b"7890");
    assert_eq!(
        shell.finish().0.kept,
        Kept::File {
            stored: 10,
            digest: None,
            loss: None
        }
    );
}

#[test]
fn a_cap_of_nothing_keeps_nothing() {
    let mut shell = Shell::new(4, 10, 0);
    shell.feed(b"123456");
    assert_eq!(shell.finish().0.kept, Kept::Nothing { loss: Loss::RunCap });
}

#[test]
fn a_full_disk_ends_the_file_and_not_the_count() {
    let mut shell = Shell::new(4, 10, u64::MAX);
    shell.room = 7;
    shell.feed(b"1\n2\n3\n").feed(b"4\n5\n").feed(b"6\n");
    let (captured, file) = shell.finish();
    assert_eq!(
        (file.as_slice(), captured.newlines),
        (&b"1\n2\n3\n4"[..], 6)
    );
    assert_eq!(
        captured.kept,
        Kept::File {
            stored: 7,
            digest: None,
            loss: Some(Loss::DiskFull)
        }
    );
}

#[test]
fn nothing_written_is_nothing_kept() {
    let mut shell = Shell::new(4, 10, u64::MAX);
    shell.room = 0;
    shell.feed(b"123456");
    assert_eq!(
        shell.finish().0.kept,
        Kept::Nothing {
            loss: Loss::DiskFull
        }
    );
}

#[test]
fn a_shell_that_forgets_to_write_loses_honestly() {
    let mut capture = Capture::new(Limits::new(1, 1).expect("smallest"), EVERYTHING);
    for _ in 0..2 {
        capture.space()[..2].copy_from_slice(b"ab");
        capture.commit(2);
    }
    assert!(capture.pending().concat().is_empty());
    assert_eq!(
        capture.finish(None).kept,
        Kept::Nothing {
            loss: Loss::IoError
        }
    );
}

/// Bytes that never repeat within a window, so that a window at the wrong place shows.
fn long_stream(len: usize) -> Vec<u8> {
    let digits = |i: u32| format!("{i:07x}\n").into_bytes();
    (0..).flat_map(digits).take(len).collect()
}

#[test]
fn windows_are_the_two_ends_at_every_length() {
    let limits = Limits::new(3000, 100_000).expect("limits of a test");
    for len in [
        1, 3000, 8194, 8195, 8196, 16_384, 40_000, 270_000, 270_345, 300_000, 1_234_567,
    ] {
        let stream = long_stream(len);
        for chunk in [4096, 65_536, usize::MAX] {
            let mut shell = Shell::new(3000, 100_000, u64::MAX);
            stream.chunks(chunk.min(len)).for_each(|part| {
                shell.feed(part);
            });
            let (captured, file) = shell.finish();
            let window = limits.window().min(len);
            assert!(
                captured.head == stream[..window],
                "head of {len} by {chunk}"
            );
            assert!(
                captured.end() == &stream[len - window..],
                "tail of {len} by {chunk}"
            );
            assert!(len <= 3000 || file == stream, "file of {len} by {chunk}");
            assert_eq!(captured.newlines, len as u64 / 8);
        }
    }
}

#[test]
fn memory_is_bounded_by_the_limits() {
    for (max_bytes, bound) in [(DEFAULT_MAX_BYTES, 700_000), (CEILING_MAX_BYTES, 1_400_000)] {
        let mut shell = Shell::new(max_bytes, 2000, 1);
        let part = long_stream(1 << 20);
        for _ in 0..8 {
            shell.feed(&part);
        }
        let used = shell.capture.head.capacity() + shell.capture.ring.capacity();
        assert!(used <= bound, "{used} bytes for max_bytes {max_bytes}");
    }
}

#[test]
fn a_small_run_touches_little_memory() {
    let mut shell = Shell::new(DEFAULT_MAX_BYTES, 2000, u64::MAX);
    shell.feed(b"hi\n");
    let _ = shell.capture.space();
    assert!(shell.capture.ring.capacity() <= 2 * FIRST_READ_CHUNK);
    assert!(shell.capture.head.capacity() <= 64);
}

#[test]
fn reads_grow_when_they_come_back_full() {
    let mut shell = Shell::new(DEFAULT_MAX_BYTES, 2000, 1);
    assert_eq!(shell.capture.space().len(), FIRST_READ_CHUNK);
    shell.feed(&long_stream(FIRST_READ_CHUNK));
    shell.feed(&long_stream(4 * FIRST_READ_CHUNK));
    assert_eq!(shell.capture.space().len(), READ_CHUNK);
}

mod policies;
