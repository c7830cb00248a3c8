// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Headless Chromium by the DevTools protocol.
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tungstenite::{Message, WebSocket};

/// One tab; the browser is ended when dropped.
pub(crate) struct Browser {
    child: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    number: u64,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let files = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    { files }.find(|file| file.is_file())
}

impl Browser {
    pub(crate) fn start(chromium: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new(chromium)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args([
                "--disable-dev-shm-usage",
                "--remote-debugging-port=0",
                "about:blank",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let (send, address) = std::sync::mpsc::channel();
        // Reads to the end, or Chromium stands still once the pipe is full.
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Some((_, at)) = line.split_once("listening on ws://") {
                    let _ = send.send(at.to_owned());
                }
            }
        });
        let address = address
            .recv_timeout(Duration::from_secs(60))
            .expect("Chromium starts");
        let host = address.split('/').next().unwrap();
        let stream = TcpStream::connect(host).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let (socket, _) = tungstenite::client(format!("ws://{address}"), stream).unwrap();
        let mut browser = Self {
            child,
            socket,
            session: String::new(),
            number: 0,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", target);
        session["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut browser.session);
        browser.call("Page.enable", json!({}));
        browser
    }

    /// Calls a method of the protocol, and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.socket
            .send(Message::text(message.to_string()))
            .unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else {
                continue;
            };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The value of an expression, which may be a promise.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression:.80}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Shows a file at this width, light or dark.
    pub(crate) fn open(&mut self, file: &Path, width: u32, scheme: &str) {
        let phone = width < 600;
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": phone});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features);
        let url = format!("file://{}", file.display());
        self.call("Page.navigate", json!({"url": url}));
        let began = Instant::now();
        let here = format!("document.readyState === 'complete' && location.href === '{url}'");
        while self.value(&here) != true {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{url} is not there"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", event);
        }
    }
}
