//! How the content of a snapshot file is packed: not at all, as gzip, or as snappy-java's stream.
//!
//! ```text
//! .gz       one gzip member; more than one is read as well
//! .snappy   0x82 SNAPPY 0 | version i32 1 | compatible i32 1 | (length i32, raw snappy block)*
//! ```
//!
//! Knows nothing of what is packed. Reading, no length is believed before so many bytes are there.

use std::io::{self, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// snappy-java's first bytes.
const SNAPPY_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
/// The version of its stream, and the oldest reader that understands it.
const SNAPPY_VERSION: i32 = 1;
/// Content of one block; snappy-java's default.
const SNAPPY_BLOCK: usize = 32 << 10;
/// The largest block that is read, packed or not.
const SNAPPY_BLOCK_MAX: usize = 16 << 20;
/// The first bytes of gzip.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How a snapshot is packed (`snapshot.compression.method`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// `gz`.
    Gzip,
    /// `snappy`.
    Snappy,
}

impl Compression {
    /// How a file is packed, by the end of its name as in ZooKeeper.
    pub(crate) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("snappy") => Self::Snappy,
            _ => Self::None,
        }
    }

    /// What stands after the zxid in the file's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Snappy => ".snappy",
        }
    }

    /// What a packed file begins with.
    pub(crate) fn magic(self) -> &'static [u8] {
        match self {
            Self::None => &[],
            Self::Gzip => &GZIP_MAGIC,
            Self::Snappy => &SNAPPY_MAGIC,
        }
    }
}

/// Unpacks what `file` reads.
#[derive(Debug)]
pub(crate) enum Unpack<R> {
    Plain(R),
    Gzip(MultiGzDecoder<R>),
    Snappy(SnappyBlocks<R>),
}

impl<R: Read> Unpack<R> {
    pub(crate) fn new(compression: Compression, file: R) -> Self {
        match compression {
            Compression::None => Self::Plain(file),
            Compression::Gzip => Self::Gzip(MultiGzDecoder::new(file)),
            Compression::Snappy => Self::Snappy(SnappyBlocks::new(file)),
        }
    }

    pub(crate) fn file(&mut self) -> &mut R {
        match self {
            Self::Plain(file) => file,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Snappy(blocks) => &mut blocks.file,
        }
    }
}

impl<R: Read> Read for Unpack<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Snappy(blocks) => blocks.read(buffer),
        }
    }
}

/// Reads snappy-java's stream.
#[derive(Debug)]
pub(crate) struct SnappyBlocks<R> {
    file: R,
    begun: bool,
    packed: Vec<u8>,
    block: Vec<u8>,
    /// How much of the block was handed out.
    taken: usize,
}

impl<R: Read> SnappyBlocks<R> {
    fn new(file: R) -> Self {
        Self { file, begun: false, packed: Vec::new(), block: Vec::new(), taken: 0 }
    }

    fn begin(&mut self) -> io::Result<()> {
        let mut magic = [0; SNAPPY_MAGIC.len()];
        self.file.read_exact(&mut magic)?;
        let version = self.i32()?;
        self.i32()?;
        if magic != SNAPPY_MAGIC || version < SNAPPY_VERSION {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.begun = true;
        Ok(())
    }

    /// Unpacks the next block; `false` at the end of the file.
    fn next_block(&mut self) -> io::Result<bool> {
        let mut first = [0];
        loop {
            match self.file.read(&mut first) {
                Ok(0) => return Ok(false),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut rest = [0; 3];
        self.file.read_exact(&mut rest)?;
        let [a, b, c] = rest;
        let len = block_len(i32::from_be_bytes([first[0], a, b, c]))?;
        self.packed.resize(len, 0);
        self.file.read_exact(&mut self.packed)?;
        let len = snap::raw::decompress_len(&self.packed)?;
        if len > SNAPPY_BLOCK_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.block.resize(len, 0);
        snap::raw::Decoder::new().decompress(&self.packed, &mut self.block)?;
        self.taken = 0;
        Ok(true)
    }

    fn i32(&mut self) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.file.read_exact(&mut bytes)?;
        Ok(i32::from_be_bytes(bytes))
    }
}

impl<R: Read> Read for SnappyBlocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.begun {
            self.begin()?;
        }
        while self.taken == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let count = self.block.get(self.taken..).unwrap_or_default().read(buffer)?;
        self.taken = self.taken.saturating_add(count);
        Ok(count)
    }
}

