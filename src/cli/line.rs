//! A line that was typed in, as words.

/// What Java's `\s` means.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}

/// Splits a line as zkCli does: words end at white space; one that begins with a quote ends at the
/// next such quote, and loses both. A quote inside a word is a character like others, and one that
/// is never closed is passed over.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let trimmed = rest.trim_start_matches(is_space);
        let skipped = rest.len() - trimmed.len();
        let quoted = trimmed
            .chars()
            .next()
            .filter(|first| matches!(first, '"' | '\''))
            .map(|quote| trimmed.get(1..).and_then(|behind| behind.split_once(quote)));
        let behind = match quoted {
            None if trimmed.is_empty() => {
                // White space alone is a word of one character.
                words.extend(rest.chars().last().map(String::from));
                ""
            }
            None => {
                let (word, behind) = word(trimmed);
                words.push(word.to_owned());
                behind
            }
            Some(Some((word, behind))) => {
                words.push(word.to_owned());
                behind
            }
            // The white space before it becomes part of the word.
            Some(None) if skipped > 0 => {
                let start = rest.get(skipped - 1..).unwrap_or_default();
                let (word, behind) = word(trimmed);
                words.push(start.get(..=word.len()).unwrap_or_default().to_owned());
                behind
            }
            Some(None) => {
                rest = trimmed.get(1..).unwrap_or_default();
                continue;
            }
        };
        rest = behind.trim_start_matches(is_space);
    }
    words
}

fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(is_space).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `MyCommandOptions.parseCommand` of zkCli 3.9.5 makes of each line.
    #[test]
    fn lines_are_split_as_zkcli_does() {
        for (line, words) in [
            ("ls /", &["ls", "/"][..]),
            ("  create \t/a   b  ", &["create", "/a", "b"]),
            ("create /a \"two  words\"", &["create", "/a", "two  words"]),
            ("create /a 'it is \"so\"'", &["create", "/a", "it is \"so\""]),
            ("create /a \"\"", &["create", "/a", ""]),
            ("set /a it's", &["set", "/a", "it's"]),
            ("set /a a\"b c\"", &["set", "/a", "a\"b", "c\""]),
            ("set /a \"b\"c", &["set", "/a", "b", "c"]),
            ("set /a \"b", &["set", "/a", "b"]),
            ("  \"b", &[" \"b"]),
            ("'", &[]),
            ("", &[]),
            ("  ", &[" "]),
            ("get /snö-雪", &["get", "/snö-雪"]),
        ] {
            assert_eq!(split(line), words, "{line:?}");
        }
    }
}
