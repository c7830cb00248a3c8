// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers for algorithms: the stack's controllers have none.
use noq::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

thread_local! {
    /// Inside the poll of a connection: when its controllers want the next one.
    static WAKEUP: Cell<Option<Wakeup>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Wakeup(Option<Instant>);

/// Asks for another poll of the connection that is being polled, at `at`. False without this
/// runtime.
pub(crate) fn request_wakeup(at: Option<Instant>) -> bool {
    WAKEUP.with(|wanted| {
        let Some(Wakeup(before)) = wanted.get() else {
            return false;
        };
        wanted.set(Some(Wakeup(before.into_iter().chain(at).min())));
        true
    })
}

/// A runtime for endpoints that also polls a connection when an algorithm wants it. That is every
/// epoch of Verus, every tick of Sprout.
///
/// The stack asks a controller for its window when a packet arrives, its own timer expires or the
/// application writes. It does so at no other time. An algorithm that releases a little every few
/// milliseconds then does so at the next acknowledgement instead. With this around the runtime
/// (tokio's, or another one) it is called in time. The precision is that of the runtime's timers
/// (tokio: 1 ms).
#[derive(Debug)]
pub struct TimedRuntime<R = TokioRuntime>(Arc<R>);

impl Default for TimedRuntime {
    /// Around tokio.
    fn default() -> Self {
        Self::new(TokioRuntime)
    }
}

impl<R: Runtime> TimedRuntime<R> {
    /// Around another runtime.
    pub fn new(inner: R) -> Self {
        Self(Arc::new(inner))
    }
}

impl<R: Runtime> Runtime for TimedRuntime<R> {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.0.new_timer(at)
    }

    #[track_caller]
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(Box::pin(TimedTask {
            future,
            runtime: Arc::clone(&self.0),
            timer: None,
        }));
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        self.0.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.0.now()
    }
}

/// A connection's task with a timer more.
struct TimedTask<R> {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    runtime: Arc<R>,
    timer: Option<(Instant, Pin<Box<dyn AsyncTimer>>)>,
}

impl<R> fmt::Debug for TimedTask<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driven").finish_non_exhaustive()
    }
}

/// Ends the scope also if the task panics.
struct PollScope;

impl PollScope {
    fn begin() -> Self {
        WAKEUP.set(Some(Wakeup(None)));
        Self
    }

    fn wanted(&self) -> Option<Instant> {
        WAKEUP.get().and_then(|Wakeup(at)| at)
    }
}

impl Drop for PollScope {
    fn drop(&mut self) {
        WAKEUP.set(None);
    }
}

impl<R: Runtime> Future for TimedTask<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let turn = PollScope::begin();
        if self.future.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let wanted = turn.wanted();
        drop(turn);
        let Some(at) = wanted else {
            // A timer that is left behind would only wake it for nothing.
            self.timer = None;
            return Poll::Pending;
        };
        let runtime = Arc::clone(&self.runtime);
        let (armed, timer) = (self.timer).get_or_insert_with(|| (at, runtime.new_timer(at)));
        if *armed != at {
            *armed = at;
            timer.as_mut().reset(at);
        }
        if timer.as_mut().poll(cx).is_ready() {
            // It is due already: poll again, after other tasks.
            self.timer = None;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
