//! Pages of held outputs.

use crate::ledger::in_words;
use std::io::ErrorKind;
use std::path::Path;
use willcall_outputs::page::{Ask, Encoding as PageEncoding, Extent, Page, PageCaps, Start};
use willcall_outputs::record::Stream as Stored;
use willcall_outputs::store::{OutputKey, ReadError, Store};
use willcall_protocol::ids::{OutputId, Stream};
use willcall_protocol::message::{Encoding, PageReport, Read, ReadFailure, ReadTarget, ToGateway};

/// Reads a page and answers, in any case. Blocks.
pub(super) fn answer(store: &Store, read: &Read) -> ToGateway {
    let call = read.call;
    match page(store, read) {
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

fn page(store: &Store, read: &Read) -> Result<Page, ReadError> {
    let session = read.session.as_str();
    let key = match &read.target {
        ReadTarget::Output(OutputId::Stream { run, stream }) => OutputKey {
            session: session.to_owned(),
            run: run.0,
            stream: match stream {
                Stream::Stdout => Stored::Stdout,
                Stream::Stderr => Stored::Stderr,
                Stream::Tty => Stored::Tty,
            },
        },
        ReadTarget::Output(id @ OutputId::Parcel(_)) => {
            return Err(ReadError::NotFound(id.to_string()));
        }
        ReadTarget::Path(path) => store.resolve(session, Path::new(path))?,
    };
    let encoding = match read.encoding {
        Encoding::Utf8 => PageEncoding::Utf8,
        Encoding::Base64 => PageEncoding::Base64,
    };
    let ask = Ask {
        start: Start::new(read.offset, read.line)?,
        extent: Extent::new(read.limit, read.lines, encoding, PageCaps::default())?,
        verify: read.verify,
    };
    store.page(&key, ask)
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
