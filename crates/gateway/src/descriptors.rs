//! How many descriptors this process may have: one for each connection.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises what is allowed to what could be.
pub(crate) fn raise() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        tracing::warn!(%error, "the number of descriptors cannot be raised");
    }
}

/// How many are allowed; the kernel's usual 1024 where it does not say.
pub(crate) fn allowed() -> usize {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| soft);
    soft.map_or(1024, |soft| usize::try_from(soft).unwrap_or(usize::MAX))
}
