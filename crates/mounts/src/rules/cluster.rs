//! File systems with an id that all hosts know: a cluster, a pool, a bucket, a disk.

use super::{Found, first_name, last_name, servers, setting, split_once, split_port};
use crate::identity::Holder;
use crate::mount::Mount;
use crate::namer::Asker;
use crate::uri::as_suffix;

/// `USER@FSID.NAME=/DIRECTORY`, or `MONITOR,MONITOR:/DIRECTORY` with the attribute `ceph.cluster_fsid`. Without a name it is the default
/// file system of the cluster. `ceph-fuse` shows neither the file system nor the directory that it mounts, so that nothing names it.
pub(super) fn ceph(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    if mount.kind.starts_with(b"fuse") {
        return None;
    }
    let fsid = |asker: &Asker<'_>| asker.attribute(mount, "ceph.cluster_fsid").map(|id| fsid_of(&id));
    let old = split_once(&mount.source, b":/");
    let new = split_once(&mount.source, b"=");
    // A directory may have an equals sign in its name.
    let is_new = |device: &[u8]| old.is_none_or(|(monitors, _)| device.len() < monitors.len());
    if let Some((device, directory)) = new.filter(|(device, _)| is_new(device)) {
        let (_, named) = split_once(device, b"@")?;
        let (id, name) = split_once(named, b".")?;
        let id = if id.is_empty() { fsid(asker)? } else { fsid_of(id) };
        return Some(Found::new(Holder::Cluster(id), name, directory));
    }
    let (monitors, directory) = old?;
    let holder = match fsid(asker) {
        Some(id) => Holder::Cluster(id),
        None => {
            // A monitor has two ports, one for each version of the protocol.
            let monitors =
                monitors.split(|byte| *byte == b',').map(|monitor| (split_port(monitor).0, &b""[..]));
            Holder::Servers(servers(&monitors.collect::<Vec<_>>(), asker)?)
        }
    };
    let name = mount.option("fs").or_else(|| mount.option("mds_namespace")).unwrap_or_default();
    Some(Found::new(holder, &name, directory))
}

fn fsid_of(text: &[u8]) -> Vec<u8> {
    text.trim_ascii().to_ascii_lowercase()
}

/// The name of the file system, with `/dev/` before it or not, and that of its cluster: in the option `dev=CLUSTER:NAME` if it is another
/// one, else in the settings of the daemon.
pub(super) fn gpfs(mount: &Mount, asker: &Asker<'_>) -> Option<Found> {
    let device = mount.option("dev").map_or_else(|| mount.source.clone(), std::borrow::Cow::into_owned);
    let (cluster, name) = match split_once(&device, b":") {
        Some((cluster, name)) => (cluster.to_vec(), name),
        None => {
            let settings = asker.probes.file(b"/var/mmfs/gen/mmfs.cfg")?;
            (setting(&settings, b"clusterName")?.to_vec(), &device[..])
        }
    };
    let name = last_name(name);
    (!name.is_empty()).then(|| Found::new(Holder::Cluster(cluster), name, b""))
}

/// Pool and container, in the options or in the attribute `user.daos` (`DAOS.POSIX://POOL/CONTAINER`).
pub(super) fn daos(mount: &Mount, asker: &Asker<'_>) -> Option<Found> {
    let container = mount.option("container").or_else(|| mount.option("cont"));
    if let (Some(pool), Some(container)) = (mount.option("pool"), container) {
        return Some(Found::new(Holder::Cluster(pool.into_owned()), &container, b""));
    }
    let value = asker.attribute(mount, "user.daos")?;
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    let (pool, rest) = first_name(split_once(value, b"://")?.1);
    let container = first_name(rest).0;
    (!pool.is_empty() && !container.is_empty())
        .then(|| Found::new(Holder::Cluster(pool.to_vec()), container, b""))
}

/// One tree for the world, with a directory for each cell. Linux's own client also mounts single volumes: `#CELL:VOLUME` or `%CELL:VOLUME`.
pub(super) fn afs(mount: &Mount) -> Found {
    let source = mount.source.strip_prefix(b"#").or_else(|| mount.source.strip_prefix(b"%"));
    match source.and_then(|source| split_once(source, b":")) {
        Some((cell, volume)) => {
            let volume = volume.strip_suffix(b".").unwrap_or(volume);
            Found::new(Holder::Cluster(cell.to_ascii_lowercase()), volume, b"")
        }
        None => Found::new(Holder::Cluster(Vec::new()), b"", b""),
    }
}

/// `BUCKET` or `BUCKET:PREFIX`: one name space for all users of the provider.
pub(super) fn bucket(mount: &Mount) -> Option<Found> {
    let (bucket, prefix) = split_once(&mount.source, b":").unwrap_or((&mount.source, b""));
    // The program's own name says that it serves all buckets of a user, or that the bucket is not shown. A directory that gcsfuse mounts
    // (`--only-dir`) is not shown.
    let is_named = !matches!(bucket, b"" | b"goofys") && mount.kind.ends_with(b"goofys");
    is_named.then(|| Found::new(Holder::Cluster(bucket.to_vec()), b"", prefix))
}

/// The name of a CernVM-FS repository.
pub(super) fn repository(mount: &Mount, asker: &Asker<'_>) -> Option<Found> {
    let name = asker.attribute(mount, "user.fqrn")?;
    Some(Found::new(Holder::Cluster(name.trim_ascii().to_ascii_lowercase()), b"", b""))
}

/// The UUID of a disk that several hosts write to.
pub(super) fn shared_disk(mount: &Mount, asker: &mut Asker<'_>) -> Option<Found> {
    let uuid = asker.uuid(mount)?;
    Some(Found::new(Holder::Cluster(uuid), b"", &as_suffix(b"")))
}
