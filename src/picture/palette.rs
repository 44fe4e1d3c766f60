//! Stores pixels as indexed colour: a palette of at most 256 colours and a byte for each pixel,
//! which is a third of the bytes of red, green and blue.

use std::collections::HashMap;

/// The maximum number of colours of a palette in a PNG file.
const COLOURS_MAX: usize = 256;
/// The number of bits of an index into the table of recent colours.
const RECENT_BITS: u32 = 10;

/// The number of pixels that are compared in one step.
const BLOCK: usize = 32;

type Rgb = [u8; 3];
/// Red, green, blue and opacity.
type Pixel = [u8; 4];

/// A picture in indexed colour.
pub(super) struct Indexed {
    /// Red, green and blue of each colour.
    pub(super) palette: Vec<u8>,
    /// For each pixel the index of its colour in the palette.
    pub(super) indices: Vec<u8>,
}

/// Converts pixels to indexed colour. If there are more than 256 colours, the rarest ones (edges
/// between two shapes) become the nearest of the others.
pub(super) fn indexed(pixels: &[Pixel]) -> Indexed {
    let mut colours = Colours::default();
    let runs = runs(pixels, |pixel| colours.number_of(pixel));
    let mut counts = vec![0_u64; colours.all.len()];
    for (number, length) in &runs {
        counts[*number as usize] += u64::from(*length);
    }
    let (palette, index_of) = most_frequent(&colours.all, &counts);
    let mut indices = Vec::with_capacity(pixels.len());
    for (number, length) in runs {
        let index = index_of[number as usize];
        indices.resize(indices.len() + length as usize, index);
    }
    Indexed {
        palette: palette.concat(),
        indices,
    }
}

/// Returns the number of the colour of each run of pixels, and the length of the run.
fn runs(mut pixels: &[Pixel], mut number_of: impl FnMut(Pixel) -> u32) -> Vec<(u32, u32)> {
    let mut runs = Vec::new();
    while let Some(first) = pixels.first() {
        // The compiler compares whole blocks with wide instructions.
        let bits = |pixel: &Pixel| u32::from_le_bytes(*pixel);
        let differs = |pixel: &Pixel| bits(pixel) ^ bits(first);
        let blocks = pixels
            .chunks_exact(BLOCK)
            .take_while(|block| block.iter().fold(0, |all, pixel| all | differs(pixel)) == 0);
        let whole = blocks.count() * BLOCK;
        let rest = pixels[whole..].iter();
        let length = whole + rest.take_while(|pixel| differs(pixel) == 0).count();
        runs.push((number_of(*first), length as u32));
        pixels = &pixels[length..];
    }
    runs
}

/// The colours that were seen, numbered in the order of their first pixel.
struct Colours {
    all: Vec<Rgb>,
    numbers: HashMap<Rgb, u32>,
    /// A colour and its number by a hash of the colour: most pixels have a recent one.
    recent: Vec<Option<(Rgb, u32)>>,
}

impl Default for Colours {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            numbers: HashMap::new(),
            recent: vec![None; 1 << RECENT_BITS],
        }
    }
}

impl Colours {
    fn number_of(&mut self, [red, green, blue, _]: Pixel) -> u32 {
        let colour = [red, green, blue];
        let bits = u32::from_le_bytes([red, green, blue, 0]);
        // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4).
        let slot = (bits.wrapping_mul(0x9E37_79B1) >> (u32::BITS - RECENT_BITS)) as usize;
        if let Some((recent, number)) = self.recent[slot]
            && recent == colour
        {
            return number;
        }
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(colour).or_insert(next);
        if number == next {
            self.all.push(colour);
        }
        self.recent[slot] = Some((colour, number));
        number
    }
}

/// Returns the palette of the most frequent colours, and for each colour the index of the nearest
/// palette colour.
fn most_frequent(all: &[Rgb], counts: &[u64]) -> (Vec<Rgb>, Vec<u8>) {
    let mut by_count: Vec<usize> = (0..all.len()).collect();
    // The sort is stable, so the same pixels give the same palette.
    by_count.sort_by_key(|number| std::cmp::Reverse(counts[*number]));
    let (kept, rare) = by_count.split_at(by_count.len().min(COLOURS_MAX));
    let palette: Vec<Rgb> = kept.iter().map(|number| all[*number]).collect();
    let mut index_of = vec![0_u8; all.len()];
    for (index, number) in kept.iter().enumerate() {
        index_of[*number] = index as u8;
    }
    for number in rare {
        index_of[*number] = nearest(&palette, all[*number]);
    }
    (palette, index_of)
}

/// Returns the index of the palette colour with the smallest distance to `colour`.
fn nearest(palette: &[Rgb], colour: Rgb) -> u8 {
    let distance = |other: &Rgb| -> u32 {
        let channels = other.iter().zip(colour);
        channels.map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
    };
    let indices = palette.iter().enumerate();
    let nearest = indices.min_by_key(|(_, other)| distance(other));
    nearest.map_or(0, |(index, _)| index as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pixel([red, green, blue]: Rgb) -> Pixel {
        [red, green, blue, 255]
    }

    fn colours_of(indexed: &Indexed) -> Vec<Rgb> {
        let colour = |index: &u8| {
            let at = usize::from(*index) * 3;
            [0, 1, 2].map(|channel| indexed.palette[at + channel])
        };
        indexed.indices.iter().map(colour).collect()
    }

    #[test]
    fn rare_colours_become_the_nearest_frequent_one() {
        // 300 greys and blues: the first 256 twice, the others once.
        let colour = |number: u32| {
            [
                (number % 256) as u8,
                (number % 256) as u8,
                (number / 256) as u8,
            ]
        };
        let twice = (0..256).flat_map(|number| [number, number]);
        let colours: Vec<Rgb> = twice.chain(256..300).map(colour).collect();
        let pixels: Vec<_> = colours.iter().copied().map(pixel).collect();
        let painted = colours_of(&indexed(&pixels));
        assert_eq!(painted[..512], colours[..512]);
        for (painted, colour) in painted[512..].iter().zip(&colours[512..]) {
            assert_eq!(*painted, [colour[0], colour[1], 0]);
        }
    }

    proptest! {
        /// A picture of at most 256 colours keeps every pixel.
        #[test]
        fn few_colours_are_kept(
            colours in proptest::collection::vec(any::<Rgb>(), 1..=256),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 1..400),
        ) {
            let pixels: Vec<Rgb> = order.iter().map(|index| *index.get(&colours)).collect();
            let opaque: Vec<_> = pixels.iter().copied().map(pixel).collect();
            let indexed = indexed(&opaque);
            prop_assert!(indexed.palette.len() <= 3 * COLOURS_MAX);
            prop_assert_eq!(colours_of(&indexed), pixels);
        }
    }
}
