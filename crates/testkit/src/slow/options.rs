//! The options of `atta-slow-fs`, read from its command line and written to it. Mounts nothing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::fault::Fault;

/// What to serve and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where to mount it: an existing directory.
    pub mountpoint: PathBuf,
    /// The directory that is shown and can be changed, in place of a computed tree.
    pub over: Option<PathBuf>,
    /// Names of that directory that differ in case alone (ASCII) are one.
    pub folds_case: bool,
    /// A file that is removed there while it is open has another name in its directory until it is closed.
    pub keeps_open_names: bool,
    /// What was written or named there and not synced is lost in the end.
    pub loses_unsynced: bool,
    /// The file that gets what is done to the only file of that directory: writes and syncs.
    pub record: Option<PathBuf>,
    /// How long every request waits before it is answered.
    pub latency: Duration,
    /// Directories in every directory that is not on the last level.
    pub directories: u64,
    /// Levels of directories below the root.
    pub depth: u64,
    /// Files in every directory but the root.
    pub files: u64,
    /// Symlinks in every directory but the root, each to the file with its number.
    pub symlinks: u64,
    /// So many files in the root and nothing else, in place of the tree.
    pub flat: Option<u64>,
    /// What sizes, owners, times and contents are derived from.
    pub seed: u64,
    /// What fails.
    pub faults: Vec<Fault>,
    /// Directories do not report the types of their entries (`DT_UNKNOWN`).
    pub has_unknown_types: bool,
    /// Directories are read together with the attributes of their entries, which fills the kernel's caches: leave it
    /// off for a directory of 10^7.
    pub has_readdirplus: bool,
    /// Threads that serve, which bounds the requests in flight.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mountpoint: PathBuf::new(),
            over: None,
            folds_case: false,
            keeps_open_names: false,
            loses_unsynced: false,
            record: None,
            latency: Duration::from_micros(2000),
            directories: 40,
            depth: 1,
            files: 100,
            symlinks: 0,
            flat: None,
            seed: 1,
            faults: Vec::new(),
            has_unknown_types: false,
            has_readdirplus: false,
            threads: 256,
        }
    }
}

/// What `atta-slow-fs --help` prints.
pub const USAGE: &str = "\
usage: atta-slow-fs MOUNTPOINT [OPTION]...

Serves a synthetic, read-only tree over FUSE, or with --over a directory that can be read
and changed; prints 'ready', and unmounts at the end of its standard input, at SIGTERM or
SIGINT. Then it prints what it served.

  --over DIRECTORY    serve this directory instead of a synthetic tree
  --fold-case         names are case-insensitive
  --keep-open-names   a file removed while it is open is called .nfs* until it is
                      closed, as on an NFS client
  --lose-unsynced     data and names that were not synced are lost at the end,
                      as in a power failure
  --record FILE       append the writes and syncs of the only file in DIRECTORY to FILE
  --latency-us N      delay of each request (2000)
  --directories N     subdirectories per directory, except on the last level (40)
  --depth N           levels of directories below the root (1)
  --files N           files per directory, except the root (100)
  --symlinks N        symbolic links per directory, except the root (0)
  --flat N            N files in the root and nothing else
  --seed N            seed of sizes, owners, times, contents and chances (1)
  --fail RULE         failure rule; may be repeated, the first matching rule applies
  --unknown-types     directories do not report the types of their entries
  --readdirplus       directory reads return attributes
  --threads N         number of server threads (256)

RULE is OP[,OP]...:NAME:EFFECT[:CONDITION]...
  OP         lookup stat readlink open read opendir readdir create write fsync flush rename
             mkdir link symlink mknod unlink rmdir chmod chown utimes truncate setxattr
             getxattr listxattr removexattr lseek fallocate statfs, or any
  NAME       of the entry, with * and ?; with a slash it is its path; the root is '.'
  EFFECT     ERRNO (name or number; reading a directory fails part way), delay=MS,
             together=N (waits until N such requests wait; ETIMEDOUT after 10 s); and with
             --over: done=ERRNO (serves what makes, renames, links or removes a name, then
             answers with an error, as if the first answer was lost); short=BYTES of a read or a write, flip (one bit of what is read or
             written), lose (what is written), endless (reads have no end), size=BYTES (of
             lookup and stat), kill (the caller); before the request is
             served, on its entry: grow (by a byte), cut (in half), rewrite (the first byte,
             time of change set back), vanish (its name), fifo, directory, link (replaced by
             one); twice (each name of a directory)
  CONDITION  skip=N (leave the first N alone), times=N (no more than N), after=BYTES (only
             once so many were written to the file system), percent=N (by the seed), armed
             (only once a line came on standard input; 'armed' is printed then)

Exit status: 0 served and unmounted, 2 invalid options, 4 FUSE is not available.
";

