//! The container: header, directories and the bytes of tiles of a PMTiles file, version 3
//! (<https://github.com/protomaps/PMTiles/blob/main/spec/v3/spec.md>).

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use porchlight_schema::fnv;
use porchlight_schema::limits::{
    MAP_ATTRIBUTION_CHARS_MAX, MAP_DIRECTORIES_KEPT_MAX, MAP_DIRECTORY_BYTES_MAX,
    MAP_DIRECTORY_DEPTH_MAX, MAP_STORED_BYTES_MAX, MAP_TILE_BYTES_MAX, MAP_ZOOM_MAX,
};
use porchlight_schema::session::Point;
use serde::Deserialize;

use super::directory::{Directory, number};
use super::projection::{Bounds, TileId};
use super::unpack::Compression;
use super::wire::Damaged;

/// The length of the header in bytes.
const HEADER_BYTES: usize = 127;
/// The bytes with which every file begins.
const MAGIC: &[u8] = b"PMTiles";
/// The version of the format that this crate reads.
const VERSION: u8 = 3;
/// The type of tiles that this crate reads: Mapbox vector tiles.
const VECTOR_TILES: u8 = 1;
/// The usual source of a file.
const SOURCE: &str = "OpenStreetMap";
/// The notice for a file that does not name its source.
const ATTRIBUTION: &str = "© OpenStreetMap";

/// The character references that notices contain, with their text; `&amp;` is the last one.
const REFERENCES: [(&str, &str); 7] = [
    ("&copy;", "©"),
    ("&#169;", "©"),
    ("&nbsp;", " "),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&amp;", "&"),
];

/// The reason why a map file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The file cannot be opened or read.
    #[error("{file} cannot be read")]
    Unreadable {
        /// The path of the file.
        file: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file is something else.
    #[error("{0} is not a PMTiles file of version 3")]
    NotPmtiles(PathBuf),
    /// The file contains images instead of vector tiles.
    #[error("{0} does not contain vector tiles; images cannot be drawn")]
    NotVector(PathBuf),
    /// The file uses a compression that this version does not read.
    #[error("{0} is compressed with something other than gzip")]
    Compression(PathBuf),
    /// A part of the file is damaged.
    #[error("{0} is damaged or truncated")]
    Damaged(PathBuf),
    /// The operating system did not read a tile. The next attempt may succeed.
    #[error("a tile of the map cannot be read")]
    Read(#[source] std::io::Error),
    /// A tile is damaged or exceeds a limit.
    #[error("a tile of the map is damaged or exceeds a limit")]
    Tile,
}

impl From<Damaged> for MapError {
    fn from(_: Damaged) -> Self {
        Self::Tile
    }
}

/// The parts of the header that are needed after opening.
#[derive(Debug)]
pub(super) struct Archive {
    file: File,
    root: Directory,
    leaves: Mutex<VecDeque<(u64, Arc<Directory>)>>,
    leaves_offset: u64,
    data_offset: u64,
    directories: Compression,
    tiles: Compression,
    pub(super) zooms: (u8, u8),
    pub(super) bounds: Bounds,
    pub(super) attribution: String,
    pub(super) version: String,
}

/// The header's bytes.
struct Header([u8; HEADER_BYTES]);

impl Header {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().zip(self.0.iter().skip(at)) {
            *to = *from;
        }
        bytes
    }

    fn offset(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    fn byte(&self, at: usize) -> u8 {
        u8::from_le_bytes(self.bytes(at))
    }

    fn degrees(&self, at: usize) -> f64 {
        f64::from(i32::from_le_bytes(self.bytes(at))) / 1e7
    }
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    attribution: String,
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Self, MapError> {
        let unreadable = |source| MapError::Unreadable {
            file: path.to_path_buf(),
            source,
        };
        let damaged = |Damaged| MapError::Damaged(path.to_path_buf());
        let file = File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(MapError::NotPmtiles(path.to_path_buf()));
        }
        let mut header = Header([0; HEADER_BYTES]);
        match file.read_exact_at(&mut header.0, 0) {
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(unreadable(error));
            }
            _ => {}
        }
        if !header.0.starts_with(MAGIC) || header.byte(7) != VERSION {
            return Err(MapError::NotPmtiles(path.to_path_buf()));
        }
        if header.byte(99) != VECTOR_TILES {
            return Err(MapError::NotVector(path.to_path_buf()));
        }
        let compression = |at| {
            Compression::of(header.byte(at))
                .ok_or_else(|| MapError::Compression(path.to_path_buf()))
        };
        let (directories, tiles) = (compression(97)?, compression(98)?);
        let (data_offset, data_length) = (header.offset(56), header.offset(64));
        let data_end = data_offset.checked_add(data_length);
        if data_end.is_none_or(|end| end > about.len()) {
            return Err(MapError::Damaged(path.to_path_buf()));
        }
        let zooms = (header.byte(100), header.byte(101));
        if zooms.0 > zooms.1 || zooms.1 > MAP_ZOOM_MAX {
            return Err(MapError::Damaged(path.to_path_buf()));
        }
        let root = match read(&file, header.offset(8), header.offset(16)) {
            Err(MapError::Read(error)) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(unreadable(error));
            }
            read => read.map_err(|_| damaged(Damaged))?,
        };
        let root = directories
            .unpack(root, MAP_DIRECTORY_BYTES_MAX)
            .map_err(damaged)?;
        let corner = |lng, lat| Point {
            lat: header.degrees(lat),
            lng: header.degrees(lng),
        };
        Ok(Self {
            root: Directory::read(&root).map_err(damaged)?,
            leaves: Mutex::default(),
            leaves_offset: header.offset(40),
            data_offset,
            directories,
            tiles,
            zooms,
            bounds: Bounds {
                low: corner(102, 106),
                high: corner(110, 114),
            },
            attribution: attribution(&file, &header, directories),
            version: version(&header, &root),
            file,
        })
    }

    /// Returns the unpacked bytes of a tile; `None` if the file has no such tile.
    pub(super) fn tile(&self, id: TileId) -> Result<Option<Vec<u8>>, MapError> {
        let number = number(id);
        let mut entry = self.root.find(number);
        for _ in 0..MAP_DIRECTORY_DEPTH_MAX {
            let Some(found) = entry else {
                return Ok(None);
            };
            if found.run > 0 {
                let at = self.data_offset.checked_add(found.offset).ok_or(Damaged)?;
                let stored = read(&self.file, at, u64::from(found.length))?;
                return Ok(Some(self.tiles.unpack(stored, MAP_TILE_BYTES_MAX)?));
            }
            entry = self.leaf(found.offset, found.length)?.find(number);
        }
        Err(MapError::Tile)
    }

    /// Returns the leaf directory at this offset, from a small cache or from the file.
    fn leaf(&self, offset: u64, length: u32) -> Result<Arc<Directory>, MapError> {
        let leaves = || self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = |(one, leaf): &(u64, Arc<Directory>)| (*one == offset).then(|| Arc::clone(leaf));
        if let Some(leaf) = leaves().iter().find_map(kept) {
            return Ok(leaf);
        }
        let at = self.leaves_offset.checked_add(offset).ok_or(Damaged)?;
        let stored = read(&self.file, at, u64::from(length))?;
        let bytes = self.directories.unpack(stored, MAP_DIRECTORY_BYTES_MAX)?;
        let leaf = Arc::new(Directory::read(&bytes)?);
        let mut leaves = leaves();
        while leaves.len() >= MAP_DIRECTORIES_KEPT_MAX {
            leaves.pop_front();
        }
        leaves.push_back((offset, Arc::clone(&leaf)));
        Ok(leaf)
    }
}

