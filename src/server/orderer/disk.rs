//! The thread that writes for a member of an ensemble: while a sync lasts, the member goes on
//! ticking and hearing the others, and what it wants written meanwhile becomes durable with the
//! next one.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::ensemble::{DiskWriter, EnsembleError, Queue, Write};

/// The thread; dropped, it ends after the write that it is at.
#[derive(Debug)]
pub(in crate::server) struct Disk {
    waiting: Arc<DiskQueue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct DiskQueue {
    work: Mutex<Work>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    writes: Vec<Write>,
    is_over: bool,
}

impl Disk {
    /// Starts the thread. What comes of the writes goes into the queue.
    pub(in crate::server) fn start(writer: DiskWriter, queue: Arc<Queue>) -> io::Result<Self> {
        let waiting = Arc::new(DiskQueue::default());
        let work = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
            let report = Report { queue, is_over: false };
            write(writer, &work, report);
        })?;
        Ok(Self { waiting, thread: Some(thread) })
    }

    /// Has these written, after those before them.
    pub(in crate::server) fn write(&self, mut writes: Vec<Write>) {
        if !writes.is_empty() {
            self.waiting.work.lock().writes.append(&mut writes);
            self.waiting.arrived.notify_one();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.waiting.work.lock().is_over = true;
        self.waiting.arrived.notify_one();
        // What it ended with is in the queue.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn write(mut writer: DiskWriter, waiting: &DiskQueue, mut report: Report) {
    loop {
        let writes = {
            let mut work = waiting.work.lock();
            while work.writes.is_empty() && !work.is_over {
                waiting.arrived.wait(&mut work);
            }
            if work.is_over {
                report.is_over = true;
                return;
            }
            std::mem::take(&mut work.writes)
        };
        let written = writer.write(writes);
        report.is_over = written.is_err();
        report.queue.put_written(written);
        if report.is_over {
            return;
        }
        if let Err(error) = writer.write_hint() {
            report.is_over = true;
            report.queue.put_written(Err(error));
            return;
        }
    }
}

/// Says that the thread is gone, however it goes: nothing is durable without it.
struct Report {
    queue: Arc<Queue>,
    is_over: bool,
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.is_over {
            self.queue.put_written(Err(EnsembleError::WriterLost));
        }
    }
}
