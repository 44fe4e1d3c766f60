//! The kinds of actors, which are stored and answered by their names.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kind of an [`Actor`](super::Actor).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActorKind {
    /// The holder of a key.
    Key,
    /// The holder of a signed link.
    Link,
    /// An operator of the service, on the command line.
    Operator,
    /// The service itself.
    Service,
    /// A kind that a later release has added. Its name is kept, because hashes cover it.
    Other(String),
}

impl ActorKind {
    /// Returns the name in answers and stored lines.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Key => "key",
            Self::Link => "link",
            Self::Operator => "operator",
            Self::Service => "service",
            Self::Other(name) => name,
        }
    }
}

impl From<String> for ActorKind {
    fn from(name: String) -> Self {
        let known = [Self::Key, Self::Link, Self::Operator, Self::Service];
        let found = known.into_iter().find(|kind| kind.as_str() == name);
        found.unwrap_or(Self::Other(name))
    }
}

impl Serialize for ActorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ActorKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}
