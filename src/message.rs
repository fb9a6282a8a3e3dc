//! What is said when something is wrong: each warning, each error and each refusal has an id.
//!
//! Owns the ids and, in one file for each hundred of them, what an operator should know of each:
//! `ferrokeeper explain` and `docs/messages.md` tell it from here. Whoever says something names the
//! id; which one an error has, its own type knows. Imports nothing, so that every layer can name
//! one. The engine says nothing.
//!
//! An id is for ever: a message that is not said any more keeps its row out of the table and its
//! number out of use.

use std::fmt;

/// The id of a message, shown as `FK0510`. There is none without a row in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageId(&'static str);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Message {
    /// What stands in the line.
    pub id: MessageId,
    /// What has happened.
    pub situation: &'static str,
    /// What that is to data and clients.
    pub meaning: &'static str,
    /// What to do now.
    pub remedy: &'static str,
}

/// The messages of one hundred.
#[derive(Debug)]
pub struct Section {
    /// What they are about.
    pub heading: &'static str,
    /// At least one.
    pub messages: &'static [Message],
}

/// Makes a constant and a row of each `ID NAME "situation" "meaning" "remedy"`.
macro_rules! messages {
    ($heading:literal: $($id:ident $name:ident $situation:literal $meaning:literal $remedy:literal)+) => {
        impl super::MessageId {
            $(
                #[doc = $situation]
                pub const $name: Self = Self(stringify!($id));
            )+
        }

        pub(super) const SECTION: super::Section = super::Section {
            heading: $heading,
            messages: &[$(super::Message {
                id: super::MessageId::$name,
                situation: $situation,
                meaning: $meaning,
                remedy: $remedy,
            }),+],
        };
    };
}

mod clients;
mod configuration;
mod data;
mod ensemble;
mod monitoring;
mod process;
mod running;
mod tools;

/// The whole table.
pub static SECTIONS: [Section; 8] = [
    configuration::SECTION,
    data::SECTION,
    running::SECTION,
    ensemble::SECTION,
    clients::SECTION,
    monitoring::SECTION,
    process::SECTION,
    tools::SECTION,
];

/// The row of an id as somebody types or copies it: in any case, also in its brackets; or of its
/// number, with or without the zeros in front.
#[must_use]
pub fn find(word: &str) -> Option<&'static Message> {
    let word = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).unwrap_or(word);
    let number = match word.split_at_checked(2) {
        Some((prefix, number)) if prefix.eq_ignore_ascii_case("FK") => number,
        _ => word,
    };
    let id = format!("FK{number:0>4}");
    let mut all = SECTIONS.iter().flat_map(|section| section.messages);
    all.find(|message| message.id.0 == id)
}

#[cfg(test)]
pub(crate) mod told;

#[cfg(test)]
#[path = "message_test.rs"]
mod message_test;
