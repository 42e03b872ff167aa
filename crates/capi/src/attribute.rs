//! Extended attributes, of files by path, of links, and of open files.

use std::ffi::c_int;

use atta_aio::{Op, Place};
use atta_entry::Errno;

use crate::answer::Answer;
use crate::arguments::{Lent, Out, Text, fd};
use crate::call::{Ask, calls};
use crate::name::at;

const LINK: c_int = libc::AT_SYMLINK_NOFOLLOW;

fn get(
    place: Place,
    name: Text,
    value: Lent,
    size: usize,
    bcnt: Out<isize>,
    flags: c_int,
) -> Result<Ask, Errno> {
    let op =
        Op::GetAttribute { place: Box::new(place), name: name.copy()?, buffer: value.buffer(size)?, flags };
    Ok(Ask::new(op).answer(Answer::Count(bcnt.there()?)))
}

fn set(
    place: Place,
    name: Text,
    value: Lent,
    size: usize,
    create: c_int,
    flags: c_int,
) -> Result<Ask, Errno> {
    let op = Op::SetAttribute {
        place: Box::new(place),
        name: name.copy()?,
        value: value.buffer(size)?,
        create,
        flags,
    };
    Ok(Ask::new(op))
}

fn list(place: Place, names: Lent, size: usize, bcnt: Out<isize>, flags: c_int) -> Result<Ask, Errno> {
    let op = Op::ListAttributes { place, buffer: names.buffer(size)?, flags };
    Ok(Ask::new(op).answer(Answer::Count(bcnt.there()?)))
}

fn remove(place: Place, name: Text, flags: c_int) -> Result<Ask, Errno> {
    Ok(Ask::new(Op::RemoveAttribute { place, name: name.copy()?, flags }))
}

fn here(path: Text) -> Result<Place, Errno> {
    at(libc::AT_FDCWD, path)
}

calls! {
    "`getxattr(2)`."
    fn [pxfs_getxattr](path: Text, name: Text, value: Lent, size: usize, bcnt: Out<isize>) {
        get(here(path)?, name, value, size, bcnt, 0)?
    }

    "`lgetxattr(2)`."
    fn [pxfs_lgetxattr](path: Text, name: Text, value: Lent, size: usize, bcnt: Out<isize>) {
        get(here(path)?, name, value, size, bcnt, LINK)?
    }

    "`fgetxattr(2)`."
    fn [pxfs_fgetxattr](number: c_int, name: Text, value: Lent, size: usize, bcnt: Out<isize>) {
        get(Place::file(fd(number)?), name, value, size, bcnt, 0)?
    }

    "`setxattr(2)`."
    fn [pxfs_setxattr](path: Text, name: Text, value: Lent, size: usize, flags: c_int) {
        set(here(path)?, name, value, size, flags, 0)?
    }

    "`lsetxattr(2)`."
    fn [pxfs_lsetxattr](path: Text, name: Text, value: Lent, size: usize, flags: c_int) {
        set(here(path)?, name, value, size, flags, LINK)?
    }

    "`fsetxattr(2)`."
    fn [pxfs_fsetxattr](number: c_int, name: Text, value: Lent, size: usize, flags: c_int) {
        set(Place::file(fd(number)?), name, value, size, flags, 0)?
    }

    "`listxattr(2)`."
    fn [pxfs_listxattr](path: Text, names: Lent, size: usize, bcnt: Out<isize>) {
        list(here(path)?, names, size, bcnt, 0)?
    }

    "`llistxattr(2)`."
    fn [pxfs_llistxattr](path: Text, names: Lent, size: usize, bcnt: Out<isize>) {
        list(here(path)?, names, size, bcnt, LINK)?
    }

    "`flistxattr(2)`."
    fn [pxfs_flistxattr](number: c_int, names: Lent, size: usize, bcnt: Out<isize>) {
        list(Place::file(fd(number)?), names, size, bcnt, 0)?
    }

    "`removexattr(2)`."
    fn [pxfs_removexattr](path: Text, name: Text) {
        remove(here(path)?, name, 0)?
    }

    "`lremovexattr(2)`."
    fn [pxfs_lremovexattr](path: Text, name: Text) {
        remove(here(path)?, name, LINK)?
    }

    "`fremovexattr(2)`."
    fn [pxfs_fremovexattr](number: c_int, name: Text) {
        remove(Place::file(fd(number)?), name, 0)?
    }
}
