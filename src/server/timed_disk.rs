//! A disk that knows for how long it has been at what it was told to change: a write that does not
//! return is seen while it hangs. Reads are not counted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::storage::{Access, Disk, DiskFile, LockAttempt, Stamp};

/// When each write or sync began that has not returned: at most one for each thread.
#[derive(Debug, Default)]
pub(super) struct UnfinishedWrites(Mutex<Vec<Instant>>);

impl UnfinishedWrites {
    /// For how long the oldest has not returned, if there is one.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.0.lock().iter().min().map(Instant::elapsed)
    }

    fn during<T>(&self, change: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        self.0.lock().push(began);
        let result = change();
        let mut all = self.0.lock();
        // Of two that began at the same time, it does not matter which one goes.
        if let Some(at) = all.iter().position(|its| *its == began) {
            all.swap_remove(at);
        }
        result
    }
}

/// A disk with its unfinished writes.
#[derive(Debug)]
pub(super) struct TimedDisk {
    disk: Arc<dyn Disk>,
    unfinished: Arc<UnfinishedWrites>,
}

impl TimedDisk {
    pub(super) const fn new(disk: Arc<dyn Disk>, unfinished: Arc<UnfinishedWrites>) -> Self {
        Self { disk, unfinished }
    }

    fn timed(&self, file: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        let unfinished = Arc::clone(&self.unfinished);
        Ok(Box::new(TimedFile { file: file?, unfinished }))
    }
}

