//! Tasks as bytes, for the spill file and for other ranks. No I/O.
//!
//! Inside a process a task holds its directory. It is encoded only when it leaves for the spill file or for another rank:
//!
//! ```text
//! R  the root of the D that follows: length: u32, path, inode or 0: u64
//! D  levels shared with the last D: u32, further levels: u32, then for each of these: length: u32, name, place: 3 × u64, target + 1: u32, target
//! E  the directory that the last D named holds a directory to enter: length: u32, name, target + 1: u32, target
//! N  ... holds names to look at: length: u32, packed names
//! S  the last root is to be looked at: length of the listed name below it + 1: u32, name
//! F  the next S comes from a list of differences, with these flags: u8
//! U  a task of the caller's own: length: u32, bytes
//! O  ... that belongs to the directory that the last D named
//! P  ... that is a part of a slice of it: whether the slice's names wait for it: u8
//! K  the next E, N, O or P holds this unit of the directory or slice with this number, which is in memory: u8, u64
//! A  the next U or O is for one rank alone: u32
//! B  the next E, N or P holds units of this rank, directory and slice, by their numbers there or 0: u32, u64, u64
//! Y  units that go back to the rank that lent them: how many kinds: u32, then for each: number: u64, kind: u8, count: u32, length: u32, report
//! ```
//!
//! Roots are named by their paths, because each rank numbers them for itself. Device and mount numbers differ between hosts, so of a place
//! that another rank sent only the inode is used.

use std::ffi::CString;
use std::sync::Arc;

use crate::tree::anchors::Anchor;
use crate::tree::debts::{Debt, Payment, Unit};
use crate::tree::directory::{Directory, State};
use crate::tree::life::release_maker;
use crate::tree::listing::names::Names;
use crate::tree::operation::{Of, Own};
use crate::tree::slice::{Part, Slice};
use crate::tree::start::Differs;
use crate::tree::task::{Paid, Task};
use crate::tree::units::Life;
use atta_sys::Place;

/// Maps the roots of packed tasks, and what they hold, to those of this rank.
pub(crate) trait FindRoot<S: State = ()> {
    /// The index of the root with this path.
    fn intern(&self, path: &[u8]) -> Result<u32, &'static str>;

    /// Its directory, opened or not.
    fn directory(&self, index: u32) -> Result<Arc<Directory<S>>, &'static str>;

    /// A directory of a root for tasks that another rank has sent, not opened. `inode`: as that rank saw it, or 0.
    fn directory_of_sent(&self, index: u32, inode: u64) -> Result<Arc<Directory<S>>, &'static str>;

    /// The directory or slice of a task that was spilled.
    fn anchor(&self, number: u64, unit: Unit) -> Result<Anchor<S>, &'static str>;

    /// The directory or slice whose units another rank returns.
    fn returned(&self, payment: Payment) -> Result<Paid<S>, &'static str>;
}

/// Who packed the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedBy {
    /// This process.
    Itself,
    /// Another rank, maybe on another host.
    Another,
}

/// Encodes tasks whose directories the reader does not have in memory.
pub(crate) struct Packer<P> {
    /// The path of a root by its index, and its inode or 0.
    pub(crate) root: P,
}

impl<P: Fn(u32) -> (Vec<u8>, u64)> Packer<P> {
    /// Appends a task that [may leave](Task::may_leave), as its difference from the one that was packed before it.
    pub(crate) fn pack<S: State>(
        &self,
        (task, last): (&Task<S>, Option<&Task<S>>),
        debt: Option<Debt>,
        out: &mut Vec<u8>,
    ) {
        let root = task.root_index();
        // A task that the caller added may have no root. The reader's last root is then that of an earlier task, which is not known here.
        let same_index = root.is_some() && last.and_then(Task::root_index) == root;
        let both = task.directory().zip(last.filter(|_| same_index).and_then(Task::directory));
        let shared = both.map(|(one, other)| shared_levels(other, one));
        // Two directories may have different objects for one root, which count for themselves.
        let same_root = same_index && shared != Some(None);
        if let (Some(root), false) = (root, same_root) {
            let (path, inode) = (self.root)(root);
            out.push(b'R');
            put(&path, out);
            out.extend_from_slice(&inode.to_le_bytes());
        }
        if let Some(directory) = task.directory()
            && !both.is_some_and(|(_, last)| Arc::ptr_eq(last, directory))
        {
            pack_directory(directory, shared.flatten().unwrap_or(0), out);
        }
        if let Some(Debt { rank, directory, slice }) = debt {
            out.push(b'B');
            out.extend(
                rank.to_le_bytes().into_iter().chain(directory.to_le_bytes()).chain(slice.to_le_bytes()),
            );
        }
        pack_itself(task, out);
    }
}

