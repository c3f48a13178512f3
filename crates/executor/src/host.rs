//! What this process has to know of its host.

use nix::unistd::{Uid, User};
use std::collections::BTreeMap;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// The kernel's name for this boot.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// Milliseconds since 1970, by the host's clock.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The user of this process: its name, and the clean environment of commands that run as it.
pub(crate) fn user() -> (String, BTreeMap<String, String>) {
    let uid = Uid::current();
    let (name, home, shell) = match User::from_uid(uid) {
        Ok(Some(user)) => (user.name, user.dir, user.shell),
        // A user without an entry is one of containers; its commands still need a home.
        _ => (uid.to_string(), "/".into(), "/bin/sh".into()),
    };
    let env = crate::runs::order::clean_env(&name, &home, &shell);
    (name, env)
}
