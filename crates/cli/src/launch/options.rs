//! The options of a launcher that name hosts and the number of ranks: finding them, and the same options for fewer hosts. Other options are
//! not understood and stay as they are. It asks no host.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use atta_entry::shell_quote;

use super::host_file::HostFile;
use super::host_list::{HostList, number};
use super::private::{self, Place, PrivateFile};
use crate::run::refused::Refused;

/// What an option is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    List,
    /// With the bytes of the file.
    File(Vec<u8>),
    Ranks,
}

/// An option and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    kind: Kind,
    /// The index of its first word.
    at: usize,
    /// The part of the word before the value, if both are one word: `--host=`.
    prefix: Option<Vec<u8>>,
    value: Vec<u8>,
}

/// The hosts of a launcher's command.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The words before the program.
    words: Vec<OsString>,
    /// The index of the launcher.
    launcher: usize,
    found: Vec<Found>,
}

/// A command for the hosts that are left.
pub(super) struct Left {
    pub(super) words: Vec<OsString>,
    /// Host files in it. They are removed when they are dropped.
    pub(super) files: Vec<PrivateFile>,
    /// The number of ranks, and what it was, if it is another one.
    pub(super) ranks: Option<(u64, u64)>,
}

impl Hosts {
    /// None: no option names hosts, or not each of them.
    pub(super) fn of(words: &[OsString], launcher: usize) -> Option<Self> {
        let (mut found, mut at) = (Vec::new(), launcher + 1);
        while at < words.len() {
            let option = Found::at(words, at);
            at += if option.as_ref().is_some_and(|option| option.prefix.is_none()) { 2 } else { 1 };
            found.extend(option);
        }
        for option in &mut found {
            option.load()?;
        }
        let hosts = Self { words: words.to_vec(), launcher, found };
        (!hosts.names().is_empty()).then_some(hosts)
    }

    /// The name of each host once.
    pub(super) fn names(&self) -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (name, _) in self.slots() {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_vec());
            }
        }
        names
    }

    /// Names and slots. Of a list and a file, the list names the hosts that are used.
    fn slots(&self) -> Vec<(&[u8], Option<u64>)> {
        let lists = self.lists();
        if lists.is_empty() {
            return self.files().iter().flat_map(HostFile::slots).collect();
        }
        let are_in_file = !self.files().is_empty();
        let slots = lists.iter().flat_map(HostList::slots);
        slots.map(|(name, slots)| (name, slots.filter(|_| !are_in_file))).collect()
    }

    fn lists(&self) -> Vec<HostList<'_>> {
        let lists = self.found.iter().filter(|option| option.kind == Kind::List);
        lists.filter_map(|option| HostList::from_text(&option.value)).collect()
    }

    fn files(&self) -> Vec<HostFile<'_>> {
        let files = self.found.iter().filter_map(|option| match &option.kind {
            Kind::File(bytes) => HostFile::from_text(bytes),
            _ => None,
        });
        files.collect()
    }

    /// A command that runs a short program as one rank on one host. Not `true`: PRRTE, the launcher of Open MPI 5.0.11, hangs now and then if the
    /// program ends at once.
    pub(super) fn asking(&self, host: &[u8], place: &Place) -> Result<Left, Refused> {
        let mut left = self.keeping(&|name| name == host, Some(1), place)?;
        if self.ranks().is_none() {
            let options = ["-np", "1"].map(OsString::from);
            left.words.splice(self.launcher + 1..=self.launcher, options);
        }
        left.words.extend(["sleep", "1"].map(OsString::from));
        Ok(left)
    }

    /// The command that asks the first host, for messages.
    pub(super) fn example(&self, place: &Place) -> String {
        let asking = self.names().first().and_then(|host| self.asking(host, place).ok());
        let words = asking.map(|asking| asking.words).unwrap_or_default();
        words.iter().map(|word| shell_quote(word.as_bytes())).collect::<Vec<_>>().join(" ")
    }

    /// The same command without these hosts.
    pub(super) fn without(&self, is_dead: impl Fn(&[u8]) -> bool, place: &Place) -> Result<Left, Refused> {
        let all = self.ranks();
        let count = all.and_then(|all| self.ranks_left(all, &is_dead)).filter(|count| Some(*count) != all);
        let left = self.keeping(&|name| !is_dead(name), count, place)?;
        Ok(Left { ranks: count.zip(all), ..left })
    }

    fn ranks(&self) -> Option<u64> {
        number(&self.found.iter().find(|option| option.kind == Kind::Ranks)?.value)
    }

    /// How many ranks the hosts that are left have room for. If there were more ranks than slots, their share is kept.
    fn ranks_left(&self, ranks: u64, is_dead: &impl Fn(&[u8]) -> bool) -> Option<u64> {
        let default = if self.allows_more_ranks_than_slots() || self.has_both() { None } else { Some(1) };
        let (mut all, mut left) = (0_u64, 0_u64);
        for (name, slots) in self.slots() {
            let slots = slots.or(default)?;
            all = all.checked_add(slots)?;
            left += if is_dead(name) { 0 } else { slots };
        }
        let share = || u128::from(ranks) * u128::from(left) / u128::from(all.max(1));
        let count = if ranks <= all { ranks.min(left) } else { u64::try_from(share()).ok()? };
        Some(count.max(1))
    }

    /// Whether both a list and a file name hosts: slots are in the file, and the launcher's rules decide.
    fn has_both(&self) -> bool {
        !self.lists().is_empty() && !self.files().is_empty()
    }

    fn allows_more_ranks_than_slots(&self) -> bool {
        let says = |word: &OsString| {
            let word = word.as_bytes().to_ascii_lowercase();
            let has = |text: &[u8]| word.windows(text.len()).any(|window| window == text);
            has(b"oversubscribe") && !has(b"nooversubscribe")
        };
        self.words[self.launcher..].iter().any(says)
    }

    /// The words for some hosts. `ranks`: another number of ranks.
    fn keeping(
        &self,
        keeps: &dyn Fn(&[u8]) -> bool,
        mut ranks: Option<u64>,
        place: &Place,
    ) -> Result<Left, Refused> {
        let has_list = !self.lists().is_empty();
        let (mut words, mut files, mut next) = (Vec::new(), Vec::new(), 0);
        for option in &self.found {
            words.extend_from_slice(&self.words[next..option.at]);
            next = option.at + option.words();
            let value = match &option.kind {
                Kind::List => HostList::from_text(&option.value).map(|list| list.keeping(keeps)),
                Kind::File(bytes) => match HostFile::from_text(bytes)
                    .filter(|file| file.slots().any(|(name, _)| keeps(name)))
                {
                    Some(file) => {
                        let copy = place.file(&file.keeping(keeps))?;
                        let path = copy.path().as_os_str().as_bytes().to_vec();
                        files.push(copy);
                        Some(path)
                    }
                    None if has_list => Some(option.value.clone()),
                    None => None,
                },
                Kind::Ranks => {
                    let value = option.value.clone();
                    // A further one is of another program.
                    Some(ranks.take().map_or(value, |ranks| ranks.to_string().into_bytes()))
                }
            };
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                words.extend(option.with(&self.words[option.at], value));
            }
        }
        words.extend_from_slice(&self.words[next..]);
        Ok(Left { words, files, ranks: None })
    }
}

