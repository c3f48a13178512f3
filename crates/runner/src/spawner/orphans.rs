//! Whoever becomes a child of the spawner because its runner has ended.
//!
//! ```text
//! runner ends by itself ─► who detached itself on purpose: announced beforehand ─► left alone, reaped at its end
//! runner is killed ──────► its whole run, and nobody in charge of it ────────────► killed
//! ```
//!
//! A process comes to us in the same instant in which its runner can be reaped. So where children are listed
//! first and runners are reaped after that, every child in the list has its runner's end accounted for.

use crate::limits::{KILL_TIME, LEFTOVER_LOOK};
use crate::sys::{self, Reaped};
use crate::tree::{self, Process};
use crate::wire::Status;
use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read, write};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Sessions that a runner announces; a notice is written whole or not at all.
const MAX_SESSIONS: usize = 256;
/// A runner's process id and a session, as they travel.
const NOTICE: usize = 2 * size_of::<i32>();

/// Stands for a runner that is gone.
const NO_RUNNER: i32 = 0;

/// What a runner that ends in order says: these sessions were left alone on purpose.
pub(crate) fn announce(notices: BorrowedFd<'_>, runner: i32, sessions: &HashSet<i32>) {
    let sessions = sessions.iter().take(MAX_SESSIONS);
    let words = sessions.flat_map(|session| [runner, *session]);
    let bytes: Vec<u8> = words.flat_map(i32::to_ne_bytes).collect();
    if bytes.is_empty() {
        return;
    }
    // Without a spawner there is nobody to tell, and nobody who would kill them.
    if let Err(error) = write(notices, &bytes) {
        tracing::debug!(%error, "the spawner was not told who is left");
    }
}

/// The children of a spawner. No more of them are remembered than there are.
#[derive(Debug)]
pub(super) struct Orphans {
    /// What runners announce, and the end that they write to.
    notices: (OwnedFd, OwnedFd),
    runners: HashSet<i32>,
    /// Sessions that are left alone on purpose, and the runner that said so; until it is gone and its children are known.
    announced: HashMap<i32, i32>,
    /// Children that are left alone, and their sessions. None of these ids is used again before it is reaped.
    left: HashMap<i32, i32>,
    sweep: Option<Sweep>,
}

/// The end of runs whose runners were killed.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    again_at: Instant,
    give_up_at: Instant,
    /// Whether a runner's death was seen since the last look began.
    is_new: bool,
}

impl Orphans {
    /// From here on orphans come to this process. Children that it has already are no business of ours.
    pub(super) fn begin() -> nix::Result<Self> {
        nix::sys::prctl::set_child_subreaper(true)?;
        let mut orphans = Self {
            notices: pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?,
            runners: HashSet::new(),
            announced: HashMap::new(),
            left: HashMap::new(),
            sweep: None,
        };
        orphans.look();
        Ok(orphans)
    }

    /// Where runners write what they announce.
    pub(super) fn notices(&self) -> BorrowedFd<'_> {
        self.notices.1.as_fd()
    }

    /// A runner was forked.
    pub(super) fn add(&mut self, runner: i32) {
        self.runners.insert(runner);
    }

    /// Whether somebody is still to be killed.
    pub(super) fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// When [`Orphans::work`] wants to be called at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.sweep.map(|sweep| sweep.again_at)
    }

    /// Children have ended, or time has passed.
    pub(super) fn work(&mut self) {
        self.reap();
        if self.sweep.is_some() {
            self.sweep();
        } else if !self.announced.is_empty() || !self.left.is_empty() {
            self.look();
        }
    }

    /// Reaps all that have ended, and hears what they had to say before.
    fn reap(&mut self) {
        loop {
            match sys::reap() {
                Reaped::Child(pid, status) if self.runners.remove(&pid) => {
                    self.note_end(pid, status);
                }
                Reaped::Child(pid, _) => {
                    // Its children may have come to us, and are not known yet.
                    if let Some(session) = self.left.remove(&pid) {
                        self.announced.entry(session).or_insert(NO_RUNNER);
                    }
                }
                Reaped::NoneEnded | Reaped::NoChildren => break,
            }
        }
        let mut buffer = [0; NOTICE * MAX_SESSIONS];
        while let Ok(len @ 1..) = read(&self.notices.0, &mut buffer) {
            let (words, _) = buffer[..len].as_chunks();
            for pair in words.chunks_exact(2) {
                let [runner, session] = [pair[0], pair[1]].map(i32::from_ne_bytes);
                self.announced.insert(session, runner);
            }
        }
    }

    fn note_end(&mut self, pid: i32, status: Status) {
        if status == Status::Exited(0) {
            return;
        }
        tracing::warn!(pid, ?status, "a runner failed; what it leaves is killed");
        let now = Instant::now();
        self.sweep = Some(Sweep {
            again_at: now,
            give_up_at: now + KILL_TIME,
            is_new: true,
        });
    }

    fn sweep(&mut self) {
        if let Some(sweep) = &mut self.sweep {
            sweep.is_new = false;
        }
        let gone = tree::kill(|| self.look(), |_| true);
        let Some(sweep) = &mut self.sweep else { return };
        let now = Instant::now();
        sweep.again_at = now + LEFTOVER_LOOK;
        if gone && !sweep.is_new {
            self.sweep = None;
        } else if sweep.give_up_at <= now {
            tracing::warn!("what a runner left does not end, and is left to the kernel");
            self.sweep = None;
        }
    }

    /// Decides about every child that is not known. Returns those that are to be killed.
    fn look(&mut self) -> Option<Vec<i32>> {
        let runners = &self.runners;
        let is_over = |(_, runner): &(&i32, &i32)| !runners.contains(runner);
        let over: Vec<i32> = self
            .announced
            .iter()
            .filter(is_over)
            .map(|n| *n.0)
            .collect();
        let own = tree::own_children()?;
        self.reap();
        let mut doomed = Vec::new();
        for pid in own {
            if self.runners.contains(&pid) || self.left.contains_key(&pid) {
                continue;
            }
            match Process::read(pid) {
                Some(process) if self.is_left_alone(&process) => {
                    self.left.insert(pid, process.session);
                }
                // One that was just reaped is in the list, too: its children may have come to us after it was made,
                // so that this list proves nothing.
                _ => doomed.push(pid),
            }
        }
        for session in over {
            self.announced.remove(&session);
        }
        Some(doomed)
    }

    /// A daemon's own orphans come to us as well, whenever they like. They are known by its session, or because
    /// nobody's run was killed.
    fn is_left_alone(&self, process: &Process) -> bool {
        self.sweep.is_none()
            || self.announced.contains_key(&process.session)
            || self
                .left
                .values()
                .any(|session| *session == process.session)
    }
}
