//! Mounts of this machine, in mount namespaces of their own: what the kernel says of each path is what the table says. Needs root; skipped
//! with the reason otherwise.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use atta_mounts::{Holder, Host, LiveTable, MountTable, Relation, Silent, SystemProbes, Uri};
use atta_sys::file_systems::Reach;
use atta_testkit::hosts::Hosts;
use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;

/// Prints which mount the kernel finds for each path, then the table.
const REPORT: &str = r#"
report() {
  for path; do exec 3<"$path"; sed -n 's/^mnt_id:\t*//p' /proc/self/fdinfo/3 | tr '\n' ' '; printf '%s\0' "$path"; exec 3<&-; done
  printf '\0'; cat /proc/self/mountinfo
}
"#;

/// What a script in a mount namespace of its own reports: paths with their mounts as the kernel finds them, and the table.
struct Report {
    found: Vec<(u64, String)>,
    table: MountTable,
}

impl Report {
    /// Runs the script in a directory, in which it may mount what it likes; `$1` is the directory. It ends with `report PATH...`.
    fn of(scratch: &Path, script: &str) -> io::Result<Self> {
        if !skip::is_root() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it needs root"));
        }
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "bash",
            "-euc",
            &format!("{REPORT}{script}"),
            "bash",
        ]);
        command.arg(scratch).current_dir(scratch).stdin(Stdio::null());
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.starts_with("unshare:") {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, said));
        }
        if output.status.code() == Some(4) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, said));
        }
        assert!(output.status.success(), "{said}");
        Ok(Self::parse(&output.stdout, &SystemProbes::new().expect("read the boot id")))
    }

    fn parse(output: &[u8], probes: &dyn atta_mounts::Probes) -> Self {
        let end = output.windows(2).position(|pair| pair == b"\0\0").expect("an end");
        let text = String::from_utf8(output[..end].to_vec()).expect("paths");
        let row = |row: &str| {
            let (id, path) = row.split_once(' ').expect("an id and a path");
            (id.parse().expect("an id"), path.to_owned())
        };
        let found = text.split('\0').map(row).collect();
        let table = MountTable::from_bytes(&output[end + 2..], probes).expect("a table");
        Self { found, table }
    }

    /// All paths lead to the mounts that the kernel finds.
    fn assert_found(&self) {
        for (id, path) in &self.found {
            let found = self.table.mount_of(path.as_bytes()).map(|mount| mount.id);
            assert_eq!(found, Some(*id), "{path}");
        }
    }

    fn uri(&self, path: &Path) -> Uri {
        use std::os::unix::ffi::OsStrExt as _;
        self.table.uri_of(path.as_os_str().as_bytes()).expect("a name")
    }
}

#[test]
fn stacks_and_binds_are_found_as_the_kernel_does() {
    let test = "stacks_and_binds_are_found_as_the_kernel_does";
    let scratch = Scratch::new("stacks").unwrap();
    let script = r#"
        mkdir -p a b stack/in hidden/deep 'odd name#\x'
        mount -t tmpfs one stack; mkdir stack/in; mount -t tmpfs in stack/in
        mount -t tmpfs two stack; mkdir stack/in
        mount --bind /usr/share stack
        mount -t tmpfs under hidden/deep; mount -t tmpfs over hidden; mkdir hidden/deep
        mount -t tmpfs t a; mkdir a/sub; touch a/file; mount --bind a/sub b; mount -t tmpfs below b
        touch 'odd name#\x/f'; mount --bind a/file 'odd name#\x/f'
        report / "$1" "$1/stack" "$1/stack/doc" "$1/hidden" "$1/hidden/deep" "$1/a/sub" "$1/b" "$1/odd name#\x/f" /proc /dev
    "#;
    let Some(report) = skip::unless_available(test, Report::of(scratch.path(), script)) else { return };
    assert_eq!(report.found.len(), 11);
    report.assert_found();
    // Defect 5: a bind mount is the directory that it shows.
    let (shown, bound) = (report.uri(Path::new("/usr/share/doc")), report.uri(&scratch.join("stack/doc")));
    assert_eq!((shown.relation(&bound), shown.hash() == bound.hash()), (Relation::Same, true));
    let file = report.uri(&scratch.join("odd name#\\x/f"));
    assert_eq!(file.relation(&report.uri(&scratch.join("a/file"))), Relation::Same);
    assert_eq!(
        report.uri(&scratch.join("b/x")).relation(&report.uri(&scratch.join("a/sub/x"))),
        Relation::Different
    );
}

// Lookups start in the root of the process, below what is mounted over it.
#[test]
fn what_is_mounted_over_the_root_is_not_entered() {
    let test = "what_is_mounted_over_the_root_is_not_entered";
    let scratch = Scratch::new("root").unwrap();
    let script = r#"
        mkdir m n; mount -t tmpfs over /; mount -t tmpfs m "$1/m"; mount -t tmpfs again /
        report / "$1" "$1/m" "$1/n" /usr /proc /dev
    "#;
    let Some(report) = skip::unless_available(test, Report::of(scratch.path(), script)) else { return };
    assert_eq!(report.found.len(), 7);
    report.assert_found();
    assert!(!report.uri(Path::new("/usr/bin")).to_string().starts_with("tmpfs://"));
}

