// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table: how each program is configured and started, and how one fetches from it. Nothing is
//! tuned for us.
use crate::place::{PORT, Place, deps, find, the};
use std::borrow::Cow;
use std::process::Command;

/// One program.
pub(crate) struct Recipe {
    /// Programs, and files of packages, without which there is no test.
    pub(crate) needs: &'static [&'static str],
    /// It does what is tested only as root.
    pub(crate) root: bool,
    /// Options of `alcc run`.
    pub(crate) options: &'static [&'static str],
    /// The command that serves, or transfers, the file of that name in the folder `www`.
    pub(crate) program: fn(&Place, &str) -> Command,
    /// Shell command of the client, which prints the hash of the received data; `None` if the program
    /// transfers by itself to a helper, which writes `got`. `$S` is the server, `$F` the file, `$D` the
    /// folder of everything.
    pub(crate) fetch: Option<Cow<'static, str>>,
    /// Number of times that `fetch` fetches the file.
    pub(crate) copies: usize,
    /// Programs that run beside it, whether on the client's side, and the port that shows that each is ready.
    pub(crate) helpers: fn(&Place) -> Vec<(bool, Command, u16)>,
    /// A script that changes the file system for this program alone; as root only.
    pub(crate) mounts: Option<fn(&Place) -> String>,
}

const CURL: &str = "curl -sS --fail http://$S:8080/$F | sha256sum";

/// A web server.
pub(crate) const WEB: Recipe = Recipe {
    needs: &["curl"],
    root: false,
    options: &[],
    program: |_, _| Command::new("false"),
    fetch: Some(Cow::Borrowed(CURL)),
    copies: 1,
    helpers: |_| Vec::new(),
    mounts: None,
};

impl Recipe {
    /// The same with several clients at once, each of which runs `fetch`.
    pub(crate) fn for_clients(mut self, clients: usize) -> Self {
        self.fetch = self
            .fetch
            .map(|one| format!("for i in $(seq {clients}); do ( {one} ) & done; wait").into());
        self.copies *= clients;
        self
    }
}

macro_rules! all {
    ($($name:ident)*) => {
        /// Every recipe with its name.
        pub(crate) const ALL: &[(&str, fn() -> Recipe)] = &[$((stringify!($name), $name)),*];
    };
}

