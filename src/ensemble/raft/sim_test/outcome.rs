//! What happened in the runs, so that a test can say that it did.

use super::faults::Table;

macro_rules! outcome {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What happened in a run.
        #[derive(Debug, Default)]
        pub(super) struct Outcome {
            pub(super) trace: u64,
            pub(super) table: Table,
            $($(#[$doc])* pub(super) $name: u64,)*
        }

        impl Outcome {
            pub(super) fn add(&mut self, other: &Self) {
                self.table.add(&other.table);
                $(self.$name += other.$name;)*
            }

            /// By their names.
            pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

outcome! {
    steps,
    /// Of simulated time.
    seconds,
    /// What clients asked.
    operations,
    /// Writes that were done and answered, writes that were refused, reads and syncs that were
    /// answered, and events told.
    acknowledged,
    refusals,
    reads,
    syncs,
    events,
    elections,
    crashes,
    /// Ends of a process because its disk refused.
    failures,
    /// Ends of a log that gave way to another.
    cuts,
    handed_over,
    /// Disks that were emptied, and those of them whose servers voted again.
    wiped,
    seated,
    /// Older copies of a directory that were put back, and that were refused.
    copies,
    refused_copies,
    /// Servers that others listed no more, those of them that were taken out of the ensemble, and
    /// that were there again.
    unlisted,
    removed,
    returned,
    /// Lists of servers that were written down.
    lists,
    /// Snapshots that were installed, and that came no further.
    installed,
    broken_off,
    purged,
    /// What was final was written down for the next start, and turns that left something to be
    /// applied.
    hints,
    cut_short,
    /// Starts after what was final.
    recovered,
    /// Connections that a server closed.
    closed,
    /// Answers of members that do not lead.
    by_followers,
    by_observers,
    /// Sessions that went on at another connection.
    moved,
    expired,
    /// Sessions that began on one server, became sessions of all, and ended there.
    local,
    upgraded,
    local_expired,
    /// Clients that were refused by a server that lags.
    behind,
    /// Ways between two members that broke.
    broken,
    /// Trees that were spoilt, healed, and wrong once too often.
    spoilt,
    healed,
    ended,
}