/// Appends payments to one rank.
pub(crate) fn pack_payments(payments: &[Payment], out: &mut Vec<u8>) {
    out.push(b'Y');
    put_number(payments.len(), out);
    for Payment { number, unit, count, report, .. } in payments {
        out.extend(number.to_le_bytes().into_iter().chain([*unit as u8]).chain(count.to_le_bytes()));
        put(report, out);
    }
}

/// Appends a task as bytes for the spill file. Its directory or slice stays in memory and is referred to by number.
pub(crate) fn pack_with_anchor<S: State>(task: &Task<S>, (number, unit): (u64, Unit), out: &mut Vec<u8>) {
    out.extend([b'K', unit as u8]);
    out.extend_from_slice(&number.to_le_bytes());
    pack_itself(task, out);
}

fn pack_itself<S: State>(task: &Task<S>, out: &mut Vec<u8>) {
    match task {
        Task::Enter { name, target, .. } => {
            out.push(b'E');
            put(name.as_bytes(), out);
            put_target(target.as_deref(), out);
        }
        Task::Look { names, .. } => {
            out.push(b'N');
            put(names.bytes(), out);
        }
        Task::Own(own) => {
            if let Some(to) = own.to {
                out.push(b'A');
                out.extend_from_slice(&to.to_le_bytes());
            }
            match &own.of {
                Of::Nothing => out.push(b'U'),
                Of::Directory(_) => out.push(b'O'),
                Of::Part(part) => out.extend([b'P', u8::from(part.holds_names())]),
            }
            put(&own.bytes, out);
        }
        Task::Start { below, differs, .. } => {
            differs.iter().for_each(|differs| out.extend([b'F', differs.to_bits()]));
            out.push(b'S');
            put_target(below.as_deref(), out);
        }
        Task::Feed | Task::ReadOn { .. } | Task::Ended(_) | Task::EndSent => debug_assert!(task.may_leave()),
        Task::Pay(_) | Task::Paid(_) | Task::Settle(_) => debug_assert!(task.may_leave()),
    }
}

/// Writes the directory of the tasks that follow as its difference from the last one. In a deep tree whole paths would take more room than
/// the tasks.
fn pack_directory<S: State>(directory: &Arc<Directory<S>>, shared: u32, out: &mut Vec<u8>) {
    let own = (directory.depth() - shared) as usize;
    let mut lineage: Vec<_> = directory.lineage().take(own).collect();
    lineage.reverse();
    out.push(b'D');
    out.extend_from_slice(&shared.to_le_bytes());
    put_number(lineage.len(), out);
    for level in lineage {
        put(level.name().to_bytes(), out);
        // File systems do not use inode 0, so it means "not known".
        let place = level.known_place().unwrap_or(Place { device: 0, inode: 0, mount: 0 });
        [place.device, place.inode, place.mount]
            .iter()
            .for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        put_target(level.link_target(), out);
    }
}

/// Levels below the root that two directories share. Climbs only as far as their common directory. None: they share not even that.
fn shared_levels<S: State>(one: &Arc<Directory<S>>, other: &Arc<Directory<S>>) -> Option<u32> {
    let (mut one, mut other): (&Directory<S>, &Directory<S>) = (one, other);
    while !std::ptr::eq(one, other) {
        let climb_one = one.depth() >= other.depth();
        let climb_other = other.depth() >= one.depth();
        if climb_one {
            one = one.parent()?;
        }
        if climb_other {
            other = other.parent()?;
        }
    }
    Some(one.depth())
}

