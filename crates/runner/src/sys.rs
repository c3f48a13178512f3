//! The few things that the safe interfaces do not offer: forking, starting a command in a
//! child that shares our memory, and receiving descriptors. All `unsafe` of this crate is here.

use crate::limits::MAX_MESSAGE_FDS;
use crate::wire::{Stage, Status};
use nix::errno::Errno;
use nix::libc::{self, c_char, c_int, c_void};
use nix::sys::signal::SigSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Stack of the child until it executes its program. A few frames of system calls need far less.
const CHILD_STACK: usize = 64 * 1024;
/// The last signal number on every architecture that we build for.
const LAST_SIGNAL: c_int = 64;
/// Without `close_range` descriptors are closed one by one up to here; a runner never has as many.
const LAST_FD: RawFd = 1024;

/// Which side of a fork one is on.
#[derive(Debug)]
pub(crate) enum Forked {
    /// In the child.
    Child,
    /// In the parent, with the child's process id.
    Parent(i32),
}

/// Forks. The caller has made sure that this process has one thread.
pub(crate) fn fork() -> Result<Forked, Errno> {
    // SAFETY: with a single thread no lock can be held by a thread that the child lacks.
    match Errno::result(unsafe { libc::fork() })? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}

/// Ends this process at once: no destructors, nothing flushed that a parent shares.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: always sound.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor but 0–2 and `keep`.
pub(crate) fn close_all_but(keep: &[RawFd]) {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd > 2).collect();
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep {
        close_range(from, fd - 1);
        from = fd + 1;
    }
    close_range(from, RawFd::MAX);
}

/// Closes descriptors `from..=to`. Makes system calls only.
fn close_range(from: RawFd, to: RawFd) {
    if from > to {
        return;
    }
    // SAFETY: the callers own every descriptor in the range and use none of them again.
    if unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) } == 0 {
        return;
    }
    for fd in from..=to.min(LAST_FD) {
        // SAFETY: as above; closing a number that is not open has no effect.
        unsafe { libc::close(fd) };
    }
}

/// The child that was waited for, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// Children are there; none has ended.
    NoneEnded,
    /// There are no children.
    NoChildren,
    /// This one ended and is no more.
    Child(i32, Status),
}

/// Reaps one child that has ended, if there is one. Knows the real-time signals, too.
pub(crate) fn reap() -> Reaped {
    loop {
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        match Errno::result(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }) {
            Ok(0) => return Reaped::NoneEnded,
            Ok(pid) if libc::WIFSIGNALED(status) => {
                return Reaped::Child(pid, Status::Signaled(libc::WTERMSIG(status)));
            }
            Ok(pid) => return Reaped::Child(pid, Status::Exited(libc::WEXITSTATUS(status))),
            Err(Errno::EINTR) => {}
            Err(_) => return Reaped::NoChildren,
        }
    }
}

/// A descriptor for a process; `None` where the kernel or a filter has none to give.
pub(crate) fn pidfd_open(pid: i32) -> Option<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just made this descriptor (close-on-exec) for us.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Signals the very process that the descriptor was opened for.
pub(crate) fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    let none = std::ptr::null::<c_void>();
    // SAFETY: a null siginfo is allowed: the kernel fills it in as for kill().
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            none,
            0,
        )
    };
    Errno::result(done).map(drop)
}

/// Receives bytes and the descriptors beside them, all close-on-exec. No bytes: the peer has closed.
///
/// `ENOBUFS` where a descriptor beside them was lost (more than [`MAX_MESSAGE_FDS`], or our table
/// is full): the bytes are lost, too.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> Result<usize, Errno> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeroes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: every pointer in `message` is to memory above that outlives the call.
    let got = Errno::result(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) })?;
    // Taken over even where some were lost, so that none stays open unowned.
    take_descriptors(&message, fds);
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(Errno::ENOBUFS);
    }
    Ok(got.cast_unsigned())
}

/// Room for one control message with [`MAX_MESSAGE_FDS`] descriptors.
const CONTROL_WORDS: usize = 2 + MAX_MESSAGE_FDS.div_ceil(2);

/// Moves the descriptors of a received message to `fds`.
fn take_descriptors(message: &libc::msghdr, fds: &mut Vec<OwnedFd>) {
    // SAFETY: `message` was filled in by recvmsg and its control buffer is alive.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or the header at the beginning of that buffer, which is aligned for it.
    let Some(header) = (unsafe { header.as_ref() }) else {
        return;
    };
    // A receiver that asked for nothing else gets one message at most, and of this kind.
    if (header.cmsg_level, header.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
        return;
    }
    // SAFETY: arithmetic only.
    let head = unsafe { libc::CMSG_LEN(0) } as usize;
    // SAFETY: arithmetic on the header's address only.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the header's length says how many bytes of the buffer the kernel has filled.
    let data = unsafe { std::slice::from_raw_parts(data, header.cmsg_len.saturating_sub(head)) };
    for fd in data.as_chunks().0 {
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        fds.push(unsafe { OwnedFd::from_raw_fd(RawFd::from_ne_bytes(*fd)) });
    }
}

