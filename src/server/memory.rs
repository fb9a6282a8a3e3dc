//! How much memory this process may take, and whether the tree and the watches may grow: before the
//! kernel ends the process for want of it, writes that grow the tree are refused, and so are more
//! watches. What clients have not read may take a part of what is left to that end, and is counted
//! as if it always took it: a client that does not read keeps nobody from writing.
//!
//! The bound is that of the control group, which a container has, or `memoryLimitInKb`. Where there
//! is neither, what the machine has is not this server's alone, and nothing is refused.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::figures::process;
use crate::config::Config;
use crate::server::shared::Server;

use crate::message::MessageId;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What is left to requests on their way, snapshots and connections: an eighth, within these
/// bounds.
const RESERVE_MIN: u64 = 32 << 20;
const RESERVE_MAX: u64 = 512 << 20;
/// What clients may leave unread, all together, where memory has no limit; else half of the reserve
/// where that is less.
const UNREAD_MAX: u64 = 256 << 20;
/// So many of the largest frames it is in any case.
const UNREAD_FRAMES: u64 = 4;
/// What the audit log may hold, or a quarter of the reserve where that is less.
const AUDIT_MAX: u64 = 64 << 20;
/// Version 1 says so where there is no limit: the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

const GROUPS: &str = "/sys/fs/cgroup";

/// Files of a control group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    limit: &'static str,
    used: &'static str,
    /// The line of `memory.stat` with what files hold, and that of what of it is in files that are
    /// in memory only, as those of a tmpfs: the kernel can take back the first without the second.
    cache: [&'static str; 2],
}

impl Group {
    const fn version_2(folder: PathBuf) -> Self {
        Self { folder, limit: "memory.max", used: "memory.current", cache: ["file", "shmem"] }
    }

    const fn version_1(folder: PathBuf) -> Self {
        let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
        Self { folder, limit, used, cache: ["total_cache", "total_shmem"] }
    }

    /// `None` for no limit, which version 2 says by a word.
    fn limit(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(self.limit)).ok()?;
        text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
    }

    /// Bytes that only an end of somebody can give back.
    fn used(&self) -> Option<u64> {
        let used = fs::read_to_string(self.folder.join(self.used)).ok()?;
        let stat = fs::read_to_string(self.folder.join("memory.stat")).ok()?;
        let [files, in_memory] = self.cache.map(|wanted| {
            let its = stat.lines().find_map(|line| line.strip_prefix(wanted)?.strip_prefix(' '));
            its.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0)
        });
        let cache = files.saturating_sub(in_memory);
        Some(used.trim().parse::<u64>().ok()?.saturating_sub(cache))
    }
}

/// The groups that a process is in, by its `/proc/self/cgroup`, innermost first. Inside of a
/// container the path is often that of the host, and what it names is the root that is there.
fn groups(own: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, group): (PathBuf, fn(PathBuf) -> Group) = if controllers.is_empty() {
            (GROUPS.into(), Group::version_2)
        } else if controllers.split(',').any(|name| name == "memory") {
            (Path::new(GROUPS).join("memory"), Group::version_1)
        } else {
            continue;
        };
        let path = Path::new(path.trim_start_matches('/'));
        groups.extend(path.ancestors().map(|path| group(root.join(path))));
    }
    groups
}

/// The tightest of the limits that hold here.
#[derive(Debug)]
struct Budget {
    limit: u64,
    /// `None` for one that is configured: this process counts.
    group: Option<Group>,
}

impl Budget {
    fn find(configured: Option<NonZeroU64>) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let of_groups = groups(&own).into_iter().filter_map(|group| {
            let limit = group.limit()?;
            group.used().map(|_| Self { limit, group: Some(group) })
        });
        let configured = configured.map(|limit| Self { limit: limit.get(), group: None });
        of_groups.chain(configured).min_by_key(|budget| budget.limit)
    }

    fn used(&self) -> Option<u64> {
        match &self.group {
            Some(group) => group.used(),
            // What no file stands behind.
            None => process::memory("RssAnon:"),
        }
    }

    /// What is left, of which clients may leave `unread` unread.
    fn reserve(&self, unread: u64) -> u64 {
        let reserve = (self.limit / 8).clamp(RESERVE_MIN, RESERVE_MAX);
        reserve.max(unread.saturating_mul(2)).min(self.limit / 2)
    }
}

/// Whether memory is short, from look to look.
#[derive(Debug)]
struct Shortage {
    reserve: u64,
    /// Below so many bytes that are left it begins.
    begins: u64,
    /// The bytes of the tree and the watches when it began, while it lasts.
    kept: Option<u64>,
    /// What watches may take while it lasts.
    watches: Option<u64>,
}

impl Shortage {
    const fn new(reserve: u64) -> Self {
        Self { reserve, begins: reserve, kept: None, watches: None }
    }

