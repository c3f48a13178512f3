//! Writes so many bytes of log-like lines to standard output, in writes of one size: `writer SIZE TOTAL`.

use std::io::Write;
use std::process::ExitCode;

const LINE: &[u8] =
    b"2026-01-01T00:00:00.000000Z INFO worker-07 req=8f3a1c20 status=200 dur=12ms path=/api/v1/items/42\n";

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let [size, total] = numbers.as_slice() else {
        return ExitCode::from(2);
    };
    let block: Vec<u8> = LINE.iter().copied().cycle().take(*size).collect();
    // Not through `Stdout`, whose line buffer would cut the writes at other places.
    let Ok(mut out) = std::fs::OpenOptions::new().write(true).open("/dev/stdout") else {
        return ExitCode::FAILURE;
    };
    let mut left = *total;
    while left > 0 {
        let now = left.min(block.len());
        if out.write_all(&block[..now]).is_err() {
            return ExitCode::FAILURE;
        }
        left -= now;
    }
    ExitCode::SUCCESS
}
