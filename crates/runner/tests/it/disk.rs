//! A full disk: the command goes on, and the result says what is missing.

use crate::support::{Look, Spawner};
use nix::mount::{MsFlags, mount, umount};
use std::path::PathBuf;
use willcall_outputs::capture::{Kept, Loss};
use willcall_outputs::record::Stream;
use willcall_runner::wire::{Status, ToRunner};

struct Tmpfs(PathBuf);

impl Tmpfs {
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    /// A file system of 1 MiB; `None`, said loudly, where mounting is refused.
    fn mount(path: PathBuf) -> Option<Self> {
        std::fs::create_dir(&path).expect("a directory");
        let options = Some("size=1m");
        let mounted = mount(
            Some("tmpfs"),
            &path,
            Some("tmpfs"),
            MsFlags::empty(),
            options,
        );
        if let Err(error) = mounted {
            eprintln!("SKIPPED: mounting a tmpfs is refused here ({error})");
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = umount(&self.0);
    }
}

#[test]
fn a_full_disk_stops_no_command() {
    let spawner = Spawner::start();
    let Some(disk) = Tmpfs::mount(spawner.dir.path().join("full")) else {
        return;
    };
    let script = "head -c 3000000 /dev/zero; echo err >&2; exit 5";
    let mut run = spawner.arm_in(spawner.launch(&["sh", "-c", script]), disk.0.clone());
    run.tell(ToRunner::Go);
    let result = run.result();
    assert_eq!(
        (result.status(), result.stderr().as_str()),
        (Status::Exited(5), "err\n")
    );
    let captured = &result.stream(Stream::Stdout).captured;
    assert_eq!(captured.total_size, 3_000_000);
    let Kept::File { stored, loss, .. } = captured.kept else {
        panic!("{captured:?}")
    };
    assert_eq!(loss, Some(Loss::DiskFull));
    let on_disk = run.file(Stream::Stdout).metadata().expect("the file").len();
    assert!(
        stored == on_disk && stored > 500_000,
        "{stored} of {on_disk}"
    );

    let mut small = spawner.arm_in(spawner.launch(&["echo", "hi"]), disk.0.clone());
    small.tell(ToRunner::Go);
    let result = small.result();
    assert_eq!(result.stdout(), "hi\n");
    assert_eq!(result.stream(Stream::Stdout).captured.kept, Kept::NotNeeded);
}