    /// Looks at what is left; `kept` is the bytes of the tree and the watches.
    ///
    /// It ends when there is somewhat more than the reserve again. And it ends when these have
    /// shrunk: what they gave back the allocator has, which returns it to the system late or never.
    /// Then it begins again at half of what is left now, down to a quarter of the reserve.
    fn look(&mut self, left: u64, kept: impl FnOnce() -> u64) -> bool {
        if left >= self.reserve + self.reserve / 8 {
            *self = Self::new(self.reserve);
        } else if let Some(before) = self.kept {
            let is_smaller = kept() + self.reserve / 4 <= before;
            let begins = (left / 2).max(self.reserve / 4);
            if is_smaller && left > begins {
                (self.begins, self.kept) = (begins, None);
            }
        } else if left < self.begins {
            self.kept = Some(kept());
        }
        self.kept.is_some()
    }

    /// What watches that take so many bytes now may take until the next look.
    ///
    /// While memory is short that is a little more than when it began, so that watches which are
    /// left anew, as those that fired and those of clients that come back, have room. Else it is
    /// far more than clients want in so short a time.
    fn watches_most(&mut self, left: u64, watches: u64) -> u64 {
        if self.kept.is_none() {
            self.watches = None;
            return watches.saturating_add(left / 2);
        }
        let more = (left / 4).min(self.reserve / 8);
        *self.watches.get_or_insert_with(|| watches.saturating_add(more))
    }
}

/// Bytes that clients may leave unread, all together (`unreadLimitInKb`).
pub(super) fn unread_limit(config: &Config) -> usize {
    let limit = config.unread_limit_bytes.map(NonZeroU64::get).unwrap_or_else(|| {
        let budget = Budget::find(config.memory_limit_bytes);
        budget.map_or(UNREAD_MAX, |budget| (budget.reserve(0) / 2).min(UNREAD_MAX))
    });
    let least = UNREAD_FRAMES * u64::from(config.jute_max_buffer);
    usize::try_from(limit.max(least)).unwrap_or(usize::MAX)
}

/// Bytes that requests may take on their way, of `most` at the most: where memory is limited, half
/// of the reserve.
pub(super) fn requests_limit(config: &Config, most: u32) -> u32 {
    let budget = Budget::find(config.memory_limit_bytes);
    let limit = budget.map_or_else(|| u64::from(most), |budget| budget.reserve(0) / 2);
    u32::try_from(limit).unwrap_or(most).min(most)
}

