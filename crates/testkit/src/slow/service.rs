//! A mounted file system, served by threads of this process, one for each request in flight, because a thread that sleeps costs
//! nothing here. Mounts, unmounts and counts; what is answered is in `server.rs` (a computed tree) and `over.rs` (a directory).

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{
    BackgroundSession, Config, Filesystem, InitFlags, KernelConfig, MountOption, Session, SessionACL,
};
use rustix::mount::{UnmountFlags, unmount};

use super::counts::{Counts, Served};
use super::fault::Effect;
use super::faults::Faults;
use super::kept::Kept;
use super::operation::Operation;
use super::options::Options;
use super::over::{Notes, Over};
use super::record::Record;
use super::server::Server;
use super::unsynced::Unsynced;

/// Requests that the kernel sends on its own account (reading ahead); the default of 12 would hide concurrency.
const BACKGROUND: u16 = 1024;

/// A mounted file system that is being served by threads of this process.
#[derive(Debug)]
pub struct Service {
    counts: Arc<Counts>,
    is_armed: Arc<AtomicBool>,
    mountpoint: PathBuf,
    session: Option<BackgroundSession>,
    /// None: nothing is lost.
    unsynced: Option<Arc<Unsynced>>,
}

impl Service {
    /// Mounts and serves; returns when the kernel has taken the file system.
    ///
    /// # Errors
    /// When there is no `/dev/fuse`, no right to mount, no such directory, or the tree is too large.
    pub fn start(options: &Options) -> io::Result<Self> {
        let (counts, is_armed) = (Arc::new(Counts::default()), Arc::default());
        let gate = Gate {
            latency: options.latency,
            faults: Faults::new(&options.faults, options.seed, &is_armed),
            counts: Arc::clone(&counts),
        };
        let mountpoint = std::path::absolute(&options.mountpoint)?;
        let unsynced = options.loses_unsynced.then(|| Arc::new(Unsynced::default()));
        let session = match &options.over {
            Some(directory) => {
                let record = options.record.as_deref().map(Record::open).transpose()?;
                let notes = Notes { unsynced: unsynced.clone(), record };
                let kept = options.keeps_open_names.then(Kept::default);
                let over = Over::new(directory, options.folds_case, gate, notes)?.keeping(kept);
                mount(over, &mountpoint, options)?.spawn()?
            }
            None => {
                let device = Arc::new(OnceLock::new());
                let session = mount(Server::new(options, gate, &device)?, &mountpoint, options)?;
                // Nothing is asked before the session runs, so nothing finds this empty.
                device.get_or_init(|| session.as_fd().try_clone_to_owned());
                session.spawn()?
            }
        };
        Ok(Self { counts, is_armed, mountpoint, session: Some(session), unsynced })
    }

    /// Takes what [`Session::join`] waits for; ends when somebody else unmounts the file system.
    ///
    /// [`Session::join`]: BackgroundSession::join
    pub fn take_session(&mut self) -> Option<BackgroundSession> {
        self.session.take()
    }

    /// The flag that makes `armed` rules apply.
    #[must_use]
    pub fn word(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_armed)
    }

    /// Requests served so far.
    #[must_use]
    pub fn served(&self) -> Served {
        self.counts.served()
    }

    /// Discards unsynced data, if that is enabled. Call it only when no requests are served any more.
    ///
    /// # Errors
    /// The error from discarding it.
    pub fn lose_unsynced(&self) -> io::Result<()> {
        self.unsynced.as_deref().map_or(Ok(()), Unsynced::lose)
    }

    /// Unmounts even if files are open. Their users get errors once this process ends.
    ///
    /// # Errors
    /// Fails if neither the system call nor `fusermount3` succeeds.
    pub fn detach(&self) -> io::Result<()> {
        detach(&self.mountpoint)
    }
}

fn mount<F: Filesystem>(server: F, mountpoint: &Path, options: &Options) -> io::Result<Session<F>> {
    Session::new(server, mountpoint, &config(options))
}

fn detach(mountpoint: &Path) -> io::Result<()> {
    match unmount(mountpoint, UnmountFlags::DETACH) {
        // EINVAL: another process unmounted it just before.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(rustix::io::Errno::PERM) => {
            let status = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(mountpoint).status()?;
            if status.success() {
                return Ok(());
            }
            Err(io::Error::other(format!("fusermount3: {status}")))
        }
        Err(error) => Err(error.into()),
    }
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    let name = "atta-slow-fs".to_owned();
    config.mount_options = vec![MountOption::FSName(name.clone()), MountOption::Subtype(name)];
    config.mount_options.extend(match &options.over {
        // The kernel checks permissions itself, by the modes, as on other file systems.
        Some(_) => {
            [MountOption::RW, MountOption::DefaultPermissions, MountOption::Dev, MountOption::Suid].to_vec()
        }
        None => vec![MountOption::RO],
    });
    // Only root may show a file system to others without a line in /etc/fuse.conf.
    if crate::skip::is_root() {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(options.threads);
    // An answer written past fuser must use the descriptor of its request.
    config.clone_fd = !options.has_unknown_types;
    config
}

/// Every request passes the gate before it is served. The gate counts it, delays it, and applies the rules.
#[derive(Debug)]
pub(super) struct Gate {
    latency: Duration,
    faults: Faults,
    counts: Arc<Counts>,
}

impl Gate {
    /// Counts a request and applies the latency.
    pub(super) fn enter(&self, operation: Operation) {
        let _in_flight = self.counts.enter(operation);
        if !self.latency.is_zero() {
            std::thread::sleep(self.latency);
        }
    }

    /// Applies the rules to a request on the entry at this path below the root. `bytes` is the size of a write.
    pub(super) fn meet(
        &self,
        operation: Operation,
        path: impl FnOnce() -> Vec<u8>,
        bytes: u64,
    ) -> Option<Effect> {
        if self.faults.is_empty() { None } else { self.faults.meet(operation, &path(), bytes) }
    }

    pub(super) const fn faults(&self) -> &Faults {
        &self.faults
    }
}

/// Kernel settings that both file systems need.
pub(super) fn prepare(config: &mut KernelConfig, more: InitFlags) -> io::Result<()> {
    let refused = |nearest| io::Error::other(format!("the kernel's limit is {nearest}"));
    config.set_max_background(BACKGROUND).map_err(refused)?;
    config.set_congestion_threshold(BACKGROUND).map_err(refused)?;
    // Without this, the kernel sends one request per directory at a time.
    let wanted = InitFlags::FUSE_PARALLEL_DIROPS | more;
    let lacking = |flags| io::Error::other(format!("the kernel lacks {flags:?}"));
    config.add_capabilities(wanted).map_err(lacking)
}

/// Number of entries listed before an error: half of the directory, at most ten, and the two dots.
pub(super) fn listed_before_error(entries: u64) -> u64 {
    2 + (entries / 2).min(10)
}
