//! The four-letter words that are answered.

use std::collections::BTreeSet;

use super::Note;
use super::settings::Settings;
use crate::message::MessageId;

/// The four-letter words that are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FourLetterWords {
    /// Every one, `*`.
    All,
    /// These, and `srvr` in any case.
    Listed(BTreeSet<String>),
}

impl FourLetterWords {
    /// Whether `word` is answered.
    pub fn allows(&self, word: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(words) => words.contains(word),
        }
    }

    fn parse(list: &str) -> Self {
        let words = || list.split(',').map(str::trim).filter(|word| !word.is_empty());
        if words().any(|word| word == "*") {
            return Self::All;
        }
        Self::Listed(words().chain(["srvr"]).map(str::to_owned).collect())
    }
}

pub(super) fn four_letter_words(settings: &Settings, notes: &mut Vec<Note>) -> FourLetterWords {
    const KNOWN: [&str; 18] = [
        "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok",
        "srst", "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
    ];
    let setting = settings.get("4lw.commands.whitelist");
    let mut words = FourLetterWords::parse(setting.map_or("", |setting| &setting.value));
    // What a client asks that looks for a server to write to.
    if let FourLetterWords::Listed(words) = &mut words
        && settings.says_true("readonlymode.enabled")
    {
        words.insert("isro".to_owned());
    }
    let Some(setting) = setting else { return words };
    if let FourLetterWords::Listed(words) = &words {
        for word in words.iter().filter(|word| !KNOWN.contains(&word.as_str())) {
            notes.push(Note::warning(
                MessageId::UNKNOWN_FOUR_LETTER_WORD,
                format!(
                    "{}: 4lw.commands.whitelist has {word:?}, which is not a four-letter word \
                     command",
                    setting.origin
                ),
            ));
        }
    }
    words
}
