// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A web server by smol, in a process of this test program. smol calls epoll by direct system calls, and
//! sends by the C library.
use crate::place::PORT;
use crate::recipes::{Recipe, WEB};
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that the process serves.
const FOLDER: &str = "ALCC_TEST_SMOL";

pub(crate) fn recipe() -> Recipe {
    Recipe {
        program: |place, _| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "smol_server::serves", "--nocapture"])
                .env(FOLDER, place.path("www"));
            command
        },
        ..WEB
    }
}

/// Not a test: what the recipe starts.
#[test]
fn serves() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    smol::block_on(async {
        let listener = TcpListener::bind(("0.0.0.0", PORT)).await.unwrap();
        loop {
            let (client, _) = listener.accept().await.unwrap();
            smol::spawn(answer(client, folder.clone())).detach();
        }
    });
}

/// One request for each connection.
async fn answer(mut client: TcpStream, folder: impl AsRef<Path>) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut block = [0; 1024];
        let n = client.read(&mut block).await?;
        if n == 0 {
            return Ok(());
        }
        request.extend_from_slice(&block[..n]);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let name = request.split_whitespace().nth(1).unwrap_or("/");
    let file = std::fs::read(folder.as_ref().join(&name[1..]))?;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        file.len()
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(&file).await?;
    client.close().await
}
