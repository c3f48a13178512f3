//! Takes out of a finished run's results what its turn has no room for.

use super::order::Order;
use super::report::{Finished, stream_report};
use crate::turns::{Parcels, Pass};
use std::borrow::Cow;
use tokio::time::Instant;
use willcall_outputs::capture::{Captured, Kept};
use willcall_outputs::preview::{Place, degraded};
use willcall_outputs::record::Stream;
use willcall_outputs::turn::Share;
use willcall_protocol::outcome::{Report, StreamReport};
use willcall_runner::wire::StreamResult;

/// Those first that are worth most when there is little room.
const BY_WORTH: [Stream; 3] = [Stream::Stderr, Stream::Stdout, Stream::Tty];

/// Gives each stream its share, and makes those again that get less than all.
pub(super) async fn keep_within(
    pass: &mut Pass,
    finished: &mut Finished,
    streams: &[StreamResult],
    order: &Order,
    parcels: &Parcels,
) {
    let shown = |report: &Report, stream| slot_of(report, stream).map_or(0, len);
    let lens = BY_WORTH.map(|stream| shown(&finished.report, stream));
    let shares = pass.allot(&lens);
    if shares.iter().all(|share| *share == Share::Whole) {
        return;
    }
    let deadline = Parcels::deadline();
    for (stream, share) in BY_WORTH.into_iter().zip(shares) {
        let of = streams.iter().find(|of| of.stream == stream);
        let slot = slot(&mut finished.report, stream);
        if let (Share::Only(room), Some(of), Some(shown)) = (share, of, slot) {
            *shown = less(shown, of, room, order, parcels, deadline).await;
        }
    }
    let used = BY_WORTH.map(|stream| shown(&finished.report, stream));
    pass.correct(used.iter().sum());
}

/// The result with at most `room` bytes. What has no receipt yet gets one: its bytes are kept as a parcel.
async fn less(
    shown: &StreamReport,
    of: &StreamResult,
    room: u64,
    order: &Order,
    parcels: &Parcels,
    deadline: Instant,
) -> StreamReport {
    let (mut file_path, mut output) = (shown.file_path.clone(), shown.output.clone());
    let mut captured = Cow::Borrowed(&of.captured);
    if captured.kept == Kept::NotNeeded {
        let session = order.dispatch.session.as_str();
        // What fitted is in memory whole.
        let bytes = captured.head.clone();
        let kept = match parcels.keep(session, bytes, deadline).await {
            Ok(parcel) => {
                file_path = Some(parcel.path.to_string_lossy().into_owned());
                output = Some(parcel.digest.clone());
                Kept::File {
                    stored: captured.total_size,
                    digest: Some(parcel.digest),
                    loss: None,
                }
            }
            Err(loss) => Kept::Nothing { loss },
        };
        let captured: &mut Captured = captured.to_mut();
        captured.kept = kept;
    }
    let place = Place {
        file_path: file_path.as_deref().unwrap_or_default(),
        output: output.as_deref().unwrap_or_default(),
    };
    stream_report(degraded(&captured, order.limits, room, place))
}

fn len(shown: &StreamReport) -> u64 {
    shown.result.len() as u64
}

fn slot_of(report: &Report, stream: Stream) -> Option<&StreamReport> {
    match stream {
        Stream::Stdout => report.stdout.as_ref(),
        Stream::Stderr => report.stderr.as_ref(),
        Stream::Tty => report.tty.as_ref(),
    }
}

fn slot(report: &mut Report, stream: Stream) -> Option<&mut StreamReport> {
    match stream {
        Stream::Stdout => report.stdout.as_mut(),
        Stream::Stderr => report.stderr.as_mut(),
        Stream::Tty => report.tty.as_mut(),
    }
}
