//! Which file system a path is on, and how to name both so that the name means the same on all hosts. It reads the mount table of this
//! process. It asks no other rank, and it makes no system call on a path that it is asked about.
//!
//! ```text
//!   /proc/self/mountinfo ─▶ Mount ─▶ tree: which mounts are visible ─▶ index: path ─▶ mount
//!        (sys::mount_line)    │
//!                             └─ rule of its type (sys::file_systems) ─▶ Identity ─▶ Uri of its root
//!                                  with answers of Probes: addresses, attributes, small files
//! ```
//!
//! ```text
//!   table.rs     the table: built once, then answers from memory     live.rs      refreshes it when the kernel reports a change
//!   mount.rs     one mount                                           path.rs      paths in normal form
//!   tree.rs      stacked and hidden mounts, the longest prefix       probes.rs    what is asked of the system, as a trait
//!   identity.rs  what identifies a file system                       system.rs    the answers of this host
//!   uri.rs       the global name of a file                           server.rs    names and addresses of servers
//!   namer.rs     from mount to URI, through loops and overlays       aliases.rs   servers that are one, as several hosts know them
//!   rules/       one function for each rule of the table             wire.rs      names as bytes for other ranks
//! ```
//!
//! ```
//! use atta_mounts::{Host, MountTable, Relation, Silent};
//!
//! let text = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
//!              36 21 0:40 / /home rw - nfs4 Server:/export/home rw,addr=192.0.2.7\n";
//! let table = MountTable::from_bytes(text, &Silent::on(Host::new(b"boot", b"node1")))?;
//! let uri = table.uri_of(b"/home/./me//file").unwrap();
//! assert_eq!(uri.to_string(), "nfs://server/export/home/me/file");
//! assert_eq!(uri.canonical(), b"nfs://192.0.2.7/export/home/me/file");
//! // The server may be this host, and export its own disk.
//! assert_eq!(uri.file_system_relation(&table.uri_of(b"/etc").unwrap()), Relation::Unknown);
//! # Ok::<(), atta_mounts::InvalidLine>(())
//! ```

#![forbid(unsafe_code)]

mod aliases;
mod identity;
mod live;
mod mount;
mod namer;
mod path;
mod probes;
mod rules;
mod server;
mod system;
mod table;
mod tree;
mod uri;
mod wire;

#[cfg(test)]
mod fuzz;

pub use aliases::Aliases;
pub use identity::{DeviceOn, Holder, Identity, Relation};
pub use live::LiveTable;
pub use mount::{Device, Mount, Propagation};
pub use path::{absolute, normal, resolved};
pub use probes::{Host, Probes, Silent};
pub use server::{Server, Servers};
pub use system::SystemProbes;
pub use table::{InvalidLine, MountTable, ReadError};
pub use uri::Uri;
