//! Pages of held outputs.

use crate::turns::Pass;
use std::io::ErrorKind;
use std::path::Path;
use willcall_daemon::in_words;
use willcall_outputs::page::{Ask, Encoding as PageEncoding, Extent, Page, PageCaps, Start};
use willcall_outputs::record::Stream as Stored;
use willcall_outputs::store::{OutputKey, ParcelKey, ReadError, Store};
use willcall_outputs::turn::Share;
use willcall_protocol::ids::{OutputId, Stream};
use willcall_protocol::message::{Encoding, PageReport, Read, ReadFailure, ReadTarget, ToGateway};

/// Reads a page, within what its turn has room for, and answers, in any case. Blocks.
pub(super) fn answer(store: &Store, read: &Read, pass: Pass, caps: PageCaps) -> ToGateway {
    let call = read.call;
    match page_within(store, read, pass, caps) {
        Ok(page) => ToGateway::Page {
            call,
            page: report(page),
        },
        Err(error) => {
            let (reason, message) = (failure(&error), in_words(&error));
            ToGateway::ReadFailed {
                call,
                reason,
                message,
            }
        }
    }
}

/// A page that its turn has no room for ends earlier; where there is no room at all, where it begins.
fn page_within(
    store: &Store,
    read: &Read,
    mut pass: Pass,
    caps: PageCaps,
) -> Result<Page, ReadError> {
    let read_whole = page(store, read, caps);
    // A refusal carries no text.
    let len = read_whole.as_ref().map_or(0, |page| page.content.len());
    let share = pass.allot_page(len as u64);
    let page = read_whole?;
    let Share::Only(room) = share else {
        return Ok(page);
    };
    let shorter = shorter(store, read, page, room, caps)?;
    pass.correct(shorter.content.len() as u64);
    Ok(shorter)
}

/// The same page in `room` bytes of content.
fn shorter(
    store: &Store,
    read: &Read,
    whole: Page,
    room: u64,
    caps: PageCaps,
) -> Result<Page, ReadError> {
    let limit = match read.encoding {
        Encoding::Utf8 => room,
        // Base64 makes 4 characters of 3 bytes.
        Encoding::Base64 => room / 4 * 3,
    };
    let asked = Read {
        offset: whole.offset,
        line: None,
        limit: Some(limit.min(read.limit.unwrap_or(limit))),
        verify: false,
        ..read.clone()
    };
    let fits = |page: &Page| page.content.len() as u64 <= room;
    let page = if limit > 0 {
        Some(page(store, &asked, caps)?).filter(fits)
    } else {
        None
    };
    Ok(match page {
        Some(page) => Page {
            digest: whole.digest,
            verified: whole.verified,
            ..page
        },
        // Not even the first character: the next turn begins where this one would have.
        None => Page {
            content: String::new(),
            next: Some(whole.offset),
            truncated: true,
            lossy: false,
            line: None,
            ..whole
        },
    })
}

fn page(store: &Store, read: &Read, caps: PageCaps) -> Result<Page, ReadError> {
    let ask = ask(read, caps)?;
    match key(store, read)? {
        Key::Output(key) => store.page(&key, ask),
        Key::Parcel(key) => store.parcel_page(&key, ask),
    }
}

/// What is read.
enum Key {
    Output(OutputKey),
    Parcel(ParcelKey),
}

fn key(store: &Store, read: &Read) -> Result<Key, ReadError> {
    let session = read.session.as_str();
    Ok(match &read.target {
        ReadTarget::Output(OutputId::Stream { run, stream }) => Key::Output(OutputKey {
            session: session.to_owned(),
            run: run.0,
            stream: match stream {
                Stream::Stdout => Stored::Stdout,
                Stream::Stderr => Stored::Stderr,
                Stream::Tty => Stored::Tty,
            },
        }),
        ReadTarget::Output(OutputId::Parcel(hash)) => Key::Parcel(ParcelKey {
            session: session.to_owned(),
            hash: *hash,
        }),
        ReadTarget::Path(path) => {
            let path = Path::new(path);
            match store.resolve_parcel(session, path)? {
                Some(parcel) => Key::Parcel(parcel),
                None => Key::Output(store.resolve(session, path)?),
            }
        }
    })
}

fn ask(read: &Read, caps: PageCaps) -> Result<Ask, ReadError> {
    let encoding = match read.encoding {
        Encoding::Utf8 => PageEncoding::Utf8,
        Encoding::Base64 => PageEncoding::Base64,
    };
    Ok(Ask {
        start: Start::new(read.offset, read.line)?,
        extent: Extent::new(read.limit, read.lines, encoding, caps)?,
        verify: read.verify,
    })
}

fn report(page: Page) -> PageReport {
    PageReport {
        content: page.content,
        encoding: match page.encoding {
            PageEncoding::Utf8 => Encoding::Utf8,
            PageEncoding::Base64 => Encoding::Base64,
        },
        offset: page.offset,
        next: page.next,
        truncated: page.truncated,
        total: page.total,
        lossy: page.lossy,
        line: page.line,
        digest: page.digest,
        verified: page.verified,
    }
}

fn failure(error: &ReadError) -> ReadFailure {
    match error {
        ReadError::NotFound(_) => ReadFailure::NotFound,
        ReadError::AccessDenied(_) => ReadFailure::AccessDenied,
        ReadError::NotAnOutput(_) | ReadError::Session(_) => ReadFailure::NotAnOutput,
        ReadError::Damaged { .. }
        | ReadError::Altered { .. }
        | ReadError::Missing(_)
        | ReadError::Record { .. } => ReadFailure::Damaged,
        ReadError::Unfinished(_) => ReadFailure::Unfinished,
        ReadError::Limit(_) => ReadFailure::InvalidLimit,
        ReadError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            ReadFailure::Permission
        }
        ReadError::Io { .. } => ReadFailure::IoError,
    }
}
