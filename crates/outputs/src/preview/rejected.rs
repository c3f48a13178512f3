//! What stands for a stream that was refused whole: half a message is worth nothing, so none of it leaves.

use super::{Shown, all_omitted, ellipsis};
use crate::capture::Captured;
use crate::limits::Limits;
use crate::marker::{Cost, count};
use crate::receipt::View;

/// Says how long the stream is and what is taken; the receipt's `reason` is `rejected`.
pub(super) fn show(captured: &Captured, limits: Limits) -> Shown {
    let text = format!(
        "[refused: the output is {} in {}, and at most {} in {} are taken whole; nothing of it is \
         shown or saved: narrow the command and run it again]\n",
        count(captured.total_size, "byte"),
        count(captured.total_lines(), "line"),
        count(limits.max_bytes().into(), "byte"),
        count(limits.max_lines().into(), "line"),
    );
    let Cost { bytes, .. } = Cost::of(&text);
    let fits = bytes <= limits.max_bytes() as usize;
    Shown {
        result: if fits {
            text
        } else {
            ellipsis(limits).to_owned()
        },
        omitted: Some(all_omitted(captured)),
        lossy: false,
        view: View::Text,
    }
}
