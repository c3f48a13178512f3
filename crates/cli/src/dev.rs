//! `willcall dev`: a whole system until it is stopped.

use crate::args::DevArgs;
use crate::problem::Failure;
use crate::render::Printer;
use crate::stop::Stop;
use crate::system::{Directory, Host, Log, System};
use std::time::Duration;

const HOST: &str = "dev";
/// How soon a process that ended on its own is noticed.
const CHECK: Duration = Duration::from_millis(200);

/// Keeps a system up until INT or TERM, and gives the exit code.
pub fn command(args: &DevArgs, printer: &mut Printer<'_>) -> Result<i32, Failure> {
    let stop = Stop::watch().map_err(|source| Failure::Local {
        what: "signals cannot be caught".to_owned(),
        source,
    })?;
    let directory = match &args.state {
        Some(path) => Directory::lasting(path)?,
        None => Directory::scratch(false)?,
    };
    let served = serve(args, &directory, &stop, printer);
    directory.end()?;
    match served {
        // Being stopped is what it is for.
        Err(Failure::Interrupted(_)) | Ok(()) => Ok(0),
        Err(failure) => Err(failure),
    }
}

fn serve(
    args: &DevArgs,
    directory: &Directory,
    stop: &Stop,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let host = Host::new(HOST, args.config.path.as_deref())?;
    let mut system = System::start(directory, &host, Log::Stderr, stop)?;
    printer.ready(system.settings());
    while stop.pause(CHECK).is_none() {
        system.check()?;
    }
    system.end()
}