all! {
    nginx apache_event apache_prefork lighttpd haproxy haproxy_splicing python_http_server python_asyncio gunicorn gunicorn_threads node node_with_io_uring vsftpd
    rsync_daemon sshd sshd_for_a_user iperf3 curl_upload h2o gunicorn_gevent gunicorn_eventlet
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Text for root only, because others cannot change their user.
fn if_root(text: &'static str) -> &'static str {
    if is_root() { text } else { "" }
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(the(program));
    command.args(args);
    command
}

pub(crate) fn nginx() -> Recipe {
    Recipe {
        needs: &["nginx", "curl"],
        program: |place, _| {
            let (folder, user) = (place.folder(), if_root("user root;"));
            let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map(|what| format!("{what}_temp_path {folder}/{what};"))
                .concat();
            let config = place.write(
                "nginx.conf",
                &format!(
                    "daemon off; {user} worker_processes 2; pid {folder}/nginx.pid; events {{}}
                     http {{ access_log off; sendfile on; tcp_nopush on; root {folder}/www; {temporary}
                       server {{ listen {PORT}; }} }}"
                ),
            );
            let mut command = command("nginx", &["-e", "stderr", "-c"]);
            command.arg(config);
            command
        },
        ..WEB
    }
}

fn apache(place: &Place, mpm: &str) -> Command {
    let folder = place.folder();
    let modules = the(MODULES);
    let (modules, user) = (modules.display(), if_root("User #65534\nGroup #65534"));
    let config = place.write(
        "apache.conf",
        &format!(
            "ServerRoot {folder}\nDefaultRuntimeDir {folder}\nPidFile {folder}/apache.pid\nErrorLog {folder}/apache.log\n\
             Listen {PORT}\nServerName test\nDocumentRoot {folder}/www\n{user}\n\
             LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so\nLoadModule authz_core_module {modules}/mod_authz_core.so\n"
        ),
    );
    let mut command = command("apache2", &["-D", "FOREGROUND", "-f"]);
    command.arg(config);
    command
}
const MODULES: &str = "usr/lib/apache2/modules";

pub(crate) fn apache_event() -> Recipe {
    Recipe {
        needs: &["apache2", MODULES, "curl"],
        program: |place, _| apache(place, "event"),
        ..WEB
    }
}

pub(crate) fn apache_prefork() -> Recipe {
    Recipe {
        program: |place, _| apache(place, "prefork"),
        ..apache_event()
    }
}

pub(crate) fn lighttpd() -> Recipe {
    Recipe {
        needs: &["lighttpd", "usr/lib/lighttpd", "curl"],
        program: |place, _| {
            let folder = place.folder();
            let config = place.write(
                "lighttpd.conf",
                &format!("server.document-root = \"{folder}/www\"\nserver.port = {PORT}\n"),
            );
            let mut command = command("lighttpd", &["-D", "-m"]);
            command.arg(the("usr/lib/lighttpd")).arg("-f").arg(config);
            command
        },
        ..WEB
    }
}

fn behind_haproxy(place: &Place, option: &str) -> Command {
    let config = place.write(
        "haproxy.cfg",
        &format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n {option}\n\
             frontend f\n bind :{PORT}\n default_backend b\nbackend b\n server s 127.0.0.1:8081\n"
        ),
    );
    let mut command = command("haproxy", &["-db", "-f"]);
    command.arg(config);
    command
}

pub(crate) fn haproxy() -> Recipe {
    Recipe {
        needs: &["haproxy", "python3", "curl"],
        program: |place, _| behind_haproxy(place, ""),
        helpers: |place| vec![(false, python_serves(place, 8081), 8081)],
        ..WEB
    }
}

pub(crate) fn haproxy_splicing() -> Recipe {
    Recipe {
        program: |place, _| behind_haproxy(place, "option splice-response"),
        ..haproxy()
    }
}

fn python_serves(place: &Place, port: u16) -> Command {
    let mut command = command("python3", &["-u", "-m", "http.server", &port.to_string()]);
    command.arg("-d").arg(place.path("www"));
    command
}

pub(crate) fn python_http_server() -> Recipe {
    Recipe {
        needs: &["python3", "curl"],
        program: |place, _| python_serves(place, PORT),
        ..WEB
    }
}

pub(crate) fn python_asyncio() -> Recipe {
    Recipe {
        needs: &["python3", "curl"],
        program: |place, _| {
            let script = place.write("server.py", include_str!("server.py"));
            let mut command = command("python3", &[]);
            command.arg(script).arg(place.path("www"));
            command
        },
        fetch: Some(Cow::Borrowed(TWO_WAYS)),
        copies: 2,
        ..WEB
    }
}

const TWO_WAYS: &str = "curl -sS --fail http://$S:8080/$F | sha256sum; curl -sS --fail http://$S:8080/sendfile/$F | sha256sum";

fn gunicorn_with(place: &Place, options: &[&str]) -> Command {
    place.write("application.py", include_str!("application.py"));
    // Without the timeout a worker is ended that has sent for half a minute.
    let mut command = command("python3", &["-m", "gunicorn", "-t", "300", "-b"]);
    command.arg(format!("0.0.0.0:{PORT}")).args(options);
    command
        .arg("--chdir")
        .arg(place.path(""))
        .arg("application");
    command.env("FILES", place.path("www"));
    if find(GUNICORN)
        .is_some_and(|path| path.starts_with(deps().canonicalize().unwrap_or_default()))
    {
        command.env("PYTHONPATH", the(GUNICORN).with_file_name(""));
        command.env("LD_LIBRARY_PATH", deps().join("root/usr/lib").join(TRIPLET));
    }
    command
}
#[cfg(target_arch = "x86_64")]
const TRIPLET: &str = "x86_64-linux-gnu";
#[cfg(not(target_arch = "x86_64"))]
const TRIPLET: &str = "aarch64-linux-gnu";
const GUNICORN: &str = "usr/lib/python3/dist-packages/gunicorn";

pub(crate) fn gunicorn() -> Recipe {
    Recipe {
        needs: &["python3", GUNICORN, "curl"],
        program: |place, _| gunicorn_with(place, &["-w", "2"]),
        fetch: Some(Cow::Borrowed(TWO_WAYS)),
        copies: 2,
        ..WEB
    }
}

pub(crate) fn gunicorn_threads() -> Recipe {
    Recipe {
        program: |place, _| gunicorn_with(place, &["-k", "gthread", "--threads", "2"]),
        ..gunicorn()
    }
}

/// Coroutines: epoll learns of a connection once a call on it would have blocked.
pub(crate) fn gunicorn_gevent() -> Recipe {
    Recipe {
        needs: &[
            "python3",
            GUNICORN,
            "usr/lib/python3/dist-packages/gevent",
            "curl",
        ],
        program: |place, _| gunicorn_with(place, &["-k", "gevent"]),
        ..gunicorn()
    }
}

pub(crate) fn gunicorn_eventlet() -> Recipe {
    Recipe {
        needs: &[
            "python3",
            GUNICORN,
            "usr/lib/python3/dist-packages/eventlet",
            "curl",
        ],
        program: |place, _| gunicorn_with(place, &["-k", "eventlet"]),
        ..gunicorn()
    }
}

pub(crate) fn h2o() -> Recipe {
    Recipe {
        needs: &["h2o", "curl"],
        program: |place, _| {
            let (folder, user) = (place.folder(), if_root("user: root\n"));
            let config = place.write(
                "h2o.conf",
                &format!(
                    "{user}listen: {PORT}\nnum-threads: 1\nhosts:\n  default:\n    paths:\n      /:\n        file.dir: {folder}/www\n"
                ),
            );
            let mut command = command("h2o", &["-c"]);
            command.arg(config);
            command
        },
        ..WEB
    }
}

/// A server of a stream, which drops a client to which a write is short.
pub(crate) fn gpsd() -> Recipe {
    Recipe {
        needs: &["gpsd", "python3"],
        program: |_, _| {
            let port = PORT.to_string();
            command(
                "gpsd",
                &["-N", "-n", "-G", "-S", &port, "tcp://127.0.0.1:8083"],
            )
        },
        fetch: Some(Cow::Borrowed("python3 gps.py watch $S 8080 8")),
        helpers: |place| {
            let script = place.write("gps.py", include_str!("gps.py"));
            let mut command = command("python3", &[]);
            command.arg(script).args(["feed", "8083"]);
            vec![(false, command, 8083)]
        },
        ..WEB
    }
}

pub(crate) fn node() -> Recipe {
    Recipe {
        needs: &["node", "curl"],
        program: |place, _| {
            let script = place.write("server.js", include_str!("server.js"));
            let mut command = command("node", &[]);
            command.arg(script).arg(place.path("www"));
            command
        },
        ..WEB
    }
}

/// libuv registers with epoll by io_uring: on request, and from libuv 1.50 on always.
pub(crate) fn node_with_io_uring() -> Recipe {
    Recipe {
        program: |place, name| {
            let mut command = (node().program)(place, name);
            command.env("UV_USE_IO_URING", "1");
            command
        },
        ..node()
    }
}

/// With its default isolation: the connection for data is accepted by one process and sent on by
/// another, made by a raw clone(2), that may not start anything.
pub(crate) fn vsftpd() -> Recipe {
    Recipe {
        needs: &["vsftpd", "lftp"],
        root: true,
        program: |place, _| {
            let folder = place.folder();
            std::fs::create_dir_all(place.path("empty")).unwrap();
            let config = place.write(
                "vsftpd.conf",
                &format!(
                    "listen=YES\nlisten_port={PORT}\nbackground=NO\nanonymous_enable=YES\nftp_username=daemon\n\
                     anon_root={folder}/www\nsecure_chroot_dir={folder}/empty\n"
                ),
            );
            let mut command = command("vsftpd", &[]);
            command.arg(config);
            command
        },
        fetch: Some(Cow::Borrowed(
            "lftp --norc -c \"set net:max-retries 1; set net:timeout 30; open ftp://$S:8080; cat $F\" | sha256sum",
        )),
        ..WEB
    }
}

pub(crate) fn rsync_daemon() -> Recipe {
    Recipe {
        needs: &["rsync"],
        program: |place, _| {
            let (folder, root) = (
                place.folder(),
                if is_root() {
                    "use chroot = yes\nuid = 65534\ngid = 65534"
                } else {
                    "use chroot = no"
                },
            );
            let config = place.write(
                "rsyncd.conf",
                &format!("port = {PORT}\nlog file = {folder}/rsync.log\n{root}\n[www]\npath = {folder}/www\n"),
            );
            let mut command = command("rsync", &["--daemon", "--no-detach"]);
            command.arg(format!("--config={}", config.display()));
            command
        },
        fetch: Some(Cow::Borrowed(
            "rsync rsync://$S:8080/www/$F got && sha256sum got; rm -f got",
        )),
        ..WEB
    }
}

fn scp_as(user: &str) -> Cow<'static, str> {
    format!(
        "scp -q -S $(command -v ssh) -P {PORT} -i user -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         {user}@$S:$D/www/$F got && sha256sum got; rm -f got"
    )
    .into()
}

