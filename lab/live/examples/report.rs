// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws the report of results that were saved with `--json`: `cargo run -p alcc-live --example
//! report < results.json > report.html`
use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    print!("{}", alcc_live::report::html(&serde_json::from_str(&text)?));
    Ok(())
}
