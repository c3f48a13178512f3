//! Any stream, any limits, any chunks, any room: the laws that need no oracle.

use willcall_outputs::capture::{Capture, Captured, Kept, Loss, Policy};
use willcall_outputs::index::IndexBuilder;
use willcall_outputs::limits::{Limits, Strategy};
use willcall_outputs::preview::{Place, preview};
use willcall_outputs::view::Mode;

const PLACE: Place<'_> = Place {
    file_path: "/w/.outputs/s/o.stdout.txt",
    output: "r/stdout",
};

/// `[max_bytes: 2, max_lines: 1, chunk: 1, choice: 1, room: 2]`, then the stream.
pub(crate) fn check(data: &[u8]) {
    let Some((head, stream)) = data.split_first_chunk::<7>() else {
        return;
    };
    let number = |at: usize| u32::from(u16::from_le_bytes([head[at], head[at + 1]]));
    // Small, so that the windows of a capture are, too.
    let limits = Limits::new(1 + number(0) % 2048, 1 + u32::from(head[2]));
    let limits = limits.expect("small, above 0");
    let room = number(5) as usize;
    let choice = head[4];
    let policy = match choice & 3 {
        0 | 1 => Policy::Keep {
            max_kept: if choice & 4 == 0 {
                u64::MAX
            } else {
                room as u64
            },
        },
        2 => Policy::Background { cap: room as u64 },
        _ if choice & 4 == 0 => Policy::Discard,
        _ => Policy::Reject,
    };
    let strategy = match (choice >> 3) & 3 {
        0 => Strategy::Head,
        1 => Strategy::Tail,
        _ => Strategy::HeadTail,
    };
    let mode = if choice & 32 == 0 {
        Mode::Auto
    } else {
        Mode::Raw
    };
    let disk = if choice & 64 == 0 { usize::MAX } else { room };
    let capture = Capture::new(limits, policy).with_view(mode);
    let (captured, file) = run(capture, stream, 1 + usize::from(head[3]), disk);

    let receipt = preview(&captured, limits, strategy, PLACE);
    assert!(receipt.result.len() <= limits.max_bytes() as usize);
    let lines = receipt.result.split_inclusive('\n').count();
    assert!(lines <= limits.max_lines() as usize);
    assert!(!receipt.result.contains('\0'));
    assert!(!stream.is_empty() || receipt.result.is_empty());
    assert_eq!(receipt.omitted.is_some(), receipt.truncated);
    assert_eq!(receipt.total_size, stream.len() as u64);
    assert!(
        file.as_slice() == &stream[..file.len()],
        "the file is the beginning"
    );
    assert_eq!(receipt.saved, !file.is_empty());
    assert_eq!(receipt.file_path.is_some(), receipt.saved);
    assert_eq!(receipt.complete, receipt.reason.is_none());
    if let Kept::File { stored, .. } = captured.kept {
        assert_eq!(stored, file.len() as u64);
        assert_eq!(receipt.dropped_bytes, stream.len() as u64 - stored);
    }
    if let Some(omitted) = receipt.omitted {
        assert!(omitted.bytes <= receipt.total_size && omitted.lines <= receipt.total_lines);
    }
}

fn run(mut capture: Capture, stream: &[u8], chunk: usize, disk: usize) -> (Captured, Vec<u8>) {
    let mut file = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let space = capture.space();
        let n = space.len().min(chunk).min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        capture.commit(n);
        rest = &rest[n..];
        write(&mut capture, &mut file, disk);
    }
    capture.end();
    write(&mut capture, &mut file, disk);
    let mut builder = IndexBuilder::default();
    builder.feed(&file);
    assert_eq!(capture.line_index(), builder.index_of(u64::MAX));
    (capture.finish(None), file)
}

fn write(capture: &mut Capture, file: &mut Vec<u8>, disk: usize) {
    loop {
        let pending = capture.pending().concat();
        let n = pending.len().min(disk - file.len());
        if pending.is_empty() {
            return;
        }
        if n == 0 {
            return capture.lost(Loss::DiskFull);
        }
        file.extend_from_slice(&pending[..n]);
        capture.wrote(n);
    }
}
