// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams in tokio's tasks, with tokio's own streams as peers.
use super::{PATIENCE, bytes, pair, read_all, runtime};
use alcc_socket::own::{Options, Runtime, Stream};
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

fn tokio(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder
        .worker_threads(threads.max(1))
        .enable_all()
        .build()
        .unwrap()
}

/// So small that a writer has to wait.
fn small() -> Options {
    Options {
        queue: Some(20_000),
        ..Options::default()
    }
}

/// A stream, and a peer in the same runtime of tokio. The socket of the stream waits or not.
async fn both(runtime: &Arc<Runtime>, waits: bool) -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap());
    let (peer, accepted) = (peer.await.unwrap(), listener.accept().await.unwrap());
    let socket = accepted.0.into_std().unwrap();
    socket.set_nonblocking(!waits).unwrap();
    (Stream::new(runtime, socket.into(), &small()).unwrap(), peer)
}

#[test]
fn a_hundred_streams_at_once_get_back_what_they_send() {
    const STREAMS: usize = 100;
    const EACH: usize = 400_000;
    for threads in [0, 2] {
        let runtime = runtime("fixed:window=1");
        let tokio = tokio(threads);
        tokio.block_on(async {
            let mut all = Vec::new();
            for i in 0..STREAMS {
                let (stream, mut peer) = both(&runtime, i % 2 == 0).await;
                tokio.spawn(async move {
                    let (mut from, mut to) = peer.split();
                    tokio::io::copy(&mut from, &mut to).await.unwrap();
                    to.shutdown().await.unwrap();
                });
                all.push(tokio.spawn(async move {
                    let (mut from, mut to) = tokio::io::split(stream);
                    let send = tokio::spawn(async move {
                        to.write_all(&bytes(EACH + i)).await.unwrap();
                        to.flush().await.unwrap();
                        to.shutdown().await.unwrap();
                    });
                    let mut got = Vec::new();
                    from.read_to_end(&mut got).await.unwrap();
                    send.await.unwrap();
                    assert!(got == bytes(EACH + i), "stream {i}");
                }));
            }
            for one in all {
                timeout(PATIENCE * 3, one).await.unwrap().unwrap();
            }
        });
        drop(tokio);
        assert!(runtime.drained(PATIENCE));
        let totals = runtime.totals();
        assert!(totals.bytes > (STREAMS * EACH) as u64, "{totals:?}");
        assert!(totals.gate_closed > 0, "{totals:?}");
    }
}

#[test]
fn a_cancelled_wait_loses_and_repeats_nothing() {
    let runtime = runtime("fixed:window=10");
    tokio(0).block_on(async {
        let (mut stream, mut peer) = both(&runtime, false).await;
        let short = Duration::from_millis(100);
        // Nothing arrives: the wait ends, and the next one finds what came in between.
        assert!(timeout(short, stream.read(&mut [0; 9])).await.is_err());
        peer.write_all(b"late").await.unwrap();
        let mut late = [0; 9];
        assert_eq!(stream.read(&mut late).await.unwrap(), 4);
        // The peer does not read: one write waits for ever, and is cancelled.
        let block = bytes(249 * 100);
        let mut sent = 0;
        while let Ok(n) = timeout(short, stream.write(&block[sent % 249..])).await {
            sent += n.unwrap();
        }
        let reader = tokio::spawn(async move {
            let mut got = Vec::new();
            peer.read_to_end(&mut got).await.unwrap();
            got
        });
        for _ in 0..10 {
            let rest = &block[sent % 249..];
            timeout(PATIENCE, stream.write_all(rest))
                .await
                .unwrap()
                .unwrap();
            sent += rest.len();
        }
        timeout(PATIENCE, stream.shutdown()).await.unwrap().unwrap();
        // The kernel has all of it.
        assert_eq!(stream.queued(), 0);
        let got = timeout(PATIENCE, reader).await.unwrap().unwrap();
        assert!(got == bytes(sent));
    });
}

#[test]
fn an_aborted_task_drains_what_it_has_written() {
    let runtime = runtime("fixed:window=2");
    let (mut stream, peer) = pair(&runtime, &Options::default());
    let tokio = tokio(2);
    tokio.block_on(async {
        let (written, all) = tokio::sync::oneshot::channel();
        let task = tokio.spawn(async move {
            stream.write_all(&bytes(300_000)).await.unwrap();
            written.send(()).unwrap();
            // Nothing comes: the stream is in the reactor when it is dropped.
            stream.read(&mut [0; 9]).await
        });
        all.await.unwrap();
        sleep(Duration::from_millis(20)).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    let got = read_all(peer).join().unwrap();
    assert!(got == bytes(300_000));
    assert!(runtime.drained(PATIENCE));
}

#[test]
fn a_shutdown_waits_for_the_kernel_and_ends_with_the_connection() {
    let runtime = runtime("fixed:window=2");
    tokio(0).block_on(async {
        let (mut stream, mut peer) = both(&runtime, false).await;
        stream.write_all(&bytes(19_000)).await.unwrap();
        timeout(PATIENCE, stream.shutdown()).await.unwrap().unwrap();
        assert_eq!(stream.queued(), 0);
        let mut got = Vec::new();
        peer.read_to_end(&mut got).await.unwrap();
        assert!(got == bytes(19_000));
        // Again, and of a peer that is gone.
        stream.shutdown().await.unwrap();
        let (mut stream, peer) = both(&runtime, false).await;
        while timeout(Duration::from_millis(100), stream.write(&[1; 5000]))
            .await
            .is_ok()
        {}
        let reset = tokio::spawn(async move {
            sleep(Duration::from_millis(50)).await;
            drop(peer); // with bytes unread: RST
        });
        let why = timeout(PATIENCE, stream.shutdown())
            .await
            .unwrap()
            .unwrap_err();
        assert!(matches!(
            why.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ));
        reset.await.unwrap();
        assert!(stream.read(&mut [0; 9]).await.is_err());
    });
}

#[test]
fn a_stream_that_always_takes_bytes_leaves_turns_to_others() {
    let runtime = runtime("fixed:window=1000");
    let (mut stream, peer) = pair(&runtime, &Options::default());
    let reader = read_all(peer);
    tokio(0).block_on(async {
        let for_ever = async {
            loop {
                stream.write_all(b"x").await.unwrap();
            }
        };
        let end: Result<(), _> = timeout(Duration::from_millis(50), for_ever).await;
        assert!(end.is_err());
    });
    drop(stream);
    assert!(!reader.join().unwrap().is_empty());
}

#[test]
fn outside_of_a_runtime_reading_is_an_error_and_writing_works() {
    let runtime = runtime("fixed:window=2");
    let (stream, peer) = pair(&runtime, &Options::default());
    let mut stream = pin!(stream);
    let mut cx = Context::from_waker(Waker::noop());
    let mut into = [0; 9];
    let read = stream
        .as_mut()
        .poll_read(&mut cx, &mut ReadBuf::new(&mut into));
    assert!(matches!(read, Poll::Ready(Err(_))), "{read:?}");
    let sent = stream.as_mut().poll_write(&mut cx, b"x");
    assert!(matches!(sent, Poll::Ready(Ok(1))), "{sent:?}");
    stream.shutdown_write();
    assert_eq!(read_all(peer).join().unwrap(), b"x");
}
