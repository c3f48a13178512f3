//! Whatever a peer sends is refused by name, or is a message that can be sent on.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use willcall_protocol::frame::{self, Channel};
use willcall_protocol::message::{ToAgent, ToGateway, ToLink};

/// One message as it travels.
pub(crate) fn check(data: &[u8]) {
    let channel = frame::channel(data);
    for decoded in [
        as_message::<ToAgent>(data),
        as_message::<ToGateway>(data),
        as_message::<ToLink>(data),
    ] {
        assert!(!decoded || channel.is_ok());
    }
}

fn as_message<T: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) -> bool {
    let Ok(message) = frame::decode::<T>(data) else {
        return false;
    };
    // A message of a type that this version does not know is no message of its own.
    let Ok(sent) = frame::encode(Channel::Session, &message) else {
        return true;
    };
    if let Ok(again) = frame::decode::<T>(&sent) {
        assert_eq!(again, message);
    }
    true
}
