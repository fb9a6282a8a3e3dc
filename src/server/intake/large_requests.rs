//! The budget of large requests: what all of them that are not answered yet may take
//! (`largeRequestMaxBytes`).

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::inbox::Step;
use crate::config;
use crate::message::MessageId;
use crate::server::client::connection::Connection;
use crate::server::figures::series::Counter;
use crate::server::shared::Server;

/// The budget, a permit a byte.
#[derive(Debug)]
pub(in crate::server) struct LargeRequests {
    threshold: usize,
    left: Arc<Semaphore>,
}

/// The budget has no room for a large request: its connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct OverBudget;

impl LargeRequests {
    pub(in crate::server) fn new(config: config::LargeRequests) -> Self {
        let left = Arc::new(Semaphore::new(config.max_bytes as usize));
        Self { threshold: config.threshold as usize, left }
    }

    /// Looks at a frame of which the length is known, before the rest of it is read.
    pub(in crate::server) fn announce(&self, frame_len: usize) -> Result<(), OverBudget> {
        if frame_len > self.threshold && self.left.available_permits() < frame_len {
            return Err(OverBudget);
        }
        Ok(())
    }

    /// The share of a request that is here, without its header as in ZooKeeper; none for one that
    /// is not large.
    pub(in crate::server) fn take(
        &self,
        body_len: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, OverBudget> {
        if body_len <= self.threshold {
            return Ok(None);
        }
        let permits = u32::try_from(body_len).map_err(|_| OverBudget)?;
        Arc::clone(&self.left).try_acquire_many_owned(permits).map(Some).map_err(|_| OverBudget)
    }
}

/// Counts and tells it. The connection is closed.
pub(super) fn over_budget(server: &Server, connection: &Connection) -> Step {
    server.stats.series.count(Counter::LargeRequestsRejected, 1);
    tracing::warn!(
        id = %MessageId::LARGE_REQUESTS_TOO_MANY,
        client = %connection.peer(),
        "closing a connection: with its request, the large requests in progress would exceed \
         largeRequestMaxBytes"
    );
    Step::HangUp
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> LargeRequests {
        LargeRequests::new(config::LargeRequests { threshold: 100, max_bytes: 250 })
    }

    #[test]
    fn what_is_not_large_takes_nothing() {
        let budget = budget();
        let _all = budget.take(250).unwrap();
        assert_eq!(budget.announce(100), Ok(()));
        assert!(budget.take(100).unwrap().is_none());
        assert_eq!(budget.announce(101), Err(OverBudget));
        assert_eq!(budget.take(101).unwrap_err(), OverBudget);
    }

    #[test]
    fn a_share_is_given_back_with_its_value() {
        let budget = budget();
        let first = budget.take(150).unwrap();
        assert_eq!(budget.announce(100), Ok(()));
        assert_eq!(budget.take(101).unwrap_err(), OverBudget);
        drop(first);
        assert_eq!(budget.announce(250), Ok(()));
        assert_eq!(budget.announce(251), Err(OverBudget));
        assert!(budget.take(250).unwrap().is_some());
    }
}
