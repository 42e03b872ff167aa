//! A model of files, as simple as possible: the required outcome of each act, and the state of the files after it. It shares no
//! code with the simulated file system. Names have at most two parts.

use std::collections::BTreeMap;

/// A step of a random sequence. Slots are files that it has opened, by number.
#[derive(Clone, Debug)]
pub enum Act {
    Nop,
    Open {
        name: String,
        slot: usize,
        flags: i32,
        mode: u32,
    },
    Close {
        slot: usize,
    },
    /// Reads into buffers of these lengths; with one buffer: `read`.
    Read {
        slot: usize,
        lengths: Vec<usize>,
        at: Option<u64>,
    },
    /// Writes parts; with one part: `write`.
    Write {
        slot: usize,
        parts: Vec<Vec<u8>>,
        at: Option<u64>,
    },
    Seek {
        slot: usize,
        offset: i64,
        whence: i32,
    },
    Truncate {
        slot: usize,
        bytes: u64,
    },
    Allocate {
        slot: usize,
        mode: i32,
        offset: u64,
        bytes: u64,
    },
    Copy {
        from: usize,
        start: u64,
        to: usize,
        target: u64,
        bytes: usize,
    },
    Sync {
        slot: usize,
        data_alone: bool,
    },
    SyncRange {
        slot: usize,
    },
    Advise {
        slot: usize,
    },
    Stat {
        what: What,
    },
    StatFs {
        what: What,
    },
    Rename {
        from: String,
        to: String,
        flags: u32,
    },
    Unlink {
        name: String,
        is_directory: bool,
    },
    MakeDirectory {
        name: String,
    },
    Symlink {
        target: String,
        name: String,
    },
    Link {
        from: String,
        to: String,
    },
    ReadLink {
        name: String,
        room: usize,
    },
    SetMode {
        what: What,
        mode: u32,
    },
    SetOwner {
        what: What,
    },
    SetTimes {
        what: What,
        seconds: i64,
    },
    GetAttribute {
        what: What,
        name: &'static str,
        room: usize,
    },
    SetAttribute {
        what: What,
        name: &'static str,
        value: Vec<u8>,
        create: i32,
    },
    ListAttributes {
        what: What,
    },
    RemoveAttribute {
        what: What,
        name: &'static str,
    },
    Access {
        what: What,
        mode: i32,
    },
    ReadDirectory {
        slot: usize,
    },
}

/// A file, by its name or by its descriptor.
#[derive(Clone, Debug)]
pub enum What {
    Name(String, bool),
    Slot(usize),
}

/// The observed outcome of an operation. New descriptors count as 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub outcome: Result<u64, i32>,
    pub bytes: Vec<u8>,
    /// The modification time of the file, if the operation returns it.
    pub modified: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    File(Vec<u8>),
    Directory,
    Link(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    kind: Kind,
    mode: u32,
    /// The modification time, if an act has set it.
    modified: Option<i64>,
    attributes: BTreeMap<&'static str, Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    node: usize,
    flags: i32,
    position: u64,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    nodes: Vec<Node>,
    names: BTreeMap<(usize, String), usize>,
    open: BTreeMap<usize, Open>,
}

type Told = Result<(u64, Vec<u8>), i32>;

fn plain(number: u64) -> Told {
    Ok((number, Vec::new()))
}

impl Model {
    pub fn new() -> Self {
        let root = Node { kind: Kind::Directory, mode: 0o755, modified: None, attributes: BTreeMap::new() };
        Self { nodes: vec![root], names: BTreeMap::new(), open: BTreeMap::new() }
    }

    /// The possible states after an act with this outcome; none: the outcome is impossible.
    pub fn after(&self, act: &Act, seen: &Seen, may_be_short: bool, injected: &[i32]) -> Vec<Self> {
        let mut next = self.clone();
        match seen.outcome {
            Ok(moved) => {
                let most = if may_be_short && moved > 0 { moved as usize } else { usize::MAX };
                let expected = next.carry(act, most);
                let is_free = matches!(act, Act::ReadDirectory { .. }) && expected.is_ok();
                let is_right = expected == Ok((moved, seen.bytes.clone())) && next.has_time(act, seen);
                if is_right || is_free { vec![next] } else { Vec::new() }
            }
            Err(errno) => {
                let expected = next.carry(act, usize::MAX);
                let mut states = Vec::new();
                let is_close = matches!(act, Act::Close { .. });
                let was_cut = [libc::ECANCELED, libc::ETIMEDOUT].contains(&errno);
                let is_injected = injected.contains(&errno);
                // A close that fails has closed; one that was cancelled has not.
                if expected == Err(errno) || is_injected && (!is_close || was_cut) {
                    states.push(self.clone());
                }
                if is_injected && expected.is_ok() && (!is_close || !was_cut) {
                    if let Act::Open { slot, .. } = act {
                        next.open.remove(slot);
                    }
                    if !states.contains(&next) {
                        states.push(next);
                    }
                }
                states
            }
        }
    }

