// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The upload of a large file: scp over plain TCP, or the Java library to `alcc recv`.
//!
//! The sender is at the sending end of the link, so the link is the uplink of a phone. The file is
//! too large to be completed. The result is how much of it the receiver gets in the measured time,
//! which begins with the first byte. So the start-up time of a program does not matter.
use super::stage::Stage;
use super::{Application, Figures, How};
use crate::LabError;
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

pub(super) const UPLOAD: Application = Application {
    name: "upload",
    programs: "sshd, scp; alcc recv, java",
    metrics: &["throughput_mbps", "rtt_mean_ms"],
    how: How::Staged { prepare, run },
};

const PORT: u16 = 8022;
/// Algorithms of the Java library.
const ALGORITHMS: [&str; 3] = ["budget", "copa", "mdi"];
/// Bytes of the file per second of the measurement: 40 Mbit/s.
const PER_SECOND: f64 = 5_000_000.0;
/// Bytes after which the file repeats.
const REPEATED: usize = 1 << 20;
const SOURCE: &str = include_str!("Upload.java");
/// The user that `sshd` runs as: it needs no root privileges.
const USER: &str = "65534";

fn prepare(stage: &Stage<'_>) -> Result<(), LabError> {
    let noise = super::stage::noise(REPEATED, 99);
    let size = (stage.duration.as_secs_f64() * PER_SECOND) as usize;
    let path = stage.write("large", b"")?;
    let wrong = |path: &Path| format!("write {}", path.display());
    let mut file = File::create(&path).map_err(LabError::os(wrong(&path)))?;
    for at in (0..size).step_by(REPEATED) {
        let part = &noise[..REPEATED.min(size - at)];
        file.write_all(part).map_err(LabError::os(wrong(&path)))?;
    }
    match &stage.scheme.controlled {
        None => keys(stage),
        Some(_) => compile(stage),
    }
}

/// The keys of the server and of the user, for this run alone.
fn keys(stage: &Stage<'_>) -> Result<(), LabError> {
    let keygen = stage.find("ssh-keygen", "openssh-client")?;
    for name in ["host", "user"] {
        let mut command = Command::new(&keygen);
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        complete(stage, command.arg(stage.path(name)), "ssh-keygen")?;
    }
    Ok(())
}

fn compile(stage: &Stage<'_>) -> Result<(), LabError> {
    let javac = stage.find("javac", "default-jdk-headless")?;
    stage.find("java", "default-jre-headless")?;
    let source = stage.write("Upload.java", SOURCE)?;
    let mut command = Command::new(javac);
    command.args(["-encoding", "UTF-8", "-cp"]);
    command
        .arg(jar(stage)?)
        .arg("-d")
        .arg(stage.folder)
        .arg(source);
    complete(stage, &mut command, "javac")
}

