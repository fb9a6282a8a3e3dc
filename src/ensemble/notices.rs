//! What an operator should know of, on its way to the log.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::clients::Clients;
use crate::engine::decide::sequencer::{Harm, Notice};
use crate::engine::session::SessionId;
use crate::message::MessageId;

/// The least time between two notices in the log.
const BETWEEN_NOTICES: Duration = Duration::from_secs(1);

/// Clients and harms of which was told that they were refused. With so many they are told again.
const REFUSED_MAX: usize = 1024;

/// Writes notices to the log, at most one a second: clients cause them as often as they like.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// When one was last logged.
    told: Option<Instant>,
    /// Who was refused what, once each.
    refused: HashSet<(SessionId, Harm)>,
}

impl Notices {
    /// Tells of all, and writes the first of them to the log, if it is time for one.
    pub(super) fn tell(&mut self, notices: &[Notice], clients: &dyn Clients) {
        for notice in notices {
            match notice {
                Notice::QuotaRefused { limited } => clients.refused_by_quota(limited),
                Notice::RefusedOnPurpose { session, harm } => self.refused(*session, *harm),
                _ => {}
            }
        }
        let is_told = |notice: &&Notice| !matches!(notice, Notice::RefusedOnPurpose { .. });
        let Some(notice) = notices.iter().find(is_told) else { return };
        if self.told.is_some_and(|told| told.elapsed() < BETWEEN_NOTICES) {
            return;
        }
        self.told = Some(Instant::now());
        match notice {
            Notice::SequenceExhausted { parent } => tracing::error!(
                id = %MessageId::SEQUENCE_EXHAUSTED,
                parent,
                "the sequence counter is at its end: no more sequential znodes can be created \
                 under this parent; create a new parent"
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
                    "a write exceeded a soft quota"
                );
            }
            Notice::RefusedOnPurpose { .. } => {}
        }
    }

    /// Once for each client and harm; of one harm, the log itself takes a line a second.
    fn refused(&mut self, session: SessionId, harm: Harm) {
        if self.refused.len() >= REFUSED_MAX {
            self.refused.clear();
        }
        if !self.refused.insert((session, harm)) {
            return;
        }
        let client = format_args!("{:#x}", session.0);
        match harm {
            Harm::TtlWithoutMode => tracing::warn!(
                id = %MessageId::REFUSED_ON_PURPOSE,
                client,
                "refused: createTTL with a mode that has no TTL; its transaction would bring down \
                 a ZooKeeper server at every start"
            ),
            Harm::FatalQuota => tracing::warn!(
                id = %MessageId::REFUSED_ON_PURPOSE,
                client,
                "refused: a quota where ZooKeeper cannot have one, or statistics that it cannot \
                 read; either would bring down a ZooKeeper server at every start"
            ),
            Harm::SessionOwnsNone => tracing::warn!(
                id = %MessageId::REFUSED_ON_PURPOSE,
                client,
                "refused: an ephemeral znode, because the id of its session would be read as the \
                 mark of a container or of a time to live; a new session gets a different id"
            ),
        }
    }
}
