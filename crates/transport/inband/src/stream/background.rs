// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams that nobody is in a call of: acknowledgements leave and timers run all the same.
use super::link::Link;
use alcc_driver::{Background, Cared, Next};
use alcc_units::{Span, Time};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A stream of which somebody was in a call lately is left alone for so long.
pub(super) const GRACE: Span = Span::from_millis(25);

static BACKGROUND: Background = Background::new("alcc-inband");

/// A stream that may need to be turned when nobody is in a call of it. Without a thread it lives
/// only while somebody is.
pub(super) fn list(link: &Arc<Link>) {
    let (number, link) = (link.number, Arc::downgrade(link));
    BACKGROUND.care(Arc::new(Listed { number, link }), GRACE);
}

struct Listed {
    number: u64,
    link: Weak<Link>,
}

impl Cared for Listed {
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
