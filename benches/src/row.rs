//! A row's figures, their median and spread, and the table.

use anyhow::Context;
use std::fmt::Write as _;
use std::process::Command;

/// Whether more or less is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// A figure for the reader; nothing is promised.
    Reported,
}

/// One row: what was measured in each round, already as a ratio (or, for memory, in its unit).
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// What is divided by what.
    pub(crate) what: String,
    pub(crate) target: Target,
    pub(crate) figures: Vec<f64>,
    /// The absolute medians behind the ratio, for the reader.
    pub(crate) note: String,
}

impl Row {
    pub(crate) fn median(&self) -> f64 {
        median(&self.figures)
    }

    /// 1 is on target; above 1 is better.
    pub(crate) fn share_of_target(&self) -> f64 {
        match self.target {
            Target::AtLeast(target) => self.median() / target,
            Target::AtMost(target) => target / self.median(),
            Target::Reported => 1.0,
        }
    }
}

pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.as_slice() {
        [] => f64::NAN,
        sorted => f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]),
    }
}

pub(crate) fn percentile(figures: &[f64], hundredths: usize) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * hundredths / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| row | measured | target | median | min–max | n | of target | behind it |\n|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let target = match row.target {
            Target::AtLeast(target) => format!("≥ {target}"),
            Target::AtMost(target) => format!("≤ {target}"),
            Target::Reported => "–".into(),
        };
        let least = row.figures.iter().copied().fold(f64::INFINITY, f64::min);
        let most = row
            .figures
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let _ = writeln!(
            out,
            "| `{}` | {} | {target} | **{:.2}** | {least:.2}–{most:.2} | {} | {:.0} % | {} |",
            row.name,
            row.what,
            row.median(),
            row.figures.len(),
            row.share_of_target() * 100.0,
            row.note,
        );
    }
    out
}

pub(crate) fn document(table: &str) -> anyhow::Result<String> {
    Ok(format!(
        "# Benchmarks\n\n`cargo xtask bench --write` made this page; nothing on it is written by hand.\n\n\
         Every row is a ratio between two things measured in the same run, interleaved round by round; the table shows the median of the rounds and their \
         spread. Ratios can be compared between machines, the absolute figures behind them cannot.\n\n\
         - machine: {}\n- kernel: {}\n- date: {}\n\n{table}",
        machine()?,
        output("uname", &["-r"])?,
        output("date", &["-u", "+%Y-%m-%d"])?,
    ))
}

fn machine() -> anyhow::Result<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    let models: Vec<&str> = info
        .lines()
        .filter_map(|line| line.strip_prefix("model name"))
        .collect();
    let model = models
        .first()
        .map_or("unknown CPU", |line| line.trim_matches([' ', '\t', ':']));
    Ok(format!("{} × {model}", models.len().max(1)))
}

fn output(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let out = Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
