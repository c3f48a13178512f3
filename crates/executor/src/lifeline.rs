//! The life of whoever started this process, as a pipe on stdin: it holds the other end and writes nothing.
//! However it goes, the kernel closes that end.

use std::io;
use std::os::fd::AsFd as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// The pipe, or nothing where nobody is to be followed.
#[derive(Debug)]
pub(crate) struct Lifeline(Option<Receiver>);

impl Lifeline {
    /// Takes stdin, if it `is_given`. Fails where it is no pipe.
    pub(crate) fn new(is_given: bool) -> io::Result<Self> {
        let pipe = is_given.then(|| {
            let stdin = io::stdin().as_fd().try_clone_to_owned()?;
            Receiver::from_owned_fd(stdin)
        });
        pipe.transpose().map(Self)
    }

    /// Waits until nobody holds the other end. Cancel safe.
    pub(crate) async fn end(&mut self) {
        let Some(pipe) = &mut self.0 else {
            return std::future::pending().await;
        };
        // What is written is no end; an error that lasts is one.
        while matches!(pipe.read(&mut [0; 64]).await, Ok(1..)) {}
    }
}
