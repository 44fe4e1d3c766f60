//! Every number of the model of buildings, with its unit in its name and where it comes from.

crate::parameters::table! {
    /// Heights of storeys, by type of place.
    pub(crate) mod storey {
        /// The least storey height that is believed, metres: 2.7 m is the least measured, 2.5 m the least that building
        /// codes allow, and air at 35 °C takes 7 % off.
        LEAST_M: f32 = 2.2;
        /// The greatest storey height that is believed, metres: offices reach 4.9 m (measured), malls 6 m.
        MOST_M: f32 = 6.5;
        /// Distance of two storey heights that are compared, metres: a third of the narrowest prior's deviation.
        STEP_M: f64 = 0.07;
        /// Storey of a dwelling, metres: 2.5 to 2.7 m of room, as building codes ask, and 0.2 to 0.4 m of slab.
        DWELLING_M: f64 = 2.9;
        /// Its standard deviation between buildings, metres.
        DWELLING_SIGMA_M: f64 = 0.2;
        /// Share of dwellings with the high rooms that were built before about 1930.
        OLD_DWELLING_SHARE: f64 = 0.25;
        /// Storey of such a dwelling, metres.
        OLD_DWELLING_M: f64 = 3.3;
        /// Its standard deviation between buildings, metres.
        OLD_DWELLING_SIGMA_M: f64 = 0.35;
        /// Storey of an office, metres: 3.7 to 4.9 m in the five buildings of Falcon and Schulzrinne (2018), less their
        /// taller ground storeys.
        OFFICE_M: f64 = 3.9;
        /// Its standard deviation between buildings, metres.
        OFFICE_SIGMA_M: f64 = 0.45;
        /// Storey of a building with an elevator of which nothing else is known, metres: the median of 1,314 towers in
        /// New York, dwellings, hotels and offices together.
        TOWER_M: f64 = 3.6;
        /// Its standard deviation between buildings, metres: 5 % of those towers lie below 2.95 m, 5 % above 4.75 m.
        TOWER_SIGMA_M: f64 = 0.5;
        /// Share of dwellings among addresses whose unit or street line names an apartment.
        NAMED_DWELLING_SHARE: f64 = 0.95;
        /// Share of dwellings among addresses with a unit of which nothing more is said. Judgement: parcels go to homes.
        UNIT_DWELLING_SHARE: f64 = 0.85;
        /// Share of dwellings among places of which nothing is said and that were climbed on foot. Judgement: a house of
        /// few storeys without an elevator is a home more often than not.
        WALKED_DWELLING_SHARE: f64 = 0.75;
        /// The storey height of an address is told to a decimetre: its standard deviation, metres.
        GIVEN_SIGMA_M: f64 = 0.03;
    }

    /// The ground storey and what lies below it.
    pub(crate) mod ground {
        /// Most that a ground storey is taller than the others, metres: 1.5 to 3 m in the five buildings measured.
        EXTRA_MOST_M: f64 = 3.0;
        /// Distance of two such heights that are compared, metres.
        EXTRA_STEP_M: f64 = 0.25;
        /// Share of dwellings whose ground storey is as tall as the others. Judgement.
        DWELLING_LEVEL_SHARE: f64 = 0.6;
        /// Standard deviation of "as tall as the others", metres: a few steps before the door.
        DWELLING_LEVEL_SIGMA_M: f64 = 0.25;
        /// Mean of what the ground storey of another dwelling is taller, metres: shops, or a raised ground floor.
        DWELLING_EXTRA_M: f64 = 0.8;
        /// Share of buildings of an unknown kind whose ground storey is that of an office; the others have that of a
        /// dwelling. Judgement.
        TOWER_TALL_SHARE: f64 = 0.5;
        /// What the ground storey of an office or a tower is taller, metres: halls are 1.5 to 3 m taller (measured), side
        /// entrances not at all.
        OFFICE_EXTRA_M: f64 = 1.2;
        /// Its standard deviation between buildings, metres.
        OFFICE_EXTRA_SIGMA_M: f64 = 1.0;
        /// Steps between the entrance and the ground floor, standard deviation, metres: none to seven of 0.17 m.
        STEPS_SIGMA_M: f64 = 0.5;
        /// Standard deviation of a cellar's depth beside whole storeys, metres: cellars are 2.2 to 3.5 m deep.
        CELLAR_SIGMA_M: f64 = 0.4;
    }

    /// From pressure to height.
    pub(crate) mod air {
        /// True height over the height by the standard atmosphere at 15 °C, for the air of houses: 18 °C.
        USUAL: f64 = 0.99;
        /// Its standard deviation: 10 °C are 3.5 % (the density of air goes with its absolute temperature). Two of them
        /// reach from −2 to 38 °C, as in stairwells that are neither heated nor cooled.
        SIGMA: f64 = 0.035;
        /// Standard deviation of a rise beside the noise of its two levels, metres: where on a landing, or in which hand,
        /// the phone was.
        RISE_SIGMA_M: f64 = 0.25;
        /// Share of rises that are off by more than their uncertainty says: a door that stayed open, a gust.
        WILD_SHARE: f64 = 0.03;
        /// By how many times more.
        WILD_SIGMAS: f64 = 3.0;
        /// Standard deviation of the height of a stop between, metres: two levels of 0.3 m.
        STOP_SIGMA_M: f64 = 0.4;
        /// Share of such stops that are on no floor: a landing between two, a cabin that waits.
        STOP_ELSEWHERE_SHARE: f64 = 0.2;
    }

    /// What speaks for the number of floors beside the height.
    pub(crate) mod count {
        /// The most floors that are believed: the tallest buildings have 160.
        MOST: i16 = 170;
        /// Of floors n and n + this, the lower is e times as likely before anything is measured: most buildings are low.
        /// Judgement.
        FEWER_SCALE: f64 = 8.0;
        /// A floor below ground is this much less likely than the one above it. Judgement: shops in basements, car parks.
        BELOW_FACTOR: f64 = 0.5;
        /// A staircase turns once about itself on each storey; the last quarter is the corridor's. Turns, for each floor
        /// climbed, less this.
        TURNS_LACK: f64 = 0.25;
        /// Standard deviation of those turns.
        TURNS_SIGMA: f64 = 0.35;
        /// Fewer turns say nothing: a straight flight has none.
        TURNS_LEAST: f64 = 0.8;
        /// How likely any number of turns is for any number of floors, against the right one: straight flights, a phone
        /// that is turned in the hand. Judgement.
        TURNS_ELSEWISE: f64 = 0.3;
    }

    /// What earlier sessions taught of a building.
    pub(crate) mod learned {
        /// Noise of a learned height, metres: two levels of 0.3 m.
        SIGMA_M: f64 = 0.4;
        /// How likely a trusted session was not on the floor that its address names, for the first one; with more that agree
        /// it falls as one over their number. Judgement: handed over on the stairs, or one floor off.
        ELSEWHERE_SHARE: f64 = 0.25;
        /// Standard deviation of the height where it was not, metres: one storey.
        ELSEWHERE_SIGMA_M: f64 = 3.0;
        /// The weight of a height for which none was stored: two fresh sessions.
        UNTOLD_WEIGHT: f32 = 2.0;
    }

    /// When a floor is told.
    pub(crate) mod decision {
        /// How likely a courier is on one of the floors beside the right one, against the right one, before anything is
        /// measured. So the right one is it in three of five: deliveries that were made to the right floor are far more, but
        /// what a claim says must not decide about it.
        BESIDE: f64 = 1.0 / 3.0;
        /// The told floor is the right one from this probability on, against its neighbours.
        RIGHT: f64 = 0.75;
        /// It is a wrong one where another floor is this many times as likely.
        WRONG_TIMES: f64 = 10.0;
        /// Floors less likely than this are not named.
        NAMED: f64 = 0.02;
        /// A height is none of any building where its likelihood is below that of an error of this many standard deviations.
        IMPLAUSIBLE_SIGMAS: f64 = 6.0;
    }
}
