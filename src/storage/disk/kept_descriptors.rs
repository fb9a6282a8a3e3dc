//! Descriptors that are held open for nothing, so that a file of the data directory can be opened
//! where the process has no other left: a log that gets no new file ends the process.

use std::fs::File;
use std::io;

use parking_lot::Mutex;
use rustix::io::Errno;

/// What a new file of the log takes at once: itself, the one before it and their folder, and one
/// for whoever is faster.
const KEPT_MAX: usize = 4;

/// They are the process's, as its limit is.
static KEPT: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Opens something. Where there is no descriptor for it, one that is held goes first.
pub(super) fn with_one<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match open() {
            Err(error) if is_out_of_descriptors(&error) => {
                if KEPT.lock().pop().is_none() {
                    return Err(error);
                }
            }
            opened => {
                hold();
                return opened;
            }
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Holds as many as it may, as far as there are any.
fn hold() {
    let mut kept = KEPT.lock();
    while kept.len() < KEPT_MAX {
        let Ok(file) = File::open("/dev/null") else { return };
        kept.push(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_held_goes_for_each_that_is_wanting() {
        let out = || io::Error::from(Errno::MFILE);
        hold();
        let mut wanting = 2;
        let opened = with_one(|| {
            wanting -= 1;
            if wanting >= 0 { Err(out()) } else { Ok(()) }
        });
        assert!(opened.is_ok());
        // In the end it is told, and not tried for ever.
        let never = with_one(|| Err::<(), _>(out()));
        assert!(is_out_of_descriptors(&never.expect_err("there is none")));
        let other = with_one(|| Err::<(), _>(io::ErrorKind::NotFound.into()));
        assert_eq!(other.expect_err("another one").kind(), io::ErrorKind::NotFound);
    }
}