fn block_len(len: i32) -> io::Result<usize> {
    usize::try_from(len)
        .ok()
        .filter(|len| *len <= SNAPPY_BLOCK_MAX)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Packs what it is given into a buffer that its owner empties.
pub(crate) enum Pack {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Snappy { packed: Vec<u8>, block: Vec<u8>, encoder: Box<snap::raw::Encoder> },
}

impl Pack {
    pub(crate) fn new(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain(Vec::new()),
            Compression::Gzip => {
                Self::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::default()))
            }
            Compression::Snappy => {
                let mut packed = SNAPPY_MAGIC.to_vec();
                packed.extend(SNAPPY_VERSION.to_be_bytes());
                packed.extend(SNAPPY_VERSION.to_be_bytes());
                let block = Vec::with_capacity(SNAPPY_BLOCK);
                Self::Snappy { packed, block, encoder: Box::new(snap::raw::Encoder::new()) }
            }
        }
    }

    /// Takes content; the buffer holds what is packed of it so far.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.extend_from_slice(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes)?,
            Self::Snappy { packed, block, encoder } => {
                while !bytes.is_empty() {
                    let room = SNAPPY_BLOCK.saturating_sub(block.len()).min(bytes.len());
                    let (piece, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
                    block.extend_from_slice(piece);
                    bytes = rest;
                    if block.len() == SNAPPY_BLOCK {
                        end_block(packed, block, encoder)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// All content has come; the buffer holds the rest of it.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(encoder) => encoder.try_finish(),
            Self::Snappy { packed, block, encoder } => end_block(packed, block, encoder),
        }
    }

    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Plain(out) | Self::Snappy { packed: out, .. } => out,
            Self::Gzip(encoder) => encoder.get_mut(),
        }
    }
}

fn end_block(
    packed: &mut Vec<u8>,
    block: &mut Vec<u8>,
    encoder: &mut snap::raw::Encoder,
) -> io::Result<()> {
    if block.is_empty() {
        return Ok(());
    }
    let bytes = encoder.compress_vec(block)?;
    let len = i32::try_from(bytes.len()).map_err(io::Error::other)?;
    packed.extend(len.to_be_bytes());
    packed.extend(bytes);
    block.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(compression: Compression, content: &[u8], piece: usize) -> Vec<u8> {
        let mut pack = Pack::new(compression);
        for bytes in content.chunks(piece) {
            pack.write(bytes).expect("packs");
        }
        pack.finish().expect("ends");
        std::mem::take(pack.buffer())
    }

    fn unpack(compression: Compression, packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Unpack::new(compression, packed).read_to_end(&mut content).map(|_| content)
    }

    /// Neither all alike nor all different.
    fn content(len: u32) -> Vec<u8> {
        (0..len).flat_map(|at| (at / 7).wrapping_mul(0x9e37_79b9).to_be_bytes()).collect()
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
            for (len, piece) in [(0, 1), (1, 1), (8191, 100), (8192, 4096), (50_000, 70_001)] {
                let packed = pack(compression, &content(len), piece);
                assert_eq!(unpack(compression, &packed).expect("unpacks"), content(len));
                assert!(packed.starts_with(compression.magic()), "{compression:?}");
            }
        }
    }

    /// Made by snappy-java 1.1.10 from 40 times `abc`.
    #[test]
    fn the_bytes_of_snappy_java() {
        let stream = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x0b\x78\x08abc\xfe\x03\0\xd2\x03\0";
        let content = b"abc".repeat(40);
        assert_eq!(unpack(Compression::Snappy, stream).expect("unpacks"), content);
        assert_eq!(pack(Compression::Snappy, &content, 7)[..16], stream[..16]);
    }

    #[test]
    fn a_file_of_several_members_is_read_through() {
        let mut packed = pack(Compression::Gzip, b"one ", 9);
        packed.extend(pack(Compression::Gzip, b"two", 9));
        assert_eq!(unpack(Compression::Gzip, &packed).expect("unpacks"), b"one two");
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let packed = pack(Compression::Gzip, &content(20_000), 1000);
        for len in (1..200).chain(packed.len() - 20..packed.len()) {
            unpack(Compression::Gzip, &packed[..len]).expect_err("cut off");
        }
        // snappy-java's stream has no end: it may end after its head and after each block.
        let packed = pack(Compression::Snappy, &content(3000), 1000);
        assert_eq!(packed[16..18], [0, 0], "one block of less than 64 kB");
        for len in (0..16).chain(17..packed.len()) {
            unpack(Compression::Snappy, &packed[..len]).expect_err("cut off");
        }
    }

    #[test]
    fn impossible_blocks_are_refused_without_room_for_them() {
        let head = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
        for block in [
            b"\xff\xff\xff\xff".as_slice(),
            b"\x7f\xff\xff\xff",
            b"\0\0\0\x05\xff\xff\xff\xff\x0f",
            b"\0\0\0\x01\x05",
            b"\0\0\0\x00",
        ] {
            unpack(Compression::Snappy, &[head.as_slice(), block].concat()).expect_err("refused");
        }
        let mut older = head.to_vec();
        older[11] = 0;
        unpack(Compression::Snappy, &older).expect_err("a version before the first");
    }
}
