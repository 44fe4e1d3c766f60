//! The kinds of delivery, and the acting of each.

mod acts;
mod forgery;

use porchlight_schema::insight::ReasonCode;

use super::courier::Courier;
use super::phone::{Kit, MotionSensor};
use super::rng::{Draw, ParameterSet, Rng};
use super::world::{Place, World};

pub(super) use acts::Plan;
pub(super) use forgery::{forge, silence};

/// A kind of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Drives, parks, walks to the door of a house, delivers, and goes back.
    House,
    /// Goes up the stairs.
    Stairs,
    /// Goes up in the elevator.
    Elevator,
    /// Leaves the parcel in the lobby although the door is upstairs.
    LobbyHandOff,
    /// Never comes near the address and walks somewhere else.
    NeverCame,
    /// Stays at the door of another house.
    WrongAddress,
    /// Walks to the door, away, and to the door again.
    SecondAttempt,
    /// Passes a gate or a call box on the way.
    Gate,
    /// Loses the way and turns back.
    Backtracking,
    /// Leaves the phone in the vehicle.
    PhoneInVehicle,
    /// Sends fixes that the platform flags as simulated.
    MockFixes,
    /// Sends the fixes of a delivery while the body is still.
    SpoofedWalk,
    /// Sends fixes that jump to the address.
    Teleport,
    /// Goes down to a basement.
    Basement,
    /// One of the first three kinds without a barometer.
    NoBarometer,
    /// One of the first three kinds with position fixes only.
    LocationOnly,
    /// One of the first three kinds without any fix.
    MotionOnly,
    /// Sends only a handful of fixes.
    ThinData,
    /// Sends nothing while at the door.
    InterruptedAtDoor,
    /// Never stops the session.
    TimedOut,
    /// Goes to a floor next to that of the address.
    NeighbouringFloor,
    /// Searches for the parcel next to the parked vehicle, then reaches a gate at the kerb.
    GateAtKerb,
    /// One of the first three kinds, with the phone in use at every stay on foot.
    HandledPhone,
}

impl Kind {
    /// All kinds of scenarios.
    pub const ALL: [Self; 23] = [
        Self::House,
        Self::Stairs,
        Self::Elevator,
        Self::LobbyHandOff,
        Self::NeverCame,
        Self::WrongAddress,
        Self::SecondAttempt,
        Self::Gate,
        Self::Backtracking,
        Self::PhoneInVehicle,
        Self::MockFixes,
        Self::SpoofedWalk,
        Self::Teleport,
        Self::Basement,
        Self::NoBarometer,
        Self::LocationOnly,
        Self::MotionOnly,
        Self::ThinData,
        Self::InterruptedAtDoor,
        Self::TimedOut,
        Self::NeighbouringFloor,
        Self::GateAtKerb,
        Self::HandledPhone,
    ];

    /// Returns the stable name, as used on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::House => "house",
            Self::Stairs => "stairs",
            Self::Elevator => "elevator",
            Self::LobbyHandOff => "lobby-hand-off",
            Self::NeverCame => "never-came",
            Self::WrongAddress => "wrong-address",
            Self::SecondAttempt => "second-attempt",
            Self::Gate => "gate",
            Self::Backtracking => "backtracking",
            Self::PhoneInVehicle => "phone-in-vehicle",
            Self::MockFixes => "mock-fixes",
            Self::SpoofedWalk => "spoofed-walk",
            Self::Teleport => "teleport",
            Self::Basement => "basement",
            Self::NoBarometer => "no-barometer",
            Self::LocationOnly => "location-only",
            Self::MotionOnly => "motion-only",
            Self::ThinData => "thin-data",
            Self::InterruptedAtDoor => "interrupted-at-door",
            Self::TimedOut => "timed-out",
            Self::NeighbouringFloor => "neighbouring-floor",
            Self::GateAtKerb => "gate-at-kerb",
            Self::HandledPhone => "handled-phone",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the sensors that the kind requires.
    pub(super) fn kit(self) -> Option<Kit> {
        match self {
            Self::NoBarometer => Some(Kit {
                barometer: false,
                ..Kit::FULL
            }),
            Self::LocationOnly | Self::ThinData => Some(Kit::LOCATION_ONLY),
            Self::MotionOnly => Some(Kit {
                location: false,
                barometer: false,
                ..Kit::FULL
            }),
            _ => None,
        }
    }
}

