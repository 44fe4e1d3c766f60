//! Every number of the building model, with its unit in its name and its source.

crate::parameters::table! {
    /// Heights of storeys, by type of place.
    pub(crate) mod storey {
        /// The smallest plausible storey height, metres: 2.7 m is the smallest measured, 2.5 m the
        /// smallest that building codes allow, and air at 35 °C takes 7 % off.
        HEIGHT_M_MIN: f32 = 2.2;
        /// The greatest plausible storey height, metres: offices reach 4.9 m (measured), malls 6 m.
        HEIGHT_M_MAX: f32 = 6.5;
        /// The step between compared storey heights, metres: a third of the narrowest prior's
        /// standard deviation.
        STEP_M: f64 = 0.07;
        /// The storey height of a dwelling, metres: 2.5 to 2.7 m of room, as building codes
        /// require, and 0.2 to 0.4 m of slab.
        DWELLING_M: f64 = 2.9;
        /// The standard deviation of [`DWELLING_M`] between buildings, metres.
        DWELLING_SIGMA_M: f64 = 0.2;
        /// The share of dwellings with high rooms, built before about 1930.
        OLD_DWELLING_SHARE: f64 = 0.25;
        /// The storey height of an old dwelling, metres.
        OLD_DWELLING_M: f64 = 3.3;
        /// The standard deviation of [`OLD_DWELLING_M`] between buildings, metres.
        OLD_DWELLING_SIGMA_M: f64 = 0.35;
        /// The storey height of an office, metres: 3.7 to 4.9 m in the five buildings of Falcon and
        /// Schulzrinne (2018), without their taller ground storeys. The Council on Tall Buildings
        /// takes 3.9 m for office towers. Plain offices have 2.7 m of room and 0.5 to 0.8 m of
        /// slab, ducts and raised floor, which is 3.2 to 3.5 m.
        OFFICE_M: f64 = 3.7;
        /// The standard deviation of [`OFFICE_M`] between buildings, metres: the plain offices lie
        /// one below it, most measured buildings within one above it.
        OFFICE_SIGMA_M: f64 = 0.5;
        /// The storey height of a building with an elevator and no other information, metres: the
        /// median of 1,314 towers in New York, dwellings, hotels and offices together.
        TOWER_M: f64 = 3.6;
        /// The standard deviation of [`TOWER_M`] between buildings, metres: 5 % of those towers lie
        /// below 2.95 m, 5 % above 4.75 m.
        TOWER_SIGMA_M: f64 = 0.5;
        /// The share of dwellings among addresses whose unit or street line names an apartment.
        NAMED_DWELLING_SHARE: f64 = 0.95;
        /// The share of dwellings among addresses with a unit of unspecified kind. Judgement:
        /// parcels go to homes.
        UNIT_DWELLING_SHARE: f64 = 0.85;
        /// The share of dwellings among places without information that the courier climbed on
        /// foot. Judgement: a house of few storeys without an elevator is usually a home.
        WALKED_DWELLING_SHARE: f64 = 0.75;
        /// The share of dwellings among places without information to which a parcel went by
        /// elevator. Only the claimed floor is judged with it: parcels go to homes, while the
        /// measured rides without an address are those of towers of every use. Judgement: half.
        RIDDEN_DWELLING_SHARE: f64 = 0.5;
        /// The standard deviation of the storey height of an address, metres: it is given to a
        /// decimetre.
        GIVEN_SIGMA_M: f64 = 0.03;
        /// The number of standard deviations on each side over which the heights around a given one
        /// are compared.
        GIVEN_SIGMAS: f64 = 3.0;
        /// The number of compared heights on each side of a given one.
        GIVEN_STEPS: i32 = 12;
        /// The share of the likeliest building's weight below which a building is not compared.
        /// Judgement.
        CANDIDATE_SHARE_MIN: f64 = 1e-5;
    }

    /// The ground storey and the floors below it.
    pub(crate) mod ground {
        /// The maximum extra height of a ground storey, metres: 1.5 to 3 m in the five buildings
        /// measured.
        EXTRA_M_MAX: f64 = 3.0;
        /// The step between compared extra heights, metres.
        EXTRA_STEP_M: f64 = 0.25;
        /// The share of dwellings whose ground storey is as tall as the others. Judgement.
        DWELLING_LEVEL_SHARE: f64 = 0.6;
        /// The standard deviation of "as tall as the others", metres: a few steps before the door.
        DWELLING_LEVEL_SIGMA_M: f64 = 0.25;
        /// The mean extra height of the ground storey of other dwellings, metres: shops, or a
        /// raised ground floor.
        DWELLING_EXTRA_M: f64 = 0.8;
        /// The share of buildings of an unknown kind whose ground storey is that of an office; the
        /// others have that of a dwelling. Judgement.
        TOWER_TALL_SHARE: f64 = 0.5;
        /// The extra height of the ground storey of an office or a tower, metres: halls are 1.5 to
        /// 3 m taller (measured), side entrances are no taller.
        OFFICE_EXTRA_M: f64 = 1.2;
        /// The standard deviation of [`OFFICE_EXTRA_M`] between buildings, metres.
        OFFICE_EXTRA_SIGMA_M: f64 = 1.0;
        /// The standard deviation of the steps between the entrance and the ground floor, metres:
        /// zero to seven of 0.17 m.
        STEPS_SIGMA_M: f64 = 0.5;
        /// The standard deviation of a cellar's depth from whole storeys, metres: cellars are 2.2
        /// to 3.5 m deep.
        CELLAR_SIGMA_M: f64 = 0.4;
    }

    /// The conversion from pressure to height.
    pub(crate) mod air {
        /// The ratio of the true height to the height by the standard atmosphere at 15 °C, for the
        /// air of houses: 18 °C.
        USUAL: f64 = 0.99;
        /// The standard deviation of [`USUAL`]: 10 °C are 3.5 % (the density of air is inversely
        /// proportional to its absolute temperature). Two of them reach from −2 to 38 °C, as in
        /// stairwells that are neither heated nor cooled.
        SIGMA: f64 = 0.035;
        /// The standard deviation of a rise in addition to the noise of its two levels, metres: the
        /// phone's place on a landing, or the hand that held it.
        RISE_SIGMA_M: f64 = 0.25;
        /// The share of rises with an error beyond their stated uncertainty: a door that stayed
        /// open, a gust.
        WILD_SHARE: f64 = 0.03;
        /// The factor on the standard deviation of such rises.
        WILD_SIGMAS: f64 = 3.0;
        /// The standard deviation of the height of an intermediate stop, metres: two levels of 0.3
        /// m.
        STOP_SIGMA_M: f64 = 0.4;
        /// The share of intermediate stops that are not on a floor: a landing between two floors, a
        /// waiting cabin.
        STOP_ELSEWHERE_SHARE: f64 = 0.2;
        /// The number of standard deviations of a wild rise beyond which a floor has no likelihood.
        IGNORED_SIGMAS: f64 = 4.0;
    }

    /// The evidence for the number of floors other than the height.
    pub(crate) mod count {
        /// The maximum plausible number of floors: the tallest buildings have 160.
        FLOORS_MAX: i16 = 170;
        /// The scale of the floor prior: of floors n and n + this, the lower is e times as likely
        /// before any measurement, since most buildings are low. Judgement.
        FEWER_SCALE: f64 = 8.0;
        /// The factor by which a floor below ground is less likely than the floor above it.
        /// Judgement: shops in basements, car parks.
        BELOW_FACTOR: f64 = 0.5;
        /// The difference between the floors climbed and the turns. A staircase makes one turn per
        /// storey; the last quarter belongs to the corridor.
        TURNS_LACK: f64 = 0.25;
        /// The standard deviation of the number of turns.
        TURNS_SIGMA: f64 = 0.35;
        /// The number of turns below which they are not evidence: a straight flight has no turns.
        TURNS_MIN: f64 = 0.8;
        /// The likelihood of any number of turns on one way, relative to the right one: a hand that
        /// turns the phone. Judgement.
        TURNS_BY_HAND: f64 = 0.2;
        /// The likelihood of any number of turns on all ways, relative to the right one: straight
        /// flights, stairs whose exits lie on different sides. Judgement.
        TURNS_OTHERWISE: f64 = 0.1;
        /// The shares of staircases with one, two and three flights per storey. Building codes
        /// limit a flight to about 3.7 m, and two flights beside each other need the least floor.
        /// Judgement.
        FLIGHTS_PER_STOREY_SHARES: [f64; 3] = [0.25, 0.65, 0.1];
        /// The standard deviation of the counted number of flights.
        FLIGHTS_SIGMA: f64 = 0.45;
        /// The likelihood of any number of flights counted on one way, relative to the right one: a
        /// pause on a flight, a gust. Judgement.
        FLIGHTS_MISCOUNTED: f64 = 0.05;
        /// The likelihood of any number of flights counted on all ways, relative to the right one:
        /// half-storeys. Judgement.
        FLIGHTS_OTHERWISE: f64 = 0.05;
        /// The maximum floor of an intermediate stop: beyond any building.
        STOP_FLOORS_MAX: f64 = 200.0;
    }

    /// The parameters of the heights learned in earlier sessions.
    pub(crate) mod learned {
        /// The noise of a learned height, metres: two levels of 0.3 m.
        SIGMA_M: f64 = 0.4;
        /// The probability that the first trusted session was not on the floor that its address
        /// names; with more sessions that agree it falls in inverse proportion to their number.
        /// Judgement: a drop-off on the stairs, or one floor off.
        ELSEWHERE_SHARE: f64 = 0.25;
        /// The standard deviation of the height in that case, metres: one storey.
        ELSEWHERE_SIGMA_M: f64 = 3.0;
        /// The weight of a height that was stored without a weight: two fresh sessions.
        MISSING_WEIGHT: f32 = 2.0;
        /// The minimum weight with which a learned height counts. Judgement.
        WEIGHT_MIN: f32 = 0.1;
    }

    /// The limits for reporting a floor.
    pub(crate) mod decision {
        /// The prior probability that a courier is on a neighbouring floor, relative to the right
        /// floor. So the right floor has three in five: far more deliveries reach the right floor,
        /// but the claim itself must not decide.
        BESIDE: f64 = 1.0 / 3.0;
        /// The probability against its neighbours from which the claimed floor is the right one.
        RIGHT: f64 = 0.75;
        /// The claimed floor is wrong if another floor is this many times as likely.
        WRONG_TIMES: f64 = 10.0;
        /// The probability below which a floor is not named.
        NAMED: f64 = 0.02;
        /// A height does not belong to any building if its likelihood is below that of an error of
        /// this many standard deviations.
        IMPLAUSIBLE_SIGMAS: f64 = 6.0;
    }
}
