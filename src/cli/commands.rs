//! The commands: their names, usage and options as zkCli has them, and who carries them out.

mod access;
mod ensemble;
mod nodes;
mod quotas;
mod tree;
mod trees;
mod watch;
mod watching;

use std::sync::Arc;

use super::arguments::{Arguments, Choice, Opt, listed};
use super::client::Client;
use super::error::CliError;
use super::events::Events;
use super::print::Output;

/// What a command works with.
pub(super) struct Session<'a> {
    pub(super) client: &'a Client,
    pub(super) events: &'a Arc<Events>,
    pub(super) out: &'a mut Output,
}

/// A command that asks a server.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// What stands after the name.
    pub(super) usage: &'static str,
    options: &'static [Opt],
    choice: Choice,
    /// Whether the usage lists the options.
    lists_options: bool,
    /// Whether what stands after the name is looked at.
    ignores_words: bool,
    /// How many words it needs, and takes.
    words: (usize, usize),
    /// What an older form with one word more is answered with; where it had a watch, that is left.
    old_form: OldForm,
    run: fn(&Arguments, &mut Session<'_>) -> Result<(), CliError>,
}

#[derive(Clone, Copy)]
enum OldForm {
    None,
    Watch(&'static str),
    Ignored(&'static str),
}

impl Command {
    const fn new(
        name: &'static str,
        usage: &'static str,
        run: fn(&Arguments, &mut Session<'_>) -> Result<(), CliError>,
    ) -> Self {
        Self {
            name,
            usage,
            options: &[],
            choice: Choice::Any,
            lists_options: false,
            ignores_words: false,
            words: (0, usize::MAX),
            old_form: OldForm::None,
            run,
        }
    }

    const fn options(mut self, options: &'static [Opt]) -> Self {
        self.options = options;
        self
    }

    const fn at_least(mut self, words: usize) -> Self {
        self.words.0 = words;
        self
    }

    const fn exactly(mut self, words: usize) -> Self {
        self.words = (words, words);
        self
    }

    const fn choice(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    const fn listing_options(mut self) -> Self {
        self.lists_options = true;
        self
    }

    const fn ignoring_words(mut self) -> Self {
        self.ignores_words = true;
        self
    }

    const fn old_form(mut self, form: OldForm) -> Self {
        self.old_form = form;
        self
    }

    /// What wrong usage is answered with.
    fn usage(&self) -> CliError {
        let Self { name, usage, .. } = self;
        let options =
            if self.lists_options { format!("\n{}", listed(self.options)) } else { String::new() };
        CliError::Malformed(format!("{name} {usage}{options}"))
    }

    /// Reads the words after the name and does what they ask for.
    pub(super) fn execute(
        &self,
        words: &[String],
        session: &mut Session<'_>,
    ) -> Result<(), CliError> {
        let parse = |words: &[String]| {
            Arguments::parse(self.options, self.choice, words).map_err(CliError::Malformed)
        };
        let mut arguments = parse(if self.ignores_words { &[] } else { words })?;
        let (min, max) = self.words;
        if !(min..=max).contains(&arguments.words.len()) {
            return Err(self.usage());
        }
        if arguments.words.len() > 1 {
            match self.old_form {
                OldForm::None => {}
                OldForm::Ignored(told) => session.out.error_line(format_args!("{told}")),
                OldForm::Watch(told) => {
                    session.out.error_line(format_args!("{told}"));
                    let mut words = words.to_vec();
                    if let Some(word) = words.get_mut(1) {
                        *word = "-w".to_owned();
                    }
                    arguments = parse(&words)?;
                    if arguments.words.is_empty() {
                        return Err(self.usage());
                    }
                }
            }
        }
        (self.run)(&arguments, session).map_err(|error| match error {
            CliError::Usage => self.usage(),
            error => error,
        })
    }
}

/// The word of that number, which [`Command::execute`] has seen to be there.
fn word(arguments: &Arguments, number: usize) -> &str {
    arguments.words.get(number).map_or("", String::as_str)
}

/// The number after an option, or -1.
fn version(arguments: &Arguments) -> Result<i32, CliError> {
    arguments.value("v").map_or(Ok(-1), |value| {
        value.parse().map_err(|_| {
            CliError::Malformed(format!("-v must be followed by a number, not {value:?}"))
        })
    })
}

const fn flag(name: &'static str, about: &'static str) -> Opt {
    Opt { name, takes_value: false, about }
}

const fn valued(name: &'static str, about: &'static str) -> Opt {
    Opt { name, takes_value: true, about }
}

const LS_OPTIONS: &[Opt] =
    &[flag("?", "help"), flag("s", "stat"), flag("w", "watch"), flag("R", "recurse")];

/// What asks a server, by name.
pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "addWatch",
        "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is \
         PERSISTENT_RECURSIVE",
        watching::add_watch,
    )
    .options(&[valued("m", "")])
    .exactly(1),
    Command::new("addauth", "scheme auth", access::add_auth).at_least(1),
    Command::new("config", "[-c] [-w] [-s]", ensemble::config).options(&[
        flag("s", "stats"),
        flag("w", "watch"),
        flag("c", "client connection string"),
    ]),
    Command::new("create", "[-s] [-e] [-c] [-t ttl] path [data] [acl]", nodes::create)
        .options(&[
            flag("e", "ephemeral"),
            flag("s", "sequential"),
            flag("c", "container"),
            valued("t", "ttl"),
        ])
        .at_least(1),
    Command::new("delete", "[-v version] path", nodes::delete)
        .options(&[valued("v", "version")])
        .at_least(1)
        .old_form(OldForm::Ignored(
            "'delete path [version]' has been deprecated. Please use 'delete [-v version] path' \
             instead.",
        )),
    Command::new("deleteall", "path [-b batch size]", trees::delete_all)
        .options(&[valued("b", "batch size")])
        .at_least(1),
    Command::new("delquota", "[-n|-b|-N|-B] path", quotas::delete)
        .options(&[
            flag("n", "num soft quota"),
            flag("b", "bytes soft quota"),
            flag("N", "num hard quota"),
            flag("B", "bytes hard quota"),
        ])
        .choice(Choice::AtMostOne)
        .at_least(1),
    Command::new("get", "[-s] [-w] [-b] [-x] path", nodes::get)
        .options(&[
            flag("s", "Print znode stats additionally"),
            flag("w", "Watch for changes on the znode"),
            flag("b", "Output data in base64 format"),
            flag("x", "Output data in hexdump format"),
        ])
        .listing_options()
        .at_least(1)
        .old_form(OldForm::Watch(
            "'get path [watch]' has been deprecated. Please use 'get [-s] [-w] path' instead.",
        )),
    Command::new("getAcl", "[-s] path", access::get_acl).options(&[flag("s", "stats")]).at_least(1),
    Command::new("getAllChildrenNumber", "path", nodes::all_children_number).at_least(1),
    Command::new("getEphemerals", "path", nodes::ephemerals),
    Command::new("listquota", "path", quotas::list).at_least(1),
    Command::new("ls", "[-s] [-w] [-R] path", trees::list)
        .options(LS_OPTIONS)
        .at_least(1)
        .old_form(OldForm::Watch(
            "'ls path [watch]' has been deprecated. Please use 'ls [-w] path' instead.",
        )),
    Command::new(
        "reconfig",
        "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | \
         [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
        ensemble::reconfig,
    )
    .options(&[
        flag("s", "stats"),
        valued("v", "required current config version"),
        valued("file", "path of config file to parse for membership"),
        valued("members", "comma-separated list of config strings for non-incremental reconfig"),
        valued("add", "comma-separated list of config strings for new servers"),
        valued("remove", "comma-separated list of server IDs to remove"),
    ]),
    Command::new("removewatches", "path [-c|-d|-a] [-l]", watching::remove_watches)
        .options(&[
            flag("c", "child watcher type"),
            flag("d", "data watcher type"),
            flag("p", "persistent watcher type"),
            flag("r", "persistent recursive watcher type"),
            flag("a", "any watcher type"),
            flag("l", "remove locally when there is no server connection"),
        ])
        .at_least(1),
    Command::new("set", "path data [-s] [-v version] [-b]", nodes::set)
        .options(&[
            flag("s", "Print znode stats additionally"),
            valued("v", "Set with an expected version"),
            flag("b", "Supply data in base64 format"),
        ])
        .listing_options()
        .at_least(2),
    Command::new("setAcl", "[-s] [-v version] [-R] path acl", access::set_acl)
        .options(&[flag("s", "stats"), valued("v", "version"), flag("R", "recursive")])
        .at_least(2),
    Command::new("setquota", "-n|-b|-N|-B val path", quotas::set)
        .options(&[
            valued("n", "num soft quota"),
            valued("b", "bytes soft quota"),
            valued("N", "num hard quota"),
            valued("B", "bytes hard quota"),
        ])
        .choice(Choice::ExactlyOne)
        .at_least(1),
    Command::new("stat", "[-w] path", nodes::stat)
        .options(&[flag("w", "watch")])
        .at_least(1)
        .old_form(OldForm::Watch(
            "'stat path [watch]' has been deprecated. Please use 'stat [-w] path' instead.",
        )),
    Command::new("sync", "path", nodes::sync).at_least(1),
    Command::new("tree", "[path] # draws the tree; not in zkCli", tree::draw),
    Command::new("version", "", ensemble::version).exactly(0),
    Command::new(
        "watch",
        "[-r] path # prints each change until Ctrl-C, with -r also those of all descendants; not \
         in zkCli",
        watch::follow,
    )
    .options(&[flag("r", "all descendants too")])
    .exactly(1),
    Command::new("whoami", "", access::who_am_i).ignoring_words(),
];
