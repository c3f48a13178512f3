//! What is kept of a command's output, and what of it may leave the host.
//!
//! A command's output is a parcel: a small one goes straight through; a large one stays on the
//! host, and the caller gets a *preview* (head, marker, tail) and a *receipt* that says what is
//! held and how to pick it up by pages. This crate is the law of that exchange.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | [`limits`] | the bounds, each with its why | none |
//! | [`text`] | characters and lines in bytes that may not be UTF-8 | none |
//! | [`view`] | of each line what a person would have read, and both ends of it | none |
//! | [`terminal`] | what a person would have read on a terminal | none |
//! | [`capture`] | bytes in; head and tail windows, exact counts and what to write out | none |
//! | [`digest`] | the digest of stored bytes | none |
//! | [`media`] | the type of bytes, by how they begin | none |
//! | [`preview`] | a [`capture::Captured`] in; the text that leaves out | none |
//! | [`marker`] | what stands between head and tail, in its three forms | none |
//! | [`page`] | what one bounded read returns | none |
//! | [`turn`] | how much text all results of one turn may carry together | none |
//! | [`index`] | where lines are in a large file | none |
//! | [`receipt`] | the fields that come with a preview | none |
//! | [`record`] | what is remembered of a run's outputs, as JSON | none |
//! | [`retention`] | which held outputs go, and why | none |
//! | [`store`] | the `.outputs` directory: create, seal, record, read | files |
#![forbid(unsafe_code)]

pub mod capture;
pub mod digest;
pub mod index;
pub mod limits;
pub mod marker;
pub mod media;
pub mod page;
pub mod preview;
pub mod receipt;
pub mod record;
pub mod retention;
pub mod store;
pub mod terminal;
pub mod text;
pub mod turn;
pub mod view;
