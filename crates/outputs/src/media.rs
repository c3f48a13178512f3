//! The type of bytes, by how they begin.

use crate::text;

/// Of text, whatever its bytes are meant for.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// Of binary bytes that begin like nothing known here.
pub const UNKNOWN: &str = "application/octet-stream";

/// What stands at which offset of which type of file.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"\x7fELF", "application/x-elf"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"PK\x05\x06", "application/zip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"SQLite format 3\0", "application/vnd.sqlite3"),
    (0, b"!<arch>\n", "application/x-archive"),
    (0, b"\0asm", "application/wasm"),
    (257, b"ustar", "application/x-tar"),
];

/// The type of a stream that begins with `head`, which is all of it or as long as
/// [`text::is_binary`] asks for.
pub fn type_of(head: &[u8]) -> &'static str {
    if !text::is_binary(head) {
        return TEXT;
    }
    let begins = |&&(at, magic, _): &&(usize, &[u8], &str)| {
        head.get(at..).is_some_and(|rest| rest.starts_with(magic))
    };
    SIGNATURES
        .iter()
        .find(begins)
        .map_or(UNKNOWN, |&(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::{TEXT, UNKNOWN, type_of};

    #[track_caller]
    fn check(head: &[u8], expected: &str) {
        assert_eq!(type_of(head), expected, "{head:02x?}");
    }

    #[test]
    fn text_is_text_whatever_it_begins_with() {
        check(b"", TEXT);
        check(b"hello\n", TEXT);
        check(b"%PDF-1.7 is how such a file begins", TEXT);
        check("caf\u{e9} \u{2014} na\u{ef}ve".as_bytes(), TEXT);
    }

    #[test]
    fn binary_is_named_by_its_first_bytes() {
        check(b"\x7fELF\x02\x01\x01\0", "application/x-elf");
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png");
        check(b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip");
        check(b"\x28\xb5\x2f\xfd\x04\0", "application/zstd");
        check(b"SQLite format 3\0\x10\0", "application/vnd.sqlite3");
        check(b"\0\x01\x02\x03", UNKNOWN);
        check(b"\x80\x81\x82\x83", UNKNOWN);
    }

    #[test]
    fn a_tar_is_known_by_its_middle() {
        let mut block = vec![0; 512];
        block[..5].copy_from_slice(b"a.txt");
        block[257..262].copy_from_slice(b"ustar");
        check(&block, "application/x-tar");
    }
}
