//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. What our locks guard is whole after every statement, so that a panic elsewhere spoils
/// nothing; the panic itself ends the process soon enough.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