impl Found {
    /// The option that begins with this word.
    fn at(words: &[OsString], at: usize) -> Option<Self> {
        let word = words[at].as_bytes();
        let name = word.strip_prefix(b"-")?;
        let (name, is_long) = name.strip_prefix(b"-").map_or((name, false), |name| (name, true));
        let sign = name.iter().position(|byte| *byte == b'=');
        let kind = match (&name[..sign.unwrap_or(name.len())], is_long) {
            (b"host" | b"hosts", _) | (b"H", false) => Kind::List,
            (b"hostfile" | b"machinefile", _) | (b"f", false) => Kind::File(Vec::new()),
            (b"np" | b"n", _) | (b"c", false) => Kind::Ranks,
            _ => return None,
        };
        let Some(sign) = sign else {
            let value = words.get(at + 1)?.as_bytes().to_vec();
            return Self { kind, at, prefix: None, value }.if_known();
        };
        let (prefix, value) = word.split_at(word.len() - name.len() + sign + 1);
        Self { kind, at, prefix: Some(prefix.to_vec()), value: value.to_vec() }.if_known()
    }

    fn if_known(self) -> Option<Self> {
        (self.kind != Kind::Ranks || number(&self.value).is_some()).then_some(self)
    }

    /// Reads a host file. None: the option is not understood.
    fn load(&mut self) -> Option<()> {
        match &mut self.kind {
            Kind::List => HostList::from_text(&self.value).map(drop),
            Kind::File(bytes) => {
                *bytes = private::read_regular(Path::new(OsStr::from_bytes(&self.value))).ok()?;
                HostFile::from_text(bytes).map(drop)
            }
            Kind::Ranks => Some(()),
        }
    }

    /// How many words it has.
    fn words(&self) -> usize {
        if self.prefix.is_some() { 1 } else { 2 }
    }

    /// The option with another value. `word`: its first word.
    fn with(&self, word: &OsStr, value: Vec<u8>) -> Vec<OsString> {
        match &self.prefix {
            Some(prefix) => vec![OsString::from_vec([prefix.clone(), value].concat())],
            None => vec![word.to_owned(), OsString::from_vec(value)],
        }
    }
}

#[cfg(test)]
mod tests {
    use atta_testkit::scratch::Scratch;

    use super::*;

    fn hosts(line: &str) -> Option<Hosts> {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        Hosts::of(&words, 0)
    }

    fn place() -> (Scratch, Place) {
        let scratch = Scratch::new("launch-options").unwrap();
        let place = Place::new(Some(scratch.path())).ok().unwrap();
        (scratch, place)
    }

