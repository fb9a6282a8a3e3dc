//! The signals that the process answers to, from its first instant on.
//!
//! A start may take minutes; meanwhile the system's answer would be wrong: it ends the process at a
//! request for its state, and does nothing to process 1 of a container. A thread of its own hears
//! them, whatever all others wait for.

use std::fs;
use std::io;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use parking_lot::Mutex;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use signal_hook::iterator;

use crate::ensemble::Inquiry;
use crate::logging;
use crate::server::shared::Server;

/// What the process was started with ignored stays so, as in a JVM: `nohup` leaves the terminal's
/// end to others, and a shell Ctrl-C where it starts something in the background.
const LEFT_IGNORED: [i32; 2] = [SIGHUP, SIGINT];

/// Signals that come this soon after the one that ends a server are the same wish: `timeout`,
/// terminals and supervisors send several at once.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Whom signals are for.
#[derive(Debug, Default)]
enum Whom {
    /// Whoever starts.
    #[default]
    Start,
    /// A server.
    Server(Arc<Server>),
    /// Nobody: it has been ending since then.
    Ending(Instant),
}

/// The signals that the process answers to.
#[derive(Debug, Clone)]
pub struct Signals(Arc<Mutex<Whom>>);

impl Signals {
    /// Hears them from now on.
    ///
    /// # Errors
    /// When the system refuses that.
    pub fn hear() -> io::Result<Self> {
        let ignored = ignored();
        let is_ours =
            |signal: &i32| !(LEFT_IGNORED.contains(signal) && ignored >> (signal - 1) & 1 == 1);
        let ours = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1].into_iter().filter(is_ours);
        let mut signals = iterator::Signals::new(ours.clone())?;
        // A parent that blocks them for itself does not mean this process; a JVM unblocks them as
        // well.
        let blocked: Result<SigSet, _> = ours.map(Signal::try_from).collect();
        blocked?.thread_unblock()?;
        let heard = Self(Arc::default());
        let here = heard.clone();
        let hear = move || signals.forever().for_each(|signal| here.take(signal));
        thread::Builder::new().name("signals".to_owned()).spawn(hear)?;
        Ok(heard)
    }

    /// From now on they are for this server.
    pub(super) fn are_for(&self, server: &Arc<Server>) {
        let mut whom = self.0.lock();
        if matches!(*whom, Whom::Start) {
            *whom = Whom::Server(Arc::clone(server));
        }
    }

    /// The server is about to read its directory, and hears nobody until it has. Not if it is
    /// ending already.
    pub(super) fn are_for_a_start(&self) -> bool {
        let mut whom = self.0.lock();
        if matches!(*whom, Whom::Server(_)) {
            *whom = Whom::Start;
        }
        matches!(*whom, Whom::Start)
    }

    fn take(&self, signal: i32) {
        let mut whom = self.0.lock();
        match (signal, &*whom) {
            (SIGQUIT, Whom::Server(server)) => server.intake.queue.ask(Inquiry::LogState),
            (SIGUSR1, Whom::Server(server)) => server.intake.queue.ask(Inquiry::HandOver),
            (SIGQUIT | SIGUSR1, Whom::Start) => tracing::info!("state: this server is starting"),
            (SIGQUIT | SIGUSR1, Whom::Ending(_)) => tracing::info!("state: this server is ending"),
            // What is half done is found out by the next start, as if the power had failed.
            (_, Whom::Start) => {
                tracing::info!("ending: the start is abandoned");
                end(0);
            }
            (_, Whom::Server(server)) => {
                tracing::info!(
                    "ending: no more requests are accepted; \
                     a second signal, at least one second after the first, ends the server at once"
                );
                server.end();
                *whom = Whom::Ending(Instant::now());
            }
            (_, Whom::Ending(since)) if since.elapsed() < SAME_WISH => {}
            (_, Whom::Ending(_)) => {
                tracing::info!("ended at once by a second signal");
                end(128 + signal);
            }
        }
    }
}

fn end(code: i32) -> ! {
    logging::end();
    process::exit(code)
}

/// The signals that are ignored, signal 1 being bit 0; none where the system does not tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or_default()
}
