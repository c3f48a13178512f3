//! The outputs engine alone, without pipe, process or disk.

use crate::Binaries;
use crate::row::{Row, Target, median};
use anyhow::{Context, ensure};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use willcall_outputs::capture::{Capture, Policy};
use willcall_outputs::limits::Limits;

const ROUNDS: usize = 9;
const TOTAL: u64 = 1 << 30;

/// Windows, counts and line index of 1 GiB of log lines, against `wc -l` on the same bytes; and a digest of them
/// against `b3sum` on one thread, where that is installed.
pub(crate) fn engine(binaries: &Binaries) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::Builder::new()
        .prefix("wcb-")
        .tempdir_in("/dev/shm")
        .context("cannot make a directory")?;
    let path = folder.path().join("log");
    let total = TOTAL.to_string();
    let written = Command::new(&binaries.writer)
        .args(["65536", &total])
        .stdout(File::create(&path)?)
        .status()?;
    ensure!(written.success(), "the writer ended with {written}");
    let mut rows = vec![against(
        "outputs/engine",
        "engine ÷ wc -l, 1 GiB of log lines in memory",
        &path,
        count,
        &["wc", "-l"],
    )?];
    if Command::new("b3sum")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
    {
        let theirs = ["b3sum", "--num-threads", "1", "--no-mmap"];
        rows.push(against(
            "outputs/digest",
            "digest ÷ b3sum on one thread, the same bytes",
            &path,
            digest,
            &theirs,
        )?);
    }
    Ok(rows)
}

fn against(
    name: &'static str,
    what: &str,
    path: &Path,
    ours: fn(&Path) -> anyhow::Result<()>,
    theirs: &[&str],
) -> anyhow::Result<Row> {
    let (mut ratios, mut mine, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let begun = Instant::now();
        let status = Command::new(theirs[0])
            .args(&theirs[1..])
            .arg(path)
            .stdout(Stdio::null())
            .status()?;
        let their_time = begun.elapsed().as_secs_f64();
        ensure!(status.success(), "{} ended with {status}", theirs[0]);
        let begun = Instant::now();
        ours(path)?;
        let our_time = begun.elapsed().as_secs_f64();
        if round > 0 {
            ratios.push(their_time / our_time);
            mine.push(gigabytes_a_second(our_time));
            other.push(gigabytes_a_second(their_time));
        }
    }
    let note = format!("{:.2} and {:.2} GB/s", median(&mine), median(&other));
    Ok(Row {
        name,
        what: what.into(),
        target: Target::Reported,
        figures: ratios,
        note,
    })
}

/// What is pending is given up at once, so that nothing but the engine is measured.
fn count(path: &Path) -> anyhow::Result<()> {
    let mut file = File::open(path)?;
    let mut capture = Capture::new(Limits::default(), Policy::Keep { max_kept: u64::MAX });
    loop {
        let n = file.read(capture.space())?;
        if n == 0 {
            break;
        }
        capture.commit(n);
        let pending = capture.pending().iter().map(|slice| slice.len()).sum();
        capture.wrote(pending);
    }
    capture.end();
    let captured = capture.finish(None);
    ensure!(
        captured.total_size == TOTAL,
        "captured {} bytes",
        captured.total_size
    );
    Ok(())
}

fn digest(path: &Path) -> anyhow::Result<()> {
    willcall_outputs::digest::of(&File::open(path)?).context("cannot read the file")?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn gigabytes_a_second(seconds: f64) -> f64 {
    TOTAL as f64 / 1e9 / seconds
}
