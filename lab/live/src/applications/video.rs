// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Live video by RTMP: an ffmpeg publishes to nginx beside it, another one plays over the link. A
//! third one plays beside the server. The delay of a frame is how much later it comes over the
//! link.
use super::stage::{Ready, Stage};
use super::{Application, Figures, How};
use crate::LabError;
use crate::server::{Listen, nginx_configuration};
use alcc_emu::Namespace;
use alcc_results::percentile;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) const VIDEO: Application = Application {
    name: "video",
    programs: "nginx with its module rtmp, ffmpeg at both ends",
    metrics: &[
        "frame_delay_median_ms",
        "frame_delay_p95_ms",
        "frames_lost",
        "stalls",
        "stalled_s",
    ],
    how: How::Staged {
        prepare: encode,
        run,
    },
};

const PORT: u16 = 1935;
const MODULE: &str = "ngx_rtmp_module.so";
const FRAMES_PER_SECOND: f64 = 30.0;
/// Bits per second of the stream.
const RATE: &str = "4M";
const FILM: &str = "film.flv";
/// Delay of the player before the first frame.
const BUFFER: f64 = 0.5;
/// Time that the player waits for the last frame after it was sent.
const LATE: Duration = Duration::from_secs(4);

/// The film that is published.
fn encode(stage: &Stage<'_>) -> Result<(), LabError> {
    let ffmpeg = stage.find("ffmpeg", "ffmpeg")?;
    let film = stage.path(FILM);
    let mut encode = Command::new(&ffmpeg);
    let seconds = stage.duration.as_secs_f64();
    // Moving noise, so that the encoder needs the whole rate.
    let picture = format!("testsrc2=size=640x360:rate={FRAMES_PER_SECOND},noise=alls=40:allf=t+u");
    encode.args([
        "-nostdin",
        "-loglevel",
        "error",
        "-f",
        "lavfi",
        "-i",
        &picture,
    ]);
    encode.args([
        "-t",
        &seconds.to_string(),
        "-c:v",
        "flv",
        "-g",
        "30",
        "-b:v",
        RATE,
    ]);
    encode
        .args(["-minrate", RATE, "-maxrate", RATE, "-bufsize", "1M"])
        .arg(&film);
    stage.ask("encoder", encode)?;
    Ok(())
}

fn run(stage: &Stage<'_>) -> Result<Figures, LabError> {
    let ffmpeg = stage.find("ffmpeg", "ffmpeg")?;
    let nginx = stage.tools.nginx()?;
    let module = module(&nginx).ok_or_else(|| LabError::Missing {
        program: MODULE,
        looked: "not in nginx's folder of modules or target/deps/root".to_owned(),
        fix: "install it (apt install --no-install-recommends libnginx-mod-rtmp), or run 'scripts/setup test'".to_owned(),
    })?;
    let film = stage.path(FILM);
    let (www, folder) = (stage.make_folder("www")?, stage.make_folder("nginx")?);
    let web = nginx_configuration(&folder, &www, Listen::default());
    let configuration = format!(
        "load_module \"{}\";\n{}\nrtmp {{ access_log off; server {{ listen {PORT}; application live {{ live on; }} }} }}\n",
        module.display(),
        // Who publishes and who plays must meet in one process.
        web.replace("worker_processes 2;", "worker_processes 1;"),
    );
    let configuration = stage.write("nginx.conf", configuration)?;
    let server = stage.serve(
        &nginx,
        |command| {
            command.arg("-p").arg(&folder).arg("-c").arg(configuration);
        },
        &Ready::Port(PORT),
    )?;
    let beside = Player::start(stage, &ffmpeg, &stage.ends.sender, "127.0.0.1")?;
    let far = Player::start(
        stage,
        &ffmpeg,
        &stage.ends.receiver,
        &stage.from.to_string(),
    )?;
    // They must be there before the first frame.
    let begin = stage.begin()?;
    let mut publish = Command::new(&ffmpeg);
    publish
        .args(["-nostdin", "-loglevel", "error", "-re", "-i"])
        .arg(&film);
    publish.args(["-c", "copy", "-f", "flv"]);
    publish.arg(format!("rtmp://127.0.0.1:{PORT}/live/film"));
    publish
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let publisher = stage.ends.sender.spawn(publish);
    let publisher = Killed(publisher.map_err(LabError::os("start ffmpeg"))?);
    let ended = stage.wait(begin + stage.duration + LATE);
    drop(publisher);
    let (near, far) = (beside.stop(), far.stop());
    ended?;
    server.end(stage)?;
    if near.is_empty() || far.is_empty() {
        return Err(stage.failed(format!(
            "{} frames came beside the server, {} over the link",
            near.len(),
            far.len()
        )));
    }
    Ok(figures(&near, &far))
}

/// A frame as a player got it.
#[derive(Clone, PartialEq, Debug)]
struct Frame {
    /// Size and checksum.
    content: String,
    /// Arrival time, s.
    at: f64,
}

/// The frames that came beside the server, and over the link.
fn figures(near: &[Frame], far: &[Frame]) -> Figures {
    let came: HashMap<&str, f64> = far.iter().map(|f| (f.content.as_str(), f.at)).collect();
    let pairs = near.iter().map(|f| (f.at, came.get(f.content.as_str())));
    let pairs: Vec<(f64, Option<f64>)> = pairs.map(|(at, far)| (at, far.copied())).collect();
    let delays = pairs.iter().filter_map(|(at, far)| Some((*far)? - at));
    let mut delays: Vec<f64> = delays.map(|s| s * 1e3).collect();
    let lost = 1.0 - delays.len() as f64 / near.len().max(1) as f64;
    let (stalls, stalled) = stalls(&pairs);
    let mut figures = Figures::from([
        ("frames_lost".to_owned(), lost),
        ("stalls".to_owned(), stalls),
        ("stalled_s".to_owned(), stalled),
    ]);
    delays.sort_by(f64::total_cmp);
    for (name, percent) in [("frame_delay_median_ms", 50), ("frame_delay_p95_ms", 95)] {
        figures.extend(percentile(&delays, percent).map(|ms| (name.to_owned(), ms)));
    }
    figures
}

