//! The result of `atta where` for programs. Queries have their names, and the answers `yes`, `no` and `unknown`.

use atta_ops::resume::hex;
use atta_status::{Answer, Evidence, Finding, Inspection, Ranks};
use serde_json::{Map, Value, json};

use super::gather::Gathered;
use super::row::{Mounted, Row};

/// The result.
pub(super) fn summary(gathered: &Gathered) -> Value {
    json!({
        "schema_version": 1,
        "ranks": gathered.ranks,
        "paths": gathered.rows.iter().map(path).collect::<Vec<_>>(),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(row: &Row) -> Value {
    let mount = row.mount.as_ref().map(
        |Mounted { point, kind, source }| json!({"point": text(point), "type": kind, "source": text(source)}),
    );
    let mut value = json!({
        "path": text(&row.path),
        "resolved": text(&row.resolved),
        "mount": mount,
        "uri": row.uri,
        "data": row.reach(),
    });
    let fields = match &row.found {
        Ok(found) => queries(found),
        Err(why) => [("error".to_owned(), json!(why))].into_iter().collect(),
    };
    value.as_object_mut().into_iter().for_each(|all| all.extend(fields.clone()));
    value
}

fn queries(found: &Inspection) -> Map<String, Value> {
    let Inspection { distribution, findings, others, space, .. } = found;
    let groups = distribution.groups();
    let space = space.map(
        |space| json!({"total": space.total, "available": space.available, "read_only": space.is_read_only}),
    );
    let group = |group: &atta_status::Group| json!({"ranks": ranges(&group.members), "size": group.size, "is_certain": group.is_certain});
    let value = json!({
        "space": space,
        "is_unique": answer(found.is_unique()),
        "is_fully_distributed": answer(distribution.is_fully_distributed()),
        "is_well_distributed": answer(distribution.is_well_distributed()),
        "is_poorly_distributed": answer(distribution.is_poorly_distributed()),
        "is_consistent": answer(found.is_consistent()),
        "groups": {"low": groups.low, "high": groups.high, "is_estimate": groups.is_estimate},
        "classes": distribution.list().iter().map(group).collect::<Vec<_>>(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "other_findings": others,
    });
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

pub(super) fn answer(answer: Answer) -> &'static str {
    match answer {
        Answer::Yes => "yes",
        Answer::No => "no",
        Answer::Unknown => "unknown",
    }
}

/// First and last rank of each range.
fn ranges(ranks: &Ranks) -> Value {
    ranks.ranges().map(|(first, last)| json!([first, last])).collect()
}

fn finding(Finding { evidence, ranks }: &Finding) -> Value {
    let digest = |digest: &Option<[u8; 32]>| digest.map(|digest| hex(&digest));
    let mut value = match evidence {
        Evidence::File(size, found) => json!({"is": "file", "size": size, "digest": digest(found)}),
        Evidence::Directory(found) => json!({"is": "directory", "digest": digest(found)}),
        Evidence::Other(kind) => json!({"is": "other", "mode": kind}),
        Evidence::Absent => json!({"is": "absent"}),
        Evidence::NotMounted => json!({"is": "not mounted"}),
        Evidence::Failed(errno) => json!({"is": "failed", "error": errno.to_string()}),
        Evidence::NoAnswer => json!({"is": "no answer"}),
    };
    value["ranks"] = ranges(ranks);
    value
}
