// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `unix:PATH`: a UNIX socket.
use crate::Error;
use crate::Target;
use crate::registry::{Base, Bound, Options};
use crate::spec::Client;
use crate::wait::Deadline;
use alcc_inband::carrier::{self, Carrier};
use alcc_sys::PathListener;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

pub(crate) struct Unix;

impl Base for Unix {
    fn dial(
        &self,
        options: &Options,
        _: &Target,
        _: &Client,
        _: Deadline,
    ) -> Result<Box<dyn Carrier>, Error> {
        let path = PathBuf::from(options.text());
        let what = format!("connect to {}", path.display());
        let stream = UnixStream::connect(&path).map_err(Error::io(&what))?;
        let stream = carrier::Unix::new(stream).map_err(Error::io(&what))?;
        Ok(Box::new(stream))
    }

    fn bind(&self, options: &Options, _: &str) -> Result<Box<dyn Bound>, Error> {
        let path = PathBuf::from(options.text());
        let what = format!("listen at {}", path.display());
        let bound = PathListener::bind(&path).map_err(|why| {
            let why = match why.kind() {
                io::ErrorKind::AddrInUse => {
                    format!("{why}: stop what listens there, or choose another path")
                }
                io::ErrorKind::AlreadyExists => format!("{why}: choose another path"),
                io::ErrorKind::NotFound => {
                    "there is no such folder: make it, or choose another path".to_owned()
                }
                _ => why.to_string(),
            };
            Error::Usage(format!("{what}: {why}"))
        })?;
        let listener = bound.listener();
        listener.set_nonblocking(true).map_err(Error::io(&what))?;
        Ok(Box::new(bound))
    }
}

impl Bound for PathListener {
    fn accept(&self) -> io::Result<(Box<dyn Carrier>, String)> {
        let (stream, _) = self.listener().accept()?;
        Ok((Box::new(carrier::Unix::new(stream)?), self.local()))
    }

    fn local(&self) -> String {
        self.path().display().to_string()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.listener().as_fd()
    }
}
