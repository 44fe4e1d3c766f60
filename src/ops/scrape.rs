//! Parses the text of `/metrics`: the operators' page shows exactly the numbers that Prometheus
//! receives.

/// The series of one scrape.
pub(super) struct Scrape {
    series: Vec<(String, String, f64)>,
}

impl Scrape {
    /// Parses the text format; other lines are ignored.
    pub(super) fn of(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            Some((name.to_owned(), labels.to_owned(), value.parse().ok()?))
        });
        Self {
            series: series.collect(),
        }
    }

    /// Returns the sum over all series of a metric; 0 if it has no series.
    pub(super) fn of_metric(&self, name: &str) -> f64 {
        self.sum(name, &[])
    }

    /// Returns the sum over a metric's series with these labels.
    pub(super) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: Vec<_> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{value}\""))
            .collect();
        let has = |labels: &String| wanted.iter().all(|label| labels.contains(label.as_str()));
        let series = self.series.iter();
        let found = series.filter(|(known, labels, _)| known == name && has(labels));
        found.map(|(_, _, value)| value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_label() {
        let text = "# TYPE a counter\na{x=\"1\",y=\"2\"} 3\na{x=\"1\",y=\"3\"} 4\na{x=\"2\",y=\"2\"} 5\nab 6\n";
        let scrape = Scrape::of(text);
        assert_eq!(scrape.of_metric("a"), 12.0);
        assert_eq!(scrape.sum("a", &[("x", "1")]), 7.0);
        assert_eq!(scrape.sum("a", &[("x", "1"), ("y", "3")]), 4.0);
        assert_eq!(scrape.of_metric("ab"), 6.0);
        assert_eq!(scrape.of_metric("b"), 0.0);
    }
}
