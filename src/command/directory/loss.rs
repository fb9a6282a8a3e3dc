//! What a change of a directory would lose, in words and for scripts.

use serde_json::{Value, json};

use crate::command::words::{Hex, Instant, counted};
use crate::storage::Loss;

pub(super) fn for_scripts(loss: &Loss) -> Value {
    json!({
        "txns": loss.txns,
        "first_zxid": loss.first.map(|(zxid, _)| Hex(zxid)),
        "first_time": loss.first.map(|(_, time)| Instant(time)),
        "last_zxid": loss.last.map(|(zxid, _)| Hex(zxid)),
        "last_time": loss.last.map(|(_, time)| Instant(time)),
        "unreadable_bytes": loss.unreadable_bytes,
    })
}

pub(super) fn for_people(loss: &Loss) -> String {
    let mut text = counted(loss.txns, "readable transaction");
    if let (Some((first, begin)), Some((last, end))) = (loss.first, loss.last) {
        text.push_str(&format!(
            ", {} of {} to {} of {}",
            Hex(first),
            Instant(begin),
            Hex(last),
            Instant(end)
        ));
    }
    if loss.unreadable_bytes > 0 {
        let bytes = counted(loss.unreadable_bytes, "byte");
        text.push_str(&format!(", and {bytes} that cannot be read"));
    }
    text
}