    /// The command without host `b`.
    fn without_b(line: &str) -> String {
        let (_scratch, place) = place();
        let left = hosts(line).unwrap().without(|name| name == b"b", &place).ok().unwrap();
        left.words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn dead_host_is_left_out_of_every_option() {
        for (line, expected) in [
            ("mpirun --host a:2,b:2 -np 4 -v", "mpirun --host a:2 -np 2 -v"),
            ("mpirun -H a -H b -H c -x Y --np 3", "mpirun -H a -H c -x Y --np 2"),
            ("mpiexec -hosts=b,a -n=2", "mpiexec -hosts=a -n=1"),
            ("mpirun -host a,b", "mpirun -host a"),
            // A word that looks like an option is the value of one.
            ("mpirun --host a,b -np 1 -n --host", "mpirun --host a -np 1 -n --host"),
        ] {
            assert_eq!(without_b(line), expected);
        }
    }

    #[test]
    fn ranks_fit_into_the_slots_that_are_left() {
        for (line, ranks) in [
            ("m -np 4 --host a:2,b:2", "-np 2"),
            ("m -np 2 --host a:2,b:2", "-np 2"),
            ("m -np 3 --host a,a,b", "-np 2"),
            // More ranks than slots: their share.
            ("m -np 12 --host a,b,c", "-np 8"),
            ("m -np 12 --oversubscribe --host a,b,c", "-np 12"),
            ("m -np 12 --map-by slot:OVERSUBSCRIBE --host a,b,c", "-np 12"),
            ("m -np 3 --map-by slot:NOOVERSUBSCRIBE --host a,b,c", "-np 2"),
            ("m -np 4 --oversubscribe --host a:1,b:3", "-np 1"),
            ("m -np 0 --host a,b", "-np 1"),
            ("m -np x --host a,b", "-np x"),
            ("m -np 4 --host a:99999999999999999999,b:18446744073709551615,c:9", "-np 4"),
            // The second one is not the launcher's.
            ("m -np 2 --host a,b nice -n 9", "-np 1"),
        ] {
            let words = without_b(line);
            assert!(words.starts_with(&format!("m {ranks} ")), "{line}: {words}");
        }
        assert!(without_b("m -np 2 --host a,b nice -n 9").ends_with(" nice -n 9"));
    }

    #[test]
    fn one_host_is_asked_with_one_rank() {
        let (_scratch, place) = place();
        let asking = |line: &str| {
            let asking = hosts(line).unwrap().asking(b"b", &place).ok().unwrap();
            asking.words.join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(asking("mpirun --host a:2,b:2 -np 4 -v"), "mpirun --host b:2 -np 1 -v sleep 1");
        assert_eq!(asking("mpirun -v -H a,b"), "mpirun -np 1 -v -H b sleep 1");
    }

    #[test]
    fn host_files_are_copied() {
        let (scratch, place) = place();
        let file = scratch.join("hosts");
        std::fs::write(&file, "a slots=2\nb slots=2\n").unwrap();
        let file = file.to_str().unwrap();
        for option in ["--hostfile ", "-f ", "--machinefile=", "-hostfile="] {
            let left = hosts(&format!("m {option}{file} -n 4")).unwrap();
            assert_eq!(left.names(), [b"a", b"b"]);
            let left = left.without(|name| name == b"b", &place).ok().unwrap();
            assert_eq!(left.files[0].read().ok().unwrap(), b"a slots=2\n");
            let words = left.words.join(" ".as_ref()).into_string().unwrap();
            assert_eq!(words, format!("m {option}{} -n 2", left.files[0].path().display()));
        }
        // A list says which hosts of the file are used, and the file has their slots.
        let both = hosts(&format!("m --host b,c --hostfile {file} -n 4")).unwrap();
        assert_eq!(both.names(), [b"b", b"c"]);
        let left = both.without(|name| name == b"b", &place).ok().unwrap();
        assert_eq!(left.words[..3], ["m", "--host", "c"]);
        assert_eq!(left.words[5..], ["-n", "4"]);
        assert_eq!(left.files[0].read().ok().unwrap(), b"a slots=2\n");
    }

    #[test]
    fn commands_that_name_no_hosts_stay() {
        let lines = [
            "m -np 4",
            "m --host",
            "m -host node[1,2] -np 4",
            "m --hostfile /nonexistent",
            "m -h a",
            "m --H a",
        ];
        for line in lines {
            assert!(hosts(line).is_none(), "{line}");
        }
        assert!(hosts("m --hostfile /dev/null").is_none());
    }

    #[test]
    fn bytes_of_words_stay() {
        let (_scratch, place) = place();
        let odd = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let words = [odd(b"m"), odd(b"-\xff"), odd(b"-H"), odd(b"\xfe,b"), odd(b"\xff\n")];
        let left = Hosts::of(&words, 0).unwrap().without(|name| name == b"b", &place).ok().unwrap();
        assert_eq!(left.words, [odd(b"m"), odd(b"-\xff"), odd(b"-H"), odd(b"\xfe"), odd(b"\xff\n")]);
    }
}
