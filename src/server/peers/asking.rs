//! Asks every other server again and again what it is.
//!
//! Each in a task of its own: one whose address takes seconds to fail keeps nobody from hearing
//! what the others have become.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::Common;
use super::introduction::{ANSWER_MAX, BETWEEN_ROUNDS, ask};
use super::refusal::Refusal;
use crate::ensemble::founding::{FoundingAnswer, Question};
use crate::ensemble::introduction::{Heard, ProcessId};
use crate::ensemble::standing::{Refuses, Standing};

/// What came of a question: what the server is, and which process of it said so, or how it refused.
type Said = Result<(Standing, ProcessId), Refuses>;

/// The last answers; ends when it is dropped.
pub(super) struct Asking {
    _tasks: JoinSet<()>,
    hears: UnboundedReceiver<(u8, Said)>,
    answers: BTreeMap<u8, (Instant, Standing, ProcessId)>,
    refusals: BTreeMap<u8, (Instant, Refuses)>,
}

impl Asking {
    pub(super) fn all(common: &Arc<Common>) -> Self {
        let (says, hears) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for peer in common.others.to_ask() {
            let (common, says) = (Arc::clone(common), says.clone());
            tasks.spawn(async move {
                loop {
                    let said = match ask(&common, &peer, Question::Standing).await {
                        Ok((FoundingAnswer::Standing(standing), process)) => {
                            Some(Ok((standing, process)))
                        }
                        Ok(_) => None,
                        Err(error) => Refusal::tell(&error).map(Err),
                    };
                    if let Some(said) = said
                        && says.send((peer.server, said)).is_err()
                    {
                        return;
                    }
                    sleep(BETWEEN_ROUNDS).await;
                }
            });
        }
        Self { _tasks: tasks, hears, answers: BTreeMap::new(), refusals: BTreeMap::new() }
    }

    /// What the others have answered lately, when that is enough, or a little later.
    pub(super) async fn round(&mut self, is_enough: impl Fn(&Heard) -> bool) -> Heard {
        let until = Instant::now() + BETWEEN_ROUNDS;
        loop {
            let heard = self.lately();
            if is_enough(&heard) {
                return heard;
            }
            match timeout_at(until, self.hears.recv()).await {
                Ok(Some((server, Ok((standing, process))))) => {
                    self.answers.insert(server, (Instant::now(), standing, process));
                    self.refusals.remove(&server);
                }
                Ok(Some((server, Err(refusal)))) => {
                    self.refusals.insert(server, (Instant::now(), refusal));
                }
                Ok(None) | Err(_) => return heard,
            }
        }
    }

    fn lately(&mut self) -> Heard {
        self.answers.retain(|_, (at, ..)| at.elapsed() < ANSWER_MAX);
        self.refusals.retain(|_, (at, _)| at.elapsed() < ANSWER_MAX);
        let mut heard = Heard::default();
        for (server, (_, standing, process)) in &self.answers {
            heard.standings.insert(*server, standing.clone());
            heard.processes.insert(*server, *process);
        }
        let silent = self.refusals.iter().filter(|its| !self.answers.contains_key(its.0));
        heard.refusals.extend(silent.map(|(server, (_, refusal))| (*server, refusal.clone())));
        heard
    }
}
