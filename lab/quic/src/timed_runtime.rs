// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers for algorithms, which the stack's controllers lack.
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
    /// During the poll of a connection: the time of the next poll that its controllers request.
    static WAKEUP: Cell<Option<Wakeup>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Wakeup(Option<Instant>);

/// Requests another poll of the connection that is being polled, at `at`. False without this
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

/// A runtime for endpoints that also polls a connection at the times that an algorithm requests:
/// every epoch of Verus, every tick of Sprout.
///
/// The stack reads a controller's window only when a packet arrives, its own timer expires or the
/// application writes. So an algorithm that releases data every few milliseconds would do so only
/// at the next acknowledgement. With this wrapper around the runtime (tokio's, or another one) it
/// is called in time. The precision is that of the runtime's timers (tokio: 1 ms).
///
/// ```
/// use alcc_quic::TimedRuntime;
/// use std::sync::Arc;
///
/// let runtime: Arc<dyn noq::Runtime> = Arc::new(TimedRuntime::new(noq::TokioRuntime));
/// ```
#[derive(Debug)]
pub struct TimedRuntime<R = TokioRuntime>(Arc<R>);

impl Default for TimedRuntime {
    /// A wrapper around tokio's runtime.
    fn default() -> Self {
        Self::new(TokioRuntime)
    }
}

impl<R: Runtime> TimedRuntime<R> {
    /// A wrapper around another runtime.
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

/// A connection's task with an additional timer.
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

/// Ends the scope even if the task panics.
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
            // A remaining timer would only wake it for nothing.
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
            // It is due already, so the task is polled again, after other tasks.
            self.timer = None;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
