//! Every store through the ports: one suite for all (`conformance`), and what the local ones promise beside it.

mod conformance;
mod fixtures;

#[cfg(test)]
mod suite {
    use super::{conformance, fixtures};

    conformance::suite!(memory, fixtures::Memory::make());
    conformance::suite!(embedded, fixtures::Embedded::make());
}
