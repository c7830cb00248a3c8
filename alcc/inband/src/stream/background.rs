// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams that nobody is in a call of: acknowledgements leave and timers run all the same.
use super::link::Link;
use alcc_driver::{Background, BackgroundTask, Next};
use alcc_units::{Span, Time};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The background leaves a stream alone for this long after a call of it.
pub(super) const MIN_QUIET: Span = Span::from_millis(25);

static BACKGROUND: Background = Background::new("alcc-inband");

/// A stream that may need to be turned when nobody is in a call of it. Without a thread it lives
/// only while somebody is.
pub(super) fn list(link: &Arc<Link>) {
    let (number, link) = (link.number, Arc::downgrade(link));
    BACKGROUND.add(Arc::new(Listed { number, link }), MIN_QUIET);
}

struct Listed {
    number: u64,
    link: Weak<Link>,
}

impl BackgroundTask for Listed {
    fn id(&self) -> u64 {
        self.number
    }

    fn visit(&self, now: Time) -> Next {
        self.link.upgrade().map_or(Next::NEVER, |link| {
            // It rested, and a call has listed it no sooner than now.
            link.listed.store(true, Ordering::Release);
            link.visit(now)
        })
    }

    fn is_gone(&self) -> bool {
        self.link.strong_count() == 0
    }
}
