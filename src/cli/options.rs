//! What stands ahead of the command: servers, timeout, and how to show what comes back.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;

/// As `ferrokeeper cli --help` prints it.
pub(super) const USAGE: &str = "\
Usage: ferrokeeper cli [OPTIONS] [COMMAND [ARGUMENTS]]

Without a command, it reads commands line by line. `ferrokeeper cli help` lists them.

Options:
  -server, --server HOST:PORT,.../CHROOT  Servers, and the subtree to use as the root [localhost:2181]
  -timeout, --timeout MS                  Session timeout to request [30000]
  -r                                      Accept a read-only server, one without a quorum
  -waitforconnection                      Wait for a connection before the command
  --auth SCHEME:TOKEN                     Authenticate, as addauth does; repeatable. Other users of this machine can see the token
  --auth-file FILE                        The same from a file, one SCHEME:TOKEN per line; - is standard input
  --json                                  Print one JSON document per command
  -h, --help                              Print help
";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) server: String,
    pub(super) timeout: Duration,
    pub(super) read_only: bool,
    pub(super) wait: bool,
    pub(super) json: bool,
    pub(super) identities: Vec<(String, String)>,
    /// The command and its words; none to read lines.
    pub(super) command: Vec<String>,
}

/// What the words ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Run(Options),
    Help,
}

pub(super) fn parse(words: &[String]) -> Result<Purpose, String> {
    let mut options = Options {
        server: "localhost:2181".to_owned(),
        timeout: Duration::from_secs(30),
        read_only: false,
        wait: false,
        json: false,
        identities: Vec::new(),
        command: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value =
            || words.next().cloned().ok_or_else(|| format!("no argument found for option {word}"));
        match word.as_str() {
            "-server" | "--server" => options.server = value()?,
            "-timeout" | "--timeout" => {
                let ms = value()?;
                // As wide as the protocol has it.
                let number = ms.parse::<u32>().ok().filter(|ms| i32::try_from(*ms).is_ok());
                let number =
                    number.ok_or_else(|| format!("{word} takes milliseconds, not {ms:?}"))?;
                options.timeout = Duration::from_millis(number.into());
            }
            "-r" => options.read_only = true,
            "-waitforconnection" | "--waitforconnection" => options.wait = true,
            "--json" => options.json = true,
            "--auth" => {
                let identity = identity(&value()?);
                options.identities.push(
                    identity.ok_or("--auth takes SCHEME:TOKEN, such as digest:user:password")?,
                );
            }
            "--auth-file" => options.identities.extend(identities_of(&value()?)?),
            "-client-configuration" | "--client-configuration" => {
                let file = value()?;
                return Err(format!(
                    "{word} {file} is how ZooKeeper configures TLS and SASL, which this client \
                     does not support; --auth supports digest and ip"
                ));
            }
            "-h" | "-help" | "--help" => return Ok(Purpose::Help),
            option if option.starts_with('-') => {
                return Err(format!(
                    "there is no option {option}; `ferrokeeper cli --help` lists them"
                ));
            }
            _ => {
                options.command.push(word.clone());
                options.command.extend(words.by_ref().cloned());
            }
        }
    }
    // After the command no word can mean anything else: zkCli refuses what begins with two
    // hyphens.
    let end = options.command.iter().position(|word| word == "--").unwrap_or(options.command.len());
    let behind = options.command.split_off(end);
    let before = options.command.len();
    options.command.retain(|word| word != "--json");
    options.json |= options.command.len() < before;
    options.command.extend(behind);
    Ok(Purpose::Run(options))
}

fn identity(text: &str) -> Option<(String, String)> {
    let (scheme, token) = text.split_once(':')?;
    Some((scheme.to_owned(), token.to_owned()))
}

/// Bytes of a file of identities that are read.
const IDENTITIES_MAX: u64 = 1 << 20;

/// Identities from where nobody else sees them; empty lines and those that begin with # are none.
fn identities_of(file: &str) -> Result<Vec<(String, String)>, String> {
    let mut text = String::new();
    let read = match file {
        "-" => io::stdin().take(IDENTITIES_MAX).read_to_string(&mut text),
        _ => File::open(file).and_then(|it| it.take(IDENTITIES_MAX).read_to_string(&mut text)),
    };
    read.map_err(|error| format!("--auth-file {file} cannot be read: {error}"))?;
    let lines =
        text.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(line, number)| {
            // What stands there is not repeated: it is secret.
            identity(line).ok_or_else(|| {
                format!(
                    "--auth-file {file}: line {number} is not SCHEME:TOKEN, such as \
                         digest:user:password"
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        match parse(&words)? {
            Purpose::Run(options) => Ok(options),
            Purpose::Help => Err("help".to_owned()),
        }
    }

    #[test]
    fn options_stand_ahead_of_the_command() {
        let options = parsed("-server a:1/x -timeout 5 -r ls -r /").expect("options");
        assert_eq!((options.server.as_str(), options.timeout), ("a:1/x", Duration::from_millis(5)));
        assert!(options.read_only && !options.wait && !options.json);
        assert_eq!(options.command, ["ls", "-r", "/"]);
        assert_eq!(parsed("").expect("options").command, [""; 0]);
        let options = parsed("--auth digest:u:p --json get /").expect("options");
        assert_eq!(options.identities, [("digest".to_owned(), "u:p".to_owned())]);
        assert!(options.json);
        let options = parsed("get / --json").expect("options");
        assert_eq!((options.json, options.command.len()), (true, 2));
        assert!(!parsed("create / -- --json").expect("options").json);
    }

    #[test]
    fn identities_come_from_a_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let option = format!("--auth-file {} ls /", file.path().display());
        std::fs::write(&file, "# who\ndigest:u:p w\n\nip:\r\n").expect("it is written");
        let expected =
            [("digest".to_owned(), "u:p w".to_owned()), ("ip".to_owned(), String::new())];
        assert_eq!(parsed(&option).expect("options").identities, expected);
        std::fs::write(&file, "ip:\nsecret\n").expect("it is written");
        let told = parsed(&option).expect_err("it has no colon");
        assert!(told.contains("line 2 is not SCHEME:TOKEN") && !told.contains("secret"), "{told}");
        let told = parsed("--auth-file /nowhere/at/all ls /").expect_err("it is not there");
        assert!(told.starts_with("--auth-file /nowhere/at/all cannot be read: "), "{told}");
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, why) in [
            ("-server", "no argument found for option -server"),
            ("-timeout soon", "-timeout takes milliseconds, not \"soon\""),
            ("-q ls /", "there is no option -q"),
            (
                "-client-configuration f ls /",
                "-client-configuration f is how ZooKeeper configures TLS",
            ),
            ("--auth u", "--auth takes SCHEME:TOKEN"),
            ("--help", "help"),
        ] {
            let told = parsed(line).expect_err(line);
            assert!(told.starts_with(why), "{line}: {told}");
        }
    }
}
