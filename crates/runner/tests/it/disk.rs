//! File systems that do not take what they are given: the command goes on, and the result says what is missing.

use crate::support::{Look, Spawner};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use willcall_outputs::capture::{Kept, Loss};
use willcall_outputs::record::Stream;
use willcall_runner::wire::{RunResult, Status, ToRunner};

const NOBODY: u32 = 65_534;

/// A file system of our own, as long as the value lives.
struct Mounted(PathBuf);

impl Mounted {
    /// A file system in memory; `None`, said loudly, where mounting is refused.
    fn tmpfs(path: PathBuf, options: &str) -> Option<Self> {
        fs::create_dir(&path).expect("a directory");
        let flags = MsFlags::empty();
        match mount(Some("tmpfs"), &path, Some("tmpfs"), flags, Some(options)) {
            Ok(()) => Some(Self(path)),
            Err(error) => skip(&format!("mounting a tmpfs is refused here ({error})")),
        }
    }

    /// An ext4 of 4 MiB with few inodes, in a file beside it.
    fn ext4(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).expect("a directory");
        let image = path.with_extension("img");
        let sized = File::create(&image).and_then(|file| file.set_len(4 << 20));
        sized.expect("an image");
        let made = done(
            Command::new("mkfs.ext4")
                .args(["-q", "-F", "-N", "32"])
                .arg(&image),
        );
        if let Err(why) = made {
            return skip(&format!("mkfs.ext4 does not work here ({why})"));
        }
        match done(
            Command::new("mount")
                .args(["-o", "loop"])
                .arg(&image)
                .arg(&path),
        ) {
            Ok(()) => Some(Self(path)),
            Err(why) => skip(&format!("mounting an image is refused here ({why})")),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn skip<T>(why: &str) -> Option<T> {
    eprintln!("SKIPPED: {why}");
    None
}

fn done(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs something that has to be kept in `outputs`: neither blocked nor killed, whatever becomes of its output.
fn run_in(spawner: &Spawner, outputs: &Path) -> RunResult {
    let script = "head -c 3000000 /dev/zero; echo err >&2; exit 5";
    let launch = spawner.launch(&["sh", "-c", script]);
    let mut run = spawner.arm_in(launch, outputs.to_owned());
    run.tell(ToRunner::Go);
    let result = run.result();
    assert_eq!(
        (result.status(), result.stderr().as_str()),
        (Status::Exited(5), "err\n")
    );
    let captured = &result.stream(Stream::Stdout).captured;
    assert_eq!(captured.total_size, 3_000_000);
    match captured.kept {
        Kept::File { stored, .. } => {
            let on_disk = run.file(Stream::Stdout).metadata().expect("the file").len();
            assert_eq!(stored, on_disk);
        }
        _ => assert!(!run.file(Stream::Stdout).exists(), "an empty file is left"),
    }
    result
}

#[track_caller]
fn check_nothing(spawner: &Spawner, outputs: &Path, expected: Loss) {
    let result = run_in(spawner, outputs);
    let kept = &result.stream(Stream::Stdout).captured.kept;
    assert_eq!(kept, &Kept::Nothing { loss: expected });
    // What needs no file is none the worse.
    let mut small = spawner.arm_in(spawner.launch(&["echo", "hi"]), outputs.to_owned());
    small.tell(ToRunner::Go);
    let result = small.result();
    assert_eq!(result.stdout(), "hi\n");
    assert_eq!(result.stream(Stream::Stdout).captured.kept, Kept::NotNeeded);
}

fn as_nobody(command: &mut Command) {
    command.uid(NOBODY).gid(NOBODY);
}

fn fill_inodes(path: &Path) {
    let full = (0..10_000).find(|n| File::create(path.join(format!("{n}"))).is_err());
    assert!(full.is_some(), "{} has room for more", path.display());
}

#[test]
fn a_disk_that_becomes_full_keeps_the_beginning() {
    let spawner = Spawner::start();
    let Some(disk) = Mounted::tmpfs(spawner.dir.path().join("full"), "size=1m") else {
        return;
    };
    let result = run_in(&spawner, &disk.0);
    let kept = &result.stream(Stream::Stdout).captured.kept;
    let Kept::File { stored, loss, .. } = kept else {
        panic!("{kept:?}")
    };
    assert!(*stored > 500_000, "{stored}");
    assert_eq!(*loss, Some(Loss::DiskFull));
}

#[test]
fn a_disk_that_is_full_keeps_nothing_and_no_empty_file() {
    let spawner = Spawner::start();
    let Some(disk) = Mounted::tmpfs(spawner.dir.path().join("full"), "size=1m") else {
        return;
    };
    let filled = File::create(disk.0.join("filler"))
        .and_then(|mut file| file.write_all(&vec![b'x'; 2 << 20]));
    assert!(filled.is_err());
    check_nothing(&spawner, &disk.0, Loss::DiskFull);
}

#[test]
fn no_inodes_in_memory() {
    let spawner = Spawner::start();
    let options = "size=1m,nr_inodes=8";
    let Some(disk) = Mounted::tmpfs(spawner.dir.path().join("inodes"), options) else {
        return;
    };
    fill_inodes(&disk.0);
    check_nothing(&spawner, &disk.0, Loss::NoInodes);
}

#[test]
fn no_inodes_on_ext4() {
    let spawner = Spawner::start();
    let Some(disk) = Mounted::ext4(spawner.dir.path().join("inodes")) else {
        return;
    };
    fill_inodes(&disk.0);
    check_nothing(&spawner, &disk.0, Loss::NoInodes);
}

#[test]
fn a_read_only_file_system() {
    let spawner = Spawner::start();
    let Some(disk) = Mounted::tmpfs(spawner.dir.path().join("ro"), "size=1m") else {
        return;
    };
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, &disk.0, None::<&str>, flags, None::<&str>).expect("remounted");
    check_nothing(&spawner, &disk.0, Loss::ReadOnly);
}

/// A file system that has been shut down answers everything with EIO. (A quota of a project, the other errno
/// that cannot be had from a tmpfs, needs a kernel and tools that are not everywhere: EDQUOT has its name from
/// the table of errnos only.)
#[test]
fn a_file_system_that_fails() {
    let spawner = Spawner::start();
    let Some(disk) = Mounted::ext4(spawner.dir.path().join("eio")) else {
        return;
    };
    // FS_IOC_SHUTDOWN, without flushing.
    let script = "import fcntl, os, struct, sys\n\
        fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";
    if let Err(why) = done(Command::new("python3").args(["-c", script]).arg(&disk.0)) {
        return skip(&format!("a file system cannot be shut down here ({why})")).unwrap_or(());
    }
    check_nothing(&spawner, &disk.0, Loss::IoError);
}

#[test]
fn a_directory_that_the_runner_may_not_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let outputs = dir.path().join("outputs");
    fs::create_dir(&outputs).expect("a directory");
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    if !nix::unistd::geteuid().is_root() {
        fs::set_permissions(&outputs, PermissionsExt::from_mode(0o555)).expect("ours");
        return check_nothing(&Spawner::start(), &outputs, Loss::Permission);
    }
    let Some(spawner) = Spawner::start_as(as_nobody, NOBODY) else {
        return skip("another user cannot run the spawner here").unwrap_or(());
    };
    check_nothing(&spawner, &outputs, Loss::Permission);
}

/// The runner lives on where the kernel would end it by a signal.
#[test]
fn a_limit_on_the_size_of_files() {
    let limited = |command: &mut Command| {
        let program = command.get_program().to_owned();
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut outer = Command::new("prlimit");
        outer.arg("--fsize=1000000").arg(program).args(args);
        *command = outer;
    };
    let Some(spawner) = Spawner::start_as(limited, nix::unistd::geteuid().as_raw()) else {
        return skip("there is no prlimit here").unwrap_or(());
    };
    let outputs = spawner.dir.path().to_owned();
    let result = run_in(&spawner, &outputs);
    let kept = &result.stream(Stream::Stdout).captured.kept;
    let Kept::File { stored, loss, .. } = kept else {
        panic!("{kept:?}")
    };
    assert_eq!((*stored, *loss), (1_000_000, Some(Loss::IoError)));
}

#[test]
fn no_directory_at_all() {
    let spawner = Spawner::start();
    for (told, loss) in [
        (None, Loss::NoDirectory),
        (Some(Loss::UnsafeDirectory), Loss::UnsafeDirectory),
    ] {
        let mut launch = spawner.launch(&["sh", "-c", "seq 100000; exit 5"]);
        (launch.has_directory, launch.no_directory) = (false, told);
        let result = spawner.run(launch);
        let captured = &result.stream(Stream::Stdout).captured;
        assert_eq!(
            (result.status(), captured.total_size),
            (Status::Exited(5), 588_895)
        );
        assert_eq!(captured.kept, Kept::Nothing { loss });
    }
}