    /// Whether a slot holds a directory.
    pub fn has_directory(&self, slot: usize) -> bool {
        self.open.get(&slot).is_some_and(|open| self.nodes[open.node].kind == Kind::Directory)
    }

    /// All names, with their content.
    pub fn tree(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        self.tree_below(0, "", &mut lines);
        lines.sort();
        lines
    }

    fn tree_below(&self, above: usize, base: &str, lines: &mut Vec<(String, String)>) {
        for ((directory, name), node) in &self.names {
            if *directory == above {
                lines.push((format!("{base}/{name}"), format!("{:?}", self.nodes[*node].kind)));
                self.tree_below(*node, &format!("{base}/{name}"), lines);
            }
        }
    }

    fn walk(&self, path: &str, follow: bool) -> Result<(usize, String, Option<usize>), i32> {
        let (mut here, mut links) = (0, 0);
        let mut rest: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        loop {
            let name = rest.pop().unwrap();
            if self.nodes[here].kind != Kind::Directory {
                return Err(libc::ENOTDIR);
            }
            let node = self.names.get(&(here, name.clone())).copied();
            let is_last = rest.is_empty();
            let Some(number) = node else {
                return if is_last { Ok((here, name, None)) } else { Err(libc::ENOENT) };
            };
            match &self.nodes[number].kind {
                Kind::Link(target) if !is_last || follow => {
                    links += 1;
                    if links > 40 {
                        return Err(libc::ELOOP);
                    }
                    rest.push(target.clone());
                }
                _ if is_last => return Ok((here, name, node)),
                _ => here = number,
            }
        }
    }

    fn at(&self, what: &What) -> Result<usize, i32> {
        match what {
            What::Name(name, follow) => self.walk(name, *follow)?.2.ok_or(libc::ENOENT),
            What::Slot(slot) => Ok(self.slot(*slot)?.node),
        }
    }

    fn slot(&self, slot: usize) -> Result<Open, i32> {
        self.open.get(&slot).cloned().ok_or(libc::EBADF)
    }

    fn writable(&self, slot: usize, otherwise: i32) -> Result<Open, i32> {
        let open = self.slot(slot)?;
        if open.flags & libc::O_ACCMODE == libc::O_RDONLY { Err(otherwise) } else { Ok(open) }
    }

    fn data(&mut self, node: usize) -> Result<&mut Vec<u8>, i32> {
        match &mut self.nodes[node].kind {
            Kind::File(data) => Ok(data),
            _ => Err(libc::EISDIR),
        }
    }

