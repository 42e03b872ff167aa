//! What the table of file-system types says about each type. `table.rs` has the rows; nothing is looked up here.

/// How data on a file system is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Not at all: it is in memory.
    Volatile,
    /// One `syncfs` makes durable all that was written to it.
    Whole,
    /// Only an `fsync` of a file or directory is known to make it durable.
    Each,
}

/// Who moves bytes from file to file without this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyBy {
    /// The servers.
    Server,
    /// The kernel, from page to page (`copy_file_range`). Some other file systems have lost bytes by it.
    Pages,
    /// None, or unknown.
    Nobody,
}

/// Where the data of a mount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// On this host: a disk or memory.
    Local,
    /// On servers, or on a disk that several hosts write to.
    Remote,
    /// Where its layers are (overlay).
    Layers,
    /// Not known from the type alone (FUSE, autofs). Never taken for local.
    Unknown,
}

/// Whether the handles of `name_to_handle_at` name the same files elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handles {
    /// On every host that mounts the file system.
    AllHosts,
    /// On this host only, or on this mount only.
    ThisHost,
    /// The type has no handles, or it is not known.
    Nowhere,
}

/// How the identity of a mounted file system is found. `atta-mounts` has the code of each rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriRule {
    /// The boot id of the kernel and the device number; a loop device leads to its image.
    Device,
    /// The UUID of a disk that several hosts write to.
    SharedDisk,
    /// The layers, in order.
    Layers,
    /// `HOST:/EXPORT`: the export is a path on the server.
    Export,
    /// `//HOST/SHARE/DIRECTORY`.
    Share,
    /// `NID,NID:NID:/NAME/DIRECTORY`: a set of addresses of management servers.
    Lustre,
    /// The name of the file system in its cluster, with or without `/dev/`.
    ClusterName,
    /// The management host in `cfgFile=`.
    BeeGfs,
    /// `USER@FSID.NAME=/DIRECTORY`, `MONITOR,MONITOR:/DIRECTORY`, or only the attribute `ceph.cluster_fsid`.
    Ceph,
    /// `HOST:/VOLUME/DIRECTORY` or `HOST:VOLUME`.
    Volume,
    /// `mfs#HOST:PORT/DIRECTORY`.
    MooseFs,
    /// `HOST,HOST/NAME`.
    Weka,
    /// Pool and container in the options, or in the attribute `user.daos`.
    Daos,
    /// `tcp://HOST:PORT/NAME`.
    Pvfs,
    /// `panfs://HOST/VOLUME` or `HOST:VOLUME`.
    PanFs,
    /// A path on the servers `nodename=HOST:HOST`.
    Dvs,
    /// One name space for the whole world, by cell.
    Afs,
    /// `HOST` with `trans=tcp`; otherwise a tag that only the hypervisor knows.
    NineP,
    /// `USER@HOST:DIRECTORY`.
    Ssh,
    /// The name of a bucket that is unique for its provider.
    Bucket,
    /// The attribute `user.fqrn`, a name that is unique in the world.
    Repository,
    /// Nothing in the mount table names it. It must be asked by a probe.
    Unknown,
}

/// How mounts of a type appear in the mount table, and what they are a view of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mounts {
    /// Types as `/proc/self/mountinfo` has them.
    pub types: &'static [&'static str],
    /// How the source begins where the type alone does not tell (`fuse`).
    pub source_prefix: Option<&'static str>,
    /// How URIs begin. Empty: as the type.
    pub scheme: &'static str,
    /// Where the data is.
    pub reach: Reach,
    /// Whether one file may be on several servers.
    pub is_parallel: bool,
    /// How the identity is found.
    pub rule: UriRule,
    /// Speed of one client, relative to a small NFS server (1).
    pub speed: u8,
    /// How many clients get that speed at once, relative to one server (1).
    pub scalability: u8,
    /// Whether file handles mean the same elsewhere.
    pub handles: Handles,
}

impl Mounts {
    /// The types of a row as the mount table has them.
    pub(super) const fn of(self, types: &'static [&'static str]) -> Self {
        Self { types, ..self }
    }

    pub(super) const fn named_by(self, rule: UriRule, scheme: &'static str) -> Self {
        Self { rule, scheme, ..self }
    }

    pub(super) const fn with_source(self, prefix: &'static str) -> Self {
        Self { source_prefix: Some(prefix), ..self }
    }

    pub(super) const fn with_handles(self, handles: Handles) -> Self {
        Self { handles, ..self }
    }

    pub(super) const fn rated(self, speed: u8, scalability: u8) -> Self {
        Self { speed, scalability, ..self }
    }
}

/// A local disk. Speeds and scalabilities of the presets are those of FGFS (Ahn 2013, table I): a guess until they are measured.
pub(super) const DISK: Mounts = Mounts {
    types: &[],
    source_prefix: None,
    scheme: "",
    reach: Reach::Local,
    is_parallel: false,
    rule: UriRule::Device,
    speed: 2,
    scalability: 1,
    handles: Handles::ThisHost,
};

/// Memory of the kernel.
pub(super) const MEMORY: Mounts = Mounts { speed: 10, ..DISK };

/// One server.
pub(super) const SERVER: Mounts =
    Mounts { reach: Reach::Remote, speed: 1, handles: Handles::Nowhere, ..DISK };

/// Many servers, for which a client is no more than one of many.
pub(super) const PARALLEL: Mounts = Mounts { is_parallel: true, scalability: 6, ..SERVER };

/// Nothing is known.
pub(super) const UNKNOWN: Mounts = Mounts { reach: Reach::Unknown, rule: UriRule::Unknown, ..SERVER };
