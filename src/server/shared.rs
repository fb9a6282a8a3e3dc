//! What all connections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::client::audit::Audit;
use super::client::connection::Connection;
use super::client::connections::Connections;
use super::client::ended::Ended;
use super::client::password::Passwords;
use super::clock::Clock;
use super::figures::stats::Stats;
use super::intake::Intake;
use super::operator::inventory::Inventories;
use super::role::{CurrentRole, Others, Role};
use super::timed_disk::UnfinishedWrites;
use crate::config::{Config, SessionsLive};
use crate::engine::database::Database;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Fresh, Replica};
use crate::planted;
use crate::storage::DataDirectory;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) clock: Clock,
    /// The applied state.
    pub(super) replica: Arc<Replica>,
    pub(super) intake: Intake,
    /// What monitoring lists, one of a kind at a time.
    pub(super) inventories: Inventories,
    pub(super) connections: Arc<Connections>,
    pub(super) ended: Ended,
    pub(super) passwords: Arc<Passwords>,
    /// Where changes are written down, if they are.
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) stats: Arc<Stats>,
    /// When the orderer began the group that it is at; 0 between two.
    pub(super) group_began: AtomicU64,
    /// What is written to the directory and has not returned.
    pub(super) unfinished: Arc<UnfinishedWrites>,
    pub(super) directory: Arc<DataDirectory>,
    pub(super) role: CurrentRole,
    /// Why nobody gets a session, if that is for want of room on the disks of logs.
    pub(super) short_disk: Mutex<Option<&'static str>>,
    pub(super) others: Others,
    /// Cancelled when the server ends.
    pub(super) ending: CancellationToken,
    /// What `stmk` set and `gtmk` shows; it has no other meaning here.
    pub(super) trace_mask: AtomicI64,
}

impl Server {
    /// Whether it has clients in a role: without a leader it has none, and a leader may leave them
    /// to the others.
    pub(super) fn serves_as(&self, role: Role) -> bool {
        let ensemble = self.config.ensemble.as_ref();
        match role {
            Role::None | Role::Reading => false,
            Role::Leader if planted::is("leader-serves-anyway") => true,
            Role::Leader => ensemble.is_none_or(|ensemble| ensemble.leader_serves),
            Role::Standalone | Role::Follower | Role::Observer | Role::ReadOnly => true,
        }
    }

    /// Whether it has clients now.
    pub(super) fn serves(&self) -> bool {
        self.serves_as(self.role.get())
    }

    /// Whether it has clients now that accept a server which only lets them read, or that do not.
    pub(super) fn serves_client(&self, accepts_read_only: bool) -> bool {
        let role = self.role.get();
        self.serves_as(role) && (accepts_read_only || role != Role::ReadOnly)
    }

    /// Whether it has no leader and serves clients that read only.
    pub(super) fn is_read_only(&self) -> bool {
        self.role.get() == Role::ReadOnly
    }

    /// Until when this client may be told what is read now.
    pub(super) fn fresh_until(&self, connection: &Connection) -> Monotonic {
        match connection.reads_only() {
            true => Monotonic(u64::MAX),
            false => self.replica.fresh_until(),
        }
    }

    /// Whether what is read now may be told to this client, as far as its age goes.
    pub(super) fn is_fresh(&self, connection: &Connection) -> bool {
        self.clock.monotonic() < self.fresh_until(connection)
    }

    /// Looks whether this client may be told what was read. To be called after the read, and under
    /// the hold.
    pub(super) fn fresh<'a>(
        &self,
        connection: &Connection,
        read: &'a Database,
        shows_tree: bool,
        now: impl FnOnce() -> Monotonic,
    ) -> Option<Fresh<'a>> {
        match connection.reads_only() {
            true => Some(Fresh::READ_ONLY),
            false => self.replica.fresh(read, shows_tree, now),
        }
    }

    /// Whether nothing was read yet, as far as can be told: who may do what is not known then.
    pub(super) fn knows_nothing(&self) -> bool {
        !self.serves() && self.replica.applied() == Zxid::ZERO
    }

    /// Waits until what is read is young enough to be told: for a round of the ensemble. False if
    /// it is not for longer than `syncLimit`.
    pub(super) async fn round(&self) -> bool {
        let limit = Duration::from_millis(self.replica.age_limit_ms());
        let round = async {
            loop {
                let renewed = self.replica.renewed();
                self.intake.queue.want_round();
                if self.replica.is_fresh(self.clock.monotonic()) {
                    return;
                }
                renewed.await;
            }
        };
        tokio::time::timeout(limit, round).await.is_ok()
    }

    /// Takes no more requests and answers those that it has.
    pub(super) fn end(&self) {
        if let Some(audit) = &self.audit {
            audit.stopping();
        }
        self.ending.cancel();
        self.intake.queue.end();
    }

    /// Requests with the orderer.
    pub(super) fn outstanding(&self) -> usize {
        let mut all = 0;
        self.connections.each(|connection| all += connection.in_flight());
        all
    }

    /// Whether new sessions live on this server only.
    pub(super) fn sessions_live_here(&self) -> bool {
        let ensemble = self.config.ensemble.as_ref();
        ensemble.is_some_and(|ensemble| matches!(ensemble.sessions, SessionsLive::Here { .. }))
    }
}