/// All that a child needs up to its exec, prepared beforehand: it allocates nothing.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    /// Programs to try, as execvp does.
    pub(crate) candidates: &'a [&'a CStr],
    /// The arguments, the program's name first.
    pub(crate) argv: &'a [&'a CStr],
    /// `NAME=value`.
    pub(crate) env: &'a [&'a CStr],
    /// The working directory.
    pub(crate) cwd: &'a CStr,
    /// What becomes descriptors 0–2. Each is the same number or above 2.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
}

/// Why a child did not get to its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The step.
    pub(crate) stage: Stage,
    /// What the kernel said.
    pub(crate) errno: Errno,
    /// Where the step is [`Stage::Exec`]: which candidate.
    pub(crate) candidate: usize,
}

impl Failure {
    fn last(stage: Stage) -> Self {
        Self {
            stage,
            errno: Errno::last(),
            candidate: 0,
        }
    }
}

/// What the child reads and writes in the memory that it shares with us.
struct Shared<'a> {
    candidates: &'a [*const c_char],
    argv: &'a [*const c_char],
    env: &'a [*const c_char],
    cwd: *const c_char,
    stdio: [RawFd; 3],
    errno: AtomicI32,
    stage: AtomicI32,
    candidate: AtomicUsize,
}

/// Executes a command in a new process session and returns its process id once the program has
/// been entered, or why it has not been: then nothing is left of the child.
///
/// The child shares our memory until then, which costs the same whatever our size. As with vfork we
/// stand still meanwhile: also where a file system hangs on the way to the directory or program.
pub(crate) fn execute(image: &Image<'_>) -> Result<i32, Failure> {
    let candidates = pointers(image.candidates);
    let argv = pointers(image.argv);
    let env = pointers(image.env);
    let shared = Shared {
        candidates: &candidates[..image.candidates.len()],
        argv: &argv,
        env: &env,
        cwd: image.cwd.as_ptr(),
        stdio: image.stdio.map(|fd| fd.as_fd().as_raw_fd()),
        errno: AtomicI32::new(0),
        stage: AtomicI32::new(-1),
        candidate: AtomicUsize::new(0),
    };
    let pid = start(&shared).map_err(|errno| Failure {
        stage: Stage::Fork,
        errno,
        candidate: 0,
    })?;
    let Some(stage) = STAGES.get(shared.stage.load(Ordering::Acquire).cast_unsigned() as usize)
    else {
        return Ok(pid);
    };
    // SAFETY: `pid` is our child that has ended; a null status is allowed.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    Err(Failure {
        stage: *stage,
        errno: Errno::from_raw(shared.errno.load(Ordering::Relaxed)),
        candidate: shared.candidate.load(Ordering::Relaxed),
    })
}

/// The stages that a child can fail in; it reports the position.
const STAGES: [Stage; 5] = [
    Stage::Session,
    Stage::Descriptors,
    Stage::Attributes,
    Stage::Chdir,
    Stage::Exec,
];

