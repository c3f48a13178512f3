//! Decides and remembers: ledger, runs, reads. No network code, no privileges.
#![forbid(unsafe_code)]

pub mod ledger;
pub mod limits;
