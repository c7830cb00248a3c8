// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small HTTP server: metrics, `alcc top --web`, the controls of an emulated link.
//!
//! Each connection serves one request. At most [`MAX_READERS`] clients are served at a time, for
//! `REQUEST_TIMEOUT` each, with at most `MAX_REQUEST` bytes. A new client replaces the oldest one
//! that has not sent a request.
use crate::failure::{Failure, reason};
use crate::output::not_made;
use alcc_proxy::Listen;
use alcc_sys::PathListener;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Maximum number of clients at a time.
pub const MAX_READERS: usize = 16;
/// Length of the queue of clients.
const BACKLOG: i32 = 64;
/// Timeout for a request and its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a request, bytes.
const MAX_REQUEST: usize = 8192;

/// A place to listen: `127.0.0.1:9101`, `[::1]:9101`, `:9101` or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Address(Listen),
    Path(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Path(text.into()));
        }
        match text.parse::<Listen>() {
            // The user would not know which one the kernel has chosen.
            Ok(Listen { port: 0, .. }) => Err(format!(
                "'{text}': port 0 is a random port: choose one, such as :9101"
            )),
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => Err(format!(
                "'{text}' is not an address to listen on: write 127.0.0.1:9101, :9101 or a path with a /"
            )),
        }
    }
}

/// A loopback address, which only this machine can reach.
#[derive(Clone, Copy, Debug)]
pub struct Loopback(pub SocketAddr);

impl FromStr for Loopback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse::<SocketAddr>().ok();
        let loopback = address.filter(|a| a.ip().is_loopback());
        loopback.map(Self).ok_or_else(|| {
            format!("'{text}' is not a loopback address with a port: write 127.0.0.1:9102")
        })
    }
}

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

/// Error for a place where listening failed. `option` names the option.
pub fn not_listening(at: impl std::fmt::Display, option: &str, error: &std::io::Error) -> Failure {
    let why = reason(error);
    let help = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            ": stop the program that listens there, or choose another place"
        }
        std::io::ErrorKind::AlreadyExists => ": choose another path",
        std::io::ErrorKind::AddrNotAvailable => {
            ": not an address of this machine: choose one, such as 127.0.0.1"
        }
        _ => "",
    };
    Failure::usage(format!("listen on {at} for {option}: {why}{help}"))
}

/// A request.
#[derive(Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub body: Vec<u8>,
    /// The names of this machine that the client used, and of the page that sends it.
    host: Option<String>,
    origin: Option<String>,
}

impl Request {
    /// True if it comes from a program, or from a page of this server. Otherwise a foreign page could
    /// make its visitor's browser send requests here, by a name that resolves to this machine.
    pub fn is_ours(&self) -> bool {
        let name = self.host.as_deref().unwrap_or("127.0.0.1");
        let address = name.parse().map(|a: SocketAddr| a.ip());
        let address = address.or_else(|_| name.trim_matches(['[', ']']).parse::<IpAddr>());
        let here = name.split(':').next() == Some("localhost") || address.is_ok();
        let own_page = |origin: &str| origin.strip_prefix("http://") == Some(name);
        here && self.origin.as_deref().is_none_or(own_page)
    }
}

/// A response.
pub struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Answer {
    pub fn new(status: &'static str, kind: &'static str, body: String) -> Self {
        Self { status, kind, body }
    }

    pub fn json(value: &serde_json::Value) -> Self {
        Self::new("200 OK", "application/json", format!("{value}\n"))
    }

    /// An error as one line of text.
    pub fn wrong(status: &'static str, why: impl std::fmt::Display) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{why}\n"))
    }
}

/// A handler of requests whose path begins with a secret, and that path. Every user of the machine can
/// send requests on loopback, but only those who know the address are served.
pub fn secret(handler: Handler) -> Result<(Handler, String), Failure> {
    let root = format!(
        "/{:032x}",
        u128::from_ne_bytes(alcc_transfer::new_session()?)
    );
    let prefix = root.clone();
    let guarded: Handler = Arc::new(move |request| {
        let path = request.path.strip_prefix(&prefix);
        let Some(path) = path.filter(|path| path.is_empty() || path.starts_with('/')) else {
            return Answer::wrong(
                "403 Forbidden",
                "wrong secret: use the address that was printed at the start",
            );
        };
        let path = if path.is_empty() { "/" } else { path };
        handler(&Request {
            path: path.to_owned(),
            ..request.clone()
        })
    });
    Ok((guarded, root))
}

