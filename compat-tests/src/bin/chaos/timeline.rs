//! What the run did itself, and when: the ways between servers and clients that it cut or made
//! slow, and the servers that it stopped. Each time is on the side that excuses a server.

use crate::history::Nanos;
use crate::world::{CLIENTS, SERVERS};

/// Answers of a server to a host of clients came late or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) server: u8,
    pub(crate) host: u8,
    pub(crate) from: Nanos,
    /// The greatest there is as long as it lasts.
    pub(crate) to: Nanos,
}

/// From a SIGSTOP to a SIGCONT or SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) server: u8,
    /// Before the first signal was sent; and when every thread was seen to stand.
    pub(crate) ran_until: Nanos,
    pub(crate) stood_from: Nanos,
    /// Before the second was sent, and after; the greatest there is as long as it stands.
    pub(crate) stood_until: Nanos,
    pub(crate) ran_from: Nanos,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) holds: Vec<Hold>,
    pub(crate) stops: Vec<Stop>,
}

impl Timeline {
    /// Whichever direction it is: where no acknowledgement comes through, TCP soon sends nothing
    /// new.
    pub(crate) fn cut(&mut self, one: u8, other: u8, from: Nanos) {
        for (server, host) in [(one, other), (other, one)] {
            if SERVERS.contains(&server) && CLIENTS.contains(&host) {
                self.holds.push(Hold { server, host, from, to: Nanos::MAX });
            }
        }
    }

    pub(crate) fn late(&mut self, server: u8, from: Nanos) {
        let hold = |host| Hold { server, host, from, to: Nanos::MAX };
        self.holds.extend(CLIENTS.map(hold));
    }

    pub(crate) fn heal(&mut self, to: Nanos) {
        self.holds.iter_mut().for_each(|hold| hold.to = hold.to.min(to));
    }

    pub(crate) fn stop(&mut self, server: u8, ran_until: Nanos, stood_from: Nanos) {
        if self.standing(server).is_none() {
            let (stood_until, ran_from) = (Nanos::MAX, Nanos::MAX);
            self.stops.push(Stop { server, ran_until, stood_from, stood_until, ran_from });
        }
    }

    /// It goes on, or has been killed.
    pub(crate) fn end_stop(&mut self, server: u8, stood_until: Nanos, ran_from: Nanos) {
        if let Some(stop) = self.standing(server) {
            (stop.stood_until, stop.ran_from) = (stood_until, ran_from);
        }
    }

    fn standing(&mut self, server: u8) -> Option<&mut Stop> {
        self.stops.iter_mut().find(|stop| stop.server == server && stop.ran_from == Nanos::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_between_servers_hold_no_answer() {
        let mut timeline = Timeline::default();
        timeline.cut(1, 2, 10);
        assert_eq!(timeline.holds, []);
        timeline.cut(1, 9, 20);
        timeline.cut(9, 2, 30);
        timeline.heal(40);
        timeline.late(3, 50);
        timeline.heal(60);
        let hold = |server, host, from, to| Hold { server, host, from, to };
        let holds =
            [hold(1, 9, 20, 40), hold(2, 9, 30, 40), hold(3, 8, 50, 60), hold(3, 9, 50, 60)];
        assert_eq!(timeline.holds, holds);
    }

    #[test]
    fn a_stop_ends_once() {
        let mut timeline = Timeline::default();
        timeline.stop(1, 10, 11);
        timeline.stop(1, 12, 13);
        timeline.stop(2, 14, 15);
        timeline.end_stop(1, 20, 21);
        timeline.end_stop(1, 22, 23);
        let stop = |server, ran_until, stood_from, stood_until, ran_from| Stop {
            server,
            ran_until,
            stood_from,
            stood_until,
            ran_from,
        };
        assert_eq!(
            timeline.stops,
            [stop(1, 10, 11, 20, 21), stop(2, 14, 15, Nanos::MAX, Nanos::MAX)]
        );
    }
}
