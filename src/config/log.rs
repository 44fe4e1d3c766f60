//! The settings of the log: the section `[log]`.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::{ConfigError, deserialize};

/// The settings of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A level (`info`), or directives by target (`info,porchlight_actors=debug`).
    #[serde(deserialize_with = "deserialize::text")]
    pub filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            // The web server logs its threads at `info`, which operators do not need, and each
            // malformed request at `error`, so that anybody could fill the log.
            filter: "info,actix_server=warn,actix_http=off".into(),
        }
    }
}

impl Log {
    /// Returns the parsed filter. A single word must be a level: the parser would take any other
    /// word for a target and silence the rest of the log.
    ///
    /// # Errors
    ///
    /// Returns an error if the filter is empty, or if a part of it is neither a level nor a
    /// directive.
    pub fn parsed_filter(&self) -> Result<EnvFilter, ConfigError> {
        let invalid = |detail: String| ConfigError::invalid("log.filter", detail);
        let mut parts = self.filter.split(',').filter(|part| !part.is_empty());
        let is_directive = |part: &str| part.contains(['=', '[', ']', '{', '}']);
        let is_known = |part: &&str| is_directive(part) || part.parse::<LevelFilter>().is_ok();
        if let Some(word) = parts.clone().find(|part| !is_known(part)) {
            return Err(invalid(format!(
                "`{word}` is not a level (off, error, warn, info, debug, trace); a target is written `target=level`"
            )));
        }
        if parts.next().is_none() {
            return Err(invalid("must name a level, such as `info`".to_owned()));
        }
        EnvFilter::try_new(&self.filter).map_err(|error| invalid(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(filter: &str) -> Result<EnvFilter, ConfigError> {
        let filter = filter.to_owned();
        Log { filter }.parsed_filter()
    }

    #[test]
    fn a_single_word_that_is_not_a_level_is_refused() {
        for filter in ["warning", "loud", "inof", "info,porchlight_actors", " info"] {
            let error = parsed(filter).unwrap_err().to_string();
            assert!(error.contains("log.filter: `"), "{filter}: {error}");
            assert!(error.contains("is not a level"), "{filter}: {error}");
        }
        for filter in ["", ",", "a=loud", "=!"] {
            let error = parsed(filter).unwrap_err().to_string();
            assert!(error.contains("log.filter"), "{filter}: {error}");
        }
    }

    #[test]
    fn levels_and_directives_are_accepted() {
        for filter in [
            "info",
            "WARN",
            "off",
            "info,porchlight_actors=debug",
            "info,[request{id=7}]=trace",
            &Log::default().filter,
        ] {
            parsed(filter).unwrap();
        }
    }
}