/// A handler of requests.
pub type Handler = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// The listening socket; a path is removed when it is dropped.
pub struct Server {
    _path: Option<PathListener>,
}

impl Server {
    /// Listens, and serves requests in separate threads until the program ends. `option` names the
    /// option in errors.
    pub fn start(place: &Place, option: &str, handler: Handler) -> Result<Self, Failure> {
        let failed = |what: String| move |e: std::io::Error| not_listening(what, option, &e);
        let not_at = |path: &Path, e| failed(path.display().to_string())(not_made(path, e));
        let (listener, path) = match place {
            Place::Address(at) => {
                let listener = at.open(BACKLOG).map_err(failed(at.to_string()))?;
                listener
                    .set_nonblocking(false)
                    .map_err(failed(at.to_string()))?;
                (Listener::Tcp(listener), None)
            }
            Place::Path(path) => {
                let bound = PathListener::bind(path).map_err(|e| not_at(path, e))?;
                let listener = bound.listener().try_clone();
                let listener = listener.map_err(|e| not_at(path, e))?;
                (Listener::Unix(listener), Some(bound))
            }
        };
        Self::on(listener, option, handler)?;
        Ok(Self { _path: path })
    }

    /// Serves requests on a listening socket.
    pub fn on(
        listener: impl Into<Listener>,
        option: &str,
        handler: Handler,
    ) -> Result<(), Failure> {
        let listener = listener.into();
        spawn("alcc-http", move || serve(&listener, &handler))
            .map(drop)
            .map_err(|e| Failure::usage(format!("start a thread for {option}: {e}")))
    }
}

/// Starts a thread with all signals blocked, because they are meant for the program.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    alcc_sys::spawn(std::thread::Builder::new().name(name.to_owned()), work)
}

fn serve(listener: &Listener, handler: &Handler) {
    let readers = Arc::<Mutex<Readers>>::default();
    loop {
        let stream: std::io::Result<OwnedFd> = match listener {
            Listener::Tcp(listener) => listener.accept().map(|(s, _)| s.into()),
            Listener::Unix(listener) => listener.accept().map(|(s, _)| s.into()),
        };
        let Ok(stream) = stream else {
            // For example, no descriptor is left. Others may free some.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let place = ReaderSlot::take(&readers, Arc::new(stream.into()));
        let handler = Arc::clone(handler);
        // An error with one client affects only that client. Without a thread its place is free again
        // at once.
        drop(spawn("alcc-http", move || {
            let _ = answer(&place, &handler);
        }));
    }
}

/// The clients that are served now.
#[derive(Default)]
struct Readers {
    next: u64,
    open: Vec<Reader>,
}

struct Reader {
    id: u64,
    /// True if its request is complete.
    asked: bool,
    stream: Arc<socket2::Socket>,
}

/// One of [`MAX_READERS`] places, which is released when dropped, however its thread ends.
struct ReaderSlot {
    readers: Arc<Mutex<Readers>>,
    id: u64,
    stream: Arc<socket2::Socket>,
}

impl ReaderSlot {
    /// If there is no place, the oldest client without a complete request loses its place, else the
    /// oldest one: slow clients cannot keep others out.
    fn take(readers: &Arc<Mutex<Readers>>, stream: Arc<socket2::Socket>) -> Self {
        let mut all = alcc_sys::lock(readers);
        if all.open.len() >= MAX_READERS {
            let order = |(_, reader): &(usize, &Reader)| (reader.asked, reader.id);
            if let Some((oldest, _)) = all.open.iter().enumerate().min_by_key(order) {
                // Its thread sees the end of the stream. It fails if the client has gone.
                let _ = all.open.remove(oldest).stream.shutdown(Shutdown::Both);
            }
        }
        let id = all.next;
        all.next += 1;
        all.open.push(Reader {
            id,
            asked: false,
            stream: Arc::clone(&stream),
        });
        drop(all);
        Self {
            readers: Arc::clone(readers),
            id,
            stream,
        }
    }

    fn asked(&self) {
        let mut all = alcc_sys::lock(&self.readers);
        if let Some(reader) = all.open.iter_mut().find(|reader| reader.id == self.id) {
            reader.asked = true;
        }
    }

    fn patience(&self, remaining: Duration) -> std::io::Result<()> {
        self.stream.set_read_timeout(Some(remaining))?;
        self.stream.set_write_timeout(Some(remaining))
    }
}

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        let mut all = alcc_sys::lock(&self.readers);
        all.open.retain(|reader| reader.id != self.id);
    }
}

