//! The decoders of the search, for the table of this crate.

use atta_code::Code;
use atta_entry::Errno;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use super::needs::{Look, Needs, Plan, Source};
use super::room::Looked;
use super::*;

const WANTED: Requirements = Requirements {
    space_each: 300,
    space_total: 5,
    space_to_free: 0,
    speed: Some(SpeedRequirement::High),
    distribution: Some(DistributionRequirement::Low),
    scalability: Some(ScalabilityRequirement::Multi),
    writable: true,
};

fn place() -> Place {
    Place {
        point: b"/m".to_vec(),
        kind: b"nfs".to_vec(),
        uri: "nfs://h/e".to_owned(),
        sources: 3,
        tightest: Some(Tightest { rank: 1, need: 300, available: 5 }),
        is_quota_read: false,
        speed: PlaceSpeed { measured: Some(300), rating: 2 },
        scalability: 6,
        score: 0.5,
        unmet: vec![Unmet::Space, Unmet::NotWritable { rank: 300, errno: Errno::ROFS }],
    }
}

pub(crate) fn targets() -> Vec<Target> {
    let source = Source::of(300, &WANTED, true);
    let needs = Needs {
        is_left_out: false,
        read_only: Some(3),
        rating: (2, 1),
        measured: Some(300),
        sources: [([7; 16], source)].into(),
    };
    let look = Look { rank: 300, need: 300 };
    let room = Room { available: 300, quota: Quota::NotRead, writable: Err(Errno::ROFS) };
    let looked = Looked::of(Ok(room), 300, 5);
    vec![
        fuzz_code!("places/requirements.rs: SpeedRequirement", SpeedRequirement, [SpeedRequirement::High]),
        fuzz_code!(
            "places/requirements.rs: DistributionRequirement",
            DistributionRequirement,
            [DistributionRequirement::Full]
        ),
        fuzz_code!(
            "places/requirements.rs: ScalabilityRequirement",
            ScalabilityRequirement,
            [ScalabilityRequirement::Multi]
        ),
        fuzz_code!("places/requirements.rs: Requirements", Requirements, [WANTED, Requirements::default()]),
        fuzz_code!("places/needs.rs: Source", Source, [source]),
        fuzz_code!("places/needs.rs: Needs", Needs, [needs, Needs::LEFT_OUT]).holding(100),
        fuzz_code!("places/needs.rs: Look", Look, [look]),
        fuzz_code!(
            "places/needs.rs: Plan",
            Plan,
            [Plan { looks: vec![vec![look], vec![]], is_write_wanted: true }]
        )
        .holding(100),
        fuzz_code!("places/place.rs: Tightest", Tightest, [Tightest { rank: 3, need: 300, available: 0 }]),
        fuzz_code!("places/room.rs: Looked", Looked, [looked, Looked::default()]),
        fuzz_code!("places/place.rs: PlaceSpeed", PlaceSpeed, [PlaceSpeed { measured: None, rating: 1 }]),
        fuzz_code!("places/place.rs: Unmet", Unmet, [Unmet::Space, Unmet::NoAnswer { rank: 300 }]),
        fuzz_code!("places/place.rs: Place", Place, [place()]).holding(100),
    ]
}
