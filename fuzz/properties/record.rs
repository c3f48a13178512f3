//! Whatever stands in a record's place is refused by name, or comes back as it was.

use willcall_outputs::record::{MAX_RECORD_BYTES, Record};

/// The bytes of a record.
pub(crate) fn check(data: &[u8]) {
    let Ok(record) = Record::from_json(data) else {
        return;
    };
    assert!(data.len() <= MAX_RECORD_BYTES);
    let json = record.to_json().expect("what was read can be written");
    assert_eq!(Record::from_json(&json).expect("just written"), record);
}
