//! The names that this store gives to files of a session. Whatever has another name is not ours.

use crate::record::{Record, Stream};
use std::fmt::Write as _;
use uuid::Uuid;

/// The hash of a parcel's bytes (BLAKE3).
pub(super) type Hash = [u8; 32];

/// What a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// A run.
    Run(Uuid),
    /// A parcel.
    Parcel(Hash),
}

/// What a file is to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The record.
    Record,
    /// What becomes the record.
    RecordInMaking,
    /// The line index of a stream.
    Index(Stream),
    /// When which byte came: beside the stream of a PTY.
    Timing,
    /// What becomes the file of a parcel.
    ParcelInMaking,
    /// The bytes of a stream.
    Output(Stream),
    /// The bytes of a parcel.
    Parcel,
}

impl Part {
    /// All, in the order in which they are removed: a record never stands without the files that it names.
    pub(super) const ALL: [Self; 11] = [
        Self::Record,
        Self::RecordInMaking,
        Self::Index(Stream::Stdout),
        Self::Index(Stream::Stderr),
        Self::Index(Stream::Tty),
        Self::Timing,
        Self::ParcelInMaking,
        Self::Output(Stream::Stdout),
        Self::Output(Stream::Stderr),
        Self::Output(Stream::Tty),
        Self::Parcel,
    ];

    /// Whether it is what all the others are for.
    pub(super) fn is_content(self) -> bool {
        matches!(self, Self::Output(_) | Self::Parcel)
    }

    /// The name of the file, if such an owner has such a part.
    pub(super) fn file_name(self, owner: Owner) -> Option<String> {
        Some(match (self, owner) {
            (Self::Record, Owner::Run(run)) => Record::file_name(run),
            (Self::RecordInMaking, Owner::Run(run)) => format!(".{run}.json.tmp"),
            (Self::Index(stream), Owner::Run(run)) => stream.index_file_name(run),
            (Self::Timing, Owner::Run(run)) => format!("{run}.tty.timing"),
            (Self::Output(stream), Owner::Run(run)) => stream.file_name(run),
            (Self::Record, Owner::Parcel(hash)) => format!("{}.json", hex(&hash)),
            (Self::RecordInMaking, Owner::Parcel(hash)) => format!(".{}.json.tmp", hex(&hash)),
            (Self::ParcelInMaking, Owner::Parcel(hash)) => format!(".{}.txt.tmp", hex(&hash)),
            (Self::Parcel, Owner::Parcel(hash)) => format!("{}.txt", hex(&hash)),
            _ => return None,
        })
    }
}

/// Whose file has this name, and which; `None` if it is not ours.
pub(super) fn parse(name: &str) -> Option<(Owner, Part)> {
    let (stem, _) = name.strip_prefix('.').unwrap_or(name).split_once('.')?;
    let owner = match Uuid::try_parse(stem) {
        Ok(run) => Owner::Run(run),
        Err(_) => Owner::Parcel(unhex(stem)?),
    };
    // One file has one name: no capitals, no braces.
    let exact = |part: &Part| part.file_name(owner).is_some_and(|exact| exact == name);
    Part::ALL.into_iter().find(exact).map(|part| (owner, part))
}

/// The hash as 64 digits.
pub(super) fn hex(hash: &Hash) -> String {
    hash.iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

fn unhex(hex: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if hex.len() != 2 * hash.len() || !hex.is_ascii() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back() {
        for owner in [Owner::Run(Uuid::from_u128(7)), Owner::Parcel([0xa5; 32])] {
            for part in Part::ALL {
                if let Some(name) = part.file_name(owner) {
                    assert_eq!(parse(&name), Some((owner, part)), "{name}");
                }
            }
        }
    }

    #[test]
    fn other_names_are_not_ours() {
        let run = Uuid::from_u128(0xabc);
        for foreign in [
            "",
            ".",
            "..",
            "notes.txt",
            ".lock",
            &run.to_string(),
            &format!("{run}.txt"),
            &format!("{run}.stdout.txt.bak"),
            &format!("{run}.stdout.txt~"),
            &format!("{}.stdout.txt", run.to_string().to_uppercase()),
            &format!("{}.stdout.txt", run.simple()),
            &format!("{{{run}}}.json"),
            &format!("{}.txt", "A5".repeat(32)),
            &format!("{}.txt", "+5".repeat(32)),
            &format!("{}.txt", "a5".repeat(31)),
            &format!(".{}.txt", "a5".repeat(32)),
        ] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
