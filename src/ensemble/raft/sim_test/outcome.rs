//! What happened in the runs.

/// What happened in a run, so that a test can say that it did.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) trace: u64,
    pub(super) elections: u64,
    pub(super) acknowledged: u64,
    pub(super) crashes: u64,
    pub(super) failures: u64,
    pub(super) cuts: u64,
    pub(super) handed_over: u64,
    pub(super) installed: u64,
    pub(super) purged: u64,
    pub(super) unknown: u64,
    /// Answers of members that do not lead.
    pub(super) by_followers: u64,
    /// Answers to syncs.
    pub(super) synced: u64,
    /// Sessions that went on at another connection.
    pub(super) moved: u64,
    /// Ways between two members that broke.
    pub(super) broken: u64,
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Self) {
        self.elections += other.elections;
        self.acknowledged += other.acknowledged;
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.cuts += other.cuts;
        self.handed_over += other.handed_over;
        self.installed += other.installed;
        self.purged += other.purged;
        self.unknown += other.unknown;
        self.by_followers += other.by_followers;
        self.synced += other.synced;
        self.moved += other.moved;
        self.broken += other.broken;
    }

    pub(super) fn counts(&self) -> [u64; 13] {
        [
            self.elections,
            self.acknowledged,
            self.crashes,
            self.failures,
            self.cuts,
            self.handed_over,
            self.installed,
            self.purged,
            self.unknown,
            self.by_followers,
            self.synced,
            self.moved,
            self.broken,
        ]
    }
}
