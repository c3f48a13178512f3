//! One stream of a run: from its pipe into the capture, and from there to its file where it has to be kept.

use crate::limits::{LAST_SWEEP, PIPE_DEFAULT, PIPE_GROWN};
use crate::wire::{Launch, StreamResult};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{pipe2, read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use uuid::Uuid;
use willcall_outputs::capture::{Capture, Loss};
use willcall_outputs::record::Stream;
use willcall_outputs::store::OutputFile;

/// A stream and what holds it.
#[derive(Debug)]
pub(crate) struct Output {
    stream: Stream,
    /// `None` once the stream is at its end, or is no longer awaited.
    pipe: Option<OwnedFd>,
    capture: Capture,
    file: Option<OutputFile>,
    /// What is the matter if there is no directory.
    no_directory: Loss,
    digest_at_seal: u64,
    grown: bool,
}

/// Where files are made, if anywhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The session's directory.
    pub(crate) directory: Option<BorrowedFd<'a>>,
    /// The run that they are named after.
    pub(crate) run: Uuid,
}

impl Output {
    /// A stream and the end of its pipe that the command writes to.
    pub(crate) fn open(stream: Stream, launch: &Launch) -> Result<(Self, OwnedFd), Errno> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let capture = Capture::new(launch.limits, launch.policy).with_view(launch.view);
        Ok((
            Self {
                stream,
                pipe: Some(reader),
                capture,
                file: None,
                no_directory: launch.no_directory.unwrap_or(Loss::NoDirectory),
                digest_at_seal: launch.digest_at_seal,
                grown: false,
            },
            writer,
        ))
    }

    /// What to poll; `None` at the end.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(OwnedFd::as_fd)
    }

    /// Takes one chunk; returns its length, 0 if there is nothing now or ever.
    pub(crate) fn read(&mut self, place: Place<'_>) -> usize {
        let Some(pipe) = &self.pipe else { return 0 };
        match read(pipe, self.capture.space()) {
            Ok(0) => self.pipe = None,
            Ok(n) => {
                self.grow(n);
                self.capture.commit(n);
                self.save(place);
                return n;
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => {
                tracing::error!(%error, stream = self.stream.as_str(), "cannot read a pipe");
                self.pipe = None;
            }
        }
        0
    }

    /// Takes what the pipe holds now, and closes it.
    pub(crate) fn close(&mut self, place: Place<'_>) {
        let mut taken = 0;
        while taken < LAST_SWEEP {
            match self.read(place) {
                0 => break,
                n => taken += n,
            }
        }
        self.pipe = None;
    }

    /// The stream's end: what still has to be kept is kept, and the file gets its line index and its digest.
    pub(crate) fn finish(mut self, place: Place<'_>) -> StreamResult {
        self.capture.end();
        self.save(place);
        let index = self.capture.line_index();
        let digest = self.file.take().and_then(|file| {
            if let Err(loss) = file.write_index(&index) {
                tracing::debug!(?loss, "an output has no line index; a read will make it");
            }
            let sealed = file.seal(self.digest_at_seal);
            sealed
                .inspect_err(|e| tracing::warn!(?e, "an output has no digest"))
                .ok()
                .flatten()
        });
        StreamResult::new(self.stream, self.capture.finish(digest))
    }

    /// Whether the run has to be ended for what it wrote.
    pub(crate) fn is_over_cap(&self) -> bool {
        self.capture.is_over_cap()
    }

    /// A pipe that was found full is too small. Failing is fine: pages for pipes are rationed.
    fn grow(&mut self, n: usize) {
        if n < PIPE_DEFAULT || self.grown {
            return;
        }
        self.grown = true;
        if let Some(pipe) = &self.pipe {
            let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE_GROWN));
        }
    }

    /// Writes what is pending. A loss ends the keeping, never the reading.
    fn save(&mut self, place: Place<'_>) {
        while self.capture.pending().iter().any(|part| !part.is_empty()) {
            match self.append(place) {
                Ok(n) => self.capture.wrote(n),
                Err(loss) => self.lose(loss),
            }
        }
    }

    /// A file that holds nothing goes at once: where inodes are what is missing, somebody may need its own.
    fn lose(&mut self, loss: Loss) {
        self.capture.lost(loss);
        if self.capture.stored() == 0
            && let Some(file) = self.file.take()
            && let Err(loss) = file.remove()
        {
            let stream = self.stream.as_str();
            tracing::warn!(stream, "an empty file stays: {loss}");
        }
    }

    fn append(&mut self, place: Place<'_>) -> Result<usize, Loss> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let directory = place.directory.ok_or(self.no_directory)?;
                none.insert(OutputFile::create(directory, place.run, self.stream)?)
            }
        };
        file.append(self.capture.pending())
    }
}
