//! What is known of a path over all ranks, as an object that a program reads without a message.

use std::ffi::c_int;

use atta_entry::Errno;
use atta_status::{Distribution, Group};

use crate::arguments::Out;
use crate::call::return_code;
use crate::sized;
use crate::status::objects::find;
use crate::status::values::{self, AttaDescriptor, AttaGroup, AttaGroups, Query};

/// A distribution of a program.
pub(crate) struct Found(pub(crate) Distribution);

/// A group by its number, from 0.
fn group(found: &Distribution, number: u32) -> Result<&Group, Errno> {
    found.list().get(number as usize).ok_or(Errno::INVAL)
}

/// Answers a question.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_distribution_ask(distribution: u64, query: c_int, answer: Out<c_int>) -> c_int {
    return_code(|| {
        let (answer, query) = (answer.there()?, Query::of(query)?);
        answer.put(values::answer(query.answer_of(&find::<Found>(distribution)?.0)));
        Ok(())
    })
}

/// Returns the number of groups.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_distribution_groups(distribution: u64, groups: Out<AttaGroups>) -> c_int {
    return_code(|| {
        let groups = groups.there()?;
        sized::write(groups, AttaGroups::of(&find::<Found>(distribution)?.0))
    })
}

/// Describes a group.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_distribution_group(distribution: u64, number: u32, to: Out<AttaGroup>) -> c_int {
    return_code(|| {
        let to = to.there()?;
        let found = find::<Found>(distribution)?;
        sized::write(to, AttaGroup::of(group(&found.0, number)?))
    })
}

/// Returns the lowest ranks of a group.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_distribution_members(
    distribution: u64,
    number: u32,
    ranks: Out<u32>,
    room: usize,
    count: Out<usize>,
) -> c_int {
    return_code(|| {
        let count = count.there()?;
        let found = find::<Found>(distribution)?;
        let members = &group(&found.0, number)?.members;
        let to = if room == 0 { ranks } else { ranks.there()? };
        let mut stored = 0;
        for (at, rank) in members.iter().take(room).enumerate() {
            // SAFETY: the header asks for room for that many ranks.
            let place = unsafe { to.as_ptr().add(at) };
            // SAFETY: as above.
            unsafe { place.write(rank) };
            stored += 1;
        }
        count.put(stored);
        Ok(())
    })
}

/// Returns the place of this rank.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_distribution_descriptor(distribution: u64, descriptor: Out<AttaDescriptor>) -> c_int {
    return_code(|| {
        let descriptor = descriptor.there()?;
        let found = find::<Found>(distribution)?.0.descriptor().ok_or(Errno(libc::ENODATA))?;
        sized::write(descriptor, AttaDescriptor::of(&found))
    })
}
