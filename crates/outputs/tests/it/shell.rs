//! The shell around a capture, in memory: feeds chunks and writes what is pending to a vector.

use willcall_outputs::capture::{Capture, Captured, Loss, Policy};
use willcall_outputs::limits::{Limits, Strategy};
use willcall_outputs::preview::{Place, preview};
use willcall_outputs::receipt::Receipt;
use willcall_outputs::view::Mode;

pub(crate) const PLACE: Place<'_> = Place {
    file_path: "/w/.outputs/s/0198c0de-0000-7000-8000-000000000001.stdout.txt",
    output: "0198c0de-0000-7000-8000-000000000001/stdout",
};

/// What a file takes before it takes no more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// The policy's cap.
    pub(crate) max_kept: u64,
    /// What the disk has left.
    pub(crate) disk: usize,
}

impl Room {
    pub(crate) const ENDLESS: Self = Self {
        max_kept: u64::MAX,
        disk: usize::MAX,
    };
}

pub(crate) fn capture(chunks: &[&[u8]], limits: Limits, room: Room) -> (Captured, Vec<u8>) {
    capture_as(Mode::Raw, chunks, limits, room)
}

pub(crate) fn capture_as(
    mode: Mode,
    chunks: &[&[u8]],
    limits: Limits,
    room: Room,
) -> (Captured, Vec<u8>) {
    let max_kept = room.max_kept;
    let mut capture = Capture::new(limits, Policy::Keep { max_kept }).with_view(mode);
    let mut file = Vec::new();
    for chunk in chunks {
        let mut rest = *chunk;
        while !rest.is_empty() {
            let space = capture.space();
            let n = space.len().min(rest.len());
            space[..n].copy_from_slice(&rest[..n]);
            capture.commit(n);
            rest = &rest[n..];
            write(&mut capture, &mut file, room.disk);
        }
    }
    capture.end();
    write(&mut capture, &mut file, room.disk);
    (capture.finish(None), file)
}

/// Writes at most 1,000 bytes at a time, as a file system may.
fn write(capture: &mut Capture, file: &mut Vec<u8>, disk: usize) {
    loop {
        let pending = capture.pending().concat();
        let n = pending.len().min(1000).min(disk - file.len());
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

pub(crate) fn receipt(chunks: &[&[u8]], limits: Limits, strategy: Strategy) -> Receipt {
    let (captured, _) = capture(chunks, limits, Room::ENDLESS);
    preview(&captured, limits, strategy, PLACE)
}
