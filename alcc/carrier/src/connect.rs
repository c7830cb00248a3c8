// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `connect:proxy=HOST:PORT`: a tunnel through an HTTP/1.1 proxy (RFC 9110, section 9.3.6).
use crate::Error;
use crate::Target;
use crate::error::quoted;
use crate::http::{BufferedPrefix, answer};
use crate::registry::{Layer, Options};
use crate::spec::{Client, Server};
use crate::wait::{Deadline, write_all};
use alcc_inband::carrier::Carrier;

pub(crate) struct Connect;

fn proxy(options: &Options) -> Result<Target, Error> {
    let text = options.get("proxy").ok_or_else(|| {
        Error::Usage("carrier connect: through which proxy? connect:proxy=HOST:PORT".to_owned())
    })?;
    text.parse()
        .map_err(|why| Error::Usage(format!("carrier connect: proxy: {why}")))
}

impl Layer for Connect {
    fn options(&self) -> &'static [&'static str] {
        &["proxy"]
    }

    fn check(&self, options: &Options) -> Result<(), Error> {
        proxy(options).map(drop)
    }

    fn below(&self, options: &Options, _: &Target) -> Result<Target, Error> {
        proxy(options)
    }

    fn connect(
        &self,
        mut below: Box<dyn Carrier>,
        options: &Options,
        target: &Target,
        _: &Client,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error> {
        let proxy = proxy(options)?;
        let what = format!("open a tunnel to {target} through the proxy {proxy}");
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        write_all(&mut *below, request.as_bytes(), deadline).map_err(Error::io(&what))?;
        let (answer, rest) = answer(&mut *below, &what, deadline)?;
        if (200..300).contains(&answer.status) {
            return Ok(BufferedPrefix::before(rest, below));
        }
        let fix = match answer.status {
            403 | 405 => "its rules do not allow this host and port",
            407 => "it asks for a login, which this program does not have",
            500 | 502..=504 => "it does not reach the host",
            _ => "it opens no tunnel",
        };
        let said = quoted(format!("{} {}", answer.status, answer.reason).as_bytes());
        Err(Error::refused(what, format!("it answers {said}: {fix}")))
    }

    fn only_connects(&self) -> Option<&'static str> {
        Some("the tunnel ends at the proxy; listen with what runs inside it")
    }

    fn accept(
        &self,
        below: Box<dyn Carrier>,
        _: &Options,
        _: &str,
        _: &Server,
        _: Deadline,
    ) -> Result<Box<dyn Carrier>, Error> {
        Ok(below)
    }
}
