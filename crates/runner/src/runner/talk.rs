//! What a runner says to its executor, and hears from it.

use super::Runner;
use crate::executor::{Connection, Lost};
use crate::wire::{self, FromRunner, Hello, RUNNER_PROTO, ToRunner};
use std::rc::Rc;
use std::time::Instant;

impl Runner {
    /// Every connection begins with a hello.
    pub(super) fn greet(&mut self) {
        let hello = Hello {
            run: self.launch.run,
            proto: RUNNER_PROTO,
            pid: self.ourselves.pid,
            start_time: self.ourselves.start_time,
            phase: self.life.phase(),
        };
        self.send(&FromRunner::Hello(hello));
    }

    pub(super) fn deliver(&mut self) {
        if let Some(result) = self.result.clone() {
            self.send_frame(result);
        }
    }

    pub(super) fn redial(&mut self) {
        self.executor = Connection::dial(&self.launch.redial).ok();
        if self.executor.is_some() {
            self.greet();
        }
        // The hello may have found the peer gone again.
        self.life
            .handle_redialled(Instant::now(), self.executor.is_some());
    }

    pub(super) fn send(&mut self, message: &FromRunner) {
        if let Some(frame) = encode(message) {
            self.send_frame(frame);
        }
    }

    pub(super) fn send_frame(&mut self, frame: Rc<Vec<u8>>) {
        let sent = self.executor.as_mut().map(|executor| executor.send(frame));
        if let Some(Err(Lost)) = sent {
            self.lose_executor();
        }
    }

    pub(super) fn lose_executor(&mut self) {
        self.executor = None;
        self.life.handle_lost(Instant::now());
    }

    pub(super) fn hear_executor(&mut self) {
        let Some(executor) = &mut self.executor else {
            return;
        };
        let flushed = executor.flush();
        let (messages, end) = executor.receive();
        for message in messages {
            match message {
                ToRunner::Go => self.life.handle_go(),
                ToRunner::Cancel => self.life.handle_cancel(Instant::now()),
                ToRunner::Collected => self.life.handle_collected(),
            }
        }
        if flushed.and(end).is_err() {
            self.lose_executor();
        }
    }
}

/// Frames a message. A result is far below the largest frame: its windows and lists are bounded.
pub(super) fn encode(message: &FromRunner) -> Option<Rc<Vec<u8>>> {
    let frame = wire::encode_from_runner(message);
    frame
        .inspect_err(|error| tracing::error!(%error, "cannot frame a message"))
        .ok()
        .map(Rc::new)
}
