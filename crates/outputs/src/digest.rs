//! The digest of stored bytes.

use std::io::{self, Read};

/// What a digest begins with: the algorithm.
pub const PREFIX: &str = "blake3:";

/// `blake3:` and hex of everything that `reader` gives, read in bounded pieces.
pub fn of(mut reader: impl Read) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(&mut reader)?;
    Ok(format!("{PREFIX}{}", hasher.finalize().to_hex()))
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_empty_digest_is_the_published_one() {
        let digest = of(&b""[..]).expect("a slice can be read");
        let published = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(digest, format!("blake3:{published}"));
    }
}