fn put_number(number: usize, out: &mut Vec<u8>) {
    // Packed items stay far below 4 GiB: the kernel bounds names, and the buffer bounds batches.
    out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn put(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn put_target(target: Option<&[u8]>, out: &mut Vec<u8>) {
    put_number(target.map_or(0, |target| target.len() + 1), out);
    out.extend_from_slice(target.unwrap_or_default());
}

/// Decodes the tasks in `bytes`.
pub(crate) fn unpack<S: State>(
    bytes: &[u8],
    by: PackedBy,
    roots: &impl FindRoot<S>,
) -> Result<Vec<Task<S>>, &'static str> {
    let mut reader = Reader { rest: bytes, by, debt: None, made: Vec::new() };
    let mut tasks = Vec::new();
    let mut root: Option<(u32, u64)> = None;
    let mut here: Option<Anchor<S>> = None;
    let mut to: Option<u32> = None;
    let mut differs: Option<Differs> = None;
    let no_root = "a task without a root";
    while let Some(tag) = reader.byte() {
        match tag {
            b'R' => {
                root = Some((roots.intern(reader.bytes()?)?, reader.long()?));
                here = None;
            }
            b'D' => {
                let last = match here.take() {
                    Some(Anchor::Directory(last)) => last,
                    Some(Anchor::Slice(_)) => return Err("a directory below a slice"),
                    None => reader.root(root.ok_or(no_root)?, roots)?,
                };
                here = Some(Anchor::Directory(reader.directory(last)?));
            }
            b'K' if by == PackedBy::Itself => {
                let unit = reader.unit()?;
                here = Some(roots.anchor(reader.long()?, unit)?);
            }
            b'B' if by == PackedBy::Another => reader.debt = Some(reader.debt()?),
            b'Y' if by == PackedBy::Another => tasks.push(reader.payments(roots)?),
            b'E' | b'N' | b'O' | b'P' => {
                let here = here.as_ref().ok_or("a task without a directory")?;
                tasks.push(reader.task_in(tag, here, to.take())?);
            }
            b'S' => {
                let ((root, _), below) = (root.ok_or(no_root)?, reader.target()?);
                tasks.push(Task::Start { root, below, differs: differs.take() });
            }
            b'F' => differs = Some(Differs::from_bits(reader.byte().ok_or("cut short")?)),
            b'A' => to = Some(reader.number()?),
            b'U' => {
                let bytes = reader.bytes()?.to_vec();
                tasks.push(Task::Own(Own { to: to.take(), of: Of::Nothing, bytes }));
            }
            _ => return Err("an unknown task"),
        }
    }
    // The tasks hold units of their own.
    reader.made.iter().for_each(|directory| release_maker(directory));
    Ok(tasks)
}

/// Whether these bytes can be the name of an entry.
fn is_name(bytes: &[u8]) -> bool {
    !bytes.is_empty() && !bytes.contains(&b'/') && bytes != b"." && bytes != b".."
}

struct Reader<'a, S = ()> {
    rest: &'a [u8],
    by: PackedBy,
    /// What the next task holds of the rank that lent it.
    debt: Option<Debt>,
    /// Directories created for the tasks.
    made: Vec<Arc<Directory<S>>>,
}