/// Bytes of facts that the audit log may hold.
pub(super) fn audit_limit(config: &Config) -> usize {
    let budget = Budget::find(config.memory_limit_bytes);
    let limit = budget.map_or(AUDIT_MAX, |budget| (budget.reserve(0) / 4).min(AUDIT_MAX));
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Whether a state that a snapshot of so many bytes shows has room beside what there is: it takes
/// about as many.
pub(super) fn has_room(config: &Config, bytes: u64) -> bool {
    let Some(budget) = Budget::find(config.memory_limit_bytes) else { return true };
    let Some(used) = budget.used() else { return true };
    let reserve = budget.reserve(unread_limit(config) as u64);
    budget.limit.saturating_sub(used) >= bytes.saturating_add(reserve / 2)
}

/// Looks at the memory until the server ends.
pub(super) async fn watch(server: Arc<Server>) {
    let Some(budget) = Budget::find(server.config.memory_limit_bytes) else { return };
    let unread = server.connections.unread();
    let (limit, reserve) = (budget.limit, budget.reserve(unread.limit() as u64));
    tracing::info!(limit, reserve, "memory is limited");
    let mut shortage = Shortage::new(reserve);
    let mut turns = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            _ = turns.tick() => {}
            () = server.ending.cancelled() => return,
        }
        let Some(used) = budget.used() else { continue };
        // What it has taken once the allocator has for the next time.
        let used = used.saturating_sub(unread.highest().min(unread.limit()) as u64);
        let left = limit.saturating_sub(used);
        let was_short = shortage.kept.is_some();
        let is_short = shortage.look(left, || {
            let database = server.replica.shared();
            let watches = database.watches().lock().bytes();
            database.tree().data_size() + watches as u64
        });
        {
            let database = server.replica.shared();
            let mut watches = database.watches().lock();
            let most = shortage.watches_most(left, watches.bytes() as u64);
            watches.set_most(usize::try_from(most).unwrap_or(usize::MAX));
        }
        if is_short != was_short {
            server.replica.set_memory_short(is_short);
            if is_short {
                tracing::error!(
                    id = %MessageId::MEMORY_NEARLY_FULL,
                    used,
                    limit,
                    reserve,
                    "memory is nearly used up: writes that grow the tree, and more watches, are \
                     refused until there is enough again"
                );
            } else {
                tracing::info!(used, limit, "there is enough memory again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(own: &str) -> Vec<(String, &'static str)> {
        let shown = |group: Group| (group.folder.display().to_string(), group.limit);
        groups(own).into_iter().map(shown).collect()
    }

    #[test]
    fn the_group_is_found_in_both_versions_with_those_around_it() {
        let (one, two) = ("memory.limit_in_bytes", "memory.max");
        let own = |path: &str| path.to_owned();
        assert_eq!(
            folders("0::/user.slice/a.scope\n"),
            [
                (own("/sys/fs/cgroup/user.slice/a.scope"), two),
                (own("/sys/fs/cgroup/user.slice"), two),
                (own("/sys/fs/cgroup/"), two),
            ]
        );
        assert_eq!(
            folders("5:devices:/\n4:cpu,memory:/docker/ab\n0::/\n"),
            [
                (own("/sys/fs/cgroup/memory/docker/ab"), one),
                (own("/sys/fs/cgroup/memory/docker"), one),
                (own("/sys/fs/cgroup/memory/"), one),
                (own("/sys/fs/cgroup/"), two),
            ]
        );
        assert_eq!(folders("nonsense\n1:cpu:/a\n"), []);
    }

    #[test]
    fn a_group_says_its_limit_and_what_cannot_be_taken_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            fs::write(dir.path().join(name), text).expect("written");
        };
        let group = Group::version_2(dir.path().to_owned());
        assert_eq!((group.limit(), group.used()), (None, None));
        write("memory.max", "max\n");
        write("memory.current", "1000\n");
        write("memory.stat", "anon 600\nfile 300\nfile_mapped 7\n");
        assert_eq!((group.limit(), group.used()), (None, Some(700)));
        write("memory.max", "4096\n");
        assert_eq!(group.limit(), Some(4096));
        // A tmpfs, in which /dev/shm or dataDir is: nobody can take that back.
        write("memory.stat", "anon 600\nfile 300\nshmem 250\nfile_mapped 7\n");
        assert_eq!(group.used(), Some(950));
        let group = Group::version_1(dir.path().to_owned());
        write("memory.limit_in_bytes", "9223372036854771712\n");
        write("memory.usage_in_bytes", "1000\n");
        write("memory.stat", "cache 1\ntotal_cache 200\n");
        assert_eq!((group.limit(), group.used()), (None, Some(800)));
        write("memory.stat", "cache 1\nshmem 9\ntotal_cache 200\ntotal_shmem 150\n");
        assert_eq!(group.used(), Some(950));
    }

    #[test]
    fn the_reserve_is_an_eighth_within_bounds() {
        let reserve = |limit, unread| Budget { limit, group: None }.reserve(unread) >> 20;
        assert_eq!(reserve(20 << 20, 0), 10);
        assert_eq!(reserve(64 << 20, 16 << 20), 32);
        assert_eq!(reserve(800 << 20, 50 << 20), 100);
        assert_eq!(reserve(64 << 30, 256 << 20), 512);
        // Twice what clients may leave unread, where that is configured to be more.
        assert_eq!(reserve(64 << 30, 1 << 30), 2048);
        assert_eq!(reserve(1 << 30, 1 << 30), 512);
    }

    #[test]
    fn memory_is_short_within_the_reserve_and_enough_with_something_to_spare() {
        let mut shortage = Shortage::new(80);
        for (left, is_short) in [(80, false), (79, true), (89, true), (90, false), (80, false)] {
            assert_eq!(shortage.look(left, || 1000), is_short, "{left} left");
        }
    }

    #[test]
    fn watches_may_take_a_little_more_while_memory_is_short_and_much_else() {
        let mut shortage = Shortage::new(80);
        for (left, kept, watches, most) in [
            (200, 1000, 100, 200),
            (100, 1000, 200, 250),
            // It begins: an eighth of the reserve.
            (70, 1000, 220, 230),
            (60, 1000, 225, 230),
            // Clients are gone, and come back.
            (60, 1000, 100, 230),
            // The tree shrinks.
            (60, 980, 225, 255),
            // It begins again, with less.
            (20, 1000, 240, 245),
            (20, 1000, 245, 245),
            (90, 1000, 245, 290),
        ] {
            shortage.look(left, || kept);
            assert_eq!(shortage.watches_most(left, watches), most, "{left} left");
        }
    }

    #[test]
    fn what_the_tree_gave_back_may_be_used_again_though_the_system_has_not_got_it() {
        let mut shortage = Shortage::new(80);
        for (left, tree, is_short) in [
            (60, 1000, true),
            (60, 981, true),
            (60, 980, false),
            // It grows into what the allocator has.
            (60, 1000, false),
            (30, 1030, false),
            (29, 1031, true),
            (29, 1011, false),
            // And not below a quarter of the reserve.
            (20, 1020, false),
            (19, 1021, true),
            (19, 500, true),
            (90, 500, false),
            // From the beginning.
            (79, 500, true),
        ] {
            assert_eq!(shortage.look(left, || tree), is_short, "{left} left, {tree}");
        }
    }
}