/// Number and total length of the moments at which a player with a buffer had nothing to show. It shows each
/// frame as long after the one before as they were sent.
fn stalls(pairs: &[(f64, Option<f64>)]) -> (f64, f64) {
    let (mut stalls, mut stalled) = (0.0, 0.0);
    let mut later: Option<f64> = None;
    for (sent, came) in pairs {
        let Some(came) = came else { continue };
        let shift = *later.get_or_insert(came - sent + BUFFER);
        if *came > sent + shift {
            stalls += 1.0;
            stalled += came - sent - shift;
            later = Some(came - sent);
        }
    }
    (stalls, stalled)
}

/// A process that is ended when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An ffmpeg that prints the arrival time of each frame.
struct Player {
    child: Killed,
    reader: JoinHandle<Vec<Frame>>,
}

impl Player {
    fn start(
        stage: &Stage<'_>,
        ffmpeg: &Path,
        place: &Namespace,
        server: &str,
    ) -> Result<Self, LabError> {
        let mut command = Command::new(ffmpeg);
        command.args(["-nostdin", "-loglevel", "error", "-fflags", "nobuffer"]);
        command.args(["-analyzeduration", "0", "-probesize", "32", "-i"]);
        command.arg(format!("rtmp://{server}:{PORT}/live/film"));
        command.args([
            "-c",
            "copy",
            "-flush_packets",
            "1",
            "-f",
            "framecrc",
            "pipe:1",
        ]);
        let log = std::fs::File::create(stage.path("player.log"));
        let log = log.map_err(LabError::os("write the player's log"))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let child = place.spawn(command);
        let mut child = Killed(child.map_err(LabError::os("start ffmpeg"))?);
        let output = child.0.stdout.take();
        let read = move || output.map_or_else(Vec::new, |output| frames(BufReader::new(output)));
        let name = "alcc-player".to_owned();
        let reader = std::thread::Builder::new().name(name).spawn(read);
        let reader = reader.map_err(LabError::os("start a thread"))?;
        Ok(Self { child, reader })
    }

    fn stop(self) -> Vec<Frame> {
        drop(self.child);
        self.reader.join().unwrap_or_default()
    }
}

/// Lines such as `0, 33, 33, 33, 16800, 0x1234abcd` with the time at which they came. All players
/// have one clock.
fn frames(output: impl BufRead) -> Vec<Frame> {
    let mut frames = Vec::new();
    for line in output.lines().map_while(Result::ok) {
        let at = clock();
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        if line.starts_with('#') || words.len() < 6 {
            continue;
        }
        let content = format!("{} {}", words[4], words[5]);
        frames.push(Frame { content, at });
    }
    frames
}

/// Seconds of the system's monotonic clock since the first call.
fn clock() -> f64 {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// nginx's module, where the distribution has it or `scripts/setup` unpacked it.
fn module(nginx: &Path) -> Option<PathBuf> {
    let unpacked = std::fs::canonicalize(nginx).ok();
    let root = unpacked
        .as_deref()
        .and_then(|nginx| nginx.ancestors().nth(3));
    let folders = root.map(|root| root.join("usr/lib/nginx/modules"));
    let beside = nginx.ancestors().nth(2);
    let beside = beside.map(|deps| deps.join("root/usr/lib/nginx/modules"));
    let folders = folders.into_iter().chain(beside).chain([
        PathBuf::from("/usr/lib/nginx/modules"),
        PathBuf::from("/usr/lib64/nginx/modules"),
        PathBuf::from("target/deps/root/usr/lib/nginx/modules"),
    ]);
    let files = folders.map(|folder| folder.join(MODULE));
    files
        .filter_map(|file| std::path::absolute(file).ok())
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_frame_stalls_once_and_shifts_what_follows() {
        // 30 ms on the way, a buffer of 500 ms; the third comes after 830 ms, the fourth too.
        let pairs = [
            (0.0, Some(0.03)),
            (0.1, Some(0.13)),
            (0.2, Some(1.03)),
            (0.3, Some(1.13)),
            (0.4, None),
        ];
        let (stalls, stalled) = stalls(&pairs);
        assert_eq!(stalls, 1.0);
        assert!((stalled - 0.3).abs() < 1e-9, "{stalled}");
    }

    #[test]
    fn frames_are_told_by_their_content() {
        let text = "#tb 0: 1/1000\n0, 0, 0, 33, 100, 0xaa\n0, 33, 33, 33, 200, 0xbb\nrubbish\n";
        let frames = frames(text.as_bytes());
        let contents: Vec<&str> = frames.iter().map(|f| f.content.as_str()).collect();
        assert_eq!(contents, ["100 0xaa", "200 0xbb"]);
        let at = |content: &str, at: f64| Frame {
            content: content.to_owned(),
            at,
        };
        let near = [at("a", 0.0), at("b", 1.0), at("c", 2.0), at("d", 3.0)];
        let far = [at("a", 0.1), at("b", 1.1), at("d", 3.3)];
        let figures = figures(&near, &far);
        assert_eq!(figures["frames_lost"], 0.25);
        assert!((figures["frame_delay_median_ms"] - 100.0).abs() < 1e-6);
        assert!((figures["frame_delay_p95_ms"] - 300.0).abs() < 1e-6);
    }
}
