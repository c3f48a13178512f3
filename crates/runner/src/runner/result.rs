//! The result of a run, made once.

use super::Runner;
use super::talk::encode;
use crate::wire::{Ending, FromRunner, RunResult, SpawnError, Stage};
use nix::libc;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use std::time::{Duration, Instant};

impl Runner {
    pub(super) fn seal(&mut self) {
        let directory = self.directory.take();
        let place = super::place(directory.as_ref(), &self.launch);
        let outputs = std::mem::take(&mut self.outputs);
        let duration = self.started_at.map_or(Duration::ZERO, |at| at.elapsed());
        let (cpu_ms, max_rss_kib) = usage();
        let ending = self.ending();
        // Where nothing ran, nothing was written.
        let ran = matches!(ending, Ending::Ended { .. });
        let streams = outputs
            .into_iter()
            .filter(|_| ran)
            .map(|output| output.finish(place));
        let result = RunResult {
            run: self.launch.run,
            ending,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            cpu_ms,
            max_rss_kib,
            streams: streams.collect(),
            ended: std::mem::take(&mut self.ended),
            detached: std::mem::take(&mut self.detached),
        };
        self.result = encode(&FromRunner::Finished(Box::new(result)));
        self.life.handle_result(Instant::now());
    }

    fn ending(&mut self) -> Ending {
        match (self.life.ending(), self.not_started.take()) {
            (Some((status, killed)), _) => Ending::Ended { status, killed },
            (None, Some(error)) => Ending::NotStarted { error },
            (None, None) => {
                let on = self.launch.run.to_string();
                Ending::NotStarted {
                    error: SpawnError {
                        stage: Stage::Fork,
                        errno: libc::ECANCELED,
                        on,
                    },
                }
            }
        }
    }
}

/// Milliseconds of CPU time and KiB of peak memory of all that was reaped below us.
///
/// The peak is not below that of this process at the time of the exec: the kernel counts what a
/// process was before its exec, and a command begins in our memory.
fn usage() -> (u64, u64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
        return (0, 0);
    };
    let cpu = usage.user_time() + usage.system_time();
    (unsigned(cpu.num_milliseconds()), unsigned(usage.max_rss()))
}

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
