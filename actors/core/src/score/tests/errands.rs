//! Errands of couriers with a plain phone.

use serde_json::json;

use super::phone::Phone;

pub(super) fn come(phone: Phone) -> Phone {
    phone.drive(-40.0, -30.0).stay(10)
}

pub(super) fn go(phone: Phone) -> Phone {
    phone.walk(-40.0, -30.0).stay(10).drive(-500.0, -30.0)
}

/// Delivers at the door of a house.
pub(super) fn house(phone: Phone) -> Phone {
    go(come(phone)
        .walk(0.0, -30.0)
        .walk(0.0, -2.0)
        .stay(35)
        .walk(0.0, -30.0))
}

/// Goes the given metres up and back, with a stay there.
pub(super) fn flat(phone: Phone, metres: f64, elevator: bool) -> Phone {
    let phone = come(phone)
        .walk(0.0, -30.0)
        .walk(0.0, -8.0)
        .go_in()
        .walk(0.0, 2.0);
    let phone = if elevator { phone.stay(12) } else { phone };
    let phone = phone.climb(metres, elevator).walk(8.0, 2.0).stay(35);
    let phone = phone.walk(0.0, 2.0);
    let phone = if elevator { phone.stay(12) } else { phone };
    go(phone
        .climb(-metres, elevator)
        .walk(0.0, -8.0)
        .come_out()
        .walk(0.0, -30.0))
}

pub(super) fn lobby(phone: Phone) -> Phone {
    let phone = come(phone)
        .walk(0.0, -30.0)
        .walk(0.0, -8.0)
        .go_in()
        .walk(0.0, 1.0)
        .stay(35);
    go(phone.walk(0.0, -8.0).come_out().walk(0.0, -30.0))
}

pub(super) fn floor(phone: Phone, floor: i16) -> Phone {
    phone
        .address("floor", json!(floor))
        .address("storeyHeightM", json!(3.0))
}

pub(super) fn door_at(phone: Phone, east: f64) -> Phone {
    let phone = phone.drive(east - 40.0, -30.0).stay(10);
    let phone = phone
        .walk(east, -30.0)
        .walk(east, -2.0)
        .stay(35)
        .walk(east, -30.0);
    phone
        .walk(east - 40.0, -30.0)
        .stay(10)
        .drive(east - 500.0, -30.0)
}

pub(super) fn on_the_way(phone: Phone, seconds: u32) -> Phone {
    house(
        phone
            .drive(-500.0, -30.0)
            .without_data(|phone| phone.stay(seconds)),
    )
}

pub(super) fn at_the_door(phone: Phone, seconds: u32) -> Phone {
    let phone = come(phone)
        .walk(0.0, -30.0)
        .walk(0.0, -2.0)
        .stay(20)
        .mark("handed_over");
    go(phone
        .without_data(|phone| phone.stay(seconds))
        .stay(10)
        .walk(0.0, -30.0))
}
