// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread for all streams of a process that nobody is in a call of: acknowledgements leave and timers run all the same.
use super::link::{Link, Visit};
use alcc_sys::Bell;
use alcc_units::{Span, Time};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A stream of which somebody was in a call lately is left alone for so long.
pub(super) const GRACE: Span = Span::from_millis(25);
/// Events taken at once.
const EVENTS: usize = 64;

struct Background {
    inbox: Mutex<Vec<Weak<Link>>>,
    epoll: OwnedFd,
    bell: Bell,
}

static BACKGROUND: OnceLock<Option<Background>> = OnceLock::new();

/// A stream that may need to be turned when nobody is in a call of it.
pub(super) fn list(link: &Arc<Link>) {
    // Without a thread (no descriptors, no memory) a stream lives only while somebody is in a call.
    let Some(background) = BACKGROUND.get_or_init(start) else {
        return;
    };
    let mut inbox = background
        .inbox
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    inbox.push(Arc::downgrade(link));
    drop(inbox);
    background.bell.ring();
}

fn start() -> Option<Background> {
    // SAFETY: no pointers; the descriptor is new and nobody else's.
    let epoll = unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        (epoll >= 0).then(|| OwnedFd::from_raw_fd(epoll))
    }?;
    let bell = Bell::new()?;
    watch(&epoll, bell.as_raw_fd(), 0, libc::EPOLLIN as u32);
    let builder = std::thread::Builder::new().name("alcc-inband".to_owned());
    alcc_sys::spawn(builder, || {
        if let Some(background) = BACKGROUND.wait() {
            run(background);
        }
    })
    .ok()?;
    Some(Background {
        inbox: Mutex::new(Vec::new()),
        epoll,
        bell,
    })
}

/// Wakes the thread when the descriptor is readable.
fn watch(epoll: &OwnedFd, fd: RawFd, key: u64, events: u32) {
    let mut event = libc::epoll_event { events, u64: key };
    let epoll = epoll.as_raw_fd();
    // SAFETY: the event outlives the calls. A descriptor that is watched already gets the new key.
    unsafe {
        if libc::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, &raw mut event) < 0 {
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event);
        }
    }
}

fn run(background: &Background) {
    let mut due: BTreeMap<(Time, u64), Weak<Link>> = BTreeMap::new();
    let mut resting: BTreeMap<u64, Weak<Link>> = BTreeMap::new();
    let once = (libc::EPOLLIN | libc::EPOLLONESHOT | libc::EPOLLRDHUP) as u32;
    loop {
        let now = alcc_sys::now();
        let mut inbox = background
            .inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for weak in inbox.drain(..) {
            if let Some(link) = weak.upgrade() {
                resting.remove(&link.number);
                due.insert((now + GRACE, link.number), weak);
            }
        }
        drop(inbox);
        while let Some(entry) = due.first_entry().filter(|e| e.key().0 <= now) {
            let ((_, key), weak) = entry.remove_entry();
            let Some(link) = weak.upgrade() else { continue };
            match link.visit(now) {
                Visit::At(at) => {
                    due.insert((at.max(now + Span::from_micros(200)), key), weak);
                }
                Visit::Readable => {
                    resting.insert(key, weak);
                    watch(&background.epoll, link.fd, key, once);
                }
                Visit::Never => {}
            }
        }
        let left = due.first_key_value().map_or(-1, |((at, _), _)| {
            at.since(now).as_nanos().div_ceil(1_000_000) as i32
        });
        // SAFETY: zero is a valid event, the array has the length given.
        let mut events: [libc::epoll_event; EVENTS] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let n = unsafe {
            libc::epoll_wait(
                background.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as i32,
                left,
            )
        };
        let now = alcc_sys::now();
        for event in events.iter().take(usize::try_from(n).unwrap_or(0)) {
            let key = event.u64;
            if key == 0 {
                background.bell.silence();
            } else if let Some(weak) = resting.remove(&key)
                && let Some(link) = weak.upgrade()
                && !link.listed.swap(true, Ordering::AcqRel)
            {
                // Else a call has listed it in the meantime: it is in the inbox.
                due.insert((now, key), weak);
            }
        }
        // Those that were dropped while they rested.
        if resting.len() > 64 && resting.len().is_multiple_of(64) {
            resting.retain(|_, weak| weak.strong_count() > 0);
        }
    }
}
