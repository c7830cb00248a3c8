// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timer slack and thread of the event loop of a process's connections.
use alcc_driver::TimerSlack;
use alcc_units::Span;
use std::io;

/// Timers within this time are served together.
pub(crate) const SLACK: TimerSlack = TimerSlack {
    min: Span::from_micros(250),
    per_item: Span::from_micros(60),
    max: Span::from_millis(3),
};
/// Time of the first visit of a connection that has just become active, when there may be something
/// to read.
pub(crate) const FIRST_VISIT: Span = Span::from_millis(1);

/// Starts a thread for a loop.
///
/// # Errors
/// The error of the system if it cannot start a thread.
pub(crate) fn thread(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name("alcc".to_owned());
    alcc_driver::thread(builder, run)
}
