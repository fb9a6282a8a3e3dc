//! What goes wrong, chosen by a seed.

use std::io;
use std::thread;
use std::time::Duration;

use crate::world::{CLIENTS, SERVERS, World};

/// Numbers that a seed decides.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Less than `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end.max(1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Takes one out of them, while there are any.
    pub(crate) fn take<T>(&mut self, all: &mut Vec<T>) -> Option<T> {
        (!all.is_empty()).then(|| all.swap_remove(self.below(all.len() as u64) as usize))
    }
}

/// One of them; servers are numbered from 1.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Nothing gets to a server or away from it.
    Alone(u8),
    /// The same, of the other servers only.
    WithoutPeers(u8),
    WithoutClients(u8),
    /// A host of clients gets to no server, for longer than a session lasts.
    ClientsAway(u8),
    /// One direction only.
    Deaf(u8),
    Mute(u8),
    /// Two do not hear each other, the third hears both.
    Pair(u8, u8),
    /// One way between two.
    OneWay(u8, u8),
    /// No majority anywhere.
    AllApart,
    /// What a server sends comes late, and some of it never.
    Late {
        server: u8,
        ms: u64,
        lost: u64,
    },
    AllLate {
        ms: u64,
        lost: u64,
    },
    /// SIGKILL.
    Killed(Vec<u8>),
    /// SIGKILL, and it comes back with nothing but its id.
    Emptied(u8),
    /// What a server has is copied while it runs, and the copy is started on a host of its own.
    Copied(u8),
    /// A follower hears no other for a second, and then is the only one that clients find.
    OnlyStale(u8),
    /// SIGSTOP, then SIGCONT.
    Stopped(u8),
    /// The same of a follower, for longer than a read may be old and shorter than a client waits:
    /// what it was asked meanwhile, it answers.
    Asleep {
        server: u8,
        ms: u64,
    },
    /// The small file system of a server; it may be killed and have to start there, too.
    DiskFull {
        restarted: bool,
    },
    /// The wall clock of a server, in seconds.
    ClockStep(u8, i64),
    /// SIGTERM for one after the other.
    RollingRestart,
}

impl Fault {
    /// What kind it is.
    pub(crate) fn name(&self) -> String {
        let text = format!("{self:?}");
        text.chars().take_while(char::is_ascii_alphanumeric).collect()
    }

    /// One of this kind.
    pub(crate) fn named(name: &str, dice: &mut Dice, leader: Option<u8>) -> Self {
        loop {
            let fault = Self::any(dice, leader);
            if fault.name() == name {
                return fault;
            }
        }
    }

    /// Any of them; every second one hits the leader, if it hits a single server.
    pub(crate) fn any(dice: &mut Dice, leader: Option<u8>) -> Self {
        let mut server = dice.one_of(&SERVERS);
        if let (0, Some(leader)) = (dice.below(2), leader) {
            server = leader;
        }
        let others: Vec<u8> = SERVERS.into_iter().filter(|other| *other != server).collect();
        let other = dice.one_of(&others);
        let (ms, lost) = (5 + dice.below(150), dice.below(21));
        let follower = if leader == Some(server) { other } else { server };
        match dice.below(25) {
            0 => Self::Alone(server),
            1 => Self::WithoutPeers(server),
            2 => Self::WithoutClients(server),
            3 => Self::Deaf(server),
            4 => Self::Mute(server),
            5 => Self::Pair(server, other),
            6 => Self::OneWay(server, other),
            7 => Self::AllApart,
            8 => Self::Late { server, ms, lost },
            9 => Self::AllLate { ms: ms / 3, lost: lost / 2 },
            10 => Self::Killed(vec![server]),
            11 => Self::Killed(vec![server, other]),
            12 => Self::Killed(SERVERS.to_vec()),
            13 => Self::Stopped(server),
            14 => Self::DiskFull { restarted: dice.below(2) == 0 },
            15 => {
                let seconds = dice.one_of(&[1_i64, 30, 3_600]);
                Self::ClockStep(server, if dice.below(2) == 0 { seconds } else { -seconds })
            }
            16 => Self::ClientsAway(dice.one_of(&CLIENTS)),
            17 => Self::Emptied(server),
            18 | 19 => Self::OnlyStale(follower),
            20 | 21 => Self::Copied(server),
            // Of a session of 6 s, kazoo gives up after 3.2 s at the earliest.
            22 | 23 => Self::Asleep { server: follower, ms: 2_700 + dice.below(400) },
            _ => Self::RollingRestart,
        }
    }

