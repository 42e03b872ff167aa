//! Decides which file sizes are reliable. Sizes in the kernel's own file systems are not (procfs reports 0, sysfs 4096 for all files), and
//! size 0 may not be: some servers report 0 for an unknown size. Such files are read to their end. This module opens and reads nothing.

use atta_entry::Metadata;
use rustix::fd::AsFd;

use atta_sys::file_systems::is_pseudo;

/// The most bytes read of a file of unknown size: some such files have no end, or as many bytes as there are addresses (`/proc/kcore`). Of
/// the others, few have more than some MiB (`/proc/kallsyms`). Messages and the manuals state it.
pub(crate) const UNKNOWN_SIZE_MOST: u64 = 64 << 20;

/// A thread's cached knowledge of the file systems that it reads.
#[derive(Debug, Default)]
pub(crate) struct SizeKnowledge {
    /// The last device checked, and whether the kernel generates its contents.
    last: Option<(u64, bool)>,
}

impl SizeKnowledge {
    /// Whether the size of an open file is the number of its bytes. It costs a system call for each change of file system.
    pub(crate) fn is_stated(&mut self, file: impl AsFd, metadata: &Metadata) -> bool {
        metadata.size > 0 && !self.is_pseudo(file, metadata.device)
    }

    fn is_pseudo(&mut self, file: impl AsFd, device: u64) -> bool {
        match self.last {
            Some((last, is_pseudo)) if last == device => is_pseudo,
            _ => {
                let is_pseudo = is_pseudo(file);
                self.last = Some((device, is_pseudo));
                is_pseudo
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use atta_sys::stat_descriptor;

    #[test]
    fn kernel_files_and_empty_ones_have_no_stated_size() {
        let mut known = SizeKnowledge::default();
        let mut is_stated = |file: &File| known.is_stated(file, &stat_descriptor(file).unwrap());
        let program = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(is_stated(&program));
        assert!(!is_stated(&File::open("/proc/version").unwrap()));
        assert!(!is_stated(&File::open("/proc/kcore").unwrap_or_else(|_| File::open("/proc/stat").unwrap())));
        assert!(is_stated(&program), "another file system again");
        assert!(!is_stated(&atta_runtime::unnamed_file(&std::env::temp_dir()).unwrap()), "an empty file");
    }
}
