//! Another state in the place of the one that a lone server serves, as an operator asked for by a
//! snapshot.

use std::fmt::Display;

use time::OffsetDateTime;
use time::macros::format_description;
use tokio::sync::oneshot;

use crate::engine::database::Database;
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Clients as _, OrderError, Snapshots, Standalone, Submission};
use crate::message::MessageId;
use crate::server::client::connection::Connection;
use crate::server::clock::{Clock, millis};
use crate::server::figures::series::Measure;
use crate::server::role::Role;
use crate::server::shared::Server;
use crate::server::{data, sequencer_of};
use crate::storage::StorageError;

type Asker = oneshot::Sender<Result<Zxid, StorageError>>;

/// What the orderer's thread knows of it.
#[derive(Debug)]
pub(super) struct Restoring {
    /// The state that waits, and who asked.
    waiting: Option<(Box<Database>, Asker)>,
    /// Connections before this one had to do with a state that is not there any more.
    since: ConnectionId,
}

impl Default for Restoring {
    fn default() -> Self {
        Self { waiting: None, since: ConnectionId(0) }
    }
}

impl Restoring {
    pub(in crate::server) fn ask(&mut self, database: Box<Database>, asker: Asker) {
        self.waiting = Some((database, asker));
    }

    /// What a connection asked for before its end is not done to another state.
    pub(super) fn drop_requests_of_before(
        &self,
        server: &Server,
        submissions: &mut Vec<Submission>,
    ) {
        submissions.retain(|submission| {
            let connection = submission.origin.connection;
            let is_of_now = connection >= self.since;
            if !is_of_now {
                server.connections.close(connection);
            }
            is_of_now
        });
    }

    /// Puts the state that waits, if there is one, in the place of the other. Whether that was
    /// done.
    ///
    /// # Errors
    /// When the disk fails where it is not known any more which of both a start makes.
    pub(in crate::server) fn restore(
        &mut self,
        server: &Server,
        standalone: &mut Standalone,
        snapshots: &mut Snapshots,
    ) -> Result<bool, OrderError> {
        // A snapshot of the old state must not come after it.
        if snapshots.is_writing() {
            return Ok(false);
        }
        let Some((database, asker)) = self.waiting.take() else { return Ok(false) };
        let began = std::time::Instant::now();
        server.role.set(Role::Reading);
        self.since = server.connections.next_id();
        server.connections.each(Connection::close);
        let aside = aside();
        let before = standalone.replica().applied();
        let restored = standalone.replace(
            *database,
            |database| sequencer_of(database, &server.config, server.clock.monotonic()),
            &server.directory,
            data::compression(&server.config),
            &aside,
        )?;
        let ended = standalone.end_orphans(server.clock.now())?;
        server.role.set(Role::Standalone);
        let is_done = restored.is_ok();
        if let Ok(zxid) = &restored {
            snapshots.replaced();
            snapshots.count(ended.txns, ended.bytes);
            let ms = millis(began.elapsed());
            server.stats.series.record(Measure::Restore, ms);
            let sessions = standalone.sequencer().sessions_count();
            tracing::info!(
                %zxid,
                %before,
                sessions,
                aside,
                ms,
                "the served state was replaced; the files of the previous one were moved aside"
            );
        }
        // Whoever asked tells why not, but may have stopped waiting.
        if let Err(Err(error)) = asker.send(restored) {
            tell_not_restored(&error);
        }
        Ok(is_done)
    }
}

/// Says why the state stays what it is.
pub(in crate::server) fn tell_not_restored(error: &dyn Display) {
    tracing::warn!(
        id = %MessageId::NOT_RESTORED,
        %error,
        "the snapshot that was sent was not restored; nothing has changed"
    );
}

/// A name for the folder of what led to the state of before.
fn aside() -> String {
    let format = format_description!(
        "replaced-[year][month][day]T[hour][minute][second][subsecond digits:3]Z"
    );
    let wall = Clock::wall().0;
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(wall) * 1_000_000);
    let name = at.ok().and_then(|at| at.format(format).ok());
    name.unwrap_or_else(|| format!("replaced-{wall}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_for_the_time() {
        let name = aside();
        let digits = name.strip_prefix("replaced-").expect("its beginning");
        assert_eq!(digits.len(), "20260301T120000000Z".len(), "{name}");
    }
}