/// A user other than root is served by another process than the one that authenticated the user.
pub(crate) fn sshd_for_a_user() -> Recipe {
    Recipe {
        root: true,
        fetch: Some(scp_as("visitor")),
        ..sshd()
    }
}

pub(crate) fn sshd() -> Recipe {
    Recipe {
        needs: &["sshd", "ssh", "scp", "ssh-keygen"],
        program: |place, _| {
            let folder = place.folder();
            for key in ["host", "user"] {
                let path = place.path(key);
                if !path.exists() {
                    let mut keygen =
                        command("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f"]);
                    assert!(keygen.arg(path).status().unwrap().success());
                }
            }
            let config = place.write(
                "sshd_config",
                &format!(
                    "Port {PORT}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\n\
                     PidFile none\nSubsystem sftp internal-sftp\n"
                ),
            );
            let mut command = command("sshd", &["-D", "-e", "-f"]);
            command.arg(config);
            command
        },
        fetch: Some(scp_as("$(id -un)")),
        // The package's installation would have made a user and a folder.
        mounts: Some(|place| {
            let passwd = place.write(
                "passwd",
                "root:x:0:0:root:/root:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\nvisitor:x:65532:65534::/:/bin/sh\n",
            );
            let shadow = place.write(
                "shadow",
                "root:*:19000::::::\nsshd:*:19000::::::\nvisitor:*:19000::::::\n",
            );
            format!(
                "mount --bind {} /etc/passwd; mount --bind {} /etc/shadow; mount -t tmpfs none /run; mkdir -m 755 /run/sshd",
                passwd.display(),
                shadow.display()
            )
        }),
        ..WEB
    }
}

