//! What is handed over, in the order in which it came: events, and the answers between them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use crate::cli::event::Event;

/// The body of an answer, or an error code.
pub(in crate::cli) type Reply = Result<Vec<u8>, i32>;

/// Takes events, on the thread that hands them over.
pub(in crate::cli) type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

pub(super) enum Delivery {
    Event(Event),
    Reply(Sender<Reply>, Reply),
}

/// Runs until nobody can send any more.
pub(super) fn deliver(deliveries: &Receiver<Delivery>, sink: &(dyn Fn(Event) + Send + Sync)) {
    while let Ok(delivery) = deliveries.recv() {
        match delivery {
            Delivery::Event(event) => sink(event),
            // Nobody may be waiting any more.
            Delivery::Reply(answer, reply) => drop(answer.send(reply)),
        }
    }
}
