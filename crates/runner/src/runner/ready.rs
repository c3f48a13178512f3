//! Waiting for something to do.

use super::Runner;
use crate::output::Output;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// What can be read, or is at its end.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) signals: bool,
    pub(super) executor: bool,
    /// For each output, in their order.
    pub(super) outputs: Vec<bool>,
}

impl Runner {
    /// Waits for the first of: a signal, a word of the executor, output, the next deadline.
    pub(super) fn wait(&self) -> nix::Result<Ready> {
        let input = PollFlags::POLLIN;
        let mut fds = vec![PollFd::new(self.signals.as_fd(), input)];
        let executor = self.executor.as_ref();
        fds.extend(executor.map(|executor| {
            let output = if executor.wants_to_write() {
                PollFlags::POLLOUT
            } else {
                PollFlags::empty()
            };
            PollFd::new(executor.as_fd(), input | output)
        }));
        // Before the command has the other ends, ours would only say that nobody has.
        let outputs = if self.command.is_some() || self.session.is_some() {
            &self.outputs[..]
        } else {
            &[]
        };
        let pipes = outputs.iter().filter_map(Output::pipe);
        fds.extend(pipes.map(|pipe| PollFd::new(pipe, input)));
        match poll(&mut fds, until(self.life.poll_timeout())) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let mut fds = fds.iter().map(|fd| fd.any().unwrap_or(true));
        Ok(Ready {
            signals: fds.next().unwrap_or(false),
            executor: executor.is_some() && fds.next().unwrap_or(false),
            outputs: outputs
                .iter()
                .map(|o| o.pipe().is_some() && fds.next().unwrap_or(false))
                .collect(),
        })
    }
}

/// Rounded up: a deadline is never polled for in a loop just before it.
fn until(deadline: Option<Instant>) -> PollTimeout {
    let Some(deadline) = deadline else {
        return PollTimeout::NONE;
    };
    let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
    let left = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}
