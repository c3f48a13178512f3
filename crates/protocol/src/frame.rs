//! Bytes to messages and back. Every length is checked before anything is reserved for it.
//!
//! ```text
//! byte 0   0 = for the link, 1 = session
//! byte 1   0 = JSON, 1 = JSON compressed as one zstd frame
//! byte 2…  the JSON
//! ```

use crate::limits::{COMPRESS_ABOVE, MAX_DECOMPRESSED, MAX_MESSAGE, MAX_WINDOW_LOG, ZSTD_LEVEL};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Read;
use thiserror::Error;

/// For whom a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The link itself.
    Link,
    /// The session between executor and gateway; a link relays it unread.
    Session,
}

/// A message that cannot be made or read.
#[derive(Debug, Error)]
pub enum FrameError {
    /// Shorter than its two header bytes.
    #[error("the peer sent a message of {0} bytes; the header alone has 2")]
    TooShort(usize),
    /// Longer than may travel.
    #[error("a message of {len} bytes is longer than the {MAX_MESSAGE} that may travel")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// Neither link nor session.
    #[error("the peer sent a message for channel {0}; there are 0 (link) and 1 (session)")]
    UnknownChannel(u8),
    /// Neither JSON nor zstd.
    #[error("the peer sent a message in encoding {0}; there are 0 (JSON) and 1 (zstd)")]
    UnknownEncoding(u8),
    /// Larger than allowed once decompressed.
    #[error("the peer sent a message that decompresses to more than {MAX_DECOMPRESSED} bytes")]
    Bomb,
    /// Not a whole zstd frame, or one with a larger window than allowed.
    #[error("the peer sent a message that does not decompress")]
    Zstd(#[source] std::io::Error),
    /// Not the JSON of a message.
    #[error("a message is not the JSON that was expected")]
    Json(#[from] serde_json::Error),
}

const LINK: u8 = 0;
const SESSION: u8 = 1;
const JSON: u8 = 0;
const ZSTD: u8 = 1;
const HEADER: usize = 2;

/// For whom a message is, by its first byte; checks nothing else but its length.
pub fn channel(message: &[u8]) -> Result<Channel, FrameError> {
    if message.len() > MAX_MESSAGE {
        return Err(FrameError::TooLong { len: message.len() });
    }
    match message {
        [] | [_] => Err(FrameError::TooShort(message.len())),
        [LINK, ..] => Ok(Channel::Link),
        [SESSION, ..] => Ok(Channel::Session),
        [other, ..] => Err(FrameError::UnknownChannel(*other)),
    }
}

/// Makes a message. Fails only where even the compressed JSON is longer than [`MAX_MESSAGE`].
pub fn encode<T: Serialize>(channel: Channel, body: &T) -> Result<Vec<u8>, FrameError> {
    let json = serde_json::to_vec(body)?;
    let channel = match channel {
        Channel::Link => LINK,
        Channel::Session => SESSION,
    };
    let (encoding, payload) = if json.len() > COMPRESS_ABOVE {
        (
            ZSTD,
            zstd::bulk::compress(&json, ZSTD_LEVEL).map_err(FrameError::Zstd)?,
        )
    } else {
        (JSON, json)
    };
    let mut message = Vec::with_capacity(payload.len().saturating_add(HEADER));
    message.extend_from_slice(&[channel, encoding]);
    message.extend_from_slice(&payload);
    if message.len() > MAX_MESSAGE {
        return Err(FrameError::TooLong { len: message.len() });
    }
    Ok(message)
}

/// Reads the body of a message, whatever its channel.
pub fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, FrameError> {
    channel(message)?;
    match message {
        [_, JSON, json @ ..] => Ok(serde_json::from_slice(json)?),
        [_, ZSTD, frame @ ..] => Ok(serde_json::from_slice(&decompress(frame)?)?),
        [_, other, ..] => Err(FrameError::UnknownEncoding(*other)),
        _ => Err(FrameError::TooShort(message.len())),
    }
}

/// Grows with what really comes out, so that a small message never reserves much.
fn decompress(frame: &[u8]) -> Result<Vec<u8>, FrameError> {
    let mut decoder = zstd::stream::read::Decoder::new(frame)
        .map_err(FrameError::Zstd)?
        .single_frame();
    decoder
        .window_log_max(MAX_WINDOW_LOG)
        .map_err(FrameError::Zstd)?;
    let bound = u64::try_from(MAX_DECOMPRESSED)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut json = Vec::new();
    decoder
        .take(bound)
        .read_to_end(&mut json)
        .map_err(FrameError::Zstd)?;
    if json.len() > MAX_DECOMPRESSED {
        return Err(FrameError::Bomb);
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ToAgent, ToGateway};

    fn message(encoding: u8, payload: &[u8]) -> Vec<u8> {
        [&[SESSION, encoding], payload].concat()
    }

    #[test]
    fn small_messages_travel_as_json_and_large_ones_compressed() {
        let small = encode(Channel::Session, &ToAgent::Ping { nonce: 7 }).expect("small");
        assert_eq!(small, b"\x01\x00{\"type\":\"ping\",\"nonce\":7}");
        let text = "x".repeat(2000);
        let large = encode(Channel::Link, &text).expect("large");
        assert!(large.len() < 100 && large[..2] == [LINK, ZSTD]);
        assert_eq!(decode::<String>(&large).expect("whole"), text);
    }

    #[test]
    fn unknown_types_and_fields_are_read_and_ignored() {
        let unknown: ToGateway =
            decode(&message(JSON, b"{\"type\":\"sing\",\"song\":1}")).expect("read");
        assert_eq!(unknown, ToGateway::Unknown);
        let pong: ToGateway =
            decode(&message(JSON, b"{\"type\":\"pong\",\"nonce\":1,\"x\":[]}")).expect("read");
        assert_eq!(pong, ToGateway::Pong { nonce: 1 });
    }

    #[test]
    fn a_bomb_is_refused_by_what_comes_out() {
        let bomb = zstd::bulk::compress(&vec![b' '; MAX_DECOMPRESSED + 1], 3).expect("compresses");
        assert!(bomb.len() < 2000);
        assert!(matches!(
            decode::<String>(&message(ZSTD, &bomb)),
            Err(FrameError::Bomb)
        ));
    }

    #[test]
    fn a_large_window_is_refused_before_it_is_reserved() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("encoder");
        encoder.window_log(27).expect("allowed for an encoder");
        encoder.include_contentsize(false).expect("allowed");
        std::io::Write::write_all(&mut encoder, b"\"x\"").expect("written");
        std::io::Write::flush(&mut encoder).expect("flushed");
        let frame = encoder.finish().expect("finished");
        assert!(matches!(
            decode::<String>(&message(ZSTD, &frame)),
            Err(FrameError::Zstd(_))
        ));
    }

    #[test]
    fn what_is_not_a_message_is_refused_by_name() {
        let read = |bytes: &[u8]| decode::<ToAgent>(bytes);
        assert!(matches!(read(b""), Err(FrameError::TooShort(0))));
        assert!(matches!(read(b"\x01"), Err(FrameError::TooShort(1))));
        assert!(matches!(
            read(b"\x02\x00{}"),
            Err(FrameError::UnknownChannel(2))
        ));
        assert!(matches!(
            read(b"\x01\x02{}"),
            Err(FrameError::UnknownEncoding(2))
        ));
        assert!(matches!(read(b"\x01\x00{"), Err(FrameError::Json(_))));
        assert!(matches!(
            read(b"\x01\x01\x28\xb5"),
            Err(FrameError::Zstd(_))
        ));
        assert!(matches!(
            read(&vec![1; MAX_MESSAGE + 1]),
            Err(FrameError::TooLong { .. })
        ));
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(matches!(
            read(&message(JSON, deep.as_bytes())),
            Err(FrameError::Json(_))
        ));
    }

    /// The worst text for a compressor that a host can produce: every character random and escaped to six bytes.
    #[test]
    fn the_largest_previews_on_both_streams_fit_a_message() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let controls: String = (0..2 * 262_144)
            .map(|_| char::from(u8::try_from(random() % 32).expect("small")))
            .collect();
        let wide: String = (0..2 * 262_144 / 4)
            .filter_map(|_| {
                char::from_u32(u32::try_from(random() % 0x10_0000).expect("small") + 0x1_0000)
            })
            .collect();
        let printable: String = (0..2 * 262_144)
            .map(|_| char::from(u8::try_from(random() % 95 + 32).expect("small")))
            .collect();
        for text in [controls, wide, printable] {
            let message = encode(Channel::Session, &text).expect("fits");
            assert_eq!(decode::<String>(&message).expect("whole"), text);
        }
    }
}