    fn add(&mut self, (directory, name): (usize, String), kind: Kind, mode: u32) -> usize {
        self.nodes.push(Node { kind, mode, modified: None, attributes: BTreeMap::new() });
        self.names.insert((directory, name), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn is_empty(&self, directory: usize) -> bool {
        !self.names.keys().any(|(above, _)| *above == directory)
    }

    fn is_within(&self, mut here: usize, above: usize) -> bool {
        while here != above {
            match self.names.iter().find(|(_, node)| **node == here) {
                Some(((directory, _), _)) => here = *directory,
                None => return false,
            }
        }
        true
    }

    fn carry(&mut self, act: &Act, most: usize) -> Told {
        match act {
            Act::Nop => plain(0),
            Act::Open { name, slot, flags, mode } => self.carry_open(name, *slot, *flags, *mode),
            Act::Close { slot } => self.open.remove(slot).map_or(Err(libc::EBADF), |_| plain(0)),
            Act::Stat { .. }
            | Act::StatFs { .. }
            | Act::SetMode { .. }
            | Act::SetOwner { .. }
            | Act::SetTimes { .. }
            | Act::GetAttribute { .. }
            | Act::SetAttribute { .. }
            | Act::ListAttributes { .. }
            | Act::RemoveAttribute { .. }
            | Act::Access { .. } => self.carry_attribute(act),
            Act::Rename { .. }
            | Act::Unlink { .. }
            | Act::MakeDirectory { .. }
            | Act::Symlink { .. }
            | Act::Link { .. }
            | Act::ReadLink { .. } => self.carry_name(act),
            _ => self.carry_data(act, most),
        }
    }

    fn carry_open(&mut self, name: &str, slot: usize, flags: i32, mode: u32) -> Told {
        let has = |flag: i32| flags & flag != 0;
        let is_new = has(libc::O_CREAT) && has(libc::O_EXCL);
        let (directory, last, node) = self.walk(name, !is_new && !has(libc::O_NOFOLLOW))?;
        let node = match node {
            Some(_) if is_new => return Err(libc::EEXIST),
            Some(node) => node,
            None if !has(libc::O_CREAT) => return Err(libc::ENOENT),
            None => self.add((directory, last), Kind::File(Vec::new()), mode),
        };
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || has(libc::O_TRUNC | libc::O_CREAT);
        match &mut self.nodes[node].kind {
            Kind::Directory if writes => return Err(libc::EISDIR),
            Kind::Directory => {}
            _ if has(libc::O_DIRECTORY) => return Err(libc::ENOTDIR),
            Kind::Link(_) => return Err(libc::ELOOP),
            Kind::File(data) if has(libc::O_TRUNC) => {
                data.clear();
                self.nodes[node].modified = None;
            }
            Kind::File(_) => {}
        }
        self.open.insert(slot, Open { node, flags, position: 0 });
        plain(0)
    }

    fn carry_data(&mut self, act: &Act, most: usize) -> Told {
        match act {
            Act::Read { slot, lengths, at } => {
                let open = self.slot(*slot)?;
                if open.flags & libc::O_ACCMODE == libc::O_WRONLY {
                    return Err(libc::EBADF);
                }
                let start = at.unwrap_or(open.position) as usize;
                let data = self.data(open.node)?;
                let wanted = lengths.iter().sum::<usize>().min(most);
                let bytes: Vec<u8> = data.iter().skip(start).take(wanted).copied().collect();
                let moved = bytes.len() as u64;
                self.move_by(*slot, *at, start as u64 + moved);
                Ok((moved, bytes))
            }
            Act::Write { slot, parts, at } => {
                let open = self.writable(*slot, libc::EBADF)?;
                let bytes: Vec<u8> = parts.iter().flatten().take(most).copied().collect();
                let is_at_end = open.flags & libc::O_APPEND != 0;
                let end = self.data(open.node)?.len() as u64;
                let start = if is_at_end { end } else { at.unwrap_or(open.position) };
                self.put(open.node, start, &bytes);
                self.move_by(*slot, *at, start + bytes.len() as u64);
                plain(bytes.len() as u64)
            }
            Act::Seek { slot, offset, whence } => {
                let open = self.slot(*slot)?;
                let from = match *whence {
                    libc::SEEK_SET => 0,
                    libc::SEEK_CUR => open.position,
                    _ => self.data(open.node)?.len() as u64,
                };
                let to = from.checked_add_signed(*offset).ok_or(libc::EINVAL)?;
                self.move_by(*slot, None, to);
                plain(to)
            }
            Act::Truncate { slot, bytes } => {
                let open = self.writable(*slot, libc::EINVAL)?;
                self.data(open.node)?.resize(*bytes as usize, 0);
                self.nodes[open.node].modified = None;
                plain(0)
            }
            Act::Allocate { slot, mode, offset, bytes } => {
                let open = self.writable(*slot, libc::EBADF)?;
                let (start, end) = (*offset as usize, (offset + bytes) as usize);
                let data = self.data(open.node)?;
                if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
                    data.iter_mut().take(end).skip(start).for_each(|byte| *byte = 0);
                } else if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && end > data.len() {
                    data.resize(end, 0);
                }
                self.nodes[open.node].modified = None;
                plain(0)
            }
            Act::Copy { from, start, to, target, bytes } => {
                let (source, sink) = (self.slot(*from)?, self.slot(*to)?);
                let data = self.data(source.node)?.clone();
                self.data(sink.node)?;
                let is_readable = source.flags & libc::O_ACCMODE != libc::O_WRONLY;
                self.writable(*to, libc::EBADF)?;
                if !is_readable || sink.flags & libc::O_APPEND != 0 {
                    return Err(libc::EBADF);
                }
                let bytes: Vec<u8> = data.iter().skip(*start as usize).take(*bytes).copied().collect();
                let length = bytes.len() as u64;
                if source.node == sink.node && target + length > *start && *target < start + length {
                    return Err(libc::EINVAL);
                }
                let bytes = &bytes[..bytes.len().min(most)];
                self.put(sink.node, *target, bytes);
                plain(bytes.len() as u64)
            }
            Act::Sync { slot, .. } | Act::Advise { slot } | Act::SyncRange { slot } => {
                self.slot(*slot).map(|_| (0, Vec::new()))
            }
            Act::ReadDirectory { slot } => match self.nodes[self.slot(*slot)?.node].kind {
                Kind::Directory => plain(0),
                _ => Err(libc::ENOTDIR),
            },
            _ => unreachable!("{act:?}"),
        }
    }

    fn move_by(&mut self, slot: usize, at: Option<u64>, to: u64) {
        if let (None, Some(open)) = (at, self.open.get_mut(&slot)) {
            open.position = to;
        }
    }

    fn put(&mut self, node: usize, start: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.nodes[node].modified = None;
        let data = self.data(node).unwrap();
        let end = start as usize + bytes.len();
        if data.len() < end {
            data.resize(end, 0);
        }
        data[start as usize..end].copy_from_slice(bytes);
    }

    fn carry_name(&mut self, act: &Act) -> Told {
        match act {
            Act::Rename { from, to, flags } => self.rename(from, to, *flags),
            Act::Unlink { name, is_directory } => {
                let (directory, last, node) = self.walk(name, false)?;
                let node = node.ok_or(libc::ENOENT)?;
                match (self.nodes[node].kind == Kind::Directory, *is_directory) {
                    (true, false) => Err(libc::EISDIR),
                    (false, true) => Err(libc::ENOTDIR),
                    (true, true) if !self.is_empty(node) => Err(libc::ENOTEMPTY),
                    _ => {
                        self.names.remove(&(directory, last));
                        plain(0)
                    }
                }
            }
            Act::MakeDirectory { name } => self.make(name, Kind::Directory, 0o755),
            Act::Symlink { target, name } => self.make(name, Kind::Link(target.clone()), 0o777),
            Act::Link { from, to } => {
                let node = self.walk(from, false)?.2.ok_or(libc::ENOENT)?;
                let (directory, last, other) = self.walk(to, false)?;
                if other.is_some() {
                    return Err(libc::EEXIST);
                }
                if self.nodes[node].kind == Kind::Directory {
                    return Err(libc::EPERM);
                }
                self.names.insert((directory, last), node);
                plain(0)
            }
            Act::ReadLink { name, room } => {
                let node = self.walk(name, false)?.2.ok_or(libc::ENOENT)?;
                let Kind::Link(target) = &self.nodes[node].kind else { return Err(libc::EINVAL) };
                let bytes: Vec<u8> = target.bytes().take(*room).collect();
                Ok((bytes.len() as u64, bytes))
            }
            _ => unreachable!("{act:?}"),
        }
    }

    fn make(&mut self, name: &str, kind: Kind, mode: u32) -> Told {
        let (directory, last, node) = self.walk(name, false)?;
        if node.is_some() {
            return Err(libc::EEXIST);
        }
        self.add((directory, last), kind, mode);
        plain(0)
    }

    fn rename(&mut self, from: &str, to: &str, flags: u32) -> Told {
        let (here, name, node) = self.walk(from, false)?;
        let (there, new_name, other) = self.walk(to, false)?;
        let exchange = flags == libc::RENAME_EXCHANGE;
        let node = node.ok_or(libc::ENOENT)?;
        if other.is_some() && flags == libc::RENAME_NOREPLACE {
            return Err(libc::EEXIST);
        }
        if other.is_none() && exchange {
            return Err(libc::ENOENT);
        }
        let is_directory = self.nodes[node].kind == Kind::Directory;
        if is_directory && self.is_within(there, node) {
            return Err(libc::EINVAL);
        }
        if let Some(other) = other {
            let other_is_directory = self.nodes[other].kind == Kind::Directory;
            if other_is_directory && self.is_within(here, other) {
                return Err(if exchange { libc::EINVAL } else { libc::ENOTEMPTY });
            }
            if node == other {
                return plain(0);
            }
            match (is_directory, other_is_directory) {
                _ if exchange => {
                    self.names.insert((here, name.clone()), other);
                    self.names.insert((there, new_name), node);
                    return plain(0);
                }
                (true, false) => return Err(libc::ENOTDIR),
                (false, true) => return Err(libc::EISDIR),
                (true, true) if !self.is_empty(other) => return Err(libc::ENOTEMPTY),
                _ => {}
            }
        }
        self.names.remove(&(here, name));
        self.names.insert((there, new_name), node);
        plain(0)
    }

    fn carry_attribute(&mut self, act: &Act) -> Told {
        match act {
            Act::Stat { what } => {
                let number = self.at(what)?;
                Ok((0, self.stat(number).into_bytes()))
            }
            Act::StatFs { what } | Act::SetOwner { what } => self.at(what).map(|_| (0, Vec::new())),
            Act::SetMode { what, mode } => {
                let node = self.at(what)?;
                self.nodes[node].mode = *mode;
                plain(0)
            }
            Act::SetTimes { what, seconds } => {
                let node = self.at(what)?;
                self.nodes[node].modified = Some(*seconds);
                plain(0)
            }
            Act::Access { what, mode } => {
                let node = &self.nodes[self.at(what)?];
                let runs = node.mode & 0o111 != 0 || node.kind == Kind::Directory;
                if mode & libc::X_OK != 0 && !runs { Err(libc::EACCES) } else { plain(0) }
            }
            Act::GetAttribute { what, name, room } => {
                let value = self.nodes[self.at(what)?].attributes.get(name).ok_or(libc::ENODATA)?;
                match value.len() {
                    length if *room > 0 && length > *room => Err(libc::ERANGE),
                    length if *room > 0 => Ok((length as u64, value.clone())),
                    length => plain(length as u64),
                }
            }
            Act::SetAttribute { what, name, value, create } => {
                let node = self.at(what)?;
                let node = self.settable(node)?;
                match (node.attributes.contains_key(name), *create) {
                    (true, libc::XATTR_CREATE) => return Err(libc::EEXIST),
                    (false, libc::XATTR_REPLACE) => return Err(libc::ENODATA),
                    _ => {}
                }
                node.attributes.insert(name, value.clone());
                plain(0)
            }
            Act::ListAttributes { what } => {
                let node = &self.nodes[self.at(what)?];
                let names: Vec<u8> =
                    node.attributes.keys().flat_map(|n| format!("{n}\0").into_bytes()).collect();
                Ok((names.len() as u64, names))
            }
            Act::RemoveAttribute { what, name } => {
                let node = self.at(what)?;
                self.settable(node)?.attributes.remove(name).map_or(Err(libc::ENODATA), |_| plain(0))
            }
            _ => unreachable!("{act:?}"),
        }
    }

    fn settable(&mut self, node: usize) -> Result<&mut Node, i32> {
        let node = &mut self.nodes[node];
        if matches!(node.kind, Kind::Link(_)) { Err(libc::EPERM) } else { Ok(node) }
    }

    /// The result of `stat`, as far as it follows from the acts.
    fn stat(&self, number: usize) -> String {
        let node = &self.nodes[number];
        let links = self.names.values().filter(|named| **named == number).count();
        match &node.kind {
            Kind::File(data) => format!("f {} {links} {:o}", data.len(), node.mode),
            Kind::Directory => format!("d {:o}", node.mode),
            Kind::Link(target) => format!("l {} {links}", target.len()),
        }
    }

    /// Whether the observed time is the one that was set.
    fn has_time(&self, act: &Act, seen: &Seen) -> bool {
        let Act::Stat { what } = act else { return true };
        let Ok(node) = self.at(what) else { return false };
        let node = &self.nodes[node];
        let is_file = matches!(node.kind, Kind::File(_));
        !is_file || node.modified.is_none() || node.modified == seen.modified
    }
}
