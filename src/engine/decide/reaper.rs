//! Containers and znodes with a time to live: which of them are to be removed (`ContainerManager`).

use crate::engine::database::Database;
use crate::engine::owner::Owner;
use crate::engine::path;
use crate::engine::time::WallClock;
use crate::engine::tree::znode::NodeId;
use crate::planted;

/// Whether a childless znode is to be removed. A container must have had a child, or be older than
/// a container may be that was never used.
pub(in crate::engine) fn is_due(
    owner: Owner,
    creates: i32,
    mtime: i64,
    max_never_used_ms: Option<i64>,
    now: WallClock,
) -> bool {
    let age = now.0.saturating_sub(mtime);
    match owner {
        Owner::Container => {
            let is_too_old = max_never_used_ms.is_some_and(|max| age > max);
            creates > 0 && !planted::is("containers-stay")
                || is_too_old && !planted::is("never-used-stay")
        }
        Owner::Ttl(ttl) => age > ttl && !planted::is("times-to-live-stay"),
        Owner::None | Owner::Session(_) => false,
    }
}

/// The paths among candidates after `after` that are to be removed, and where to go on; `None` at
/// the end of the round. A candidate counts as one of `look_at`, and what is to be removed as many
/// as its path costs.
#[must_use]
pub fn due(
    database: &Database,
    after: Option<NodeId>,
    look_at: usize,
    now: WallClock,
) -> (Vec<String>, Option<NodeId>) {
    let tree = &database.tree;
    let mut paths = Vec::new();
    let mut last = after;
    let mut left = look_at;
    for id in tree.reapable(after) {
        if left == 0 {
            return (paths, last);
        }
        left -= 1;
        last = Some(id);
        let stat = tree.stat_persisted(id);
        let max_never_used = database.rules.max_never_used_ms;
        if tree.stat(id).num_children == 0
            && is_due(tree.owner(id), stat.cversion, stat.mtime, max_never_used, now)
        {
            let path = tree.path(id);
            left = left.saturating_sub(path::cost(&path) - 1);
            paths.push(path);
        }
    }
    (paths, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::apply_test::{RULES, make};

    #[test]
    fn containers_and_times_to_live() {
        let never = None;
        let cases = [
            // An empty container that had a child goes at once, one that never had any stays.
            (Owner::Container, 1, 1000, never, 1000, true),
            (Owner::Container, 0, 0, never, 1_000_000, false),
            (Owner::Container, 0, 0, Some(500), 500, false),
            (Owner::Container, 0, 0, Some(500), 501, true),
            // A time to live has to be over, not only up.
            (Owner::Ttl(500), 0, 0, never, 500, false),
            (Owner::Ttl(500), 0, 0, never, 501, true),
            (Owner::Ttl(500), 7, 100, never, 550, false),
            (Owner::None, 7, 0, Some(1), 1_000_000, false),
        ];
        for (owner, creates, mtime, max_never_used, now, expected) in cases {
            let due = is_due(owner, creates, mtime, max_never_used, WallClock(now));
            assert_eq!(due, expected, "{owner:?} {creates} {mtime} {max_never_used:?} {now}");
        }
    }

    #[test]
    fn candidates_are_looked_at_a_few_at_a_time() {
        let mut database = Database::new(1, RULES);
        // Made a second after the other, from 1000 on; those that stay are between those that go.
        let candidates = [
            ("/due-1", Owner::Ttl(10)),
            ("/later", Owner::Ttl(100_000)),
            ("/plain", Owner::None),
            ("/container", Owner::Container),
            ("/due-2", Owner::Ttl(10)),
            ("/parent", Owner::Ttl(10)),
        ];
        for (path, owner) in candidates {
            make(&mut database, path, b"", owner);
        }
        make(&mut database, "/parent/child", b"", Owner::None);
        let look = |after, at| due(&database, after, at, WallClock(50_000));
        // One of three, then the other of two and no more: five are no plain znodes.
        let (paths, after) = look(None, 3);
        assert_eq!(paths, ["/due-1"]);
        assert_eq!(after, database.tree().find("/container"));
        let (paths, after) = look(after, 3);
        assert_eq!((paths, after), (vec!["/due-2".to_owned()], None));
        assert_eq!(look(None, 0), (vec![], None));
        assert_eq!(due(&database, None, 9, WallClock(1010)), (vec![], None));
        assert_eq!(due(&database, None, 9, WallClock(1011)), (vec!["/due-1".to_owned()], None));
    }

    /// They are copied, and kept until they are removed.
    #[test]
    fn long_paths_are_looked_at_fewer_at_a_time() {
        const LEN: usize = 64 << 10;
        let mut database = Database::new(1, RULES);
        let above = format!("/{}", "x".repeat(LEN));
        make(&mut database, &above, b"", Owner::None);
        (0..40).for_each(|at| make(&mut database, &format!("{above}/{at}"), b"", Owner::Ttl(10)));
        let (mut after, mut all, mut looks) = (None, Vec::new(), 0);
        loop {
            let (paths, next) = due(&database, after, 256, WallClock(1 << 40));
            // 256 paths of 64 bytes, and one more.
            let bytes: usize = paths.iter().map(String::len).sum();
            assert!(bytes < (256 * 64) + LEN + 10, "{bytes}");
            all.extend(paths);
            looks += 1;
            if next.is_none() {
                break;
            }
            after = next;
        }
        let expected: Vec<String> = (0..40).map(|at| format!("{above}/{at}")).collect();
        assert!(all == expected && looks >= 40, "{} of {}", all.len(), looks);
    }
}