impl Options {
    /// Reads a command line, without the program's name.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let Some(name) = argument.to_str().filter(|text| text.starts_with("--")) else {
                if !options.mountpoint.as_os_str().is_empty() {
                    return Err(format!("a second mount point: {}", argument.display()));
                }
                options.mountpoint = PathBuf::from(argument);
                continue;
            };
            match name {
                "--unknown-types" => options.has_unknown_types = true,
                "--readdirplus" => options.has_readdirplus = true,
                "--fold-case" => options.folds_case = true,
                "--keep-open-names" => options.keeps_open_names = true,
                "--lose-unsynced" => options.loses_unsynced = true,
                "--over" => options.over = Some(arguments.next().ok_or("--over wants a directory")?.into()),
                "--record" => options.record = Some(arguments.next().ok_or("--record wants a file")?.into()),
                _ => {
                    let value = arguments.next().and_then(|value| value.into_string().ok());
                    options.set(name, &value.ok_or_else(|| format!("{name} wants a value"))?)?;
                }
            }
        }
        options.check()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || {
            let parsed = value.parse::<u64>();
            parsed.map_err(|_| format!("{name} wants a number, not '{value}'"))
        };
        match name {
            "--latency-us" => self.latency = Duration::from_micros(number()?),
            "--directories" => self.directories = number()?,
            "--depth" => self.depth = number()?,
            "--files" => self.files = number()?,
            "--symlinks" => self.symlinks = number()?,
            "--flat" => self.flat = Some(number()?),
            "--seed" => self.seed = number()?,
            "--threads" => self.threads = usize::try_from(number()?).map_err(|error| error.to_string())?,
            "--fail" => self.faults.push(value.parse()?),
            _ => return Err(format!("unknown option {name}")),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.mountpoint.as_os_str().is_empty() {
            return Err("no mount point".to_owned());
        }
        if !(1..=4096).contains(&self.threads) {
            return Err("--threads is 1 to 4096".to_owned());
        }
        if self.has_unknown_types && self.has_readdirplus {
            // The attributes would reveal the type that the entry hides.
            return Err("--unknown-types and --readdirplus exclude each other".to_owned());
        }
        Ok(())
    }

    /// The command line that [`Options::parse`] reads as these options.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![self.mountpoint.clone().into_os_string()];
        if let Some(directory) = &self.over {
            arguments.extend(["--over".into(), directory.clone().into_os_string()]);
        }
        if let Some(record) = &self.record {
            arguments.extend(["--record".into(), record.clone().into_os_string()]);
        }
        let mut add = |name: &str, value: &dyn std::fmt::Display| {
            arguments.extend([name.into(), value.to_string().into()]);
        };
        add("--latency-us", &self.latency.as_micros());
        add("--directories", &self.directories);
        add("--depth", &self.depth);
        add("--files", &self.files);
        add("--symlinks", &self.symlinks);
        add("--seed", &self.seed);
        add("--threads", &self.threads);
        if let Some(files) = self.flat {
            add("--flat", &files);
        }
        for fault in &self.faults {
            add("--fail", fault);
        }
        let flags = [
            ("--unknown-types", self.has_unknown_types),
            ("--readdirplus", self.has_readdirplus),
            ("--fold-case", self.folds_case),
            ("--keep-open-names", self.keeps_open_names),
            ("--lose-unsynced", self.loses_unsynced),
        ];
        let set = flags.iter().filter(|(_, is_set)| *is_set);
        arguments.extend(set.map(|(name, _)| OsString::from(name)));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn command_line_is_read_and_written() {
        let line = "/m --latency-us 7 --directories 2 --depth 3 --files 4 --symlinks 5 --flat 6 --seed 8 \
                    --fail stat:x:EIO --fail readdir:d*:ESTALE --unknown-types --threads 9";
        let options = parse(line).unwrap();
        assert_eq!(options.latency, Duration::from_micros(7));
        assert_eq!((options.directories, options.depth, options.files), (2, 3, 4));
        assert_eq!((options.flat, options.faults.len(), options.threads), (Some(6), 2, 9));
        assert_eq!(Options::parse(options.arguments()), Ok(options));
        let plus =
            parse("--readdirplus /m --over /d --fold-case --keep-open-names --lose-unsynced --record /r")
                .unwrap();
        assert_eq!(plus.over.as_deref(), Some(std::path::Path::new("/d")));
        assert_eq!(plus.record.as_deref(), Some(std::path::Path::new("/r")));
        assert_eq!(Options::parse(plus.arguments()), Ok(plus));
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for line in [
            "",
            "/m /n",
            "/m --files",
            "/m --files x",
            "/m --files -1",
            "/m --nothing 1",
            "/m --over",
            "/m --record",
            "/m --threads 0",
            "/m --fail x",
            "/m --unknown-types --readdirplus",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
