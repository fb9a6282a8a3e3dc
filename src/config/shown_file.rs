//! The zoo.cfg that was read, and its text as it may be shown: without passwords.

use std::path::{Path, PathBuf};

/// The zoo.cfg that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooCfg {
    /// As it was named.
    pub path: PathBuf,
    /// What stands in it, without its secrets.
    pub shown: String,
}

impl ZooCfg {
    pub(super) fn new(path: &Path, bytes: &[u8]) -> Self {
        Self { path: path.to_owned(), shown: shown(bytes) }
    }
}

/// The ends of names whose values nobody may see.
const SECRETS: [&str; 2] = ["password", "superdigest"];

/// The file with the values of secrets left out, also those of lines that a comment hides.
fn shown(bytes: &[u8]) -> String {
    let mut shown = String::new();
    let mut hides = false;
    for line in String::from_utf8_lossy(bytes).split_inclusive('\n') {
        let bare = line.trim_end_matches(['\r', '\n']);
        let goes_on = bare.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1;
        if hides {
            // The rest of a value that goes over several lines.
            hides = goes_on;
            continue;
        }
        let text = bare.trim_start_matches(|c: char| c.is_whitespace() || c == '#' || c == '!');
        let name = text.split(['=', ':', ' ', '\t']).next().unwrap_or_default();
        let lower = name.to_lowercase();
        if SECRETS.iter().any(|secret| lower.ends_with(secret)) {
            let ahead = bare.len() - text.len() + name.len();
            shown.push_str(bare.get(..ahead).unwrap_or_default());
            shown.push_str("=***\n");
            hides = goes_on;
        } else {
            shown.push_str(line);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let file = "dataDir=/d\r\n  ssl.keyStore.password = pass1\n#ssl.trustStore.password:pass2\n\
                    ssl.quorum.keyStore.password pass3\\\n  pass4\n\
                    DigestAuthenticationProvider.superDigest=u:pass5\n\
                    ssl.keyStore.passwordPath=/p\nx=1";
        let text = shown(file.as_bytes());
        assert_eq!(
            text,
            "dataDir=/d\r\n  ssl.keyStore.password=***\n#ssl.trustStore.password=***\n\
             ssl.quorum.keyStore.password=***\nDigestAuthenticationProvider.superDigest=***\n\
             ssl.keyStore.passwordPath=/p\nx=1"
        );
    }
}