/// Reads a part of the file.
fn read(file: &File, offset: u64, length: u64) -> Result<Vec<u8>, MapError> {
    let length = usize::try_from(length).map_err(|_| Damaged)?;
    if length > MAP_STORED_BYTES_MAX {
        return Err(MapError::Tile);
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)
        .map_err(MapError::Read)?;
    Ok(bytes)
}

/// Returns the notice that the file's metadata asks for, as text. Nearly every file of this kind is
/// made from OpenStreetMap, so that is the notice of a file that names no source.
fn attribution(file: &File, header: &Header, compression: Compression) -> String {
    let stored = read(file, header.offset(24), header.offset(32));
    let bytes = stored.ok().and_then(|stored| {
        let unpacked = compression.unpack(stored, MAP_DIRECTORY_BYTES_MAX);
        unpacked.ok()
    });
    let metadata = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let html = metadata.map_or(String::new(), |metadata: Metadata| metadata.attribution);
    notice(&html)
}

/// Returns the text of a notice in HTML. A text that is cut before it names OpenStreetMap is replaced
/// by the notice that names it.
pub(super) fn notice(html: &str) -> String {
    let text = text_of(html);
    let is_cut = html.contains(SOURCE) && !text.contains(SOURCE);
    if text.is_empty() || is_cut {
        ATTRIBUTION.to_owned()
    } else {
        text
    }
}

/// Returns the text of a notice in HTML, without tags, with its character references replaced.
fn text_of(html: &str) -> String {
    let mut in_tag = false;
    let text: String = html
        .chars()
        .filter(|&letter| {
            let is_text = !in_tag && letter != '<';
            in_tag = (in_tag || letter == '<') && letter != '>';
            is_text
        })
        .collect();
    let text = REFERENCES.iter().fold(text, |text, (reference, letter)| {
        text.replace(reference, letter)
    });
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let letters = line.chars().filter(|letter| !letter.is_control());
    letters.take(MAP_ATTRIBUTION_CHARS_MAX).collect()
}

/// Returns a hash of the header and the root directory.
fn version(header: &Header, root: &[u8]) -> String {
    let bytes = header.0.iter().chain(root).copied();
    format!("{:016x}", fnv::hash(bytes))
}
