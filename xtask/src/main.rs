//! The repository's chores.
//!
//! - `cargo xtask tidy` holds what compilers do not see: which crate may know which, what must be absent.
//! - `cargo xtask bench [NAME] [--write]` builds the product in release mode and runs the benchmark harness.

mod tidy;

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[expect(clippy::print_stderr, reason = "a chore talks to a person")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::check(&root()?),
        ["bench", rest @ ..] => bench(rest),
        _ => bail!("usage: cargo xtask tidy | cargo xtask bench [NAME] [--gate] [--write]"),
    }
}

fn root() -> anyhow::Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(manifest
        .parent()
        .context("xtask stands below the repository's root")?
        .to_path_buf())
}

fn bench(args: &[&str]) -> anyhow::Result<()> {
    let build = [
        "build",
        "--release",
        "--bin",
        "willcall",
        "--package",
        "willcall-benches",
        "--bins",
    ];
    cargo(&[&build[..], &["--package", "willcall"]].concat())?;
    let run = [
        "run",
        "--release",
        "--quiet",
        "--package",
        "willcall-benches",
        "--bin",
        "bench",
        "--",
    ];
    cargo(&[&run[..], args].concat())
}

fn cargo(args: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .current_dir(root()?)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo {} ended with {status}", args.join(" "));
    }
    Ok(())
}
