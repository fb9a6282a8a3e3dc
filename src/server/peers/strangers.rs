//! Connections that have not said yet who they are: so many at a time, and so many words about them.

use std::collections::{HashSet, VecDeque};
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// As many may wait. The one that has waited longest goes for one more: a server says who it is at once.
pub(super) const STRANGERS_MAX: usize = 128;
/// The same complaint about the same address is made once in that time.
const BETWEEN_COMPLAINTS: Duration = Duration::from_secs(60);
/// Complaints in that time.
const COMPLAINTS_MAX: usize = 50;

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    waiting: Mutex<VecDeque<(u64, CancellationToken)>>,
}

/// Where one waits; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    /// Somebody else has it now.
    pub(super) lost: CancellationToken,
    strangers: Arc<Strangers>,
}

impl Strangers {
    /// A place for the connection of that number.
    pub(super) fn enter(self: &Arc<Self>, number: u64) -> Place {
        let lost = CancellationToken::new();
        let mut waiting = self.waiting.lock();
        while waiting.len() >= STRANGERS_MAX {
            if let Some((_, longest)) = waiting.pop_front() {
                longest.cancel();
            }
        }
        waiting.push_back((number, lost.clone()));
        Place { number, lost, strangers: Arc::clone(self) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.strangers.waiting.lock().retain(|(number, _)| *number != self.number);
    }
}

/// What has been complained of.
#[derive(Debug)]
pub(super) struct Complaints {
    began: Instant,
    made: HashSet<(IpAddr, String)>,
    left_out: u64,
}

impl Default for Complaints {
    fn default() -> Self {
        Self { began: Instant::now(), made: HashSet::new(), left_out: 0 }
    }
}

impl Complaints {
    /// Says why a connection from `address` has ended, unless that has just been said.
    pub(super) fn make(&mut self, address: IpAddr, why: &impl Display) {
        if self.is_due(address, why.to_string(), Instant::now()) {
            tracing::info!(%address, error = %why, "a connection of the ensemble has ended");
        }
    }

    fn is_due(&mut self, address: IpAddr, why: String, now: Instant) -> bool {
        if now.duration_since(self.began) >= BETWEEN_COMPLAINTS {
            if self.left_out > 0 {
                let count = self.left_out;
                tracing::info!(
                    count,
                    "more connections of the ensemble have ended for such reasons"
                );
            }
            *self = Self { began: now, ..Self::default() };
        }
        let is_due = self.made.len() < COMPLAINTS_MAX && self.made.insert((address, why));
        self.left_out += u64::from(!is_due);
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn who_has_waited_longest_goes_for_one_more() {
        let strangers = Arc::new(Strangers::default());
        let mut places: VecDeque<Place> =
            (0..STRANGERS_MAX as u64).map(|number| strangers.enter(number)).collect();
        assert!(places.iter().all(|place| !place.lost.is_cancelled()));
        let more = strangers.enter(1000);
        assert!(places[0].lost.is_cancelled());
        assert!(places.iter().skip(1).all(|place| !place.lost.is_cancelled()));
        assert!(!more.lost.is_cancelled());
        // A place that is given back is free.
        places.pop_back();
        places.pop_front();
        let another = strangers.enter(1001);
        assert!(places.iter().all(|place| !place.lost.is_cancelled()));
        drop((places, more, another));
        assert!(strangers.waiting.lock().is_empty());
    }

    #[test]
    fn a_complaint_is_made_once_a_minute_and_not_without_end() {
        let mut complaints = Complaints::default();
        let (address, began) = (IpAddr::from(Ipv4Addr::LOCALHOST), complaints.began);
        let why = |number: usize| format!("reason {number}");
        assert!(complaints.is_due(address, why(0), began));
        assert!(!complaints.is_due(address, why(0), began + Duration::from_secs(59)));
        assert!(complaints.is_due(address, why(1), began));
        assert!(complaints.is_due(Ipv4Addr::BROADCAST.into(), why(0), began));
        let made = (2..1000).filter(|number| complaints.is_due(address, why(*number), began));
        assert_eq!(made.count(), COMPLAINTS_MAX - 3);
        assert!(complaints.is_due(address, why(0), began + Duration::from_secs(60)));
    }
}
