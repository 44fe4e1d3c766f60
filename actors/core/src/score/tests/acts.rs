//! Acts of couriers, and faults in their recordings.

use super::script::{Kit, Script};
use crate::score::{CopiedTrace, MarkName};

pub(super) fn arrive(seed: u64) -> Script {
    Script::new(seed).drive_to(-30.0, -25.0).stay(10)
}

pub(super) fn leave(script: Script) -> Script {
    script
        .walk_to(-30.0, -25.0)
        .stay(10)
        .drive_to(-300.0, -25.0)
}

pub(super) fn house(seed: u64) -> Script {
    leave(
        arrive(seed)
            .walk_to(0.0, -25.0)
            .walk_to(0.0, -1.0)
            .stay(40)
            .mark(MarkName::HandedOver),
    )
}

/// Goes to a door the given metres up, and back.
pub(super) fn upstairs(script: Script, metres: f32, elevator: bool) -> Script {
    let script = script
        .walk_to(0.0, -25.0)
        .walk_to(0.0, -1.0)
        .go_in()
        .walk_to(2.0, 9.0);
    let script = if elevator { script.stay(20) } else { script };
    let script = script
        .climb(metres, elevator)
        .walk_to(10.0, 10.0)
        .stay(45)
        .mark(MarkName::LeftAtDoor);
    let script = script
        .walk_to(2.0, 9.0)
        .climb(-metres, elevator)
        .walk_to(0.0, -1.0)
        .come_out();
    leave(script)
}

pub(super) fn lobby(kit: Kit) -> Script {
    let script = arrive(11)
        .with(kit)
        .floor(5)
        .walk_to(0.0, -25.0)
        .walk_to(0.0, -1.0)
        .go_in()
        .walk_to(2.0, 6.0);
    leave(
        script
            .stay(40)
            .mark(MarkName::HandedOver)
            .walk_to(0.0, -1.0)
            .come_out(),
    )
}

pub(super) fn at_another_door(east: f32) -> Script {
    let script = Script::new(12).drive_to(east - 30.0, -25.0).stay(10);
    script
        .walk_to(east, -25.0)
        .walk_to(east, -1.0)
        .stay(40)
        .mark(MarkName::HandedOver)
        .walk_to(east - 30.0, -25.0)
        .stay(12)
}

pub(super) fn twice() -> Script {
    let script = arrive(13)
        .walk_to(0.0, -25.0)
        .walk_to(0.0, -1.0)
        .stay(30)
        .mark(MarkName::Arrived);
    let script = script
        .walk_to(0.0, -25.0)
        .walk_to(40.0, -25.0)
        .stay(30)
        .walk_to(0.0, -25.0)
        .walk_to(0.0, -1.0);
    leave(script.stay(25).mark(MarkName::HandedOver))
}

pub(super) fn interrupted() -> Script {
    leave(
        arrive(14)
            .walk_to(0.0, -25.0)
            .walk_to(0.0, -1.0)
            .stay(20)
            .mark(MarkName::HandedOver)
            .silence(12)
            .stay(10),
    )
}

pub(super) fn replayed() -> Script {
    let mut script = house(15);
    let session_id = porchlight_schema::ids::SessionId::from_bytes([7; 16]);
    script.known.copied_trace = Some(CopiedTrace {
        session_id,
        similarity: 0.97,
        together: false,
    });
    script
}

pub(super) fn mock() -> Script {
    let mut script = Script::new(16);
    script.mock = true;
    let script = script
        .drive_to(-30.0, -25.0)
        .stay(10)
        .walk_to(0.0, -25.0)
        .walk_to(0.0, -1.0);
    leave(script.stay(40).mark(MarkName::HandedOver))
}

pub(super) fn teleported() -> Script {
    // The courier stays 1.5 km away; the positions jump to the address for the drop-off, and back.
    let script = Script::new(17)
        .drive_to(-1500.0, 0.0)
        .stay(10)
        .walk_to(-1480.0, 20.0)
        .stay(20);
    let script = script
        .teleport(0.0, 3.0)
        .stay(30)
        .mark(MarkName::HandedOver)
        .stay(20);
    script
        .teleport(-1480.0, 20.0)
        .stay(10)
        .walk_to(-1500.0, 0.0)
        .stay(20)
}

pub(super) fn timed_out() -> Script {
    let mut script = house(18);
    script.timed_out = true;
    script
}

pub(super) fn thin() -> Script {
    let mut script = house(19);
    let mut number = 0;
    script.windows.retain(|_| {
        number += 1;
        number % 50 == 0
    });
    script.events.clear();
    script
}

pub(super) fn insists_on_floor(script: Script, floor: i16, metres: f32, elevator: bool) -> Script {
    upstairs(script.floor(floor), metres, elevator)
}

pub(super) fn house_with(seed: u64, kit: Kit) -> Script {
    let script = Script::new(seed).with(kit).drive_to(-30.0, -25.0).stay(10);
    leave(
        script
            .walk_to(0.0, -25.0)
            .walk_to(0.0, -1.0)
            .stay(40)
            .mark(MarkName::HandedOver),
    )
}
