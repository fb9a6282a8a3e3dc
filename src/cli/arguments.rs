//! The options and arguments of a command, read by the rules of the library that zkCli uses
//! (commons-cli).

/// An option of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opt {
    /// Without the hyphen; a few have several letters.
    pub(super) name: &'static str,
    pub(super) takes_value: bool,
    /// For the usage of the few commands that list their options.
    pub(super) about: &'static str,
}

/// Whether the options of a command exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Any,
    AtMostOne,
    ExactlyOne,
}

/// What stood after the command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    options: Vec<(&'static str, Option<String>)>,
    /// Everything that is no option, without the command itself.
    pub(super) words: Vec<String>,
}

impl Arguments {
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| *option == name)
    }

    /// The value of the option's first appearance.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let (_, value) = self.options.iter().find(|(option, _)| *option == name)?;
        value.as_deref()
    }

    /// Reads the words after a command. An error is the text that zkCli prints, Java's class and
    /// all: scripts look for it.
    pub(super) fn parse(
        options: &'static [Opt],
        choice: Choice,
        words: &[String],
    ) -> Result<Self, String> {
        let mut reading = Reading { options, choice, found: Self::default(), wants_value: None };
        let mut words = words.iter();
        for word in words.by_ref() {
            if word == "--" {
                break;
            }
            reading.word(word)?;
        }
        reading.no_value_missing()?;
        let mut found = reading.found;
        found.words.extend(words.cloned());
        if choice == Choice::ExactlyOne && found.options.is_empty() {
            let all: Vec<String> =
                options.iter().map(|option| format!("-{} {}", option.name, option.about)).collect();
            return Err(format!(
                "org.apache.commons.cli.MissingOptionException: Missing required option: [{}]",
                all.join(", ")
            ));
        }
        Ok(found)
    }
}

struct Reading {
    options: &'static [Opt],
    choice: Choice,
    found: Arguments,
    /// The option that the next word is the value of.
    wants_value: Option<&'static Opt>,
}

impl Reading {
    fn word(&mut self, word: &str) -> Result<(), String> {
        if let Some(option) = self.wants_value
            && self.may_be_value(word)
        {
            self.found.options.push((option.name, Some(unquoted(word).to_owned())));
            self.wants_value = None;
            return Ok(());
        }
        let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
            self.no_value_missing()?;
            self.found.words.push(word.to_owned());
            return Ok(());
        };
        if name.starts_with('-') {
            return Err(unrecognized(word));
        }
        match name.split_once('=') {
            None => match self.option(name) {
                Some(option) => self.take(option),
                None => self.several(word, name),
            },
            Some((name, value)) => match self.option(name) {
                Some(option) if option.takes_value && name.chars().count() == 1 => {
                    self.take(option)?;
                    self.wants_value = None;
                    self.found.options.push((option.name, Some(value.to_owned())));
                    Ok(())
                }
                _ => Err(unrecognized(word)),
            },
        }
    }

    /// `-sw`, or `-v3`.
    fn several(&mut self, word: &str, letters: &str) -> Result<(), String> {
        let mut rest = letters;
        while let Some(letter) = rest.chars().next() {
            let (name, behind) = rest.split_at(letter.len_utf8());
            let option = self.option(name).ok_or_else(|| unrecognized(word))?;
            self.take(option)?;
            if self.wants_value.is_some() && !behind.is_empty() {
                self.wants_value = None;
                self.found.options.push((option.name, Some(behind.to_owned())));
                break;
            }
            rest = behind;
        }
        Ok(())
    }

    fn take(&mut self, option: &'static Opt) -> Result<(), String> {
        self.no_value_missing()?;
        let before = self.found.options.iter().find(|(name, _)| *name != option.name);
        if let (Choice::AtMostOne | Choice::ExactlyOne, Some((before, _))) = (self.choice, before) {
            return Err(format!(
                "org.apache.commons.cli.AlreadySelectedException: The option '{}' was specified \
                 but an option from this group has already been selected: '{before}'",
                option.name
            ));
        }
        if option.takes_value {
            self.wants_value = Some(option);
        } else {
            self.found.options.push((option.name, None));
        }
        Ok(())
    }

    fn no_value_missing(&self) -> Result<(), String> {
        match self.wants_value {
            None => Ok(()),
            Some(option) => Err(format!(
                "org.apache.commons.cli.MissingArgumentException: Missing argument for option: {}",
                option.name
            )),
        }
    }

    fn option(&self, name: &str) -> Option<&'static Opt> {
        self.options.iter().find(|option| option.name == name)
    }

    /// A word with a hyphen is a value if it is a number, or nothing that begins as an option does.
    fn may_be_value(&self, word: &str) -> bool {
        let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
            return true;
        };
        if word.parse::<f64>().is_ok() {
            return true;
        }
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        let first = name.chars().next().map_or(0, char::len_utf8);
        self.option(name).is_none() && self.option(name.get(..first).unwrap_or_default()).is_none()
    }
}