fn answer(place: &ReaderSlot, handler: &Handler) -> std::io::Result<()> {
    let mut stream = &*place.stream;
    let end = Instant::now() + REQUEST_TIMEOUT;
    let remaining = || end.saturating_duration_since(Instant::now());
    let mut received = Vec::new();
    let mut piece = [0; 1024];
    let request = loop {
        match parse(&received) {
            Parsed::Whole(request) => break Ok(request),
            Parsed::Wrong => break Err(()),
            Parsed::Part => {}
        }
        let remaining = remaining();
        if remaining.is_zero() || received.len() > MAX_REQUEST {
            return Ok(());
        }
        place.patience(remaining)?;
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            n => received.extend_from_slice(&piece[..n]),
        }
    };
    place.asked();
    let answer = request.map_or_else(
        |()| Answer::wrong("400 Bad Request", "not an HTTP/1.1 request"),
        |request| handler(&request),
    );
    let text = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{}",
        answer.status,
        answer.kind,
        answer.body.len(),
        answer.body
    );
    let mut rest = text.as_bytes();
    while !rest.is_empty() && !remaining().is_zero() {
        place.patience(remaining())?;
        let n = stream.write(rest)?;
        rest = rest.get(n.max(1)..).unwrap_or_default();
    }
    Ok(())
}

enum Parsed {
    Whole(Request),
    Part,
    Wrong,
}

