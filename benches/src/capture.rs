//! The runner's engine.

use crate::Binaries;
use crate::launch::Spawner;
use crate::row::{Row, Target, median};
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

const ROUNDS: usize = 9;
const TOTAL: usize = 256 * 1024 * 1024;

/// Writes of 4 KiB, as stdio makes them, into a fresh file: our runner against the shell's `cmd > file`.
pub(crate) fn four_kib(binaries: &Binaries) -> anyhow::Result<Vec<Row>> {
    let folder = folder()?;
    let mut spawner = Spawner::start(&binaries.willcall, folder.path())?;
    let writer = binaries.writer.to_string_lossy().into_owned();
    let total = TOTAL.to_string();
    let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms the caches of both and does not count.
    for round in 0..=ROUNDS {
        let redirect = redirect(&writer, &total, folder.path())?;
        let measured = spawner.run(&[&writer, "4096", &total])?;
        let stored = measured
            .result
            .streams
            .first()
            .map(|s| s.captured.total_size);
        ensure!(
            stored == Some(TOTAL as u64),
            "captured {stored:?} of {TOTAL} bytes"
        );
        if round > 0 {
            let mine = gigabytes(TOTAL) / measured.took.as_secs_f64();
            ratios.push(mine / redirect);
            ours.push(mine);
            theirs.push(redirect);
        }
    }
    Ok(vec![Row {
        name: "capture/4k",
        what: "runner ÷ shell redirect, 256 MiB in 4 KiB writes, fresh file".into(),
        target: Target::AtLeast(0.95),
        figures: ratios,
        note: format!("{:.2} and {:.2} GB/s", median(&ours), median(&theirs)),
    }])
}

/// Peak memory of a runner, whatever flows through it.
pub(crate) fn rss(binaries: &Binaries) -> anyhow::Result<Vec<Row>> {
    let folder = folder()?;
    let mut spawner = Spawner::start(&binaries.willcall, folder.path())?;
    let writer = binaries.writer.to_string_lossy().into_owned();
    let mut peak = |total: u64, rounds: usize| -> anyhow::Result<Vec<f64>> {
        let total = total.to_string();
        (0..rounds)
            .map(|_| {
                Ok(mebibytes(
                    spawner.run(&[&writer, "65536", &total])?.peak_kib,
                ))
            })
            .collect()
    };
    let small = peak(1_000_000, ROUNDS)?;
    let large = peak(1 << 30, 3)?;
    let huge = peak(10 << 30, 1)?;
    let row = |what: &str, figures| Row {
        name: "capture/rss",
        what: what.into(),
        target: Target::AtMost(4.0),
        figures,
        note: "MiB, VmHWM of the runner".into(),
    };
    Ok(vec![
        row("1 MB of output", small),
        row("1 GiB of output", large),
        row("10 GiB of output", huge),
    ])
}

fn redirect(writer: &str, total: &str, folder: &Path) -> anyhow::Result<f64> {
    let file = folder.join("redirect");
    let began = Instant::now();
    let status = Command::new("sh")
        .args([
            "-c",
            "exec \"$1\" 4096 \"$2\" > \"$3\"",
            "sh",
            writer,
            total,
        ])
        .arg(&file)
        .status()
        .context("cannot run sh")?;
    let took = began.elapsed();
    ensure!(status.success(), "the writer ended with {status}");
    std::fs::remove_file(file)?;
    Ok(gigabytes(TOTAL) / took.as_secs_f64())
}

/// On the disk that a workspace would be on, not in memory.
fn folder() -> anyhow::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("wcb-")
        .tempdir_in("/var/tmp")
        .context("cannot make a directory")
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn gigabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn mebibytes(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
