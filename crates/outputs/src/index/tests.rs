use super::*;
use proptest::prelude::*;

/// Not by what the index counts with.
fn newlines(bytes: &[u8]) -> u64 {
    bytes.split(|&b| b == b'\n').count() as u64 - 1
}

fn index(bytes: &[u8], block: u64, max_entries: usize) -> LineIndex {
    let mut builder = IndexBuilder::of(block, max_entries);
    assert_eq!(builder.feed(bytes), newlines(bytes));
    builder.index_of(bytes.len() as u64)
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).expect("short")
}

/// Every anchor tells the truth, and lies where it has to.
#[track_caller]
fn check_anchors(index: &LineIndex, bytes: &[u8]) {
    for offset in 0..=bytes.len() as u64 {
        let anchor = index.before(offset);
        assert!(anchor.offset <= offset && offset - anchor.offset <= index.block());
        assert_eq!(anchor.newlines, newlines(&bytes[..at(anchor.offset)]));
    }
    for n in 1..=newlines(bytes) + 1 {
        let anchor = index.before_newline(n);
        assert_eq!(anchor.newlines, newlines(&bytes[..at(anchor.offset)]));
        assert!(anchor.newlines < n);
        if anchor != index.last() {
            let block = &bytes[at(anchor.offset)..at(anchor.offset + index.block())];
            assert!(anchor.newlines + newlines(block) >= n, "it is in the block");
        }
    }
}

proptest! {
    #[test]
    fn anchors_are_those_of_naive_counting(
        bytes in prop::collection::vec(prop::sample::select(&b"ab\n\n\r"[..]), 0..600),
        cuts in prop::collection::vec(1usize..50, 1..10),
        block in prop::sample::select(vec![1u64, 2, 8, 64]),
        half in 1usize..5,
    ) {
        let mut builder = IndexBuilder::of(block, 2 * half);
        let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.len().min(*cuts.next().expect("endless")));
            prop_assert_eq!(builder.feed(chunk), newlines(chunk));
            rest = after;
        }
        let index = builder.index_of(u64::MAX);
        prop_assert_eq!(index.size(), bytes.len() as u64);
        prop_assert!(index.counts.len() <= 2 * half);
        check_anchors(&index, &bytes);
        // The file may be only the beginning of what was fed.
        let kept = bytes.len() / 2;
        check_anchors(&builder.index_of(kept as u64), &bytes[..kept]);
    }

    #[test]
    fn what_is_written_comes_back_and_every_change_is_found_out(
        bytes in prop::collection::vec(prop::sample::select(&b"a\n"[..]), 0..400),
        change in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let index = index(&bytes, 16, 64);
        let mut written = index.to_bytes();
        let size = bytes.len() as u64;
        prop_assert_eq!(LineIndex::from_bytes(&written, size), Ok(index));
        prop_assert!(LineIndex::from_bytes(&written, size + 1).is_err());
        prop_assert!(LineIndex::from_bytes(&written[..change.index(written.len())], size).is_err());
        let changed = change.index(written.len());
        written[changed] ^= 1 << bit;
        prop_assert!(LineIndex::from_bytes(&written, size).is_err());
    }
}

#[test]
fn an_index_says_why_it_is_none() {
    let index = index(&b"a\n".repeat(100), 16, 64);
    let written = index.to_bytes();
    assert_eq!(LineIndex::from_bytes(b"", 200), Err(IndexError::NotAnIndex));
    let mut later = written.clone();
    later[7] = 2;
    assert_eq!(
        LineIndex::from_bytes(&later, 200),
        Err(IndexError::NotAnIndex)
    );
    let other = IndexError::OtherFile {
        size: 201,
        found: 200,
    };
    assert_eq!(LineIndex::from_bytes(&written, 201), Err(other));
    let longer = [&written[..], &[0; 8]].concat();
    assert_eq!(
        LineIndex::from_bytes(&longer, 200),
        Err(IndexError::Damaged)
    );
}

/// A sound checksum over what no writer makes.
#[test]
fn impossible_counts_are_refused_whoever_wrote_them() {
    for counts in [[1, 0], [17, 17], [u64::MAX, u64::MAX]] {
        let lie = LineIndex {
            size: 40,
            block: 16,
            counts: counts.to_vec(),
        };
        let refused = LineIndex::from_bytes(&lie.to_bytes(), 40);
        assert_eq!(refused, Err(IndexError::Damaged), "{counts:?}");
    }
    for block in [0, 3, 1 << 63] {
        let lie = LineIndex {
            size: 40,
            block,
            counts: vec![1],
        };
        let refused = LineIndex::from_bytes(&lie.to_bytes(), 40);
        assert_eq!(refused, Err(IndexError::Damaged), "{block}");
    }
}

#[test]
fn an_index_never_grows_beyond_its_bound() {
    let mut builder = IndexBuilder::default();
    let chunk = b"0123456\n".repeat(8192 * 4);
    let chunks = (INDEX_BLOCK * MAX_ENTRIES as u64) / chunk.len() as u64 + 5;
    for _ in 0..chunks {
        builder.feed(&chunk);
    }
    let index = builder.index_of(u64::MAX);
    assert_eq!(index.block(), 2 * INDEX_BLOCK);
    assert!(index.to_bytes().len() <= MAX_LEN);
    let last = index.last();
    assert_eq!(last.newlines * 8, last.offset);
}
