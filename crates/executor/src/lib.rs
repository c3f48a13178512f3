//! Decides and remembers: ledger, runs, reads. No network code, no privileges.
