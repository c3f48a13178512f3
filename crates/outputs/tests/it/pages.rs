//! Pages: nothing is skipped, nothing comes twice, and following `next` ends.

use crate::oracle;
use crate::streams::{chunks, cuts, stream};
use proptest::prelude::*;
use proptest::sample::Index;
use willcall_outputs::page::{Encoding, Page, PageRequest, Source};

/// One page, from the window that it asks for.
pub(crate) fn read(bytes: &[u8], offset: u64, limit: u64, finished: bool) -> Page {
    read_as(Encoding::Utf8, bytes, offset, limit, finished)
}

fn read_as(encoding: Encoding, bytes: &[u8], offset: u64, limit: u64, finished: bool) -> Page {
    let request = PageRequest::new(offset, limit, encoding).expect("a limit above 0");
    let range = request.range(bytes.len() as u64);
    let window = &bytes[index(range.start)..index(range.end)];
    assert!(window.len() <= 102_400 + 16);
    request.page(
        window,
        Source {
            total: bytes.len() as u64,
            finished,
        },
    )
}

pub(crate) fn index(at: u64) -> usize {
    usize::try_from(at).expect("tests are short")
}

fn splits_crlf(stream: &[u8], at: u64) -> bool {
    let (before, after) = stream.split_at(index(at));
    before.ends_with(b"\r") && after.starts_with(b"\n")
}

fn page_limit() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 1..8u64, 3 => 8..300u64, 1 => 300..20_000u64, 1 => Just(u64::MAX)]
}

proptest! {
    #[test]
    fn every_page_is_that_of_the_oracle(
        stream in stream(), offset in any::<Index>(), limit in page_limit(),
    ) {
        let offset = offset.index(stream.len() + 3);
        let page = read(&stream, offset as u64, limit, true);
        prop_assert_eq!(page.total, stream.len() as u64);
        if offset >= stream.len() {
            prop_assert_eq!((page.content.as_str(), page.offset, page.next), ("", offset as u64, None));
            prop_assert!(!page.truncated);
        } else {
            let capped = usize::try_from(limit.min(102_400)).expect("capped");
            let (from, to) = oracle::page(&stream, offset, capped);
            let glyphs = oracle::glyphs(&stream[from..to]);
            prop_assert_eq!(page.content, oracle::text(&glyphs));
            prop_assert_eq!(page.offset, from as u64);
            prop_assert_eq!(page.next, (to < stream.len()).then_some(to as u64));
            prop_assert_eq!(page.truncated, to < stream.len());
            prop_assert_eq!(page.lossy, glyphs.iter().any(|glyph| glyph.replaced));
        }
    }

    #[test]
    fn following_next_reads_everything_once(
        stream in stream(), start in any::<Index>(), limit in page_limit(),
    ) {
        // Small pages of a long stream would only take time.
        let stream = &stream[..stream.len().min(1000 * index(limit.min(102_400)))];
        let start = start.index(stream.len() + 1) as u64;
        let first = read(stream, start, limit, true);
        let (mut text, mut at) = (String::new(), first.offset);
        let mut next = Some(start);
        while let Some(offset) = next {
            let page = read(stream, offset, limit, true);
            prop_assert_eq!(page.offset, at);
            prop_assert!(page.content.len() as u64 <= limit.max(4));
            prop_assert!(page.next.is_none_or(|next| next > at));
            prop_assert_eq!(page.truncated, page.next.is_some());
            text.push_str(&page.content);
            at = page.next.unwrap_or(page.total);
            prop_assert!(!splits_crlf(stream, at));
            next = page.next;
        }
        prop_assert_eq!(at, stream.len() as u64);
        let rest = &stream[index(first.offset.min(at))..];
        prop_assert_eq!(text, oracle::text(&oracle::glyphs(rest)));
    }

    /// Whoever follows a growing output reads the same text as who reads it when it is finished.
    #[test]
    fn following_a_running_output_reads_the_same(
        stream in stream(), cuts in cuts(), limit in page_limit(),
    ) {
        let stream = &stream[..stream.len().min(1000 * index(limit.min(102_400)))];
        let (mut text, mut at, mut there) = (String::new(), 0, 0);
        for chunk in chunks(stream, &cuts) {
            there += chunk.len();
            loop {
                let page = read(&stream[..there], at, limit, false);
                prop_assert_eq!(page.offset, at);
                prop_assert!(!page.content.is_empty() || !page.truncated);
                text.push_str(&page.content);
                at = page.next.expect("a running output has no end");
                prop_assert!(!splits_crlf(stream, at));
                if !page.truncated {
                    break;
                }
            }
            prop_assert!(there as u64 - at <= 3, "only what is undecided waits");
        }
        let last = read(stream, at, 102_400, true);
        text.push_str(&last.content);
        prop_assert_eq!(last.next, None);
        prop_assert_eq!(text, oracle::text(&oracle::glyphs(stream)));
    }

    #[test]
    fn base64_gives_the_bytes_back(
        stream in stream(), start in any::<Index>(), limit in 50..100_000u64,
    ) {
        use base64::Engine;
        let start = start.index(stream.len() + 1);
        let (mut bytes, mut next) = (Vec::new(), Some(start as u64));
        while let Some(offset) = next {
            let page = read_as(Encoding::Base64, &stream, offset, limit, true);
            prop_assert_eq!(page.offset, offset);
            prop_assert!(page.content.len() <= 102_400 && !page.lossy);
            let decoded = base64::engine::general_purpose::STANDARD.decode(&page.content);
            bytes.extend(decoded.expect("base64"));
            next = page.next;
        }
        prop_assert_eq!(&bytes, &stream[start..]);
    }
}
