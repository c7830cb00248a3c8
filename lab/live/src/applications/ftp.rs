// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files by FTP: vsftpd and lftp. Each file has its own connection.
use super::stage::{Ready, Stage, noise, nothing};
use super::{Application, Figures, How};
use crate::LabError;
use std::process::Command;
use std::time::Duration;

pub(super) const FTP: Application = Application {
    name: "ftp",
    programs: "vsftpd, lftp",
    metrics: &["small_files_s", "large_file_s", "large_file_mbps"],
    how: How::Staged {
        prepare: nothing,
        run,
    },
};

const PORT: u16 = 8021;
/// Files of a folder, one after the other.
const SMALL: usize = 10;
const SMALL_BYTES: usize = 50_000;
/// Bytes of the large file per second of the measurement.
const LARGE_PER_SECOND: f64 = 500_000.0;

fn run(stage: &Stage<'_>) -> Result<Figures, LabError> {
    let vsftpd = stage.find("vsftpd", "vsftpd")?;
    let lftp = stage.find("lftp", "lftp")?;
    let www = stage.make_folder("www")?;
    let empty = stage.make_folder("empty")?;
    for n in 0..SMALL {
        stage.write(&format!("www/small{n}"), noise(SMALL_BYTES, n as u64))?;
    }
    let large = (stage.duration.as_secs_f64() * LARGE_PER_SECOND) as usize;
    stage.write("www/large", noise(large, 99))?;
    let configuration = stage.write(
        "vsftpd.conf",
        format!(
            "listen=YES\nlisten_port={PORT}\nbackground=NO\nanonymous_enable=YES\nftp_username=daemon\n\
             anon_root={}\nsecure_chroot_dir={}\n",
            www.display(),
            empty.display()
        ),
    )?;
    let server = stage.serve(
        &vsftpd,
        |command| {
            command.arg(configuration);
        },
        &Ready::Port(PORT),
    )?;
    let fetch = |who: &str, files: &str, bytes: usize| -> Result<Duration, LabError> {
        let mut command = Command::new(&lftp);
        let words = format!(
            "set net:max-retries 1; set net:timeout 30; open ftp://{}:{PORT}; cat {files}",
            stage.from
        );
        command.args(["--norc", "-c", &words]);
        command.env("HOME", stage.folder);
        let (came, took) = stage.ask(who, command)?;
        if came.len() != bytes {
            return Err(stage.failed(format!("of {bytes} bytes {} came", came.len())));
        }
        Ok(took)
    };
    let names: Vec<String> = (0..SMALL).map(|n| format!("small{n}")).collect();
    stage.begin()?;
    let small = fetch("lftp-small", &names.join(" "), SMALL * SMALL_BYTES)?;
    let whole = fetch("lftp-large", "large", large)?.as_secs_f64();
    server.end(stage)?;
    Ok(Figures::from([
        ("small_files_s".to_owned(), small.as_secs_f64()),
        ("large_file_s".to_owned(), whole),
        ("large_file_mbps".to_owned(), large as f64 * 8e-6 / whole),
    ]))
}
