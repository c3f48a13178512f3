//! Keeps texts that have no file yet, as long as the disk answers in time.

use crate::host::now_ms;
use crate::limits::PARCEL_TIME;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use willcall_daemon::in_words;
use willcall_outputs::capture::Loss;
use willcall_outputs::store::{Parcel, Store, StoreError};

/// Writes parcels, one at a time: a disk that hangs holds one thread.
#[derive(Debug)]
pub(crate) struct Parcels {
    store: Arc<Store>,
    writer: Arc<Semaphore>,
}

impl Parcels {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let writer = Arc::new(Semaphore::new(1));
        Self { store, writer }
    }

    /// The instant at which a call that begins to wait now has waited long enough, for all its texts.
    pub(crate) fn deadline() -> Instant {
        Instant::now() + PARCEL_TIME
    }

    /// Keeps `bytes` in a session. What the disk has not taken by the deadline counts as not kept, whatever
    /// becomes of it.
    pub(crate) async fn keep(
        &self,
        session: &str,
        bytes: Vec<u8>,
        deadline: Instant,
    ) -> Result<Parcel, Loss> {
        match timeout_at(deadline, self.write(session.to_owned(), bytes)).await {
            Ok(Ok(parcel)) => Ok(parcel),
            Ok(Err(error)) => {
                tracing::error!(session, "a text cannot be kept: {}", in_words(&error));
                Err(error.loss())
            }
            Err(_) => {
                tracing::error!(session, "a text is not kept: the disk does not answer");
                Err(Loss::TooSlow)
            }
        }
    }

    async fn write(&self, session: String, bytes: Vec<u8>) -> Result<Parcel, StoreError> {
        let (store, writer) = (Arc::clone(&self.store), Arc::clone(&self.writer));
        // The semaphore is never closed.
        let writer = writer.acquire_owned().await;
        let write = tokio::task::spawn_blocking(move || {
            let written = store.store_parcel(&session, &bytes, now_ms());
            // Not before the disk has answered, however long ago the caller has gone.
            drop(writer);
            written
        });
        match Abandoned(write).wait().await {
            Ok(written) => written,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Work that need not begin any more once nobody waits for it.
struct Abandoned<T>(JoinHandle<T>);

impl<T> Abandoned<T> {
    async fn wait(&mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for Abandoned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
