//! Splits a stream of bytes into lines, holding at most one of them and the bytes that arrived with
//! it.

use memchr::{memchr, memrchr};

/// The size of the buffer that is kept for the next line.
const KEPT_BYTES: usize = 64 * 1024;

/// A line splitter. Fill its [`Lines::buffer`], then take lines until no complete one is left.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// End of the consumed bytes.
    from: usize,
    /// No line ends before this position.
    seen: usize,
    line_bytes_max: usize,
    /// Whether the rest of a long line is being skipped.
    is_skipping: bool,
}

/// A line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The bytes of a line, without its end.
    Whole(&'a [u8]),
    /// The line is too long and was dropped.
    TooLong,
}

impl Lines {
    pub(super) fn new(line_bytes_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            from: 0,
            seen: 0,
            line_bytes_max,
            is_skipping: false,
        }
    }

    /// Returns the buffer to append to.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.from > 0 {
            self.buffer.drain(..self.from);
            self.seen -= self.from;
            self.from = 0;
            self.buffer.shrink_to(KEPT_BYTES);
        }
        &mut self.buffer
    }

    /// Returns whether the buffer is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.from == self.buffer.len()
    }

    /// Returns the number of buffered bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns the next line, or `None` if no complete line is available. If `is_end` is set, the
    /// input has ended, so the last line needs no line end.
    pub(super) fn next_line(&mut self, is_end: bool) -> Option<Line<'_>> {
        loop {
            self.skip_blank_lines();
            let rest = self.buffer.get(self.seen..).unwrap_or_default();
            let (end, after) = match memchr(b'\n', rest) {
                Some(place) => (self.seen + place, self.seen + place + 1),
                None if is_end && (self.from < self.buffer.len() || self.is_skipping) => {
                    (self.buffer.len(), self.buffer.len())
                }
                None => {
                    self.seen = self.buffer.len();
                    if self.is_skipping || self.seen - self.from > self.line_bytes_max {
                        return self.skip();
                    }
                    return None;
                }
            };
            let from = std::mem::replace(&mut self.from, after);
            self.seen = after;
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if end - from > self.line_bytes_max {
                return Some(Line::TooLong);
            }
            return self.buffer.get(from..end).map(Line::Whole);
        }
    }

    /// Skips complete blank lines. A body may unpack to millions of them.
    fn skip_blank_lines(&mut self) {
        if self.is_skipping || self.seen > self.from {
            return;
        }
        let rest = self.buffer.get(self.from..).unwrap_or_default();
        let blanks = rest.len() - rest.trim_ascii_start().len();
        let last_end = memrchr(b'\n', rest.get(..blanks).unwrap_or_default());
        self.from += last_end.map_or(0, |place| place + 1);
        self.seen = self.from;
    }

    /// Drops the incomplete line and skips its rest; returns whether there was one.
    pub(super) fn discard_line(&mut self) -> bool {
        let is_begun = !self.is_skipping && self.from < self.buffer.len();
        self.is_skipping |= is_begun;
        self.from = self.buffer.len();
        self.seen = self.from;
        is_begun
    }

    fn skip(&mut self) -> Option<Line<'_>> {
        self.discard_line().then_some(Line::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the lines of pieces; `None` for a line that is too long.
    fn lines(pieces: &[&[u8]], line_bytes_max: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(line_bytes_max);
        let mut found = Vec::new();
        let mut take = |lines: &mut Lines, is_end| {
            while let Some(line) = lines.next_line(is_end) {
                found.push(match line {
                    Line::Whole(line) => Some(line.to_vec()),
                    Line::TooLong => None,
                });
            }
        };
        for piece in pieces {
            lines.buffer().extend_from_slice(piece);
            take(&mut lines, false);
            assert!(lines.held_bytes() <= (line_bytes_max + 2 * piece.len()).max(2 * KEPT_BYTES));
        }
        take(&mut lines, true);
        found
    }

    #[test]
    fn a_line_that_is_too_long_is_reported_once_and_skipped() {
        let text = |line: &str| Some(line.as_bytes().to_vec());
        assert_eq!(
            lines(&[b"a\nbb", b"bbbbb", b"bbb", b"b\nc\n"], 4),
            [text("a"), None, text("c")]
        );
        assert_eq!(lines(&[b"aaaaa\nb"], 4), [None, text("b")]);
        assert_eq!(lines(&[b"aaaa\naaaaa"], 4), [text("aaaa"), None]);
        assert_eq!(
            lines(&[b"\n \r\n", b"", b" a \n \n", b"      \n", b"     b"], 8),
            [text(" a "), text("     b")]
        );
        assert_eq!(lines(&[], 4), []);
    }

    proptest! {
        #[test]
        fn any_division_gives_the_same_lines(text in "[a\n]{0,200}", cuts in proptest::collection::vec(0_usize..200, 0..20), line_bytes_max in 1_usize..20) {
            let mut cuts: Vec<_> = cuts.into_iter().filter(|&cut| cut <= text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            let mut expected: Vec<_> = text.split('\n').map(|line| (line.len() <= line_bytes_max).then(|| line.as_bytes().to_vec())).collect();
            expected.retain(|line| line.as_ref().is_none_or(|line| !line.is_empty()));
            prop_assert_eq!(lines(&pieces, line_bytes_max), expected);
        }
    }
}
