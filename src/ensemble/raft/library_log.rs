//! The log lines of the crate `raft`, on their way to the log of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::message::MessageId;

/// Where the crate writes its lines to.
#[derive(Debug, Default, Clone)]
pub(super) struct LibraryLog {
    is_ending: Arc<AtomicBool>,
}

impl LibraryLog {
    /// From here on the member ends: what it misses of the others, who may be ending as well, is
    /// nothing to warn of.
    pub(super) fn ends(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }
}

impl slog::Drain for LibraryLog {
    type Ok = ();
    type Err = slog::Never;

    fn log(
        &self,
        record: &slog::Record<'_>,
        _values: &slog::OwnedKVList,
    ) -> Result<(), slog::Never> {
        let text = record.msg();
        match record.level() {
            slog::Level::Critical | slog::Level::Error => tracing::error!(
                id = %MessageId::RAFT_ERROR,
                "{text}"
            ),
            slog::Level::Warning if !self.is_ending.load(Ordering::Relaxed) => {
                tracing::warn!(id = %MessageId::RAFT_WARNING, "{text}");
            }
            // Its ids, terms and votes mean nothing to operators; what does, the server says.
            slog::Level::Warning | slog::Level::Info | slog::Level::Debug | slog::Level::Trace => {
                tracing::debug!("{text}")
            }
        }
        Ok(())
    }
}