/// A kind of delivery and its randomness, which define the whole delivery.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scenario {
    /// The kind of delivery.
    pub kind: Kind,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The part of the parameter ranges.
    pub set: ParameterSet,
    /// The phone's sensors; if `None`, those required by the kind, otherwise drawn.
    pub kit: Option<Kit>,
}

impl Scenario {
    /// Creates a scenario with drawn sensors.
    #[must_use]
    pub fn new(kind: Kind, set: ParameterSet, seed: u64) -> Self {
        Self {
            kind,
            seed,
            set,
            kit: None,
        }
    }

    /// Returns the kit of a spoofing phone: some lack a step counter, and some send no motion data.
    /// The draw uses its own generator, so that everything else stays unchanged.
    pub(super) fn spoofers_kit(self, kit: Kit) -> Kit {
        let mut draw = Draw::new(Rng::new(self.seed, 4), self.set);
        let one_of_ten = draw.whole(0, 9);
        Kit {
            steps: one_of_ten > 1,
            motion: if (2..=3).contains(&one_of_ten) {
                MotionSensor::None
            } else {
                kit.motion
            },
            ..kit
        }
    }

    pub(super) fn act(self, world: &World, draw: &mut Draw) -> Plan {
        let own = Draw::new(Rng::new(draw.rng.next(), 2), self.set);
        let plain = draw.choose(Kind::House, &[Kind::Stairs, Kind::Elevator]);
        let way_m = draw.range(250.0, 1500.0);
        let corner_m = draw.range(60.0, 300.0);
        let start: Place = (-way_m, world.street_north_m - corner_m);
        let mut courier = Courier::new(world, own, start);
        match self.kind {
            Kind::House | Kind::ThinData | Kind::InterruptedAtDoor | Kind::TimedOut => {
                acts::house(courier)
            }
            Kind::Stairs => acts::upstairs(courier, false),
            Kind::Elevator => acts::upstairs(courier, true),
            Kind::LobbyHandOff => acts::lobby(courier),
            Kind::NeverCame => acts::elsewhere(courier, false),
            Kind::Teleport => acts::elsewhere(courier, true),
            Kind::WrongAddress => acts::wrong_address(courier),
            Kind::SecondAttempt => acts::second_attempt(courier),
            Kind::GateAtKerb => acts::gate_at_kerb(courier),
            Kind::NeighbouringFloor => acts::neighbouring_floor(courier),
            Kind::Gate => acts::gate(courier),
            Kind::Backtracking => acts::backtracking(courier),
            Kind::PhoneInVehicle => acts::phone_in_vehicle(courier),
            Kind::MockFixes | Kind::SpoofedWalk => {
                let claimed = acts::house(courier);
                courier = Courier::new(
                    world,
                    Draw::new(Rng::new(self.seed, 3), self.set),
                    (900.0, 400.0),
                );
                acts::at_home(courier, claimed)
            }
            Kind::Basement => acts::basement(courier),
            Kind::NoBarometer | Kind::LocationOnly | Kind::MotionOnly | Kind::HandledPhone => {
                match plain {
                    Kind::Stairs => acts::upstairs(courier, false),
                    Kind::Elevator => acts::upstairs(courier, true),
                    _ => acts::house(courier),
                }
            }
        }
    }

    /// Returns the outcome that the samples can support, given the true one.
    pub(super) fn outcome(self, planned: Option<ReasonCode>, upstairs: bool) -> Option<ReasonCode> {
        match self.kind {
            Kind::LocationOnly if upstairs => None,
            Kind::ThinData | Kind::MotionOnly => Some(ReasonCode::InsufficientData),
            Kind::InterruptedAtDoor => None,
            _ => planned,
        }
    }
}
