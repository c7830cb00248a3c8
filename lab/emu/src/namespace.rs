// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{EmuError, netlink};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A network namespace. One made by [`Namespace::new`] has no name and no file. It exists while a process, a device's
/// file descriptor or a value of this type uses it. Clones are the same namespace.
///
/// ```no_run
/// use alcc_emu::Namespace;
/// use std::process::Command;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// alcc_emu::prepare()?; // before the first thread
/// let inside = Namespace::new()?;
/// let here = inside.run(|| std::net::TcpListener::bind("127.0.0.1:80"))??; // its own port 80
/// let mut command = Command::new("ip");
/// command.arg("address");
/// inside.spawn(command)?.wait()?;
/// # drop(here);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
    /// True if [`Namespace::new`] made it.
    ours: bool,
}

/// Environment variable with the id of the namespace, for programs started in it: see [`is_emulated`].
const MARK: &str = "ALCC_EMULATED";

/// True if the calling thread is in a namespace that [`Namespace::new`] made for this program or one of its parents. It
/// is false for a program that has changed to another namespace since, such as a VPN's, and for namespaces made by
/// other programs.
pub fn is_emulated() -> bool {
    let here = of_this_thread().ok().and_then(|fd| id(fd.as_fd()));
    here.is_some() && here == std::env::var(MARK).ok()
}

/// The id of a namespace, unique among existing ones.
fn id(fd: BorrowedFd<'_>) -> Option<String> {
    let about = nix::sys::stat::fstat(fd).ok()?;
    Some(format!("{}:{}", about.st_dev, about.st_ino))
}

fn of_this_thread() -> Result<OwnedFd, EmuError> {
    File::open("/proc/thread-self/ns/net")
        .map(OwnedFd::from)
        .map_err(EmuError::os("open /proc/thread-self/ns/net"))
}

impl Namespace {
    /// A new, empty network namespace, with the loopback device up and forwarding between its devices.
    ///
    /// # Errors
    /// [`EmuError::Os`] without the privileges that [`crate::prepare`] provides.
    pub fn new() -> Result<Self, EmuError> {
        let made = on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(EmuError::os("make a network namespace"))?;
            netlink::loopback_up().map_err(EmuError::os("switch the loopback device on"))?;
            // A nested emulator makes this namespace a router. The file shows the namespace of the thread that opens
            // it. If /proc is read-only, only nesting does not work.
            let _ = fs::write("/proc/sys/net/ipv4/ip_forward", "1");
            let _ = fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1");
            // A new device that forwards joins the group of all routers, and reports it on the link.
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/forwarding", "0");
            of_this_thread()
        })?;
        Ok(Self {
            fd: Arc::new(made?),
            ours: true,
        })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// [`EmuError::Os`] if /proc is missing.
    pub fn current() -> Result<Self, EmuError> {
        Ok(Self {
            fd: Arc::new(of_this_thread()?),
            ours: false,
        })
    }

    /// Runs `f` on a separate thread inside this namespace and waits for it. Sockets and devices that `f` opens stay in
    /// this namespace and may be used anywhere afterwards.
    ///
    /// # Errors
    /// [`EmuError::Os`] if the namespace cannot be entered or no thread can be started. A panic of `f` is resumed in
    /// the caller.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> Result<R, EmuError> {
        on_thread(|| {
            self.enter()
                .map_err(EmuError::os("enter a network namespace"))?;
            Ok(f())
        })?
    }

    /// Starts a thread inside this namespace, with all signals blocked. Its sockets and its own threads are in the
    /// namespace, too.
    ///
    /// # Errors
    /// [`EmuError::Os`] if no thread can be started; the thread's result contains it if the namespace cannot be
    /// entered.
    pub fn spawn_thread<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T, EmuError>>, EmuError> {
        let own = self.clone();
        crate::emulator::spawn(name, move || {
            own.enter()
                .map_err(EmuError::os("enter a network namespace"))?;
            Ok(work())
        })
    }

    /// The threads of this process that are inside this namespace now.
    pub fn threads(&self) -> Vec<u32> {
        let own = id(self.fd.as_fd());
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
        let ids = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter(|thread: &u32| {
            let file = File::open(format!("/proc/self/task/{thread}/ns/net"));
            own.is_some() && file.is_ok_and(|file| id(file.as_fd()) == own)
        })
        .collect()
    }

    /// Starts a program inside this namespace.
    ///
    /// # Errors
    /// The errors of [`Command::spawn`]: `NotFound` for a missing program.
    pub fn spawn(&self, mut command: Command) -> std::io::Result<Child> {
        self.enter_before(&mut command);
        command.spawn()
    }

    /// Makes the program start inside this namespace. Later `pre_exec` functions run inside it, too.
    pub fn enter_before(&self, command: &mut Command) {
        let own = self.clone();
        if let Some(id) = id(self.fd.as_fd()).filter(|_| self.ours) {
            command.env(MARK, id);
        }
        // SAFETY: between fork and exec only one system call is made.
        unsafe { command.pre_exec(move || own.enter().map_err(Into::into)) };
    }

    /// Moves the calling thread into this namespace.
    pub(crate) fn enter(&self) -> nix::Result<()> {
        setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET)
    }

    /// True if both are the same namespace.
    pub fn is_same(&self, other: &Self) -> bool {
        let own = id(self.fd.as_fd());
        own.is_some() && own == id(other.fd.as_fd())
    }

    /// The id of the namespace, unique while it exists: device and inode of `/proc/PID/ns/net`.
    pub fn id(&self) -> Option<String> {
        id(self.fd.as_fd())
    }

    pub(crate) fn raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `f` in a separate thread, because namespaces belong to threads, and the caller's thread must not stay in