impl<'a, S: State> Reader<'a, S> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("cut short")?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).ok().map(|byte| byte[0])
    }

    fn number(&mut self) -> Result<u32, &'static str> {
        self.take(4)?.try_into().map(u32::from_le_bytes).map_err(|_| "cut short")
    }

    fn long(&mut self) -> Result<u64, &'static str> {
        self.take(8)?.try_into().map(u64::from_le_bytes).map_err(|_| "cut short")
    }

    fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let length = self.number()?;
        self.take(length as usize)
    }

    fn name(&mut self) -> Result<CString, &'static str> {
        let bytes = self.bytes()?;
        if !is_name(bytes) {
            return Err("a name that is none");
        }
        CString::new(bytes).map_err(|_| "a name with a NUL")
    }

    fn target(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        match self.number()? {
            0 => Ok(None),
            length => Ok(Some(self.take(length as usize - 1)?.to_vec())),
        }
    }

    /// The target of a followed link: names below the root. From another rank none may be `..`.
    fn link_target(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        let target = self.target()?;
        let climbs = |target: &Vec<u8>| target.split(|byte| *byte == b'/').any(|name| name == b"..");
        if self.by == PackedBy::Another && target.as_ref().is_some_and(climbs) {
            return Err("a target that climbs");
        }
        Ok(target)
    }

    /// The directory of a root, for tasks in it or below it.
    fn root(
        &mut self,
        (index, inode): (u32, u64),
        roots: &impl FindRoot<S>,
    ) -> Result<Arc<Directory<S>>, &'static str> {
        if self.by == PackedBy::Itself {
            return roots.directory(index);
        }
        let directory = roots.directory_of_sent(index, inode)?;
        if directory.life().owed().is_some() {
            self.made.push(Arc::clone(&directory));
        }
        Ok(directory)
    }

    fn debt(&mut self) -> Result<Debt, &'static str> {
        Ok(Debt { rank: self.number()?, directory: self.long()?, slice: self.long()? })
    }

    /// Notes what the next task holds of the rank that lent it. Returns the number of its slice there.
    fn owe(&mut self, directory: &Directory<S>) -> Result<u64, &'static str> {
        let Some(debt) = self.debt.take() else { return Ok(0) };
        let owed = directory.life().owed().ok_or("a directory that was not lent")?;
        owed.add(debt).map(|()| debt.slice)
    }

    fn payments(&mut self, roots: &impl FindRoot<S>) -> Result<Task<S>, &'static str> {
        let count = self.number()?;
        let mut paid = Vec::new();
        for _ in 0..count {
            let (number, unit, count) = (self.long()?, self.unit()?, self.number()?);
            // Where it goes does not matter any more.
            let report = self.bytes()?.to_vec();
            paid.push(roots.returned(Payment { to: 0, number, unit, count, report })?);
        }
        Ok(Task::Paid(paid))
    }

    fn unit(&mut self) -> Result<Unit, &'static str> {
        let units = [Unit::None, Unit::Child, Unit::Names, Unit::Part];
        let number = self.byte().ok_or("cut short")?;
        units.into_iter().find(|unit| *unit as u8 == number).ok_or("an unknown unit")
    }

    /// A task that belongs to a directory. A task from the spill file still holds its units; a task from another rank gets new ones.
    fn task_in(&mut self, tag: u8, here: &Anchor<S>, to: Option<u32>) -> Result<Task<S>, &'static str> {
        Ok(match (tag, here) {
            (b'E', Anchor::Directory(parent)) => {
                let name = self.name()?;
                if self.by == PackedBy::Another {
                    parent.life().add_child();
                    self.owe(parent)?;
                }
                Task::Enter { parent: Arc::clone(parent), name, target: self.link_target()? }
            }
            (b'N', here) => {
                let names = Names::from_bytes(self.bytes()?).ok_or("damaged names")?;
                let are_names = || names.iter().all(|name| is_name(name.name.to_bytes()));
                if self.by == PackedBy::Another && !are_names() {
                    return Err("a name that is none");
                }
                Task::Look { slice: self.slice_of(here)?, names }
            }
            (b'O', Anchor::Directory(directory)) => {
                Task::Own(Own { to, of: Of::Directory(Arc::clone(directory)), bytes: self.bytes()?.to_vec() })
            }
            (b'P', here) => {
                let held_names = self.byte().ok_or("cut short")? != 0;
                let part = match here {
                    Anchor::Slice(slice) => Part::of(Arc::clone(slice), held_names),
                    Anchor::Directory(directory) => {
                        let owed = self.owe(directory)?;
                        Part::alone(Arc::clone(directory), owed)
                    }
                };
                Task::Own(Own { to, of: Of::Part(part), bytes: self.bytes()?.to_vec() })
            }
            _ => return Err("a task of a slice that is none"),
        })
    }

    /// A directory that shares some levels with the last one, or with the root.
    fn directory(&mut self, mut directory: Arc<Directory<S>>) -> Result<Arc<Directory<S>>, &'static str> {
        let shared = self.number()?;
        while directory.depth() > shared {
            directory = directory.parent().cloned().ok_or("levels that are not there")?;
        }
        if directory.depth() != shared {
            return Err("levels that are not there");
        }
        for _ in 0..self.number()? {
            let name = self.name()?;
            let place = Place { device: self.long()?, inode: self.long()?, mount: self.long()? };
            let target = self.link_target()?;
            let known = (place.inode != 0).then_some(place);
            let life = if self.by == PackedBy::Another { Life::of_lent() } else { Life::of_sent() };
            let below = Directory::below(&directory, &name, target).with_life(life);
            directory = Arc::new(match self.by {
                PackedBy::Itself => below.with_place(known),
                PackedBy::Another => below.with_inode(known.map(|place| place.inode)),
            });
            self.made.push(Arc::clone(&directory));
        }
        Ok(directory)
    }

    /// The slice that a batch of names belongs to.
    fn slice_of(&mut self, anchor: &Anchor<S>) -> Result<Arc<Slice<S>>, &'static str> {
        Ok(match anchor {
            Anchor::Slice(slice) => Arc::clone(slice),
            Anchor::Directory(directory) => {
                let owed = self.owe(directory)?;
                Slice::of_batch(Arc::clone(directory), owed)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use atta_entry::Kind;

    use super::*;
    use crate::tree::directory::chain_to;
    use rustix::fd::OwnedFd;

    fn root() -> Arc<Directory> {
        let descriptor: OwnedFd = std::fs::File::open("/").unwrap().into();
        Directory::root(c"/given".into(), 7, Arc::new(descriptor), Place { device: 1, inode: 1, mount: 1 })
    }

    fn tasks(root: &Arc<Directory>) -> Vec<Task> {
        let below = chain_to(root, &[c"a", c"b\n"]);
        let mut names = Names::default();
        names.push(c"x", Kind::File, 3);
        vec![
            Task::Enter { parent: below.clone(), name: c"c".into(), target: Some(b"really/here".to_vec()) },
            Task::Look { slice: Slice::of_batch(below, 0), names },
            Task::Own(Own { to: Some(3), of: Of::Nothing, bytes: b"own".to_vec() }),
            Task::Own(Own { to: None, of: Of::Directory(root.clone()), bytes: b"within".to_vec() }),
            Task::Enter { parent: root.clone(), name: c"d".into(), target: None },
            Task::Start {
                root: 7,
                below: Some(b"listed".to_vec()),
                differs: Some(Differs { content: true, ..Differs::default() }),
            },
            Task::Start { root: 7, below: None, differs: None },
        ]
    }

    fn pack_all(tasks: &[Task], bytes: &mut Vec<u8>) {
        for (index, task) in tasks.iter().enumerate() {
            let last = index.checked_sub(1).map(|last| &tasks[last]);
            assert!(task.may_leave());
            let packer = Packer { root: |_| (b"/given".to_vec(), 1) };
            packer.pack((task, last), None, bytes);
        }
    }

    /// Knows one root.
    struct One(Arc<Directory>);

    impl FindRoot for One {
        fn intern(&self, path: &[u8]) -> Result<u32, &'static str> {
            if path == b"/given" { Ok(7) } else { Err("an unknown root") }
        }

        fn directory(&self, index: u32) -> Result<Arc<Directory>, &'static str> {
            if index == 7 { Ok(Arc::clone(&self.0)) } else { Err("an unknown root") }
        }

        fn directory_of_sent(&self, index: u32, _inode: u64) -> Result<Arc<Directory>, &'static str> {
            FindRoot::directory(self, index)
        }

        fn anchor(&self, _number: u64, _unit: Unit) -> Result<Anchor, &'static str> {
            Err("nothing is kept")
        }

        fn returned(&self, _payment: Payment) -> Result<Paid, &'static str> {
            Err("nothing is lent")
        }
    }

    #[test]
    fn only_the_first_deep_path_is_written_whole() {
        let root = root();
        let deep = chain_to(&root, &vec![c"a level with a long name"; 5000]);
        let enter = |parent: &Arc<Directory>, name: &CStr| Task::Enter {
            parent: Arc::clone(parent),
            name: name.into(),
            target: None,
        };
        // From the deepest level up, as a depth-first walk leaves them, plus two that branch off.
        let mut level = Arc::clone(&deep);
        let mut tasks = Vec::new();
        while let Some(parent) = level.parent().cloned() {
            tasks.push(enter(&level, c"side"));
            level = parent;
        }
        tasks.push(enter(&chain_to(&deep, &[c"x", c"y"]), c"last"));
        tasks.push(enter(&chain_to(&root, &[c"x"]), c"other"));
        let mut bytes = Vec::new();
        pack_all(&tasks, &mut bytes);
        assert!(bytes.len() < 1_500_000, "{} bytes", bytes.len());
        let back = unpack(&bytes, PackedBy::Itself, &One(root.clone())).unwrap();
        assert_eq!(back.len(), tasks.len());
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for (task, back) in tasks.iter().zip(&back).step_by(500).chain(tasks.iter().zip(&back).skip(4999)) {
            task.directory().unwrap().path_into(&mut one);
            back.directory().unwrap().path_into(&mut other);
            assert_eq!(one, other);
        }
    }

    #[test]
    fn tasks_survive_being_bytes() {
        let root = root();
        let mut bytes = Vec::new();
        pack_all(&tasks(&root), &mut bytes);
        let back = unpack(&bytes, PackedBy::Itself, &One(root.clone())).unwrap();
        let mut path = Vec::new();
        let [
            Task::Enter { parent, name, target },
            Task::Look { names, .. },
            Task::Own(own),
            Task::Own(within),
            Task::Enter { .. },
            Task::Start { differs: Some(Differs { is_missing: false, content: true, links: false }), .. },
            Task::Start { differs: None, .. },
        ] = back.as_slice()
        else {
            panic!("{back:?}");
        };
        assert_eq!(parent.path_into(&mut path), 6);
        assert_eq!((path.as_slice(), name.as_c_str()), (b"/given/a/b\n".as_slice(), c"c"));
        assert_eq!(target.as_deref(), Some(b"really/here".as_slice()));
        assert_eq!((names.len(), own.bytes.as_slice()), (1, b"own".as_slice()));
        assert!(own.directory().is_none() && within.directory().is_some() && within.bytes == b"within");
        assert_eq!((own.to, within.to), (Some(3), None));
    }

    #[test]
    fn tasks_of_a_lost_root_fail_with_their_paths() {
        let root = root();
        let mut bytes = Vec::new();
        pack_all(&tasks(&root), &mut bytes);
        let gone = Directory::closed_root(b"/given", 7).unwrap();
        let back = unpack(&bytes, PackedBy::Itself, &One(gone.clone())).unwrap();
        assert_eq!(back.len(), 7);
        let mut held = crate::tree::listing::held::Held::new(4);
        let mut path = Vec::new();
        for directory in back.iter().filter_map(Task::directory) {
            directory.path_into(&mut path);
            assert!(path.starts_with(b"/given"));
            let opened = directory.descriptor(&mut held, atta_sys::Features::default());
            assert_eq!(opened.unwrap_err(), atta_entry::Errno::STALE);
        }
    }

    #[test]
    fn damaged_bytes_are_an_error_and_never_a_crash() {
        let root = root();
        let mut bytes = Vec::new();
        pack_all(&tasks(&root), &mut bytes);
        let find = One(root.clone());
        for cut in 1..bytes.len() {
            let _whole_tasks_may_remain = unpack(&bytes[..cut], PackedBy::Another, &find);
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x5a;
            let _any_answer = unpack(&damaged, PackedBy::Another, &find);
        }
        assert!(unpack(b"E\x01\0\0\0x\0\0\0\0", PackedBy::Itself, &find).is_err());
        assert!(unpack(b"R\x01\0\0\0/\0\0\0\0\0\0\0\0", PackedBy::Itself, &find).is_err());
    }

    #[test]
    fn names_of_another_rank_that_lead_elsewhere_fail() {
        let root = root();
        let looked = |name: &CStr| {
            let mut names = Names::default();
            names.push(name, Kind::File, 3);
            Task::Look { slice: Slice::of_batch(root.clone(), 0), names }
        };
        let followed = |target: &[u8]| Task::Enter {
            parent: root.clone(),
            name: c"c".into(),
            target: Some(target.to_vec()),
        };
        let bad = [looked(c"/etc"), looked(c".."), looked(c"a/b"), looked(c""), followed(b"a/../../b")];
        for task in bad {
            let mut bytes = Vec::new();
            pack_all(std::slice::from_ref(&task), &mut bytes);
            assert!(unpack(&bytes, PackedBy::Another, &One(root.clone())).is_err(), "{task:?}");
        }
    }

    #[test]
    fn deep_chain_is_dropped_without_recursion() {
        let names = vec![c"level"; 100_000];
        let deep = chain_to(&root(), &names);
        let mut path = Vec::new();
        deep.path_into(&mut path);
        assert_eq!(path.len(), 6 + 100_000 * 6);
        drop(deep);
    }
}
