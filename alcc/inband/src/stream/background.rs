// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Background service of streams outside calls: it sends acknowledgements and runs timers.
use super::link::Link;
use alcc_driver::{Background, BackgroundTask, Next};
use alcc_units::{Span, Time};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Time after a call during which the background does not visit the stream.
pub(super) const MIN_QUIET: Span = Span::from_millis(25);

static BACKGROUND: Background = Background::new("alcc-inband");

/// Puts a stream on the list of the background thread. If the thread cannot be started, the stream
/// runs only during calls.
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
            // The stream was idle, and a call has put it on the list.
            link.listed.store(true, Ordering::Release);
            link.visit(now)
        })
    }

    fn is_gone(&self) -> bool {
        self.link.strong_count() == 0
    }
}
