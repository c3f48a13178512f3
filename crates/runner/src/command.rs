//! A command prepared for execution, and what to say when it could not be executed.

use crate::sys::{self, Failure};
use crate::wire::{Launch, SpawnError, Stage};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::ffi::{CStr, CString};
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Where programs are looked for if the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/bin:/bin";

/// A command with everything in the form that the kernel takes.
#[derive(Debug)]
pub(crate) struct Command {
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    candidates: Vec<CString>,
    program: String,
}

impl Command {
    /// Prepares a launch's command. Refuses what no program could be given: nothing to execute, a
    /// NUL inside a string, a variable without a name.
    pub(crate) fn prepare(launch: &Launch) -> Result<Self, SpawnError> {
        let program = launch
            .argv
            .first()
            .ok_or_else(|| refused(Stage::Exec, "an empty command"))?;
        let argv = launch
            .argv
            .iter()
            .map(|arg| c_string(arg, Stage::Exec, "an argument"));
        let env = launch.env.iter().map(|(name, value)| variable(name, value));
        let path = launch.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let candidates = candidates(program, path).into_iter();
        Ok(Self {
            argv: argv.collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
            cwd: c_string(&launch.cwd, Stage::Chdir, "a directory name")?,
            candidates: candidates
                .map(|path| c_string(&path, Stage::Exec, "PATH"))
                .collect::<Result<_, _>>()?,
            program: program.clone(),
        })
    }

    /// Executes it; returns its process id once its program has been entered.
    pub(crate) fn execute(&self, stdio: [BorrowedFd<'_>; 3]) -> Result<i32, SpawnError> {
        let image = sys::Image {
            candidates: &borrowed(&self.candidates),
            argv: &borrowed(&self.argv),
            env: &borrowed(&self.env),
            cwd: &self.cwd,
            stdio,
        };
        sys::execute(&image).map_err(|failure| self.explain(failure))
    }

    fn explain(&self, failure: Failure) -> SpawnError {
        let on = match failure.stage {
            Stage::Chdir => self.cwd.to_string_lossy().into_owned(),
            Stage::Exec => self.blamed(failure),
            _ => self.program.clone(),
        };
        SpawnError {
            stage: failure.stage,
            errno: failure.errno as i32,
            on,
        }
    }

    /// Which program an exec failed on, and its interpreter where that is what is missing.
    fn blamed(&self, failure: Failure) -> String {
        if failure.errno != Errno::ENOENT {
            let tried = self.candidates.get(failure.candidate);
            return tried.map_or_else(
                || self.program.clone(),
                |p| p.to_string_lossy().into_owned(),
            );
        }
        self.candidates
            .iter()
            .find_map(|p| self.missing_interpreter(p))
            .unwrap_or_else(|| self.program.clone())
    }

    /// A script that is there and names an interpreter that is not.
    fn missing_interpreter(&self, script: &CStr) -> Option<String> {
        let script = script.to_str().ok()?;
        let cwd = Path::new(self.cwd.to_str().ok()?);
        let first = first_bytes(&cwd.join(script))?;
        let interpreter = interpreter(&first)?;
        let found = cwd.join(&interpreter).metadata();
        let missing = found.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        missing.then(|| format!("{script} (its interpreter {interpreter} does not exist)"))
    }
}

fn borrowed(strings: &[CString]) -> Vec<&CStr> {
    strings.iter().map(CString::as_c_str).collect()
}

fn refused(stage: Stage, on: &str) -> SpawnError {
    SpawnError {
        stage,
        errno: Errno::EINVAL as i32,
        on: on.to_owned(),
    }
}

fn c_string(text: &str, stage: Stage, what: &str) -> Result<CString, SpawnError> {
    CString::new(text).map_err(|_| refused(stage, &format!("{what} with a NUL byte")))
}

fn variable(name: &str, value: &str) -> Result<CString, SpawnError> {
    if name.is_empty() || name.contains('=') {
        return Err(refused(
            Stage::Exec,
            &format!("an environment variable named {name:?}"),
        ));
    }
    c_string(
        &format!("{name}={value}"),
        Stage::Exec,
        "an environment variable",
    )
}

/// The files that a program's name stands for: itself if it has a slash, else one in each directory.
fn candidates(program: &str, path: &str) -> Vec<String> {
    if program.contains('/') || program.is_empty() {
        return vec![program.to_owned()];
    }
    // An empty entry is the working directory, as in every shell.
    let dirs = path
        .split(':')
        .map(|dir| if dir.is_empty() { "." } else { dir });
    dirs.map(|dir| format!("{}/{program}", dir.trim_end_matches('/')))
        .collect()
}

/// Only of a regular file. What stands there may be replaced between a look and the opening: opened without waiting, a FIFO
/// in its place does not hold the run.
fn first_bytes(path: &Path) -> Option<Vec<u8>> {
    let mut options = std::fs::OpenOptions::new();
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = options.read(true).custom_flags(flags.bits()).open(path);
    let file = file.ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(256).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The interpreter that a script's first line names.
fn interpreter(first: &[u8]) -> Option<String> {
    let line = first.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.split_ascii_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_in_every_directory_of_path() {
        assert_eq!(candidates("ls", "/a::/b/"), ["/a/ls", "./ls", "/b/ls"]);
        assert_eq!(candidates("./ls", "/a"), ["./ls"]);
        assert_eq!(candidates("", "/a"), [""]);
    }

    #[test]
    fn an_interpreter_is_the_first_word_after_the_marks() {
        assert_eq!(
            interpreter(b"#! /bin/sh -e\nrest").as_deref(),
            Some("/bin/sh")
        );
        assert_eq!(interpreter(b"#!\n"), None);
        assert_eq!(interpreter(b"\x7fELF"), None);
    }

    #[test]
    fn only_a_regular_file_is_looked_into() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let (script, fifo) = (dir.path().join("script"), dir.path().join("fifo"));
        std::fs::write(&script, "#!/no/such\n").expect("written");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).expect("made");
        assert_eq!(first_bytes(&script).as_deref(), Some(&b"#!/no/such\n"[..]));
        assert_eq!(first_bytes(&fifo), None);
        assert_eq!(first_bytes(dir.path()), None);
    }

    #[test]
    fn variables_without_a_proper_name_are_refused() {
        assert!(variable("", "x").is_err() && variable("A=B", "x").is_err());
        assert!(variable("A", "x\0").is_err());
        assert_eq!(variable("A", "x=y"), Ok(c"A=x=y".to_owned()));
    }
}
