//! Reading parcels back.

use super::*;
use crate::page::{Ask, Extent, Page, PageCaps, Start};

fn ask(start: Start) -> Ask {
    Ask {
        start,
        extent: Extent::new(Some(4), None, Encoding::Utf8, PageCaps::default()).expect("not 0"),
        verify: false,
    }
}

impl Fixture {
    fn parcel(&self, session: &str, bytes: &[u8]) -> ParcelKey {
        let stored = self.store.store_parcel(session, bytes, 1).expect("stored");
        let found = self.store.resolve_parcel(session, &stored.path);
        let key = found.expect("held").expect("a parcel's name");
        assert_eq!(key.to_string(), stored.digest);
        key
    }

    fn page_of(&self, key: &ParcelKey, start: Start) -> Result<Page, ReadError> {
        self.store.parcel_page(key, ask(start))
    }
}

#[test]
fn a_parcel_is_read_by_pages_and_lines() {
    let fixture = Fixture::new();
    let key = fixture.parcel("s", b"one\ntwo\nthree\n");
    let first = fixture.page_of(&key, Start::Offset(0)).expect("a page");
    assert_eq!(
        (first.content.as_str(), first.next, first.line),
        ("one\n", Some(4), Some(1))
    );
    assert_eq!((first.total, first.digest), (14, Some(key.to_string())));
    let second = fixture.page_of(&key, Start::Line(2)).expect("a page");
    assert_eq!((second.content.as_str(), second.line), ("two\n", Some(2)));
    let last = fixture.page_of(&key, Start::FromEnd(1)).expect("a page");
    assert_eq!((last.content.as_str(), last.offset), ("thre", 8));
    let beyond = fixture.page_of(&key, Start::Offset(99)).expect("a page");
    assert_eq!(
        (beyond.content.as_str(), beyond.next, beyond.line),
        ("", None, None)
    );
}

#[test]
fn a_parcel_belongs_to_its_session() {
    let fixture = Fixture::new();
    let ours = fixture.parcel("ours", b"text");
    let guessed = ParcelKey {
        session: "theirs".into(),
        ..ours
    };
    let refused = fixture.page_of(&guessed, Start::Offset(0));
    assert!(
        matches!(refused, Err(ReadError::AccessDenied(_))),
        "{refused:?}"
    );
    let path = fixture
        .store
        .root()
        .join("ours")
        .join(format!("{}.txt", &ours.to_string()[7..]));
    let refused = fixture.store.resolve_parcel("theirs", &path);
    assert!(
        matches!(refused, Err(ReadError::AccessDenied(_))),
        "{refused:?}"
    );
    let unknown = ParcelKey {
        hash: [7; 32],
        ..ours
    };
    let refused = fixture.page_of(&unknown, Start::Offset(0));
    assert!(
        matches!(refused, Err(ReadError::NotFound(_))),
        "{refused:?}"
    );
}

#[test]
fn a_parcel_that_is_not_what_it_was_is_told_so() {
    let fixture = Fixture::new();
    let key = fixture.parcel("s", b"text");
    let path = fixture
        .store
        .root()
        .join("s")
        .join(format!("{}.txt", &key.to_string()[7..]));
    fs::write(&path, b"tex7").expect("written");
    let verified = |verify| {
        let start = ask(Start::Offset(0));
        fixture.store.parcel_page(&key, Ask { verify, ..start })
    };
    assert!(verified(false).is_ok());
    assert!(matches!(verified(true), Err(ReadError::Altered { .. })));
    fs::write(&path, b"longer").expect("written");
    let damaged = verified(false);
    assert!(
        matches!(
            damaged,
            Err(ReadError::Damaged {
                recorded: 4,
                found: 6,
                ..
            })
        ),
        "{damaged:?}"
    );
    fs::remove_file(&path).expect("removed");
    assert!(matches!(verified(false), Err(ReadError::Missing(_))));
    symlink("/etc/passwd", &path).expect("linked");
    assert!(matches!(verified(false), Err(ReadError::NotAnOutput(_))));
}

#[test]
fn only_parcels_have_a_parcels_name() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"held", true);
    let path = fixture.path(&key);
    assert!(matches!(fixture.store.resolve_parcel("s", &path), Ok(None)));
    let elsewhere = format!("/tmp/s/{}.txt", "a5".repeat(32));
    let refused = fixture.store.resolve_parcel("s", Path::new(&elsewhere));
    assert!(matches!(refused, Err(ReadError::NotAnOutput(_))));
    let inside = fixture
        .store
        .root()
        .join("../.outputs/s")
        .join(format!("{}.txt", "a5".repeat(32)));
    assert!(matches!(
        fixture.store.resolve_parcel("s", &inside),
        Ok(None)
    ));
}
