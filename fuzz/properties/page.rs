//! Any bytes, any page: within its bounds, and following `next` reads everything once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use willcall_outputs::page::{Encoding, Extent, Page, PageCaps, PageRequest, Source};

/// Pages of one input: small ones of a long one would only take time.
const MAX_PAGES: usize = 500;

/// `[offset: 2, limit: 1, lines: 1, choice: 1]`, then the bytes.
pub(crate) fn check(data: &[u8]) {
    let Some((head, bytes)) = data.split_first_chunk::<5>() else {
        return;
    };
    let offset = u64::from(u16::from_le_bytes([head[0], head[1]]));
    let encoding = if head[4] & 1 == 0 {
        Encoding::Utf8
    } else {
        Encoding::Base64
    };
    let source = Source {
        total: bytes.len() as u64,
        finished: head[4] & 2 == 0,
    };
    let (limit, lines) = (1 + u64::from(head[2]), u64::from(head[3]));
    let lines = (lines > 0).then_some(lines);
    let extent = Extent::new(Some(limit), lines, encoding, PageCaps::default());
    let extent = extent.expect("above 0");
    follow(bytes, offset, extent, encoding, source);
}

fn follow(bytes: &[u8], offset: u64, extent: Extent, encoding: Encoding, source: Source) {
    let (mut raw, mut text) = (Vec::new(), String::new());
    let (mut next, mut first, mut end) = (Some(offset), None, offset);
    for _ in 0..MAX_PAGES {
        let Some(at) = next else { break };
        let page = read(bytes, at, extent, source);
        assert!(page.offset >= at && page.next.is_none_or(|next| next >= page.offset));
        assert!(page.content.len() <= 256 / 3 * 4 + 8, "within the limit");
        assert!(
            !page.truncated || page.next.is_some_and(|next| next > at),
            "progress"
        );
        match encoding {
            Encoding::Utf8 => text.push_str(&page.content),
            Encoding::Base64 => raw.extend(STANDARD.decode(&page.content).expect("base64")),
        }
        first.get_or_insert(page.offset);
        end = page.next.unwrap_or_else(|| page.offset.max(page.total));
        next = page.next.filter(|_| page.truncated || source.finished);
    }
    let from = usize::try_from(first.unwrap_or(offset))
        .expect("short")
        .min(bytes.len());
    let to = usize::try_from(end)
        .expect("short")
        .min(bytes.len())
        .max(from);
    match encoding {
        Encoding::Utf8 => {
            let expected = String::from_utf8_lossy(&bytes[from..to]).replace('\0', "\u{fffd}");
            assert_eq!(text, expected);
        }
        Encoding::Base64 => assert_eq!(raw, &bytes[from..to]),
    }
}

fn read(bytes: &[u8], offset: u64, extent: Extent, source: Source) -> Page {
    let request = PageRequest::at(offset, extent);
    let range = request.range(source.total);
    let at = |offset| usize::try_from(offset).expect("short");
    request.page(&bytes[at(range.start)..at(range.end)], source)
}
