//! Reads that verify.

use super::*;
use crate::page::{Ask, Extent, Page, PageCaps, Start};
use std::time::{Duration, SystemTime};

impl Fixture {
    fn verified(&self, key: &OutputKey) -> Result<Page, ReadError> {
        let extent = Extent::new(None, None, Encoding::Utf8, PageCaps::default())?;
        let ask = Ask {
            start: Start::Offset(0),
            extent,
            verify: true,
        };
        self.store.page(key, ask)
    }

    fn digest(&self, key: &OutputKey) -> Option<String> {
        let record = self
            .store
            .record(&key.session, key.run)
            .expect("readable")
            .expect("written");
        record.streams[&key.stream].digest.clone()
    }

    /// An output that was too large for a digest when it was sealed.
    fn hold_undigested(&self, run: u128, bytes: &[u8]) -> OutputKey {
        let key = self.hold("s", run, bytes, false);
        let record = record(&key, bytes.len() as u64, None);
        self.store.write_record(&record).expect("a record");
        key
    }
}

fn truth(bytes: &[u8]) -> String {
    crate::digest::of(bytes).expect("a slice can be read")
}

#[test]
fn a_changed_byte_is_found_out_when_asked() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"held\n", true);
    let page = fixture.verified(&key).expect("sound");
    assert_eq!(
        (page.content.as_str(), page.verified, page.digest),
        ("held\n", true, Some(truth(b"held\n")))
    );
    fs::write(fixture.path(&key), b"bent\n").expect("ours");
    let unasked = fixture
        .store
        .read(&key, 0, 100, Encoding::Utf8)
        .expect("a page");
    assert_eq!(
        (unasked.content.as_str(), unasked.verified),
        ("bent\n", false)
    );
    let refused = fixture.verified(&key).expect_err("changed");
    let said = refused.to_string();
    assert!(matches!(refused, ReadError::Altered { .. }), "{said}");
    for digest in [truth(b"held\n"), truth(b"bent\n")] {
        assert!(said.contains(&digest), "{said}");
    }
}

#[test]
fn a_missing_digest_is_made_once_and_remembered() {
    let fixture = Fixture::new();
    let key = fixture.hold_undigested(1, b"large");
    let record = fixture
        .store
        .root()
        .join("s")
        .join(Record::file_name(key.run));
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let set = File::options().write(true).open(&record).expect("ours");
    set.set_modified(long_ago).expect("ours");
    let plain = fixture
        .store
        .read(&key, 0, 100, Encoding::Utf8)
        .expect("a page");
    assert_eq!((plain.digest, plain.verified), (None, false));
    let first = fixture.verified(&key).expect("nothing to compare with");
    assert_eq!(
        (first.digest, first.verified),
        (Some(truth(b"large")), false)
    );
    assert_eq!(fixture.digest(&key), Some(truth(b"large")));
    assert_eq!(mode(&record), 0o640);
    let modified = fs::metadata(&record).and_then(|m| m.modified());
    assert_eq!(modified.expect("there"), long_ago, "it is as old as it was");
    assert!(fixture.verified(&key).expect("compared").verified);
    fs::write(fixture.path(&key), b"LARGE").expect("ours");
    assert!(matches!(
        fixture.verified(&key),
        Err(ReadError::Altered { .. })
    ));
}

#[test]
fn what_is_still_written_cannot_be_verified() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"so far", false);
    assert!(matches!(
        fixture.verified(&key),
        Err(ReadError::Unfinished(_))
    ));
}

/// Whoever holds the file's lock is about to remove it: nothing is written to its record then.
#[test]
fn a_file_that_is_being_removed_gets_no_digest() {
    let fixture = Fixture::new();
    let key = fixture.hold_undigested(1, b"large");
    let sweeper = File::open(fixture.path(&key)).expect("there");
    sweeper.try_lock().expect("nobody else's");
    let page = fixture.verified(&key).expect("readable all the same");
    assert_eq!((page.digest.is_some(), page.verified), (true, false));
    assert_eq!(fixture.digest(&key), None);
}
