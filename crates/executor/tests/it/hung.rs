//! A file system that answers whoever looks at its root, and nobody else, ever: a disk that hangs.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// More than any request of a file system that allows writes of 4 KiB.
const MAX_REQUEST: usize = 128 * 1024;
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const ENOSYS: i32 = 38;

/// A FUSE mount that hangs. It goes, and what waits for it fails, when this is dropped.
pub(crate) struct Hung {
    at: PathBuf,
    device: Option<File>,
}

impl Hung {
    /// Mounts it over a directory; `None` where this process may not mount.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root may mount a file system that hangs");
            return None;
        }
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.inspect_err(|error| eprintln!("skipped: no /dev/fuse: {error}"));
        let device = device.ok()?;
        let mounted = Command::new("mount")
            .args([
                "-i",
                "-t",
                "fuse",
                "-o",
                "fd=0,rootmode=40000,user_id=0,group_id=0",
            ])
            .args(["hung", at.to_str().unwrap()])
            .stdin(Stdio::from(device.try_clone().unwrap()))
            .status()
            .unwrap();
        assert!(mounted.success(), "{mounted}");
        let serving = device.try_clone().unwrap();
        std::thread::spawn(move || serve(serving));
        Some(Self {
            at: at.to_owned(),
            device: Some(device),
        })
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.device.take();
        // Ends the connection: whoever waits for an answer gets an error, and so does our own thread.
        for how in ["-f", "-l"] {
            let mut umount = Command::new("umount");
            // The first only ends it where something in it is open.
            let _ = umount.arg(how).arg(&self.at).stderr(Stdio::null()).status();
        }
    }
}

fn serve(mut device: File) {
    let mut request = vec![0; MAX_REQUEST];
    while let Ok(len) = device.read(&mut request) {
        let number = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
        assert!(len >= 40, "a request has a header");
        let (opcode, unique) = (number(4), &request[8..16]);
        let answer = match opcode {
            LOOKUP | FORGET => continue,
            INIT => Ok(init()),
            GETATTR => Ok(root()),
            OPENDIR => Ok(vec![0; 16]),
            READDIR | RELEASEDIR => Ok(Vec::new()),
            _ => Err(-ENOSYS),
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (error, Vec::new()),
        };
        let len = u32::try_from(16 + body.len()).unwrap();
        let header = [&len.to_le_bytes()[..], &error.to_le_bytes(), unique].concat();
        // One that has been interrupted wants no answer any more.
        let _ = device.write(&[header, body].concat());
    }
}

/// Version 7.31, writes of 4 KiB.
fn init() -> Vec<u8> {
    let mut init = [7_u32, 31, 4096, 0, 0, 4096].map(u32::to_le_bytes).concat();
    init.resize(64, 0);
    init
}

/// A directory of root's with mode 2750; the answer holds for an hour.
fn root() -> Vec<u8> {
    let times = [3600_u64, 0, 1, 0, 0, 0, 0, 0]
        .map(u64::to_le_bytes)
        .concat();
    let rest = [0_u32, 0, 0, 0o042_750, 2, 0, 0, 0, 4096, 0].map(u32::to_le_bytes);
    [times, rest.concat()].concat()
}