/// Only the length is compared: iperf3 3.12 reads the file over what a partial write has left in
/// its buffer, so that a slow plain connection too gets another content. For a time and not for a
/// number of bytes: the word that all was sent goes over another connection and would overtake the
/// last bytes.
pub(crate) fn iperf3() -> Recipe {
    Recipe {
        needs: &["iperf3"],
        program: |place, name| {
            let mut command = command("iperf3", &["-s", "-i", "0", "-f", "m"]);
            command.args(["-p", &PORT.to_string(), "-F"]);
            command.arg(place.path("www").join(name));
            command
        },
        fetch: Some(Cow::Borrowed(
            "iperf3 -c $S -p 8080 -R -t $T -F got -i 0 -f m; [ $(wc -c <got) = $(wc -c <www/$F) ] && sha256sum www/$F; rm -f got",
        )),
        ..WEB
    }
}

/// The program itself opens the connection and sends.
pub(crate) fn curl_upload() -> Recipe {
    Recipe {
        needs: &["curl", "python3"],
        options: &["--outbound"],
        program: |place, name| {
            let mut command = command("curl", &["-sS", "--fail", "-T"]);
            command.arg(place.path("www").join(name));
            command.arg(format!("http://{}:8082/got", place.client()));
            command
        },
        fetch: None,
        helpers: |place| {
            let script = place.write("receiver.py", include_str!("receiver.py"));
            let mut command = command("python3", &[]);
            command.arg(script).arg(place.path(""));
            vec![(true, command, 8082)]
        },
        ..WEB
    }
}

/// Two clients by TCP Fast Open: the first gets the cookie, and the second one's request comes with
/// its first packet.
pub(crate) fn fast_open() -> Recipe {
    Recipe {
        needs: &["python3", "curl"],
        program: |place, _| {
            let script = place.write("fast_open.py", include_str!("fast_open.py"));
            let mut command = command("python3", &[]);
            command.arg(script).arg(PORT.to_string());
            command.args([place.path("www"), place.path("opened")]);
            command
        },
        fetch: Some(Cow::Borrowed(
            "for n in 1 2; do curl -sS --fail --tcp-fastopen http://$S:8080/$F | sha256sum; done",
        )),
        copies: 2,
        ..WEB
    }
}

/// A server whose clocks were set forward by a day, and its kernel's were not. What makes the
/// namespace is not in it, but its children are.
pub(crate) fn in_a_time_namespace() -> Recipe {
    Recipe {
        needs: &["unshare", "python3", "curl"],
        root: true,
        program: |place, _| {
            let mut command = command("unshare", &["--time", "--monotonic", "86400"]);
            let starts = r#""$@" & trap "kill $!" INT TERM; wait; wait"#;
            command.args(["sh", "-c", starts, "sh"]);
            let server = python_serves(place, PORT);
            command.arg(server.get_program()).args(server.get_args());
            command
        },
        ..WEB
    }
}
