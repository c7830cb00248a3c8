// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz target for the bytes of a peer at a TLS carrier.
use super::one_line;
use alcc_carrier::tls::{Identity, Trust};
use alcc_carrier::{CarrierSpec, Client, Server, Target};
use alcc_inband::carrier::{Arrived, Carrier};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

/// Comes in pieces, and takes everything that is written.
struct Memory {
    come: Vec<u8>,
    piece: usize,
    fd: File,
}

impl Carrier for Memory {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived> {
        let len = self.come.len().min(into.len()).min(self.piece);
        into[..len].copy_from_slice(&self.come[..len]);
        self.come.drain(..len);
        let (at, last) = (None, self.come.is_empty());
        Ok(Arrived { len, at, last })
    }

    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> &'static str {
        "memory"
    }
}

/// First byte: who is spoken to. Second: in which pieces it comes. The rest is what comes.
pub(super) fn carrier(bytes: &[u8]) {
    let [who, piece, come @ ..] = bytes else {
        return;
    };
    if who % 3 == 2 {
        let Ok(text) = std::str::from_utf8(come) else {
            return;
        };
        match text.parse::<CarrierSpec>() {
            Ok(spec) => {
                let again: CarrierSpec =
                    spec.to_string().parse().expect("a carrier prints as typed");
                assert_eq!(again.to_string(), spec.to_string());
            }
            Err(why) => one_line(why),
        }
        return;
    }
    let Ok(fd) = File::open("/dev/null") else {
        return;
    };
    let server = who % 3 == 1;
    let memory = Box::new(Memory {
        come: come.to_vec(),
        piece: usize::from(*piece).max(1) * 7,
        fd,
    });
    let spec = CarrierSpec::Tls;
    let made = if server {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        let identity =
            IDENTITY.get_or_init(|| Identity::self_signed(&["a"]).expect("a certificate"));
        let server = Server {
            identity: Some(identity.clone()),
            ..Server::default()
        };
        spec.accept_over(memory, "a stranger", &server)
    } else {
        let target = Target {
            host: "b".to_owned(),
            port: 2,
        };
        let client = Client {
            trust: Trust::Anybody,
            ..Client::default()
        };
        spec.connect_over(memory, &target, &client)
    };
    let mut stream = match made {
        Ok(stream) => stream,
        Err(why) => {
            let text = why.to_string();
            assert!(text.len() < 600 && !text.contains(['\n', '\x1b']), "{text}");
            return one_line(text);
        }
    };
    let mut got = 0;
    let mut block = [0; 1000];
    loop {
        match stream.read(&mut block) {
            Ok(Arrived { len: 0, .. }) => break,
            Ok(arrived) => got += arrived.len,
            Err(why) => {
                assert_ne!(why.kind(), io::ErrorKind::WouldBlock, "nothing blocks here");
                break one_line(why);
            }
        }
        assert!(got <= come.len(), "more than came");
    }
    drop(stream.write(&[IoSlice::new(b"hello")]));
    drop(stream.shutdown_write());
}
