// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The progress bar on standard error, and Ctrl-C.
use crate::failure::Failure;
use crate::output::note;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A progress bar from 0 to 1 with a message. Without a terminal: a line at intervals.
pub struct Bar {
    bar: ProgressBar,
    began: Instant,
    said: Instant,
    /// The part completed by an earlier command.
    stored: f64,
}

/// Interval between two lines without a terminal.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl Bar {
    pub fn new() -> Self {
        Self::since(Instant::now())
    }

    /// The progress of work that began at this time.
    pub fn since(began: Instant) -> Self {
        let bar = ProgressBar::new(1_000);
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}") {
            let shows_blocks = is_utf_8(|name| std::env::var(name).ok());
            let style = if shows_blocks {
                style
            } else {
                style.progress_chars("#-")
            };
            bar.set_style(style);
        }
        Self {
            bar,
            began,
            said: Instant::now(),
            stored: 0.0,
        }
    }

    /// Adds a part that was completed by an earlier command, which takes no time now.
    pub fn skip(&mut self, part: f64) {
        self.stored += part;
    }

    /// Prints a line above the bar, which stays.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| note(format_args!("{line}")));
    }

    pub fn show(&mut self, part: f64, what: &str) {
        if self.bar.is_hidden() {
            if self.said.elapsed() >= MIN_INTERVAL {
                self.said = Instant::now();
                let clock = clock(self.began.elapsed(), part, self.stored);
                note(format_args!("{:3.0} %  {clock}  {what}", 100.0 * part));
            }
            return;
        }
        let clock = clock(self.began.elapsed(), part, self.stored);
        let what = format!("{clock}  {what}");
        if self.bar.message() != what {
            self.bar.set_message(what);
        }
        self.bar.set_position((part * 1_000.0) as u64);
    }
}

/// True if the locale is UTF-8, so that the terminal can show the blocks of a progress bar.
fn is_utf_8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let first = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    first.is_some_and(|locale| {
        let locale = locale.to_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Elapsed time, and the total time at the current speed, which is that of the part beyond `stored`.
fn clock(elapsed: Duration, part: f64, stored: f64) -> String {
    let seconds = |s: f64| match s.round() as u64 {
        s if s < 120 => format!("{s} s"),
        s if s < 7_200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3_600),
    };
    let elapsed = elapsed.as_secs_f64();
    let part = (part.min(1.0) - stored) / (1.0 - stored);
    // Nothing is left, or nothing is known.
    if part.is_nan() || part < 0.01 {
        return seconds(elapsed);
    }
    format!("{} of about {}", seconds(elapsed), seconds(elapsed / part))
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Becomes true at the first Ctrl-C (or SIGTERM), so that the command can clean up. A second one
/// ends the program at once.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The order matters: the first signal finds the flag down, passes the first action, and
        // raises it with the second.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| Failure::usage(format!("watch for Ctrl-C: {e}")))?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_for_a_locale_of_utf_8() {
        let of = |set: &[(&str, &str)]| {
            is_utf_8(|name| {
                let found = set.iter().find(|(n, _)| *n == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(of(&[("LANG", "en_GB.UTF-8")]));
        assert!(of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!of(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!of(&[("LANG", "de_DE@euro")]));
        assert!(!of(&[]));
    }

    #[test]
    fn the_clock_counts_from_the_beginning() {
        for (ms, part, stored, said) in [
            (3_500, 0.58, 0.0, "4 s of about 6 s"),
            (4_000, 1.0, 0.0, "4 s of about 4 s"),
            (2_000, 0.0, 0.0, "2 s"),
            (60_000, 0.01, 0.0, "60 s of about 100 min"),
            (1_800_000, 0.125, 0.0, "30 min of about 4 h"),
            // Nine tenths were there: a twentieth took 50 s, and another is left.
            (50_000, 0.95, 0.9, "50 s of about 100 s"),
            (1_000, 0.9, 0.9, "1 s"),
            (1_000, 1.0, 1.0, "1 s"),
        ] {
            assert_eq!(clock(Duration::from_millis(ms), part, stored), said);
        }
    }
}
