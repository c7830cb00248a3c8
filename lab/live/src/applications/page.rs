// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A web page of forty files. Headless Chromium loads it from nginx with an empty cache, over up to
//! six connections.
use super::stage::{Ready, Stage, noise, nothing};
use super::{Application, Figures, How};
use crate::LabError;
use crate::server::{Listen, PORT, nginx_configuration};
use alcc_transfer::hex;
use std::fmt::Write as _;
use std::process::Command;

pub(super) const PAGE: Application = Application {
    name: "page",
    programs: "nginx, chromium",
    metrics: &["load_ms", "first_byte_ms", "interactive_ms"],
    how: How::Staged {
        prepare: nothing,
        run,
    },
};

/// Pictures. With the page, the style and the script there are forty files.
const PICTURES: usize = 37;
/// Rows of the pictures in turn. A row has 1200 bytes: from 5 kB to 96 kB.
const ROWS: [usize; 6] = [4, 8, 16, 24, 48, 80];
const COLUMNS: usize = 400;
/// Attribute that the page sets once it has loaded.
const LOADED: &str = "data-loaded=\"";

fn run(stage: &Stage<'_>) -> Result<Figures, LabError> {
    let chromium = stage.find("chromium", "chromium")?;
    let www = stage.make_folder("www")?;
    write_page(stage)?;
    stage.make_folder("nginx")?;
    let configuration = nginx_configuration(&stage.path("nginx"), &www, Listen::default());
    let configuration = stage.write("nginx.conf", configuration)?;
    let server = stage.serve(
        &stage.tools.nginx()?,
        |command| {
            let folder = stage.path("nginx");
            command.arg("-p").arg(folder).arg("-c").arg(configuration);
        },
        &Ready::Port(PORT),
    )?;
    let mut command = Command::new(chromium);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--dump-dom",
    ]);
    command.arg(format!(
        "--user-data-dir={}",
        stage.path("profile").display()
    ));
    command.env("HOME", stage.folder);
    command.arg(format!("http://{}:{PORT}/index.html", stage.from));
    stage.begin()?;
    let (dom, _) = stage.ask("chromium", command)?;
    let dom = String::from_utf8_lossy(&dom);
    let said = dom
        .split_once(LOADED)
        .and_then(|(_, rest)| rest.split('"').next());
    let said: Vec<&str> = said.unwrap_or_default().split(' ').collect();
    let [load, first, interactive, pictures] = said[..] else {
        return Err(stage.failed("Chromium did not load the page"));
    };
    if pictures.parse() != Ok(PICTURES) {
        return Err(stage.failed(format!("Chromium shows {pictures} of {PICTURES} pictures")));
    }
    server.end(stage)?;
    let named = PAGE.metrics.iter().zip([load, first, interactive]);
    named
        .map(|(name, value)| {
            let value: f64 = value
                .parse()
                .map_err(|_| stage.failed(format!("Chromium says that {name} is '{value}'")))?;
            Ok(((*name).to_owned(), value))
        })
        .collect()
}

/// Times are counted from the start of the navigation.
const SCRIPT: &str = "
addEventListener('load', () => {
  const n = performance.getEntriesByType('navigation')[0];
  const shown = [...document.images].filter(i => i.complete && i.naturalWidth > 0).length;
  document.documentElement.dataset.loaded =
    [performance.now(), n.responseStart, n.domInteractive].map(t => t.toFixed(1)).join(' ') + ' ' + shown;
});
";

fn write_page(stage: &Stage<'_>) -> Result<(), LabError> {
    let mut html = "<!doctype html><html lang=en><meta charset=utf-8><title>Forty files</title>\
                    <link rel=icon href=data:,><link rel=stylesheet href=style.css><script src=script.js></script>\n"
        .to_owned();
    for n in 0..PICTURES {
        let rows = ROWS[n % ROWS.len()];
        stage.write(&format!("www/{n}.bmp"), bitmap(rows, n as u64))?;
        let _ = writeln!(
            html,
            "<img alt=\"\" width={COLUMNS} height={rows} src={n}.bmp>"
        );
    }
    stage.write("www/index.html", html)?;
    let padded = |text: &str, seed: u64, bytes: usize| {
        let digits = hex(&noise(bytes / 2, seed));
        format!("/* {digits} */\n{text}")
    };
    stage.write("www/style.css", padded("img { margin: 1px }", 1, 20_000))?;
    stage.write("www/script.js", padded(SCRIPT, 2, 60_000))?;
    Ok(())
}

/// A picture in Windows' format of 24 bits per pixel.
fn bitmap(rows: usize, seed: u64) -> Vec<u8> {
    const HEADER: usize = 54;
    let pixels = noise(rows * COLUMNS * 3, seed);
    let word = |value: usize| (value as u32).to_le_bytes();
    let mut file = b"BM".to_vec();
    for value in [HEADER + pixels.len(), 0, HEADER, 40, COLUMNS, rows] {
        file.extend(word(value));
    }
    // One plane of 24 bits.
    file.extend([1, 0, 24, 0]);
    for value in [0, pixels.len(), 2_835, 2_835, 0, 0] {
        file.extend(word(value));
    }
    file.extend(pixels);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_says_its_own_length() {
        let file = bitmap(4, 1);
        assert_eq!(file.len(), 54 + 4 * 400 * 3);
        assert_eq!(file[2..6], (file.len() as u32).to_le_bytes());
        assert_eq!(file[28], 24);
    }
}