impl Disk for TimedDisk {
    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.unfinished.during(|| self.disk.create_folder(folder))
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.timed(self.unfinished.during(|| self.disk.create(path, access)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(path)
    }

    fn open_for_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.timed(self.disk.open_for_write(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.unfinished.during(|| self.disk.rename(from, to))
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.unfinished.during(|| self.disk.exchange(one, other))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.unfinished.during(|| self.disk.remove(path))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.unfinished.during(|| self.disk.sync_folder(folder))
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        self.disk.free_space(folder)
    }

    fn lock(&self, path: &Path, note: &str) -> io::Result<LockAttempt> {
        self.unfinished.during(|| self.disk.lock(path, note))
    }
}

#[derive(Debug)]
struct TimedFile {
    file: Box<dyn DiskFile>,
    unfinished: Arc<UnfinishedWrites>,
}

impl DiskFile for TimedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.file.is_at(path)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        self.file.stamp()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.unfinished.during(|| self.file.write_all_at(bytes, offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.unfinished.during(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.unfinished.during(|| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.unfinished.during(|| self.file.sync_all())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::storage::sim::SimDisk;

    fn until(is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(60), "it never is so");
            thread::yield_now();
        }
    }

    /// Says of each thing that it is asked whether it is known to be at it.
    #[derive(Clone, Debug, Default)]
    struct Witness {
        unfinished: Arc<UnfinishedWrites>,
        said: Arc<Mutex<Vec<(&'static str, bool)>>>,
    }

    impl Witness {
        fn say(&self, what: &'static str) -> io::Result<()> {
            self.said.lock().push((what, self.unfinished.oldest().is_some()));
            Ok(())
        }

        fn file(&self) -> io::Result<Box<dyn DiskFile>> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Disk for Witness {
        fn list(&self, _: &Path) -> io::Result<Vec<String>> {
            self.say("list").map(|()| Vec::new())
        }

        fn create_folder(&self, _: &Path) -> io::Result<()> {
            self.say("create_folder")
        }

        fn create(&self, _: &Path, _: Access) -> io::Result<Box<dyn DiskFile>> {
            self.say("create").and_then(|()| self.file())
        }

        fn open(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
            self.say("open").and_then(|()| self.file())
        }

        fn open_for_write(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
            self.file()
        }

        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            self.say("rename")
        }

        fn exchange(&self, _: &Path, _: &Path) -> io::Result<()> {
            self.say("exchange")
        }

        fn remove(&self, _: &Path) -> io::Result<()> {
            self.say("remove")
        }

        fn sync_folder(&self, _: &Path) -> io::Result<()> {
            self.say("sync_folder")
        }

        fn free_space(&self, _: &Path) -> io::Result<u64> {
            self.say("free_space").map(|()| 0)
        }

        fn lock(&self, _: &Path, _: &str) -> io::Result<LockAttempt> {
            self.say("lock").map(|()| LockAttempt::Held(String::new()))
        }
    }

    impl DiskFile for Witness {
        fn size(&self) -> io::Result<u64> {
            self.say("size").map(|()| 0)
        }

        fn is_at(&self, _: &Path) -> io::Result<bool> {
            self.say("is_at").map(|()| true)
        }

        fn stamp(&self) -> io::Result<Stamp> {
            self.say("stamp").map(|()| Stamp { file: (0, 0), len: 0, changed: (0, 0) })
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            self.say("read_at").map(|()| 0)
        }

        fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            self.say("write_all_at")
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            self.say("set_len")
        }

        fn sync_data(&self) -> io::Result<()> {
            self.say("sync_data")
        }

        fn sync_all(&self) -> io::Result<()> {
            self.say("sync_all")
        }
    }

    /// The log writes into spares, which are opened and not made.
    #[test]
    fn whatever_changes_the_disk_is_seen_and_nothing_else_is() {
        let witness = Witness::default();
        let disk = TimedDisk::new(Arc::new(witness.clone()), Arc::clone(&witness.unfinished));
        let path = Path::new("/data");
        let asked = |changes: bool, ask: &dyn Fn()| {
            ask();
            let said = std::mem::take(&mut *witness.said.lock());
            assert!(
                !said.is_empty() && said.iter().all(|(_, is_seen)| *is_seen == changes),
                "{said:?}"
            );
        };
        let done = |result: io::Result<()>| result.expect("it is done");
        let made = || disk.create(path, Access::Shared).expect("made");
        asked(true, &|| drop(made()));
        asked(true, &|| done(disk.create_folder(path)));
        asked(true, &|| done(disk.rename(path, path)));
        asked(true, &|| done(disk.exchange(path, path)));
        asked(true, &|| done(disk.remove(path)));
        asked(true, &|| done(disk.sync_folder(path)));
        asked(true, &|| drop(disk.lock(path, "").expect("asked")));
        asked(false, &|| drop(disk.list(path).expect("listed")));
        asked(false, &|| drop(disk.open(path).expect("opened")));
        asked(false, &|| assert_eq!(disk.free_space(path).expect("known"), 0));
        for file in [made(), disk.open_for_write(path).expect("opened")] {
            witness.said.lock().clear();
            asked(true, &|| done(file.write_all_at(b"x", 0)));
            asked(true, &|| done(file.set_len(1)));
            asked(true, &|| done(file.sync_data()));
            asked(true, &|| done(file.sync_all()));
            asked(false, &|| assert_eq!(file.size().expect("known"), 0));
            asked(false, &|| assert!(file.is_at(path).expect("known")));
            asked(false, &|| assert_eq!(file.stamp().expect("known").len, 0));
            asked(false, &|| assert_eq!(file.read_at(&mut [0], 0).expect("read"), 0));
        }
    }

    #[test]
    fn the_oldest_write_that_hangs_is_seen_until_it_returns() {
        let disk = SimDisk::default();
        let unfinished = Arc::new(UnfinishedWrites::default());
        let timed = TimedDisk::new(Arc::new(disk.clone()), Arc::clone(&unfinished));
        let folder = Path::new("/data");
        timed.create_folder(folder).expect("a folder");
        let file = |name| timed.create(&folder.join(name), Access::Shared).expect("a file");
        let (log, other) = (file("log.1"), file("other"));
        assert_eq!(unfinished.oldest(), None);
        disk.hang(Some("log."));
        let began = Instant::now();
        let hangs = thread::spawn(move || log.sync_data());
        until(|| unfinished.oldest().is_some());
        let seen = Instant::now();
        // Those that return meanwhile are not the oldest.
        until(|| seen.elapsed() >= Duration::from_millis(20));
        other.write_all_at(b"x", 0).expect("it is written");
        other.sync_all().expect("it is synced");
        let oldest = unfinished.oldest().expect("it hangs");
        assert!(oldest >= Duration::from_millis(20) && oldest <= began.elapsed(), "{oldest:?}");
        disk.hang(None);
        hangs.join().expect("it ends").expect("it is synced");
        assert_eq!(unfinished.oldest(), None);
    }
}