/// Runs a program that needs no link.
fn complete(stage: &Stage<'_>, command: &mut Command, name: &str) -> Result<(), LabError> {
    let output = command.output();
    let output = output.map_err(LabError::os(format!("start {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().next().unwrap_or_default();
    Err(stage.failed(format!("{name} ended with {}: {line}", output.status)))
}

/// The Java library: `ALCC_JAR` names it, else where `make test` builds it.
fn jar(stage: &Stage<'_>) -> Result<PathBuf, LabError> {
    if let Some(named) = std::env::var_os("ALCC_JAR").map(PathBuf::from) {
        return found(named, "ALCC_JAR names");
    }
    let beside = stage.tools.alcc.ancestors().nth(2).map(Path::to_owned);
    let built = beside.unwrap_or_default().join("java");
    let name = format!("alcc-{}.jar", env!("CARGO_PKG_VERSION"));
    found(built.join(name), "there is no")
}

fn found(jar: PathBuf, looked: &str) -> Result<PathBuf, LabError> {
    if jar.is_file() {
        return Ok(jar);
    }
    Err(LabError::Missing {
        program: "the Java library",
        looked: format!("{looked} {}", jar.display()),
        fix: "run 'scripts/test-java', which builds it, or let ALCC_JAR name alcc.jar".to_owned(),
    })
}

fn run(stage: &Stage<'_>) -> Result<Figures, LabError> {
    let into = stage.make_folder("got")?;
    let (server, client) = match &stage.scheme.controlled {
        None => scp(stage)?,
        Some(spec) => java(stage, &spec.to_string())?,
    };
    let says = stage.path("server.says");
    let mut server = stage.start(server, "server.says")?;
    server.wait_until("the server", || {
        Ok(fs::read_to_string(&says).is_ok_and(|all| all.contains("listening on")))
    })?;
    stage.begin()?;
    let mut client = stage.start_sender(client, "client.says")?;
    client.wait_until("the client", || Ok(size(&into) > 0))?;
    let begin = Instant::now();
    stage.wait(begin + stage.duration)?;
    let seconds = begin.elapsed().as_secs_f64();
    let came = received(stage, &into)?;
    client.check("the client ended before its time")?;
    server.check("the server ended before its time")?;
    client.end();
    server.end();
    Ok(Figures::from([(
        "throughput_mbps".to_owned(),
        came as f64 * 8e-6 / seconds,
    )]))
}

/// The server and the client of scp.
fn scp(stage: &Stage<'_>) -> Result<(Command, Command), LabError> {
    let sshd = stage.find("sshd", "openssh-server")?;
    let (scp, ssh) = (
        stage.find("scp", "openssh-client")?,
        stage.find("ssh", "openssh-client")?,
    );
    let folder = stage.folder.display();
    let configuration = stage.write(
        "sshd_config",
        format!(
            "Port {PORT}\nListenAddress 0.0.0.0\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n\
             StrictModes no\nUsePAM no\nPidFile none\nSubsystem sftp internal-sftp\nForceCommand internal-sftp\n"
        ),
    )?;
    let mut server = Command::new(stage.find("unshare", "util-linux")?);
    server.args(["--user", "--map-user", USER, "--map-group", USER]);
    server.arg(sshd).args(["-D", "-e", "-f"]).arg(configuration);
    let mut client = Command::new(scp);
    client
        .args(["-q", "-F", "none", "-P", &PORT.to_string(), "-S"])
        .arg(ssh);
    client.arg("-i").arg(stage.path("user"));
    for option in [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "BatchMode=yes",
        "Compression=no",
    ] {
        client.args(["-o", option]);
    }
    client.arg(stage.path("large"));
    client.arg(format!("nobody@{}:{folder}/got/large", stage.to));
    client.env("HOME", stage.folder);
    Ok((server, client))
}

/// `alcc recv`, and the Java library with this algorithm.
fn java(stage: &Stage<'_>, algorithm: &str) -> Result<(Command, Command), LabError> {
    if !ALGORITHMS.contains(&algorithm) {
        let known = ALGORITHMS.join(", ");
        let why = format!("the Java library has {known}, without options");
        return Err(stage.scheme.unfit(why));
    }
    let mut server = Command::new(&stage.tools.alcc);
    server.args([
        "recv",
        "--transport",
        "in-band",
        "--bind",
        "0.0.0.0",
        "--port",
    ]);
    server
        .arg(PORT.to_string())
        .arg("--out")
        .arg(stage.path("got"));
    let path = std::env::join_paths([jar(stage)?, stage.folder.to_owned()]);
    let path = path.map_err(|e| stage.failed(format!("name the class path: {e}")))?;
    let mut client = Command::new(stage.find("java", "default-jre-headless")?);
    client.arg("-cp").arg(path).arg("Upload");
    client.args([stage.to.to_string(), PORT.to_string()]);
    client.arg(stage.path("large")).arg(algorithm);
    Ok((server, client))
}

/// Bytes of the files in a folder.
fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}

/// Bytes of the file that the receiver has. They must be those that were sent.
fn received(stage: &Stage<'_>, into: &Path) -> Result<u64, LabError> {
    let reads = |path: &Path| format!("read {}", path.display());
    let files = fs::read_dir(into).map_err(LabError::os(reads(into)))?;
    let files: Vec<PathBuf> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let [file] = &files[..] else {
        return Err(stage.failed(format!("the receiver has {} files, not one", files.len())));
    };
    let open = |path: &Path| File::open(path).map_err(LabError::os(reads(path)));
    let (came, sent) = (open(file)?, open(&stage.path("large"))?);
    let bytes = came.metadata().map_err(LabError::os(reads(file)))?.len();
    let (mut came, mut sent) = (BufReader::new(came.take(bytes)), BufReader::new(sent));
    let (mut ours, mut theirs) = (vec![0; REPEATED], vec![0; REPEATED]);
    let mut remaining = bytes as usize;
    while remaining > 0 {
        let part = remaining.min(REPEATED);
        let both = came.read_exact(&mut ours[..part]);
        let both = both.and_then(|()| sent.read_exact(&mut theirs[..part]));
        both.map_err(LabError::os(reads(file)))?;
        if ours[..part] != theirs[..part] {
            return Err(stage.failed("the receiver has other bytes than were sent"));
        }
        remaining -= part;
    }
    Ok(bytes)
}
