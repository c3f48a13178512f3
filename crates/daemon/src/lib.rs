//! What every long-running process does at its start and says at its end.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | it was asked to end, and did; or it printed its help |
//! | 1 | it cannot go on, and the log says why |
//! | 2 | its command line cannot be meant, and stderr says why |
#![forbid(unsafe_code)]

use clap::Parser;
use std::error::Error;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// What a process logs is chosen by this variable, `info` by default.
const LOG: &str = "WILLCALL_LOG";

/// The command line, whose first argument is the program's name. Where there is none to act on, what there is to say is
/// printed, and the exit code is given.
pub fn parse<A: Parser>(args: impl IntoIterator<Item = OsString>) -> Result<A, ExitCode> {
    A::try_parse_from(args).map_err(|error| {
        // Where nobody reads, nobody misses it.
        drop(error.print());
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Has this process log to stderr, in colours where that is a terminal.
pub fn log_to_stderr() {
    let filter = EnvFilter::try_from_env(LOG).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // It would tell of a log that cannot be written on that same log, and panic: on a full disk, every process at once.
        .log_internal_errors(false);
    // A log that is set up already, as in tests, serves as well.
    drop(log.try_init());
}

/// Logs why `process` ends, if it has failed, and gives its exit code.
pub fn end<E: Into<Box<dyn Error + Send + Sync>>>(process: &str, ended: Result<(), E>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{process} ends: {}", in_words(&*error.into()));
            ExitCode::FAILURE
        }
    }
}

/// An error and its sources in one line, for those who get no chain.
pub fn in_words(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let words: Vec<String> = causes.map(ToString::to_string).collect();
    words.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the door cannot be opened")]
    struct Door(#[source] Lock);

    #[derive(Debug, thiserror::Error)]
    #[error("the lock is stuck")]
    struct Lock;

    #[derive(Debug, Parser)]
    struct Args {
        #[arg(long)]
        state: Option<String>,
    }

    fn parsed(args: &[&str]) -> Result<Args, String> {
        let all = std::iter::once("x").chain(args.iter().copied());
        parse(all.map(OsString::from)).map_err(|code| format!("{code:?}"))
    }

    #[test]
    fn an_error_is_told_with_its_sources() {
        assert_eq!(in_words(&Lock), "the lock is stuck");
        let chain = "the door cannot be opened: the lock is stuck";
        assert_eq!(in_words(&Door(Lock)), chain);
    }

    #[test]
    fn how_a_process_ends_is_in_its_exit_code() {
        let code = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(format!("{:?}", end::<Lock>("x", Ok(()))), code(0));
        assert_eq!(format!("{:?}", end("x", Err(Lock))), code(1));
        assert_eq!(parsed(&["--stat"]).err(), Some(code(2)));
        assert_eq!(parsed(&["--help"]).err(), Some(code(0)));
        let state = parsed(&["--state", "a"]).expect("meant").state;
        assert_eq!(state.as_deref(), Some("a"));
    }
}
