//! What an operator should know of, on its way to the log.

use std::time::{Duration, Instant};

use super::clients::Clients;
use crate::engine::sequencer::Notice;
use crate::message::MessageId;

/// The least time between two notices in the log.
const BETWEEN_NOTICES: Duration = Duration::from_secs(1);

/// Writes notices to the log, at most one a second: clients cause them as often as they like.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// When one was last logged.
    told: Option<Instant>,
}

impl Notices {
    /// Tells of all, and writes the first of them to the log, if it is time for one.
    pub(super) fn tell(&mut self, notices: &[Notice], clients: &dyn Clients) {
        for notice in notices {
            if let Notice::QuotaRefused { limited } = notice {
                clients.refused_by_quota(limited);
            }
        }
        let Some(notice) = notices.first() else { return };
        if self.told.is_some_and(|told| told.elapsed() < BETWEEN_NOTICES) {
            return;
        }
        self.told = Some(Instant::now());
        match notice {
            Notice::SequenceExhausted { parent } => tracing::error!(
                id = %MessageId::SEQUENCE_EXHAUSTED,
                parent,
                "the sequence counter is at its end: no sequential znode can be created below this \
                 parent any more; create a new parent"
            ),
            Notice::QuotaRefused { limited } => {
                tracing::warn!(
                    id = %MessageId::QUOTA_REFUSED,
                    limited,
                    "a write was refused by a hard quota"
                );
            }
            Notice::QuotaExceeded { limited, path } => {
                tracing::warn!(
                    id = %MessageId::QUOTA_EXCEEDED,
                    limited,
                    path,
                    "a write went beyond a soft quota"
                );
            }
        }
    }
}