    /// Whether something else may happen at the same time: what an emptied server had must be with
    /// both others, and a server that was copied must be heard by a majority.
    pub(crate) fn goes_with_others(&self) -> bool {
        !matches!(self, Self::Emptied(_) | Self::Copied(_))
    }

    /// The least time that it needs to have its effect.
    pub(crate) fn least(&self) -> Duration {
        match self {
            Self::ClientsAway(_) => Duration::from_secs(9),
            Self::Copied(_) => Duration::from_secs(4),
            _ => Duration::ZERO,
        }
    }

    /// The time that it has to last, whatever else happens.
    pub(crate) fn exactly(&self) -> Option<Duration> {
        match self {
            Self::Asleep { ms, .. } => Some(Duration::from_millis(*ms)),
            _ => None,
        }
    }

    pub(crate) fn begin(&self, world: &mut World) -> io::Result<()> {
        let cut = |world: &mut World, from: &[u8], to: &[u8]| {
            for from in from {
                to.iter().filter(|to| *to != from).for_each(|to| world.cut(*from, *to));
            }
        };
        let all: Vec<u8> = SERVERS.into_iter().chain(CLIENTS).collect();
        match self {
            Self::Alone(server) => {
                cut(world, &[*server], &all);
                cut(world, &all, &[*server]);
            }
            Self::WithoutPeers(server) => {
                cut(world, &[*server], &SERVERS);
                cut(world, &SERVERS, &[*server]);
            }
            Self::WithoutClients(server) => {
                cut(world, &[*server], &CLIENTS);
                cut(world, &CLIENTS, &[*server]);
            }
            Self::ClientsAway(host) => {
                cut(world, &[*host], &SERVERS);
                cut(world, &SERVERS, &[*host]);
            }
            Self::Deaf(server) => cut(world, &SERVERS, &[*server]),
            Self::Mute(server) => cut(world, &[*server], &SERVERS),
            Self::Pair(one, other) => {
                cut(world, &[*one], &[*other]);
                cut(world, &[*other], &[*one]);
            }
            Self::OneWay(from, to) => cut(world, &[*from], &[*to]),
            Self::AllApart => cut(world, &SERVERS, &SERVERS),
            Self::Late { server, ms, lost } => world.delay(*server, *ms, *lost),
            Self::AllLate { ms, lost } => {
                SERVERS.into_iter().for_each(|server| world.delay(server, *ms, *lost));
            }
            Self::Killed(servers) => servers.iter().try_for_each(|server| world.kill(*server))?,
            Self::Emptied(server) => world.empty(*server)?,
            Self::Copied(server) => world.start_copy(*server)?,
            Self::OnlyStale(server) => {
                cut(world, &SERVERS, &[*server]);
                // It serves for as long as it may think that it follows.
                thread::sleep(Duration::from_secs(1));
                let others = SERVERS.into_iter().filter(|other| other != server);
                others.into_iter().try_for_each(|other| world.kill(other))?;
            }
            Self::Stopped(server) | Self::Asleep { server, .. } => world.stop(*server),
            Self::DiskFull { restarted } => {
                world.fill_disk()?;
                if *restarted {
                    world.kill_on_full_disk()?;
                }
            }
            Self::ClockStep(server, seconds) => world.step_clock(*server, *seconds)?,
            Self::RollingRestart => {
                for server in SERVERS {
                    world.restart(server)?;
                }
            }
        }
        Ok(())
    }

    /// What [`World::heal`] does not undo.
    pub(crate) fn end(&self, world: &mut World) -> io::Result<()> {
        match self {
            Self::Stopped(server) | Self::Asleep { server, .. } => world.wake(*server),
            Self::DiskFull { .. } => world.empty_disk()?,
            Self::Copied(_) => world.end_copy()?,
            _ => (),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_that_is_needed_can_be_had() {
        let mut dice = Dice::new(7);
        let mut needed = crate::NEEDED.to_vec();
        while let Some(name) = dice.take(&mut needed) {
            assert_eq!(Fault::named(name, &mut dice, Some(1)).name(), name);
        }
        assert_eq!(needed.len(), 0);
    }
}
