// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc top --web`: the table as a page in a browser, which requests the JSON of `--json`.
use crate::failure::Failure;
use crate::http::{Answer, Handler, Loopback, Request, Server, not_listening, secret};
use crate::output::note;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// The complete page, which loads nothing from elsewhere.
const PAGE: &str = include_str!("page.html");

/// The current table.
pub(super) struct Shown(Arc<Mutex<serde_json::Value>>);

impl Shown {
    /// Serves the page until the program ends, and prints its address.
    pub(super) fn serve(at: Loopback) -> Result<Self, Failure> {
        let failed = |e| not_listening(at.0, "--web", &e);
        let listener = TcpListener::bind(at.0).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let none = serde_json::json!({"runs": [], "connections": []});
        let shown = Self(Arc::new(Mutex::new(none)));
        let data = Arc::clone(&shown.0);
        let handler: Handler = Arc::new(move |request| answer(request, &data));
        let (handler, root) = secret(handler)?;
        Server::on(listener, "--web", handler)?;
        note(format_args!("alcc top: http://{address}{root}/"));
        Ok(shown)
    }

    pub(super) fn set(&self, data: serde_json::Value) {
        *alcc_sys::lock(&self.0) = data;
    }
}

fn answer(request: &Request, data: &Mutex<serde_json::Value>) -> Answer {
    if !request.is_ours() {
        return Answer::wrong("403 Forbidden", "pages from elsewhere may not look");
    }
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/") => Answer::new("200 OK", "text/html; charset=utf-8", PAGE.to_owned()),
        ("GET", "/data") => Answer::json(&alcc_sys::lock(data)),
        ("GET", path) => Answer::wrong(
            "404 Not Found",
            format_args!("{path}: there are / and /data"),
        ),
        _ => Answer::wrong("405 Method Not Allowed", "only GET"),
    }
}
