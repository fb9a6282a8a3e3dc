//! The commit hint: how much of the log is known to be final, written down now and then. A start
//! applies up to there before it hears of any other member; without it, a restart of all would have
//! the whole log to apply after that.
//!
//! It names only what is applied, and so what is committed and on this disk. Nobody is told
//! anything because of it and nothing waits for it; who has nothing to apply writes none.

use super::consensus::Consensus;
use super::disk::{What, Write};
use crate::engine::time::Monotonic;

/// It is written after so many entries more than the disk knows to be final,
const ENTRIES: u64 = 1000;
/// or so many bytes of them,
const BYTES: u64 = 16 << 20;
/// and not before so long after the last one.
const PAUSE_MS: u64 = 1000;

/// When the next one is due.
#[derive(Debug)]
pub(super) struct Hint {
    pub(super) entries: u64,
    /// What the disk knows to be final, as of the last look, and the bytes that were applied since.
    known: u64,
    bytes: u64,
    /// When the last one was written.
    last: Option<Monotonic>,
}

impl Default for Hint {
    fn default() -> Self {
        Self { entries: ENTRIES, known: 0, bytes: 0, last: None }
    }
}

impl Hint {
    /// So many bytes more are applied.
    pub(super) const fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Whether one is to be written, where the disk knows `known` to be final, and `applied` is.
    fn is_due(&mut self, known: u64, applied: u64, now: Monotonic) -> bool {
        if self.known != known {
            (self.known, self.bytes) = (known, 0);
        }
        let is_enough = applied.saturating_sub(known) >= self.entries || self.bytes >= BYTES;
        let is_soon = self.last.is_some_and(|last| now.since(last) < PAUSE_MS);
        let is_due = applied > known && is_enough && !is_soon;
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

impl Consensus {
    /// Has written down what is final, if that is due.
    pub(super) fn give_hint(&mut self, now: Monotonic) {
        // Without syncs, what is applied may be on no disk. And a hint is not worth the end of a
        // process whose disk is full.
        let is_durable = self.ensemble.recovery.log.force_sync;
        if self.has_ended || self.has_no_room() || !is_durable {
            return;
        }
        let applied = self.applied();
        let store = self.node.mut_store();
        // A start applies what its snapshot shows, too.
        let known = store.promises.commit.max(store.snapshot_index());
        if self.hint.is_due(known, applied, now) {
            store.promises.commit = applied;
            self.unsynced.write_aside(Write(What::Hint(applied)), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::fixture::{directory, ensemble, entry};
    use super::super::member_id;
    use super::*;
    use crate::storage::sim::SimDisk;
    use crate::storage::{Members, RaftState, RaftStateFile};

    /// What a second of the same load after another makes due, at a look every 50 ms: when, and
    /// what is named.
    fn given(hint: &mut Hint, entries_a_look: u64, bytes: usize, seconds: u64) -> Vec<(u64, u64)> {
        let (mut known, mut applied, mut given) = (0, 0, Vec::new());
        for ms in (0..seconds * 1000).step_by(50) {
            applied += entries_a_look;
            hint.count(bytes * entries_a_look as usize);
            if hint.is_due(known, applied, Monotonic(ms)) {
                known = applied;
                given.push((ms, applied));
            }
        }
        given
    }

    #[test]
    fn it_is_due_after_many_entries_or_bytes_and_once_a_second() {
        // 100 a second.
        let few = given(&mut Hint::default(), 5, 100, 25);
        assert_eq!(few, [(9950, 1000), (19_950, 2000)]);
        // 40,000 a second: the first at once, and then one a second.
        let many = given(&mut Hint::default(), 2000, 100, 4);
        assert_eq!(many, [(0, 2000), (1000, 42_000), (2000, 82_000), (3000, 122_000)]);
        // A megabyte each, 20 a second.
        let large = given(&mut Hint::default(), 1, 1 << 20, 4);
        assert_eq!(large, [(750, 16), (1750, 36), (2750, 56), (3750, 76)]);
    }

    #[test]
    fn who_applies_nothing_gives_none() {
        let mut hint = Hint::default();
        hint.count(64 << 20);
        assert!(!hint.is_due(5000, 5000, Monotonic(10_000)));
        assert!(!hint.is_due(5000, 5999, Monotonic(20_000)));
        assert!(hint.is_due(5000, 6000, Monotonic(30_000)));
    }

    /// A vote says it as well: what came before it need not be said again.
    #[test]
    fn what_was_written_otherwise_counts() {
        let mut hint = Hint::default();
        assert!(!hint.is_due(0, 900, Monotonic(0)));
        hint.count(15 << 20);
        assert!(!hint.is_due(900, 950, Monotonic(50)));
        hint.count(15 << 20);
        assert!(!hint.is_due(900, 1899, Monotonic(100)));
        assert!(hint.is_due(900, 1900, Monotonic(150)));
    }

    /// The entries around it are one group with one sync, and it costs one more when the word of
    /// them is out.
    #[test]
    fn no_entry_waits_for_it() {
        let disk = SimDisk::default();
        let members = Members { voters: vec![member_id(1, 1)], ..Members::default() };
        let first = RaftState { id: member_id(1, 1), members, ..RaftState::default() };
        RaftStateFile::create(&directory(&disk), &first, None).expect("creates");
        let started = ensemble(1 << 20, true).start(Arc::new(directory(&disk))).expect("starts");
        let mut writer = started.writer;
        let append =
            |index| Write(What::Append(vec![entry(index, 0x1_0000_0000 + index.cast_signed())]));
        let mut syncs = |writes: Vec<Write>| {
            let (_, before) = disk.writes_and_syncs();
            writer.write(writes).expect("writes");
            let (_, written) = disk.writes_and_syncs();
            let commit = writer.promises.get().commit;
            writer.write_hint().expect("writes");
            let (_, after) = disk.writes_and_syncs();
            (written - before, commit, after - written, writer.promises.get().commit)
        };
        syncs(vec![append(1)]);
        assert_eq!(syncs(vec![append(2), append(3)]), (1, 0, 0, 0));
        assert_eq!(syncs(vec![append(4), Write(What::Hint(3)), append(5)]), (1, 0, 1, 3));
        // One that says less than what is there says nothing.
        assert_eq!(syncs(vec![Write(What::Hint(2))]), (0, 3, 0, 3));
    }
}