#[test]
fn many_random_mounts_are_found() {
    let test = "many_random_mounts_are_found";
    let scratch = Scratch::new("random").unwrap();
    // Directories are made on whatever is on top, then something is mounted on one of them: also on one that has mounts below it.
    let script = r#"
        RANDOM=7; dirs=()
        for a in x y z; do for b in x y z; do dirs+=("$1/$a" "$1/$a/$b" "$1/$a/$b/x"); done; done
        mkdir -p "${dirs[@]}"
        for ((n = 0; n < 60; n++)); do
          at=${dirs[RANDOM % ${#dirs[@]}]}; from=${dirs[RANDOM % ${#dirs[@]}]}
          if ((RANDOM % 3)); then mount -t tmpfs "t$n" "$at"; else mount --bind "$from" "$at"; fi
          mkdir -p "${dirs[@]}"
        done
        report "${dirs[@]}"
    "#;
    let Some(report) = skip::unless_available(test, Report::of(scratch.path(), script)) else { return };
    assert!(report.table.len() > 60);
    report.assert_found();
}

#[test]
fn tmpfs_with_the_source_of_nfs_is_local() {
    let test = "tmpfs_with_the_source_of_nfs_is_local";
    let scratch = Scratch::new("source").unwrap();
    let script = r#"
        mkdir m n; mount -t tmpfs 10.0.0.1:/export m; mount -t tmpfs 10.0.0.1:/export n
        report "$1/m" "$1/n"
    "#;
    let Some(report) = skip::unless_available(test, Report::of(scratch.path(), script)) else { return };
    report.assert_found();
    let (one, other) = (report.uri(&scratch.join("m/f")), report.uri(&scratch.join("n/f")));
    assert_eq!((one.identity().reach, one.relation(&other)), (Reach::Local, Relation::Different));
    assert!(one.to_string().starts_with("tmpfs://"), "{one}");
}

#[test]
fn overlays_are_followed_to_their_layers() {
    let test = "overlays_are_followed_to_their_layers";
    let scratch = Scratch::new("overlay").unwrap();
    let script = r#"
        mkdir t; mount -t tmpfs t t; cd t
        mkdir 'low:er,1' l2 u w ro rw
        mount -t overlay o -o 'lowerdir=low\:er\,1:l2,upperdir=u,workdir=w' rw || { echo 'no overlay' >&2; exit 4; }
        mount -t overlay o -o "lowerdir=$1/t/l2:/usr/share" ro
        report "$1/t/ro" "$1/t/rw" "$1/t/l2"
    "#;
    let Some(report) = skip::unless_available(test, Report::of(scratch.path(), script)) else { return };
    report.assert_found();
    let read_only = report.uri(&scratch.join("t/ro/f"));
    let (lower, share) = (report.uri(&scratch.join("t/l2")), report.uri(Path::new("/usr/share")));
    let expected = format!("overlay://[{lower}][{share}]/f");
    assert_eq!(read_only.to_string(), expected);
    // Options of this one have relative paths, so that it is not known where they are.
    let merged = report.table.mount_of(scratch.join("t/rw").to_str().unwrap().as_bytes()).unwrap();
    assert_eq!(report.table.layers_of(merged), [None, None, None]);
    assert_eq!(report.uri(&scratch.join("t/rw")).relation(&read_only), Relation::Different);
}

#[test]
fn loop_mounts_are_followed_to_their_images() {
    let test = "loop_mounts_are_followed_to_their_images";
    let _lock = Lock::for_mounts().unwrap();
    let image = atta_testkit::mounts::loop_image("ext4", 16);
    let Some(image) = skip::unless_available(test, image) else { return };
    let table = LiveTable::read(Box::new(SystemProbes::new().unwrap())).unwrap();
    let of = |path: &Path| {
        use std::os::unix::ffi::OsStrExt as _;
        table.table().uri_of(path.as_os_str().as_bytes()).unwrap()
    };
    let file = of(&image.path().parent().unwrap().join("image"));
    assert_eq!(of(&image.path().join("a")).to_string(), format!("ext4://[{file}]/a"));
    let once = MountTable::read(&SystemProbes::new().unwrap()).unwrap();
    assert_eq!(once.len(), table.table().len());
    drop(image);
    let Some(image) = skip::unless_available(test, atta_testkit::mounts::loop_image("btrfs", 128)) else {
        return;
    };
    let table = MountTable::read(&SystemProbes::new().unwrap()).unwrap();
    let uri = table.uri_of(image.path().to_str().unwrap().as_bytes()).unwrap();
    let uuid = uri.identity().uuid.clone().expect("the kernel knows the UUIDs of btrfs");
    assert_eq!(uuid.len(), 36);
}

#[test]
fn subvolumes_and_uuids_of_btrfs_are_found() {
    let test = "subvolumes_and_uuids_of_btrfs_are_found";
    let _lock = Lock::for_mounts().unwrap();
    let scratch = Scratch::new("btrfs").unwrap();
    let script = r#"
        command -v mkfs.btrfs >/dev/null && command -v btrfs >/dev/null || { echo 'no btrfs-progs' >&2; exit 4; }
        truncate --size=128M image; mkdir top sub
        mkfs.btrfs -q image >/dev/null; mount -o loop image top
        btrfs subvolume create top/@home >/dev/null
        mount -o subvol=@home "$(findmnt -no SOURCE top)" sub
        report "$1/top" "$1/sub"
    "#;
    let Some(report) = skip::unless_available(test, Report::of(scratch.path(), script)) else { return };
    report.assert_found();
    let (top, sub) = (report.uri(&scratch.join("top/@home/f")), report.uri(&scratch.join("sub/f")));
    assert_eq!(top.path(), b"/@home/f");
    // The namespace is gone, and with it the loop device, so that the image is not known.
    assert_eq!((top.relation(&sub), top.hash() == sub.hash()), (Relation::Same, true));
}

#[test]
fn changes_of_the_table_are_noticed() {
    let test = "changes_of_the_table_are_noticed";
    let _lock = Lock::for_mounts().unwrap();
    let scratch = Scratch::new("live").unwrap();
    let mut live = LiveTable::read(Box::new(SystemProbes::new().unwrap())).unwrap();
    let path = scratch.path().to_str().unwrap().as_bytes();
    let before = live.table().uri_of(path).unwrap();
    let Some(mount) = skip::unless_available(test, Mount::tmpfs(scratch.path(), 1 << 20)) else { return };
    assert_eq!(live.table().uri_of(path).unwrap(), before, "as it was read");
    assert_eq!(live.refresh(), Ok(true));
    assert!(live.table().uri_of(path).unwrap().to_string().starts_with("tmpfs://"));
    drop(mount);
    assert_eq!(live.refresh(), Ok(true));
    assert_eq!(live.table().uri_of(path).unwrap(), before);
}

/// Two hosts on one kernel: each has a tmpfs of its own, and both share the machine's disk.
#[test]
fn emulated_hosts_that_share_a_disk_are_one() {
    let test = "emulated_hosts_that_share_a_disk_are_one";
    let _lock = Lock::for_mounts().unwrap();
    let scratch = Scratch::new("shared").unwrap();
    let Some(hosts) = skip::unless_available(test, Hosts::new(2)) else { return };
    let table = |host: usize| {
        let script =
            format!("{REPORT} report /dev/shm /etc; exec >&2; cat /proc/sys/kernel/random/boot_id; hostname");
        let output = hosts.on(host).args(["bash", "-euc", &script]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let (boot, name) = said.trim().split_once('\n').expect("boot id and name");
        Report::parse(&output.stdout, &Silent::on(Host::new(boot.as_bytes(), name.as_bytes())))
    };
    let (one, other) = (table(0), table(1));
    one.assert_found();
    other.assert_found();
    let file = scratch.join("file");
    let (first, second) = (one.uri(&file), other.uri(&file));
    assert_eq!((first.relation(&second), first.hash() == second.hash()), (Relation::Same, true));
    assert!(
        first.to_string().contains("@atta1/") && second.to_string().contains("@atta2/"),
        "{first} {second}"
    );
    let memory = Path::new("/dev/shm/file");
    assert_eq!(one.uri(memory).relation(&other.uri(memory)), Relation::Different);
}

/// Two containers with roots of their own. Each has another part of one directory, under another path.
#[test]
fn containers_that_share_a_directory_are_one() {
    let test = "containers_that_share_a_directory_are_one";
    let scratch = Scratch::new("containers").unwrap();
    let container = |shared: &str, at: &str| {
        let script = format!(
            r#"
            mkdir -p shared/sub root; mount -t tmpfs root root; cd root
            mkdir -p usr proc .{at} tmp; ln -s usr/bin usr/lib usr/lib64 usr/sbin .
            mount --bind /usr usr; mount -t proc proc proc; mount --bind "$1/{shared}" .{at}
            export -f report; exec chroot . /bin/bash -euc 'report {at} /tmp /usr/bin'
            "#
        );
        Report::of(scratch.path(), &script)
    };
    let Some(one) = skip::unless_available(test, container("shared", "/data")) else { return };
    let other = container("shared/sub", "/mnt/in").unwrap();
    for each in [&one, &other] {
        each.assert_found();
    }
    let (first, second) = (one.uri(Path::new("/data/sub/f")), other.uri(Path::new("/mnt/in/f")));
    assert_eq!(first.relation(&second), Relation::Same);
    // A loop device is named by its image, which containers may not see.
    if matches!(second.identity().holder, Holder::Local(_)) {
        assert_eq!(first.hash(), second.hash());
    }
    assert_eq!(one.uri(Path::new("/data/f")).relation(&second), Relation::Different);
}