/// another one.
fn on_thread<R: Send>(f: impl FnOnce() -> R + Send) -> Result<R, EmuError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("alcc-namespace".to_owned())
            .spawn_scoped(scope, || {
                be_ordinary();
                f()
            })
            .map_err(EmuError::os("start a thread"))?;
        Ok(thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Drops the real-time priority that the calling thread has inherited. A write to those files of /proc/sys/net that
/// configure a device retries inside the kernel until it has the routing lock. Under `chrt -f` two such threads
/// occupied both cores, and the lock's holder, of the same priority, never ran again. Lower priorities than usual
/// (SCHED_BATCH, SCHED_IDLE) are harmless, and stay.
fn be_ordinary() {
    // SAFETY: 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    if ![libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&policy) {
        return;
    }
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid, and 0 is the calling thread. Nothing depends on success.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const none) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: 0 is the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn work_in_a_namespace_is_not_urgent() {
        let urgent = libc::sched_param { sched_priority: 1 };
        // SAFETY: the parameter is valid, and 0 is the calling thread.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const urgent) } != 0 {
            println!("skipped: needs the right to a real-time priority");
            return;
        }
        let inside = on_thread(policy).unwrap();
        assert_eq!((policy(), inside), (libc::SCHED_FIFO, libc::SCHED_OTHER));
    }

    #[test]
    fn a_thread_of_a_lower_scheduling_class_keeps_it() {
        let none = libc::sched_param { sched_priority: 0 };
        for asked in [libc::SCHED_BATCH, libc::SCHED_IDLE] {
            // A thread of its own: an idle one may not be allowed to become ordinary again.
            let inside = std::thread::scope(|scope| {
                let asks = scope.spawn(|| {
                    // SAFETY: the parameter is valid, and 0 is the calling thread.
                    let set = unsafe { libc::sched_setscheduler(0, asked, &raw const none) };
                    assert_eq!(set, 0, "{asked}");
                    on_thread(policy).unwrap()
                });
                asks.join().unwrap()
            });
            assert_eq!(inside, asked);
        }
    }
}
