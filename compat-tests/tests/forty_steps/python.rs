//! Clients in Python: scripts of their own, which ask for restarts by lines that begin with `@`.

use compat_tests::{Program, cache, python, repository};

use crate::stage::Stage;

pub(crate) fn kazoo(stage: &mut Stage) -> Vec<String> {
    let script = repository().join("compat-tests/clients/kazoo_steps.py");
    run(&[python().display().to_string(), script.display().to_string()], stage)
}

/// zk-shell has an environment of its own, which `scripts/test --all` makes.
pub(crate) fn zk_shell(stage: &mut Stage) -> Vec<String> {
    let python = cache().join("zk-shell/bin/python");
    let folder = repository().join("compat-tests/clients/zk_shell");
    let words = [python, folder.join("run.py"), folder.join("commands.steps")];
    run(&words.map(|word| word.display().to_string()), stage)
}

fn run(words: &[String], stage: &mut Stage) -> Vec<String> {
    let words = [words, &[stage.server.host_port()]].concat();
    let mut client = Program::start(&words, &[("PYTHONUNBUFFERED", "1")]);
    let mut lines = Vec::new();
    while let Some(line) = client.next_line() {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "@gone" => lines.push(stage.gone(rest)),
            "@there" => lines.push(stage.there(rest)),
            "@restart" => stage.restart(&client, rest),
            "@kill" => stage.kill(),
            "@words" => lines.extend(stage.words()),
            _ => {
                lines.push(line);
                continue;
            }
        }
        client.say("done");
    }
    let (succeeded, _) = client.finish();
    assert!(succeeded, "the script failed:\n{}", lines.join("\n"));
    lines
}
