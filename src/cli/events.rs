//! Where events go: printed as they come, or to the command that waits for them.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use rustyline::ExternalPrinter;

use super::event::Event;

#[derive(Default)]
pub(super) struct Events {
    /// `printwatches`.
    printed: AtomicBool,
    /// The command that takes them instead.
    taker: Mutex<Option<Sender<Event>>>,
    /// Prints above a line that is being typed.
    printer: Mutex<Option<Box<dyn ExternalPrinter + Send>>>,
}

impl Events {
    pub(super) fn new(printed: bool) -> Self {
        Self { printed: AtomicBool::new(printed), ..Self::default() }
    }

    pub(super) fn are_printed(&self) -> bool {
        self.printed.load(Ordering::Relaxed)
    }

    pub(super) fn print(&self, printed: bool) {
        self.printed.store(printed, Ordering::Relaxed);
    }

    pub(super) fn print_by(&self, printer: Box<dyn ExternalPrinter + Send>) {
        *self.printer.lock() = Some(printer);
    }

    pub(super) fn print_directly(&self) {
        *self.printer.lock() = None;
    }

    /// From now on all events come here.
    pub(super) fn taken(&self) -> Receiver<Event> {
        let (taker, events) = channel();
        *self.taker.lock() = Some(taker);
        events
    }

    pub(super) fn take(&self, event: Event) {
        if let Some(taker) = &*self.taker.lock() {
            // It may have ended.
            let _ = taker.send(event);
            return;
        }
        if !self.are_printed() {
            return;
        }
        let text = format!("\nWATCHER::\n\n{event}\n");
        let by_printer =
            self.printer.lock().as_mut().is_some_and(|printer| printer.print(text.clone()).is_ok());
        if !by_printer {
            let mut stdout = io::stdout().lock();
            // Nobody may be reading any more.
            let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        }
    }
}
