//! Who may be the link, and who may take links.

use crate::gateway::command;
use crate::host::{Host, PATIENCE, executor_command, wait_for};
use std::fs::{File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const GUEST: u32 = 54_321;
const STRANGER: u32 = 54_322;
const SOCKET: &str = "WILLCALL_TEST_SOCKET";

#[test]
fn a_link_of_another_user_is_served_if_it_may_be_and_nobody_else() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root has other users");
        return;
    }
    for (allowed, served) in [(true, [true, false]), (false, [false, false])] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
        let knock = dir.path().join("knock");
        std::fs::copy(std::env::current_exe().unwrap(), &knock).unwrap();
        let mut command = executor_command(dir.path());
        if allowed {
            command.args(["--allow-uid", "7", "--allow-uid", &GUEST.to_string()]);
        }
        let mut executor = command.spawn().unwrap();
        let socket = dir.path().join("run/link.sock");
        wait_for("link.sock", || UnixStream::connect(&socket).is_ok());
        let found = [GUEST, STRANGER].map(|uid| is_served(&knock, uid, &socket));
        executor.kill().unwrap();
        executor.wait().unwrap();
        assert_eq!(found, served);
    }
}

#[test]
fn a_second_executor_takes_no_sockets_from_a_living_one() {
    let host = Host::start();
    let mut gateway = host.connect();
    let other = tempfile::tempdir().unwrap();
    let mut second = Command::new(env!("CARGO_BIN_EXE_willcall-executor"));
    second.arg("run").arg("--run-dir").arg(host.run_dir());
    for name in ["state", "workspace"] {
        second.arg(format!("--{name}")).arg(other.path().join(name));
    }
    let log = other.path().join("log");
    let mut second = second
        .stdin(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut ended = None;
    let until = Instant::now() + PATIENCE;
    while ended.is_none() && Instant::now() < until {
        ended = second.try_wait().unwrap();
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let _ = second.kill();
    second.wait().unwrap();
    let said = std::fs::read_to_string(log).unwrap();
    assert_eq!(ended.and_then(|status| status.code()), Some(1), "{said}");
    let run_dir = host.run_dir();
    let why = format!("{} is in use by another executor", run_dir.display());
    assert!(said.contains(&why), "{said}");
    assert_eq!(gateway.run(command(&["true"])).exit_code, Some(0));
    assert_eq!(host.connect().hello.incarnation, gateway.hello.incarnation);
}

/// Whether a process of that user hears a hello.
fn is_served(knock: &Path, uid: u32, socket: &Path) -> bool {
    let status = Command::new(knock)
        .args(["--exact", "access::knocks", "--ignored"])
        .env(SOCKET, socket)
        .current_dir("/")
        .uid(uid)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.unwrap().success()
}

#[test]
#[ignore = "it is the link of the test above"]
fn knocks() {
    let mut socket = UnixStream::connect(std::env::var_os(SOCKET).unwrap()).unwrap();
    socket.read_exact(&mut [0; 4]).unwrap();
}
