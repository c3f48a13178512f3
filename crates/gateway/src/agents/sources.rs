//! How many handshakes are under way with whom, so that no single source takes every place.

use crate::limits::MAX_HANDSHAKES_PER_SOURCE;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The handshakes under way, by source. Has at most as many entries as there are handshakes.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources(Arc<Mutex<HashMap<IpAddr, Pending>>>);

#[derive(Debug, Default)]
struct Pending {
    handshakes: usize,
    turned_away: bool,
}

/// A handshake's place among those of its source. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Seat {
    sources: Sources,
    source: IpAddr,
}

/// A source has all the places that it may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Crowded {
    /// Whether it is the first to be turned away since the source had no handshake under way.
    pub(super) first: bool,
}

impl Sources {
    /// Takes a place for a handshake with `peer`.
    pub(super) fn enter(&self, peer: IpAddr) -> Result<Seat, Crowded> {
        let source = source(peer);
        let mut pending = self.pending();
        let of_source = pending.entry(source).or_default();
        if of_source.handshakes >= MAX_HANDSHAKES_PER_SOURCE {
            let first = !std::mem::replace(&mut of_source.turned_away, true);
            return Err(Crowded { first });
        }
        of_source.handshakes += 1;
        Ok(Seat {
            sources: self.clone(),
            source,
        })
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<IpAddr, Pending>> {
        // No code that holds the lock can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut pending = self.sources.pending();
        if let Some(of_source) = pending.get_mut(&self.source) {
            of_source.handshakes -= 1;
            if of_source.handshakes == 0 {
                pending.remove(&self.source);
            }
        }
    }
}

/// Whoever has one IPv6 address has the other 2^64 of its network, too.
fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_source_has_its_share_and_no_more_and_leaves_nothing_behind() {
        let sources = Sources::default();
        let enter = |n: usize| {
            let peer = [ip("10.0.0.1"), ip("::ffff:10.0.0.1")][n % 2];
            sources.enter(peer).expect("room")
        };
        let mut seats: Vec<Seat> = (0..MAX_HANDSHAKES_PER_SOURCE).map(enter).collect();
        let crowded = |first| Some(Crowded { first });
        assert_eq!(sources.enter(ip("10.0.0.1")).err(), crowded(true));
        assert_eq!(sources.enter(ip("10.0.0.1")).err(), crowded(false));
        seats.push(sources.enter(ip("10.0.0.2")).expect("another source"));
        drop(seats.remove(0));
        drop(sources.enter(ip("10.0.0.1")).expect("room again"));
        drop(seats);
        assert!(sources.pending().is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        assert_eq!(source(ip("2001:db8::1")), source(ip("2001:db8::ffff:1:2")));
        assert_ne!(source(ip("2001:db8::1")), source(ip("2001:db8:0:1::1")));
    }
}