fn unrecognized(word: &str) -> String {
    format!("org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: {word}")
}

/// Without the quotes around it, unless there are others inside.
fn unquoted(word: &str) -> &str {
    let inner = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(word)
}

/// The options, one a line, as a usage shows them.
pub(super) fn listed(options: &[Opt]) -> String {
    let mut options: Vec<&Opt> = options.iter().collect();
    options.sort_by_key(|option| option.name.to_lowercase());
    let shown = |option: &Opt| {
        if option.takes_value {
            format!(" -{} <arg>", option.name)
        } else {
            format!(" -{}", option.name)
        }
    };
    let width = options.iter().map(|option| shown(option).len()).max().unwrap_or_default();
    let line = |option: &&Opt| format!("{:width$}   {}\n", shown(option), option.about);
    options.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &[Opt] = &[
        Opt { name: "s", takes_value: false, about: "stat" },
        Opt { name: "v", takes_value: true, about: "version" },
        Opt { name: "add", takes_value: true, about: "more" },
    ];

    fn parse(choice: Choice, line: &str) -> Result<Arguments, String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        Arguments::parse(SOME, choice, &words)
    }

    /// What commons-cli makes of these.
    #[test]
    fn options_stand_anywhere() {
        for (line, version, stat, words) in [
            ("/a b", None, false, &["/a", "b"][..]),
            ("/a -s b -v 3", Some("3"), true, &["/a", "b"]),
            ("-sv3 /a", Some("3"), true, &["/a"]),
            ("-v=3 /a", Some("3"), false, &["/a"]),
            ("-v -1 /a", Some("-1"), false, &["/a"]),
            ("-v -x /a", Some("-x"), false, &["/a"]),
            ("-v 1 -v 2 /a", Some("1"), false, &["/a"]),
            ("-v \"7\" -", Some("7"), false, &["-"]),
            ("-- -s", None, false, &["-s"]),
        ] {
            let found = parse(Choice::Any, line).expect("arguments");
            assert_eq!((found.value("v"), found.has("s")), (version, stat), "{line}");
            assert_eq!(found.words, words, "{line}");
        }
        assert_eq!(parse(Choice::Any, "-add x").expect("arguments").value("add"), Some("x"));
    }

    #[test]
    fn what_is_wrong_is_told_in_its_words() {
        for (choice, line, wrong) in [
            (Choice::Any, "-q /a", "UnrecognizedOptionException: Unrecognized option: -q"),
            (Choice::Any, "-sq /a", "UnrecognizedOptionException: Unrecognized option: -sq"),
            (Choice::Any, "--v 3", "UnrecognizedOptionException: Unrecognized option: --v"),
            (Choice::Any, "-s=3", "UnrecognizedOptionException: Unrecognized option: -s=3"),
            (Choice::Any, "/a -v", "MissingArgumentException: Missing argument for option: v"),
            (Choice::Any, "-v -s", "MissingArgumentException: Missing argument for option: v"),
            (
                Choice::AtMostOne,
                "-s -v 1",
                "AlreadySelectedException: The option 'v' was specified but an option from this \
                 group has already been selected: 's'",
            ),
            (
                Choice::ExactlyOne,
                "/a",
                "MissingOptionException: Missing required option: [-s stat, -v version, -add more]",
            ),
        ] {
            let wrong = format!("org.apache.commons.cli.{wrong}");
            assert_eq!(parse(choice, line), Err(wrong), "{line}");
        }
    }

    #[test]
    fn a_usage_lists_options_by_name() {
        assert_eq!(listed(SOME), " -add <arg>   more\n -s           stat\n -v <arg>     version\n");
    }
}
