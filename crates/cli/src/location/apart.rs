//! Questions to file systems that may not answer: each is asked in a process of its own. If that makes no progress for as long as the deadline, it is
//! killed and left behind: a call to a dead server can hold a process for ever, also against SIGKILL. It does not know what the answers mean.

use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use atta_entry::{Code, Errno};
use atta_mounts::{Host, Probes, SystemProbes};
use atta_ops::resume::hex;
use atta_runtime::Stop;
use atta_status::{Detail, Evidence, Looks, NoRoom, Room, Rooms, Sighting};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::{Question, WORD};

/// How often it is looked whether the process goes on, and whether this one is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Processes that ask at once.
const TOGETHER: usize = 32;
/// Of this program, whatever is at its path now.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Asks in other processes.
#[derive(Clone, Debug)]
pub(super) struct Apart {
    pub(super) deadline: Duration,
    pub(super) stop: Stop,
}

impl Apart {
    /// An answer, if there is one.
    pub(super) fn ask<T: Code>(&self, question: &Question) -> Option<T> {
        self.answer(question).ok()
    }

    /// An answer, or why there is none: no answer in time, or the error of starting the process.
    pub(super) fn answer<T: Code>(&self, question: &Question) -> Result<T, Evidence> {
        let mut command = Command::new(OWN_PROGRAM);
        command.arg(WORD).arg(hex(&question.encoded()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let failed =
            |error: &std::io::Error| Evidence::Failed(Errno(error.raw_os_error().unwrap_or(Errno::IO.0)));
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let output = child.stdout.take().ok_or(Evidence::Failed(Errno::IO))?;
        let Some(bytes) = self.read(&child, output, question.takes_long()) else {
            let _ = child.kill();
            return Err(Evidence::NoAnswer);
        };
        // It has closed its output, so it ends.
        let ended = child.wait().map_err(|error| failed(&error))?;
        let decoded = if ended.success() { T::decode_all(&bytes) } else { None };
        decoded.ok_or(Evidence::Failed(Errno::IO))
    }

    /// A path without symbolic links. As it is, if its file system does not answer.
    pub(super) fn resolved(&self, path: &[u8]) -> Vec<u8> {
        let found: Option<Option<Vec<u8>>> = self.ask(&Question::Resolve(path.to_vec()));
        found.flatten().unwrap_or_else(|| path.to_vec())
    }

    /// All that the process writes. None: it makes no progress. `extends`: it has more time as long as it runs, as when it reads a file.
    fn read(&self, child: &Child, mut output: ChildStdout, extends: bool) -> Option<Vec<u8>> {
        use std::io::Read as _;
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        let (mut since, mut ran) = (Instant::now(), None);
        while since.elapsed() < self.deadline && !self.stop.is_set() {
            if !is_readable(&output) {
                let now = time_run(child.id()).filter(|_| extends);
                if now != ran {
                    (since, ran) = (Instant::now(), now);
                }
                continue;
            }
            match output.read(&mut part) {
                Ok(0) => return Some(bytes),
                Ok(count) => bytes.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        None
    }
}

fn is_readable(output: &ChildStdout) -> bool {
    let wait = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
    let mut polled = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)];
    poll(&mut polled, Some(&wait)).is_ok_and(|count| count > 0)
}

/// For how long a process has run on a processor, in ns. One that waits for a server does not run. None: the kernel does not say.
fn time_run(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

impl Looks for Apart {
    fn look(&self, path: &[u8], detail: Detail) -> Sighting {
        self.answer(&Question::Look(path.to_vec(), detail)).unwrap_or_else(Sighting::of)
    }
}

impl Rooms for Apart {
    /// Many at once: each may take until its deadline.
    fn rooms(&self, points: &[Vec<u8>], is_write_wanted: bool) -> Vec<Result<Room, NoRoom>> {
        let ask = |point: &Vec<u8>| match self.answer(&Question::Room(point.clone(), is_write_wanted)) {
            Ok(room) => room,
            Err(Evidence::Failed(errno)) => Err(NoRoom::Unreadable(errno)),
            Err(_) => Err(NoRoom::NoAnswer),
        };
        let together = |points: &[Vec<u8>]| {
            std::thread::scope(|scope| {
                let asked: Vec<_> = points.iter().map(|point| scope.spawn(move || ask(point))).collect();
                let answers = asked.into_iter().map(|each| each.join().unwrap_or(Err(NoRoom::NoAnswer)));
                answers.collect::<Vec<_>>()
            })
        };
        points.chunks(TOGETHER).flat_map(together).collect()
    }
}

/// What is asked of the system while a mount table is built, each question with a deadline.
#[derive(Debug)]
pub(super) struct ProbesApart {
    pub(super) system: SystemProbes,
    pub(super) apart: Apart,
}

impl Probes for ProbesApart {
    fn host(&self) -> Host {
        self.system.host()
    }

    fn file(&self, path: &[u8]) -> Option<Vec<u8>> {
        let is_of_kernel = [&b"/proc/"[..], b"/sys/"].iter().any(|top| path.starts_with(top));
        match is_of_kernel {
            true => self.system.file(path),
            // A mount option names it: it may be anywhere.
            false => self.apart.ask(&Question::File(path.to_vec()))?,
        }
    }

    fn link(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.system.link(path)
    }

    fn names(&self, directory: &[u8]) -> Vec<Vec<u8>> {
        self.system.names(directory)
    }

    fn attribute(&self, mount_point: &[u8], name: &str) -> Option<Vec<u8>> {
        self.apart.ask(&Question::Attribute(mount_point.to_vec(), name.as_bytes().to_vec()))?
    }

    fn addresses(&self, server: &[u8]) -> Vec<IpAddr> {
        let found: Option<Vec<String>> = self.apart.ask(&Question::Addresses(server.to_vec()));
        found.unwrap_or_default().iter().filter_map(|address| address.parse().ok()).collect()
    }
}
