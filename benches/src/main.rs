//! The benchmark harness: `cargo xtask bench [NAME] [--gate] [--write]`.
//!
//! Every row is measured against a baseline in the same run, the two interleaved, and is judged by its ratio:
//! absolute times say more about the machine than about us.
//!
//! | module | what |
//! |---|---|
//! | `row` | a row's figures, their median and spread, the table |
//! | `launch` | a spawner driven directly, without executor |
//! | `capture` | `capture/4k`, `capture/rss` |
//! | `dispatch` | `dispatch/echo` |
//! | `engine` | `outputs/engine`, `outputs/digest` |
//! | `flat` | `memory/10g` |

mod capture;
mod dispatch;
mod engine;
mod flat;
mod launch;
mod row;

use anyhow::{Context, bail};
use row::Row;
use std::path::PathBuf;
use std::process::ExitCode;

/// A row is red below this share of its target: machines are noisy.
const GATE: f64 = 0.85;

type Bench = fn(&Binaries) -> anyhow::Result<Vec<Row>>;
const BENCHES: &[(&str, Bench)] = &[
    ("capture/4k", capture::four_kib),
    ("capture/rss", capture::rss),
    ("dispatch/echo", dispatch::echo),
    ("outputs/engine", engine::engine),
    ("memory/10g", flat::ten_gibibytes),
];

/// The release binaries under test, beside our own.
#[derive(Debug)]
pub(crate) struct Binaries {
    pub(crate) willcall: PathBuf,
    pub(crate) writer: PathBuf,
}

#[expect(clippy::print_stderr, reason = "a harness talks to a person")]
fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every row passed its gate, where one was asked for.
#[expect(clippy::print_stdout, reason = "the table is the result")]
fn run() -> anyhow::Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (flags, names): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with("--"));
    let binaries = binaries()?;
    let chosen = |name: &str| {
        names.is_empty() || names.iter().any(|wanted| name.starts_with(wanted.as_str()))
    };
    let mut rows = Vec::new();
    for (name, bench) in BENCHES.iter().filter(|(name, _)| chosen(name)) {
        rows.extend(bench(&binaries).with_context(|| format!("{name} could not be measured"))?);
    }
    if rows.is_empty() {
        bail!("there is no row of that name");
    }
    let table = row::table(&rows);
    println!("{table}");
    if flags.iter().any(|flag| *flag == "--write") {
        std::fs::write("docs/BENCHMARKS.md", row::document(&table)?)
            .context("cannot write docs/BENCHMARKS.md")?;
    }
    let gated = flags.iter().any(|flag| *flag == "--gate");
    Ok(!gated || rows.iter().all(|row| row.share_of_target() >= GATE))
}

fn binaries() -> anyhow::Result<Binaries> {
    let beside = std::env::current_exe().context("where are we?")?;
    let folder = beside.parent().context("the harness stands in no folder")?;
    let found = Binaries {
        willcall: folder.join("willcall"),
        writer: folder.join("writer"),
    };
    for path in [&found.willcall, &found.writer] {
        if !path.exists() {
            bail!("{} is not built; use `cargo xtask bench`", path.display());
        }
    }
    Ok(found)
}