fn pointers(strings: &[&CStr]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// Starts the child with every signal blocked, so that no handler of ours runs in it.
fn start(shared: &Shared<'_>) -> Result<i32, Errno> {
    let mut stack = vec![0_u128; CHILD_STACK / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let before = SigSet::all().thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_SETMASK)?;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let arg = std::ptr::from_ref(shared).cast_mut().cast::<c_void>();
    // SAFETY: the child runs `child` on a stack of its own while CLONE_VFORK keeps us here, so
    // stack and `shared` outlive its use of them; it makes system calls only and never returns.
    let pid = Errno::result(unsafe { libc::clone(child, top, flags, arg) });
    before.thread_set_mask()?;
    pid
}

extern "C" fn child(arg: *mut c_void) -> c_int {
    // SAFETY: `start` passes a `Shared` that stays where it is until we have executed or exited.
    let shared = unsafe { &*arg.cast_const().cast::<Shared<'_>>() };
    let failure = become_command(shared);
    let stage = STAGES.iter().position(|stage| *stage == failure.stage);
    shared.errno.store(failure.errno as i32, Ordering::Relaxed);
    shared.candidate.store(failure.candidate, Ordering::Relaxed);
    let stage = stage.and_then(|at| i32::try_from(at).ok()).unwrap_or(0);
    shared.stage.store(stage, Ordering::Release);
    exit_now(127)
}

/// Everything between fork and program, in the order of [`Stage`]. Returns only on failure.
/// Makes system calls only: no allocation, no lock.
fn become_command(shared: &Shared<'_>) -> Failure {
    // SAFETY: no memory is passed.
    if unsafe { libc::setsid() } < 0 {
        return Failure::last(Stage::Session);
    }
    for (fd, to) in shared.stdio.into_iter().zip(0..) {
        // SAFETY: the descriptors are open: `Image` borrows them.
        if unsafe { libc::dup2(fd, to) } < 0 {
            return Failure::last(Stage::Descriptors);
        }
    }
    if !reset_attributes() {
        return Failure::last(Stage::Attributes);
    }
    // SAFETY: `cwd` is a C string that `Image` borrows.
    if unsafe { libc::chdir(shared.cwd) } < 0 {
        return Failure::last(Stage::Chdir);
    }
    close_range(3, RawFd::MAX);
    if SigSet::empty().thread_set_mask().is_err() {
        return Failure::last(Stage::Attributes);
    }
    exec_first(shared)
}

/// Default signals, umask 022, no core files, a likelier victim when memory runs out.
fn reset_attributes() -> bool {
    for signal in 1..=LAST_SIGNAL {
        default_signal(signal);
    }
    // SAFETY: always sound.
    unsafe { libc::umask(0o022) };
    raise_oom_score();
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` lives through the call.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) == 0 }
}

/// Not by libc, which would leave two that it keeps to itself as they are: ignored, if somebody
/// above us did that. KILL and STOP fail, and are never anything else.
fn default_signal(signal: c_int) {
    // The kernel's sigaction, all zero: the default, no flags, an empty mask.
    let default = [0_u64; 4];
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: `default` is as long as the kernel's structure and lives through the call.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            default.as_ptr(),
            none,
            8_usize,
        )
    };
}

/// Failing is fine: without /proc the command is as likely a victim as we are.
fn raise_oom_score() {
    let path = c"/proc/self/oom_score_adj".as_ptr();
    // SAFETY: a C string constant.
    let fd = unsafe { libc::open(path, libc::O_WRONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return;
    }
    let score = b"500";
    // SAFETY: the bytes are a constant; the descriptor is the one just opened.
    unsafe { libc::write(fd, score.as_ptr().cast(), score.len()) };
    // SAFETY: opened above, used nowhere else.
    unsafe { libc::close(fd) };
}

/// Tries the candidates as execvp does: one that is not there makes room for the next, one that
/// may not be executed is remembered, and anything else is the answer.
fn exec_first(shared: &Shared<'_>) -> Failure {
    let mut failure = Failure {
        stage: Stage::Exec,
        errno: Errno::ENOENT,
        candidate: 0,
    };
    for (at, program) in shared.candidates.iter().enumerate() {
        // SAFETY: C strings and null-terminated arrays of them, all borrowed by `Image`.
        unsafe { libc::execve(*program, shared.argv.as_ptr(), shared.env.as_ptr()) };
        match Errno::last() {
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::EACCES => {
                failure = Failure {
                    errno: Errno::EACCES,
                    candidate: at,
                    ..failure
                };
            }
            errno => {
                return Failure {
                    errno,
                    candidate: at,
                    ..failure
                };
            }
        }
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    fn run(argv: &[&CStr], candidates: &[&CStr], cwd: &CStr) -> Result<String, Failure> {
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let image = Image {
            candidates,
            argv,
            env: &[c"A=b c"],
            cwd,
            stdio: [null.as_fd(), writer.as_fd(), writer.as_fd()],
        };
        let pid = execute(&image)?;
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        let pid = nix::unistd::Pid::from_raw(pid);
        nix::sys::wait::waitpid(pid, None).expect("our child");
        Ok(text)
    }

    #[test]
    fn a_child_has_what_it_was_given_and_nothing_else() {
        let script =
            c"env -u PWD -u SHLVL -u _ env; pwd; umask; ulimit -c; cat /proc/self/oom_score_adj";
        let text = run(&[c"sh", c"-c", script], &[c"/nope/sh", c"/bin/sh"], c"/usr");
        assert_eq!(text.as_deref(), Ok("A=b c\n/usr\n0022\n0\n500\n"));
    }

    #[test]
    fn failures_carry_stage_errno_and_candidate() {
        let failed = |stage, errno, candidate| {
            Err(Failure {
                stage,
                errno,
                candidate,
            })
        };
        let cwd = run(&[c"x"], &[c"/bin/true"], c"/no/such");
        assert_eq!(cwd, failed(Stage::Chdir, Errno::ENOENT, 0));
        let missing = run(&[c"x"], &[c"/no/such", c"/nor/that"], c"/");
        assert_eq!(missing, failed(Stage::Exec, Errno::ENOENT, 0));
        let denied = run(&[c"x"], &[c"/no", c"/etc/passwd", c"/no"], c"/");
        assert_eq!(denied, failed(Stage::Exec, Errno::EACCES, 1));
        let long = std::ffi::CString::new(vec![b'x'; 200_000]).expect("no NUL");
        let long = run(&[c"x", &long], &[c"/bin/true"], c"/");
        assert_eq!(long, failed(Stage::Exec, Errno::E2BIG, 0));
    }
}
