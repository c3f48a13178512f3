//! The spawner against peers that are wrong, slow or gone.

use crate::support::{
    Look, Run, Spawner, eventually, read_frame, send_bytes, send_launch, spawner_command,
};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use uuid::Uuid;
use willcall_runner::wire::{self, Launched};

/// Sends what is no launch; the connection is closed, and the next one is served.
#[track_caller]
fn refused(bytes: &[u8], fds: usize) {
    let spawner = Spawner::start();
    let mut socket = spawner.connect();
    let fds: Vec<OwnedFd> = (0..fds)
        .map(|_| File::open("/").expect("/").into())
        .collect();
    if fds.is_empty() {
        socket.write_all(bytes).expect("sent");
    } else {
        send_bytes(&socket, bytes, &fds);
    }
    assert_eq!(socket.read(&mut [0; 1]).unwrap_or(0), 0, "closed");
    assert_eq!(spawner.sh("echo hi").stdout(), "hi\n");
}

#[test]
fn what_is_no_launch_closes_its_connection_and_no_other() {
    refused(b"\xff\xff\xff\xff", 0);
    refused(b"\x08\0\0\0\x04\0\0\0null", 0);
    refused(b"\x05\0\0\0\xff\xff\xff\xffx", 0);
    refused(b"\0\0\0\0", 2);
}

#[test]
fn descriptors_are_counted() {
    let spawner = Spawner::start();
    let bytes = wire::encode(&spawner.launch(&["true"])).expect("a launch");
    for count in [0, 1, 2, 4, 7, 200] {
        refused(&bytes, count);
    }
}

#[test]
fn one_variable_chooses_what_every_role_logs() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let socket = dir.path().join("spawner.sock");
    for (log, is_silent) in [("info", false), ("off", true)] {
        let mut spawner = spawner_command(&socket)
            .env("WILLCALL_LOG", log)
            .env("RUST_LOG", "trace")
            .stderr(Stdio::piped())
            .spawn()
            .expect("a spawner");
        eventually("the spawner listens", || UnixStream::connect(&socket).ok());
        let pid = Pid::from_raw(i32::try_from(spawner.id()).expect("a pid"));
        kill(pid, Signal::SIGTERM).expect("signalled");
        let mut said = String::new();
        let mut stderr = spawner.stderr.take().expect("piped");
        stderr.read_to_string(&mut said).expect("text");
        spawner.wait().expect("ended");
        assert_eq!(said.is_empty(), is_silent, "{log}: {said}");
        assert!(!said.contains("TRACE"), "{said}");
    }
}

#[test]
fn a_peer_that_stands_still_blocks_nobody() {
    let spawner = Spawner::start();
    let mut stalled = spawner.connect();
    stalled.write_all(&[9, 0, 0]).expect("sent");
    assert_eq!(spawner.sh("echo hi").stdout(), "hi\n");
}

#[test]
fn launches_follow_each_other_on_one_connection() {
    let spawner = Spawner::start();
    let mut socket = spawner.connect();
    let mut ends = Vec::new();
    let mut runs: Vec<Uuid> = Vec::new();
    for n in 0..5 {
        let launch = spawner.launch(&["true"]);
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let spool = File::create(spawner.dir.path().join(format!("{n}"))).expect("a spool");
        let dir = File::open(spawner.dir.path()).expect("a directory");
        send_launch(&socket, &launch, &[theirs.into(), spool.into(), dir.into()]);
        ends.push(ours);
        runs.push(launch.run);
    }
    for run in runs {
        let launched: Launched = wire::decode(&read_frame(&mut socket)).expect("an answer");
        assert!(
            matches!(launched, Launched::Forked { run: r, .. } if r == run),
            "{launched:?}"
        );
    }
}

#[test]
fn the_socket_is_for_its_owner_and_a_stale_one_is_replaced() {
    let mut spawner = Spawner::start();
    let metadata = spawner.socket().metadata().expect("the socket");
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.mode() & 0o777, 0o600);
    spawner.process.kill().expect("our child");
    spawner.process.wait().expect("our child");
    assert!(spawner.socket().exists());
    spawner.process = spawner_command(&spawner.socket())
        .spawn()
        .expect("a spawner");
    eventually("it listens", || UnixStream::connect(spawner.socket()).ok());
}

#[test]
fn term_ends_a_spawner_but_no_runner() {
    let mut spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["sh", "-c", "sleep .3; echo hi"]));
    run.go();
    let pid = Pid::from_raw(spawner.process.id().try_into().expect("a pid"));
    kill(pid, Signal::SIGTERM).expect("our child");
    assert!(spawner.process.wait().expect("our child").success());
    assert!(!spawner.socket().exists());
    assert_eq!(run.result().stdout(), "hi\n");
}

#[test]
fn what_stands_in_the_way_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    fs::write(&path, "precious").expect("a file");
    let ended = spawner_command(&path)
        .stderr(Stdio::null())
        .status()
        .expect("a spawner");
    assert!(!ended.success());
    assert_eq!(fs::read_to_string(&path).expect("the file"), "precious");
    fs::remove_file(&path).expect("the file");
    let _living = UnixListener::bind(&path).expect("a listener");
    assert!(
        !spawner_command(&path)
            .stderr(Stdio::null())
            .status()
            .expect("a spawner")
            .success()
    );
    assert!(path.exists());
}

/// A spawner that hangs, with a queue of callers that is full: nothing in it is ever accepted.
#[test]
fn a_spawner_that_hangs_is_named_by_its_successor() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let _hung = UnixListener::bind(&path).expect("a listener");
    let mut queue = Vec::new();
    let full = loop {
        let flags = SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).expect("a socket");
        let address = UnixAddr::new(&path).expect("short");
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) => queue.push(socket),
            Err(errno) => break errno,
        }
    };
    assert_eq!(full, Errno::EAGAIN);
    let mut successor = spawner_command(&path)
        .stderr(Stdio::piped())
        .spawn()
        .expect("a spawner");
    let ended = eventually_or_kill(&mut successor);
    let mut said = String::new();
    let mut stderr = successor.stderr.take().expect("piped");
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(ended.and_then(|ended| ended.code()), Some(1), "{said}");
    assert!(said.contains("another spawner listens"), "{said}");
    assert!(path.exists());
}

/// How a process ended; `None` if it had to be killed for that.
fn eventually_or_kill(process: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if let Some(status) = process.try_wait().expect("ours") {
            return Some(status);
        }
        let _ = nix::poll::poll(&mut [], 5_u8);
    }
    process.kill().expect("ours");
    process.wait().expect("ours");
    None
}

#[test]
fn many_runs_at_once_leave_nothing_behind() {
    let spawner = Spawner::start();
    let pid = spawner.process.id();
    let fds = || {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("the spawner")
            .count()
    };
    let children = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let before = fds();
    let runs: Vec<Run> = (0..60)
        .map(|n| {
            let mut run =
                spawner.arm(spawner.launch(&["sh", "-c", &format!("sleep .1; echo {n}")]));
            run.go();
            run
        })
        .collect();
    for (n, mut run) in runs.into_iter().enumerate() {
        assert_eq!(run.result().stdout(), format!("{n}\n"));
    }
    eventually("every runner is reaped", || {
        children().expect("the spawner").is_empty().then_some(())
    });
    eventually("every connection is closed", || {
        (fds() == before).then_some(())
    });
}
