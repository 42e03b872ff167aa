//! Names as bytes for other ranks, so that these can compare them. It sends nothing. Decoding trusts no input: it goes so deep into
//! images and layers as names are made, and refuses what is no name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use atta_entry::{Code, choice, record};
use atta_sys::file_systems::{FileSystem, KNOWN, Reach};

use crate::aliases::Aliases;
use crate::identity::{DeviceOn, Holder, Identity};
use crate::mount::Device;
use crate::namer::DEPTH_MAX;
use crate::probes::Host;
use crate::server::{Server, Servers};
use crate::uri::Uri;

record!(Host { boot_id, name, network, hides_boot_id });
record!(Device { major, minor });

impl Code for DeviceOn {
    fn encode(&self, out: &mut Vec<u8>) {
        self.host.encode(out);
        self.device.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self { host: Arc::new(Host::decode(bytes)?), device: Device::decode(bytes)? })
    }
}

/// A name or address, as it travels.
enum Sent {
    V4([u8; 4], Vec<u8>),
    V6([u8; 16], Vec<u8>),
    Name(Vec<u8>, Vec<u8>),
    ThisHost(Vec<u8>, Vec<u8>),
}

choice!(Sent { 0 => V4(address, suffix), 1 => V6(address, suffix), 2 => Name(name, suffix), 3 => ThisHost(place, suffix) });

impl Code for Server {
    fn encode(&self, out: &mut Vec<u8>) {
        let sent = match self.clone() {
            Self::Address(IpAddr::V4(address), suffix) => Sent::V4(address.octets(), suffix),
            Self::Address(IpAddr::V6(address), suffix) => Sent::V6(address.octets(), suffix),
            Self::Name(name, suffix) => Sent::Name(name, suffix),
            Self::ThisHost(place, suffix) => Sent::ThisHost(place, suffix),
        };
        sent.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some(match Sent::decode(bytes)? {
            Sent::V4(address, suffix) => Self::Address(IpAddr::V4(Ipv4Addr::from(address)), suffix),
            Sent::V6(address, suffix) => Self::Address(IpAddr::V6(Ipv6Addr::from(address)), suffix),
            Sent::Name(name, suffix) => Self::Name(name, suffix),
            Sent::ThisHost(place, suffix) => Self::ThisHost(place, suffix),
        })
    }
}

impl Code for Servers {
    fn encode(&self, out: &mut Vec<u8>) {
        let (hosts, known, shown) = self.parts();
        hosts.encode(out);
        known.encode(out);
        shown.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_parts(Code::decode(bytes)?, Code::decode(bytes)?, Code::decode(bytes)?)
    }
}

impl Code for Aliases {
    fn encode(&self, out: &mut Vec<u8>) {
        let (facts, host_names) = self.parts();
        facts.len().encode(out);
        facts.iter().for_each(|fact| fact.clone().encode(out));
        host_names.len().encode(out);
        host_names.iter().for_each(|name| name.encode(out));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_parts(Code::decode(bytes)?, Code::decode(bytes)?)
    }
}

impl Code for Uri {
    fn encode(&self, out: &mut Vec<u8>) {
        let identity = self.identity();
        identity.scheme.encode(out);
        identity.device.encode(out);
        encode_holder(&identity.holder, out);
        identity.volume.encode(out);
        identity.uuid.encode(out);
        reach_number(identity.reach).encode(out);
        identity.is_one_tree.encode(out);
        identity.known.map(|known| known.name.to_owned()).encode(out);
        atta_entry::encode_bytes(self.path(), out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        decode_uri(bytes, DEPTH_MAX + 1)
    }
}

fn decode_uri(bytes: &mut &[u8], depth: u32) -> Option<Uri> {
    let scheme = Code::decode(bytes)?;
    let device = DeviceOn::decode(bytes)?;
    let identity = Identity {
        scheme,
        holder: decode_holder(bytes, &device, depth.checked_sub(1)?)?,
        device,
        volume: Code::decode(bytes)?,
        uuid: Code::decode(bytes)?,
        reach: reach_of_number(Code::decode(bytes)?)?,
        is_one_tree: Code::decode(bytes)?,
        known: match Option::<String>::decode(bytes)? {
            Some(name) => Some(known_by_name(&name)?),
            None => None,
        },
    };
    Some(Uri::new(Arc::new(identity), Code::decode(bytes)?))
}

fn encode_holder(holder: &Holder, out: &mut Vec<u8>) {
    match holder {
        Holder::Servers(servers) => (0_u8, servers.clone()).encode(out),
        Holder::Cluster(id) => (1_u8, id.clone()).encode(out),
        // Its device is that of the file system.
        Holder::Local(_) => out.push(2),
        Holder::Unknown(_) => out.push(3),
        Holder::Image(image) => {
            out.push(4);
            image.encode(out);
        }
        Holder::Layers(layers) => {
            out.push(5);
            layers.encode(out);
        }
    }
}

fn decode_holder(bytes: &mut &[u8], device: &DeviceOn, depth: u32) -> Option<Holder> {
    Some(match u8::decode(bytes)? {
        0 => Holder::Servers(Code::decode(bytes)?),
        1 => Holder::Cluster(Code::decode(bytes)?),
        2 => Holder::Local(device.clone()),
        3 => Holder::Unknown(device.clone()),
        4 => Holder::Image(Box::new(decode_uri(bytes, depth)?)),
        5 => {
            let count = usize::decode(bytes)?;
            Holder::Layers((0..count).map(|_| decode_uri(bytes, depth)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

const fn reach_number(reach: Reach) -> u8 {
    match reach {
        Reach::Local => 0,
        Reach::Remote => 1,
        Reach::Layers => 2,
        Reach::Unknown => 3,
    }
}

fn reach_of_number(number: u8) -> Option<Reach> {
    [Reach::Local, Reach::Remote, Reach::Layers, Reach::Unknown].get(usize::from(number)).copied()
}

fn known_by_name(name: &str) -> Option<&'static FileSystem> {
    KNOWN.iter().find(|known| known.name == name)
}
