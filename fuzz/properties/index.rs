//! Whatever stands in an index's place is refused, or leads nowhere outside of the file.

use willcall_outputs::index::{Anchor, LineIndex, MAX_LEN};

/// As they are, for a file of the size that the first bytes say; and then with a checksum that is right.
pub(crate) fn check(data: &[u8]) {
    let Some((size, rest)) = data.split_first_chunk::<8>() else {
        return;
    };
    let size = u64::from_le_bytes(*size);
    if let Ok(index) = LineIndex::from_bytes(rest, size) {
        check_lookups(&index, size);
    }
    let Some((block, entries)) = rest.split_first_chunk::<8>() else {
        return;
    };
    let head = [&b"wcindex\x01"[..], &size.to_le_bytes(), block].concat();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head).update(entries);
    let sealed = [&head[..], hasher.finalize().as_bytes(), entries].concat();
    if let Ok(index) = LineIndex::from_bytes(&sealed, size) {
        assert_eq!(index.to_bytes(), sealed);
        assert!(sealed.len() <= MAX_LEN);
        check_lookups(&index, size);
    }
}

fn check_lookups(index: &LineIndex, size: u64) {
    assert_eq!(index.size(), size);
    let last = index.last();
    let inside = |anchor: Anchor| anchor.offset <= size && anchor.newlines <= anchor.offset;
    assert!(inside(last) && size - last.offset < index.block());
    for offset in [0, 1, size / 2, size.saturating_sub(1), size] {
        let anchor = index.before(offset);
        assert!(
            inside(anchor) && anchor.offset <= offset && offset - anchor.offset < index.block()
        );
    }
    assert_eq!(index.before(u64::MAX), last);
    for n in [
        1,
        2,
        last.newlines / 2 + 1,
        last.newlines.max(1),
        last.newlines + 1,
        u64::MAX,
    ] {
        let anchor = index.before_newline(n);
        assert!(inside(anchor) && anchor.newlines < n);
    }
}
