//! The wire between a gateway and the hosts that dial it.
//!
//! ```text
//! gateway                                    link                executor
//!    │◄── websocket, mutual TLS ──────────────►│◄── link.sock ─────►│
//!    │                                         │                    │
//!    │◄───────────────────────── session: hello ────────────────────│
//!    │── link: clock ─────────────────────────►│                    │
//!    │── session: welcome{resume_from} ────────────────────────────►│
//!    │── session: dispatch ────────────────────────────────────────►│
//!    │◄───────────────────────── session: accepted ─────────────────│
//!    │◄───────────────────────── session: finished{seq} ────────────│  again after every loss, until
//!    │── session: ack{seq} ────────────────────────────────────────►│  it is acknowledged
//! ```
//!
//! The first byte of a message says whether it is for the link or for the session. A link
//! relays session messages unread; it could not make sense of them anyway.
//!
//! | module | what |
//! |---|---|
//! | [`ids`] | names that cannot be wrong |
//! | [`limits`] | every bound on the wire, each with its why |
//! | [`frame`] | bytes to messages and back, bounded on both sides |
//! | [`message`] | what is said |
//! | [`outcome`] | what a run came to: the JSON that callers see |
//! | [`session`] | the two ends of a session, without I/O |
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects
)]
#![warn(clippy::expect_used, clippy::panic, clippy::unreachable)]

pub mod frame;
pub mod ids;
pub mod limits;
pub mod message;
pub mod outcome;
pub mod session;
