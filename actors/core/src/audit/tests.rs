//! Tests the chain of an audit log: its hashes, its checks and its expiry.

use porchlight_schema::limits::AUDIT_KEPT_MS;
use porchlight_schema::time::DAY_MS;
use proptest::prelude::*;

use super::*;

const NOW: TimestampMs = TimestampMs(1_763_636_100_000);

fn line(number: i64) -> Line {
    Line {
        at: NOW.plus_ms(number * 1_000),
        actor: Actor {
            kind: ActorKind::Key,
            id: Some(KeyId::new(NOW, 1)),
            name: Some("dispatch".to_owned()),
        },
        action: Action::ReadInsight.as_str().to_owned(),
        object: Some(format!("ses_{number}")),
        from: "192.0.2.1".parse().ok(),
    }
}

/// Builds a chain of groups with the given numbers of lines.
fn chain(sizes: &[usize]) -> Vec<Group> {
    let (mut head, mut number, mut groups) = (Head::EMPTY, 0, Vec::new());
    for &size in sizes {
        let lines: Vec<_> = (0..size as i64).map(|place| line(number + place)).collect();
        number += size as i64;
        let group = Group::append(&head, &lines);
        head = group.head();
        groups.push(Group::decode(&group.encode().unwrap()).unwrap());
    }
    groups
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn end(groups: &[Group]) -> Head {
    groups.last().map_or(Head::EMPTY, Group::head)
}

fn verify(groups: &[Group], noted: Head) -> Result<Verified, Fault> {
    let mut verifier = Verifier::new(NOW.plus_ms(86_400_000 - AUDIT_KEPT_MS), noted);
    for group in groups {
        verifier.check(group)?;
    }
    verifier.finish()
}

#[test]
fn a_whole_chain_is_verified_and_its_hashes_follow_from_its_json() {
    let groups = chain(&[2, 1, 3]);
    let verified = verify(&groups, end(&groups)).unwrap();
    assert_eq!(verified.lines, 6);
    let mut previous = hex::encode(&FIRST_HASH);
    for group in &groups {
        for place in 0..group.len() {
            let line = group.line(place).unwrap();
            let mut json = serde_json::to_value(&line).unwrap();
            assert_eq!(
                json.as_object_mut().unwrap().remove("hash"),
                Some(line.hash.clone().into())
            );
            let text = format!("{previous}\n{}", serde_json::to_string(&line.line).unwrap());
            assert_eq!(hex::encode(&Sha256::digest(text)), line.hash);
            previous = line.hash;
        }
    }
    assert_eq!(previous, verified.hash);
    let first = serde_json::to_string(&groups[0].line(0).unwrap().line).unwrap();
    assert!(first.starts_with(r#"{"at":"2025-11-20T"#), "{first}");
    assert!(
        first.contains(r#""actor":{"kind":"key","id":"key_"#),
        "{first}"
    );
}

/// A group that a build without a number of the format wrote, with a line of each kind of actor.
const EARLIER: &str = concat!(
    "000000000000000000000000000000000000000000000000000000000000000000000490feb98ed4",
    "660000000c696e73696768742e7265616401057365735f310100c0000201fe77d26f82ba0aa35455",
    "e96fb6cf6cbae504587dc96bdc5d198cddbdaaa878d890feb98ed4660100000c696e73696768742e",
    "7265616401057365735f310100c0000201cf9c36264768e89f1a388e76625054c05fad1c340b740f",
    "9bef84c9c2b4bb45c190feb98ed4660200000c696e73696768742e7265616401057365735f310100",
    "c0000201aa923a42742b3ebeecaa737c372dcf926fc218fefac3add7d0cf981204ef231e90feb98e",
    "d4660300000c696e73696768742e7265616401057365735f310100c0000201fd614dc895af26ed7e",
    "a9d7c2f46bc4be69f7a78f5a385a16d961c65fb910b0a6",
);

#[test]
fn groups_of_earlier_builds_are_read() {
    let kinds = [
        ActorKind::Key,
        ActorKind::Link,
        ActorKind::Operator,
        ActorKind::Service,
    ];
    let lines: Vec<_> = kinds
        .into_iter()
        .map(|kind| Line {
            actor: Actor::of_kind(kind),
            ..line(1)
        })
        .collect();
    let group = Group::append(&Head::EMPTY, &lines);
    assert_eq!(group, Group::decode(&bytes(EARLIER)).unwrap());
    assert_eq!(group, Group::decode(&group.encode().unwrap()).unwrap());
    assert!(Group::decode(&bytes(EARLIER)[..9]).is_err());
    // Numbers that fill several bytes.
    for next in [127, 128, 255, 256, 16_384, u64::MAX - 1] {
        let head = Head {
            next,
            ..Head::EMPTY
        };
        let earlier = postcard::to_allocvec(&head).unwrap();
        assert_eq!(decode::<Head>(&earlier), Ok(head));
        assert_eq!(decode::<Head>(&encode(&head).unwrap()), Ok(head));
    }
}

#[test]
fn the_kind_of_actor_of_a_later_release_is_kept() {
    let later = Line {
        actor: Actor::of_kind(ActorKind::from("robot".to_owned())),
        ..line(1)
    };
    let group = Group::append(&Head::EMPTY, &[line(0), later.clone(), line(2)]);
    let read = Group::decode(&group.encode().unwrap()).unwrap();
    assert_eq!(read.line(1).unwrap().line, later);
    assert_eq!(verify(&[read], group.head()).unwrap().lines, 3);
    let json = serde_json::to_string(&later).unwrap();
    assert!(
        json.contains(r#""actor":{"kind":"robot","id":null"#),
        "{json}"
    );
}

#[test]
fn a_later_format_is_not_damage() {
    let mut bytes = Group::append(&Head::EMPTY, &[line(0)]).encode().unwrap();
    bytes[2] += 1;
    assert_eq!(Group::decode(&bytes), Err(DecodeError::Newer(bytes[2])));
}

#[test]
fn a_time_never_goes_back() {
    let head = Group::append(&Head::EMPTY, &[line(10)]).head();
    let group = Group::append(&head, &[line(3), line(12)]);
    assert_eq!(group.line(0).unwrap().line.at, line(10).at);
    assert_eq!(group.line(1).unwrap().line.at, line(12).at);
}

#[test]
fn missing_groups_are_found_unless_they_expired() {
    let groups = chain(&[1, 1, 1]);
    let noted = end(&groups);
    let missing = |group| Err(Fault::MissingBefore { group });
    assert_eq!(verify(&groups[1..], noted), missing(1));
    assert_eq!(
        verify(&[groups[0].clone(), groups[2].clone()], noted),
        missing(2)
    );
    assert_eq!(verify(&groups[..2], noted), Err(Fault::Cut { expected: 3 }));
    let mut renumbered = groups[1..].to_vec();
    for group in &mut renumbered {
        group.number -= 1;
    }
    assert_eq!(
        verify(&renumbered, end(&renumbered)),
        Err(Fault::NotFollowing { group: 0 })
    );
    let mut later = Verifier::new(NOW.plus_ms(86_400_000), noted);
    later.check(&groups[1]).unwrap();
    later.check(&groups[2]).unwrap();
    assert_eq!(later.finish().unwrap().lines, 2);
    assert_eq!(
        verify(&groups, end(&groups[..2])).unwrap().lines,
        3,
        "it may have grown"
    );
    assert_eq!(verify(&[], Head::EMPTY).unwrap().lines, 0);
    assert_eq!(verify(&[], noted), Err(Fault::Cut { expected: 3 }));
}

#[test]
fn a_sweep_removes_a_bounded_part_of_the_expired_time() {
    let until = |oldest_days: i64, kept_days: i64| {
        expires_until(NOW.plus_ms(-oldest_days * DAY_MS), kept_days * DAY_MS, NOW)
            .map(|until| NOW.since_ms(until) / DAY_MS)
    };
    assert_eq!(until(29, 30), None);
    assert_eq!(until(30, 30), Some(30));
    assert_eq!(until(45, 30), Some(30));
    assert_eq!(until(400, 30), Some(380));
}

#[test]
fn names_of_actions_are_used_once_and_lead_back() {
    for action in Action::ALL {
        assert_eq!(Action::of_name(action.as_str()), Some(*action));
    }
}

#[test]
fn a_filter_selects_the_lines_that_it_describes() {
    let filter = Filter {
        from: Some(line(1).at),
        to: Some(line(2).at),
        action: Some(Action::ReadInsight),
        object: Some("ses_1".to_owned()),
    };
    let lines = [0, 1, 2].map(line);
    let group = Group::append(&Head::EMPTY, &lines);
    let taken = [0, 1, 2, 3].map(|index| group.line_if(index, &filter));
    assert_eq!(taken, [None, group.line(1), None, None]);
    let groups = chain(&[1, 2]);
    assert!(filter.is_past(&groups[0]) && !filter.is_past(&groups[1]));
}

proptest! {
    /// Verification detects any line that was removed, changed or swapped with another.
    #[test]
    fn a_manipulated_line_is_found(
        sizes in prop::collection::vec(1_usize..5, 1..5),
        group in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        how in 0..4,
    ) {
        let mut groups = chain(&sizes);
        let noted = end(&groups);
        prop_assert!(verify(&groups, noted).is_ok());
        let group = group.index(groups.len());
        let lines = &mut groups[group].lines;
        let place = place.index(lines.len());
        match how {
            0 => { lines.remove(place); }
            1 => lines[place].name = None,
            2 => lines[place].object = Some("ses_other".to_owned()),
            _ => { let copy = lines[place].clone(); lines.insert(place, copy); }
        }
        prop_assert!(verify(&groups, noted).is_err());
    }
}
