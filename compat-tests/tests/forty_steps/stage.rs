//! What the scripts ask of the world around the client: restarts, other clients, words.

use std::thread;
use std::time::{Duration, Instant};

use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, Program, Server, Signal, four_letter_words};

/// The longest session timeout that the stage's server grants: clients ask for more.
pub(crate) const SESSION: i32 = 20_000;
const TICK: Duration = Duration::from_millis(1_000);

pub(crate) struct Stage {
    pub(crate) server: Server,
}

impl Stage {
    pub(crate) fn new(kind: Kind) -> Self {
        Self::with_session(kind, SESSION)
    }

    /// A stage whose server grants sessions of up to so many milliseconds.
    pub(crate) fn with_session(kind: Kind, session: i32) -> Self {
        let server = Server::start(
            kind,
            &[
                "tickTime=1000",
                &format!("maxSessionTimeout={session}"),
                "extendedTypesEnabled=true",
                "enforceQuota=true",
                // super:test
                "DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
                "4lw.commands.whitelist=ruok,srvr,stat,mntr,conf,cons,isro,wchs",
            ],
        );
        Self { server }
    }

    /// Stops and starts the server while `client` is frozen; meanwhile someone else changes
    /// `path`, so that the client's watch there must be answered by its setWatches.
    pub(crate) fn restart(&mut self, client: &Program, path: &str) {
        client.signal(Signal::STOP);
        self.server.stop();
        self.server.restart();
        let mut other = self.server.connect(SESSION);
        let reply = other.call(op::SET_DATA, &request::set_data(path, b"missed", -1));
        assert_eq!(reply.expect("an answer").err, 0, "set {path}");
        other.close().expect("the other session closes");
        client.signal(Signal::CONT);
    }

    /// Ends the server without a warning and starts it again.
    pub(crate) fn kill(&mut self) {
        self.server.kill();
        self.server.restart();
    }

    /// Waits until `path` is gone; says whether that took no longer than a session may live.
    pub(crate) fn gone(&self, path: &str) -> String {
        let started = Instant::now();
        let mut observer = self.server.connect(SESSION);
        let timeout = Duration::from_millis(SESSION.unsigned_abs().into());
        let deadline = started + timeout + 2 * TICK + Duration::from_secs(1);
        while Instant::now() < deadline {
            let reply = observer.call(op::EXISTS, &request::path_watch(path, false));
            match reply.expect("an answer").err {
                0 => thread::sleep(Duration::from_millis(50)),
                -101 => {
                    observer.close().expect("the observer's session closes");
                    return format!("{path} gone in time");
                }
                err => panic!("exists {path}: error {err}"),
            }
        }
        format!("{path} still there")
    }

    /// Whether `path` exists for someone else.
    pub(crate) fn there(&self, path: &str) -> String {
        let mut observer = self.server.connect(SESSION);
        let reply = observer.call(op::EXISTS, &request::path_watch(path, false));
        let err = reply.expect("an answer").err;
        observer.close().expect("the observer's session closes");
        format!("{path} for others: {err}")
    }

    /// The shapes of all four-letter words that the script asks for.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut watcher = self.server.connect(SESSION);
        for (op, body) in [
            (op::CREATE, request::create("/words", None, mode::EPHEMERAL)),
            (op::GET_DATA, request::path_watch("/words", true)),
        ] {
            assert_eq!(watcher.call(op, &body).expect("an answer").err, 0);
        }
        let mut lines = Vec::new();
        for word in ["ruok", "isro", "srvr", "stat", "conf", "mntr", "cons", "wchs", "dirs"] {
            let answer = four_letter_words::ask(self.server.address(), word);
            let answer = answer.unwrap_or_else(|error| panic!("{word}: {error}"));
            for line in four_letter_words::shape(word, &answer) {
                lines.push(format!("{word}: {line}"));
            }
        }
        watcher.close().expect("the watcher's session closes");
        lines
    }
}