fn parse(received: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let begins = match head.parse(received) {
        Ok(httparse::Status::Complete(begins)) => begins,
        Ok(httparse::Status::Partial) => return Parsed::Part,
        Err(_) => return Parsed::Wrong,
    };
    let header = |name: &str| {
        let found = head
            .headers
            .iter()
            .find(|h| h.name.eq_ignore_ascii_case(name));
        found.and_then(|h| std::str::from_utf8(h.value).ok().map(str::to_owned))
    };
    let length = header("content-length").map_or(Ok(0), |n| n.trim().parse::<usize>());
    let Some(length) = length.ok().filter(|n| *n <= MAX_REQUEST) else {
        return Parsed::Wrong;
    };
    let Some(body) = received.get(begins..begins + length) else {
        return Parsed::Part;
    };
    Parsed::Whole(Request {
        method: head.method.unwrap_or_default().to_owned(),
        path: head.path.unwrap_or_default().to_owned(),
        body: body.to_vec(),
        host: header("host"),
        origin: header("origin"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn parsed(text: &str) -> Option<Request> {
        match parse(text.as_bytes()) {
            Parsed::Whole(request) => Some(request),
            _ => None,
        }
    }

    #[test]
    fn a_request_is_whole_with_its_body() {
        let head = "PUT /down HTTP/1.1\r\nHost: 127.0.0.1:80\r\nContent-Length: 2\r\n\r\n";
        assert!(matches!(parse(head.as_bytes()), Parsed::Part));
        let request = parsed(&format!("{head}{{}}")).unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("PUT", "/down")
        );
        assert_eq!(request.body, b"{}");
        for wrong in [
            "\0\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        ] {
            assert!(matches!(parse(wrong.as_bytes()), Parsed::Wrong), "{wrong}");
        }
    }

    #[test]
    fn pages_from_elsewhere_are_not_ours() {
        for (host, origin, ours) in [
            ("127.0.0.1:7", "", true),
            ("[::1]:7", "", true),
            ("localhost:7", "http://localhost:7", true),
            ("127.0.0.1:7", "http://evil.example", false),
            ("evil.example:7", "", false),
            ("evil.example:7", "http://evil.example:7", false),
        ] {
            let origin = match origin {
                "" => String::new(),
                name => format!("Origin: {name}\r\n"),
            };
            let request = parsed(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n{origin}\r\n"));
            assert_eq!(request.unwrap().is_ours(), ours, "{host} {origin}");
        }
    }

    #[test]
    fn places() {
        let path = |text: &str| text.parse::<Place>().unwrap();
        assert_eq!(path("./m.sock"), Place::Path("./m.sock".into()));
        assert_eq!(
            path(":9101"),
            Place::Address(Listen {
                ip: None,
                port: 9101
            })
        );
        assert_eq!(
            path("[::1]:9101"),
            Place::Address("[::1]:9101".parse().unwrap())
        );
        assert!(
            "localhost"
                .parse::<Place>()
                .unwrap_err()
                .contains("127.0.0.1:9101")
        );
    }

    /// A place, and the client's end.
    fn place(readers: &Arc<Mutex<Readers>>) -> (ReaderSlot, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ours = Arc::new(OwnedFd::from(ours).into());
        (ReaderSlot::take(readers, ours), theirs)
    }

    #[test]
    fn the_oldest_client_without_a_request_makes_place() {
        let readers = Arc::default();
        let mut all: Vec<_> = (0..MAX_READERS).map(|_| place(&readers)).collect();
        let ended = |client: &mut UnixStream| {
            client.set_nonblocking(true).unwrap();
            matches!(client.read(&mut [0]), Ok(0))
        };
        all[0].0.asked();
        all.push(place(&readers));
        assert!(!ended(&mut all[0].1) && ended(&mut all[1].1));
        for (slot, _) in &all {
            slot.asked();
        }
        all.push(place(&readers));
        assert!(ended(&mut all[0].1) && !ended(&mut all[2].1));
        assert_eq!(alcc_sys::lock(&readers).open.len(), MAX_READERS);
        drop(all);
        assert!(alcc_sys::lock(&readers).open.is_empty());
    }

    #[test]
    fn a_place_is_given_back_by_a_thread_that_panics() {
        let readers = Arc::default();
        let (slot, _client) = place(&readers);
        let panics = std::thread::spawn(move || {
            let _slot = slot;
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panics.join().is_err());
        assert!(alcc_sys::lock(&readers).open.is_empty());
    }

    #[test]
    fn only_who_knows_the_secret_is_answered() {
        let echo: Handler = Arc::new(|r: &Request| Answer::new("200 OK", "", r.path.clone()));
        let (handler, root) = secret(Arc::clone(&echo)).unwrap();
        assert_eq!(root.len(), 33);
        assert_ne!(root, secret(echo).unwrap().1);
        for (path, told) in [
            (format!("{root}/down"), Some("/down")),
            (format!("{root}/"), Some("/")),
            (root.clone(), Some("/")),
            ("/down".to_owned(), None),
            ("/".to_owned(), None),
            (format!("{root}x"), None),
            (format!("/{root}/"), None),
        ] {
            let request = parsed(&format!("GET {path} HTTP/1.1\r\n\r\n")).unwrap();
            let answer = handler(&request);
            match told {
                Some(told) => assert_eq!(answer.body, told),
                None => assert!(answer.status.starts_with("403"), "{path}"),
            }
        }
    }

    #[test]
    fn an_address_of_loopback() {
        assert!("127.0.0.1:0".parse::<Loopback>().is_ok());
        assert!("[::1]:9102".parse::<Loopback>().is_ok());
        for wrong in [":9102", "0.0.0.0:1", "192.0.2.1:1", "localhost"] {
            assert!(wrong.parse::<Loopback>().is_err(), "{wrong}");
        }
    }
}
