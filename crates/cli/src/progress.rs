// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user sees and does while a command measures: a bar on standard error, and Ctrl-C.
use crate::failure::Failure;
use crate::output::note;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A bar from 0 to 1 that says what is being done; without a terminal a line now and then.
pub(crate) struct Bar {
    bar: ProgressBar,
    said: Instant,
}

/// Without a terminal: between two lines.
const SELDOM: Duration = Duration::from_secs(10);

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(1_000);
        if let Ok(style) = ProgressStyle::with_template(
            "{bar:32} {percent:>3} %  {elapsed} of about {duration}  {msg}",
        ) {
            bar.set_style(style);
        }
        Self {
            bar,
            said: Instant::now(),
        }
    }

    pub(crate) fn show(&mut self, part: f64, what: &str) {
        if self.bar.is_hidden() {
            if self.said.elapsed() >= SELDOM {
                self.said = Instant::now();
                note(format_args!("{:3.0} %  {what}", 100.0 * part));
            }
            return;
        }
        if self.bar.message() != what {
            self.bar.set_message(what.to_owned());
        }
        self.bar.set_position((part * 1_000.0) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Becomes true at the first Ctrl-C (or SIGTERM), so that the command can clean up; a second one ends the program at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The order matters: the first signal finds the flag down, passes the first action, and raises it with the second.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| Failure::usage(format!("watch for Ctrl-C: {e}")))?;
    }
    Ok(stop)
}
