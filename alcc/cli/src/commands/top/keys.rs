// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The keys of a terminal on which a table is drawn: q ends it.
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, stdin};
use std::os::fd::AsFd;
use std::time::Duration;

/// Until it is dropped, the terminal passes on keys at once and does not echo them.
pub(super) struct Keys(Option<Termios>);

impl Keys {
    /// Reads no keys if no table is drawn, or if standard input is not a terminal of this process.
    pub(super) fn of_terminal(draw: bool) -> Self {
        let is_ours = || {
            // A process in the background that touches its terminal is stopped.
            let foreground = nix::unistd::tcgetpgrp(stdin());
            stdin().is_terminal() && foreground.is_ok_and(|group| group == nix::unistd::getpgrp())
        };
        if !draw || !is_ours() {
            return Self(None);
        }
        let Ok(before) = tcgetattr(stdin()) else {
            return Self(None);
        };
        let mut now = before.clone();
        now.local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO);
        let set = tcsetattr(stdin(), SetArg::TCSANOW, &now);
        Self(set.is_ok().then_some(before))
    }

    /// Waits at most `time` for a key. True if the key ends the table.
    pub(super) fn end_within(&self, time: Duration) -> bool {
        let input = stdin();
        let until = std::time::Instant::now() + time;
        while let Some(remaining) = until.checked_duration_since(std::time::Instant::now()) {
            if self.0.is_none() {
                std::thread::sleep(remaining);
                return false;
            }
            let mut ready = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(remaining).unwrap_or(PollTimeout::ZERO);
            if !poll(&mut ready, timeout).is_ok_and(|n| n > 0) {
                return false;
            }
            let mut keys = [0; 16];
            match nix::unistd::read(input.as_fd(), &mut keys) {
                Ok(n) if n > 0 && !keys[..n].contains(&b'q') => {}
                // The terminal has gone, too.
                _ => return true,
            }
        }
        false
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // Without a terminal there is nothing to give back.
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, before);
        }
    }
}
