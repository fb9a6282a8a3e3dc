//! Connections that have not said yet who they are: so many at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Those that wait.
#[derive(Debug)]
pub(super) struct Strangers {
    /// As many may. The one that has waited longest goes for one more: a server says who it is at
    /// once.
    most: usize,
    waiting: Mutex<VecDeque<(u64, CancellationToken)>>,
}

/// Where one waits; given back when dropped.
#[derive(Debug)]
pub(super) struct StrangersPlace {
    number: u64,
    /// Somebody else has it now.
    pub(super) lost: CancellationToken,
    strangers: Arc<Strangers>,
}

impl Strangers {
    pub(super) fn new(most: usize) -> Self {
        Self { most, waiting: Mutex::default() }
    }

    /// A place for the connection of that number.
    pub(super) fn enter(self: &Arc<Self>, number: u64) -> StrangersPlace {
        let lost = CancellationToken::new();
        let mut waiting = self.waiting.lock();
        while waiting.len() >= self.most {
            if let Some((_, longest)) = waiting.pop_front() {
                longest.cancel();
            }
        }
        waiting.push_back((number, lost.clone()));
        StrangersPlace { number, lost, strangers: Arc::clone(self) }
    }
}

impl Drop for StrangersPlace {
    fn drop(&mut self) {
        self.strangers.waiting.lock().retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_longest_goes_for_one_more() {
        let strangers = Arc::new(Strangers::new(128));
        let mut places: VecDeque<StrangersPlace> =
            (0..128).map(|number| strangers.enter(number)).collect();
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
}
