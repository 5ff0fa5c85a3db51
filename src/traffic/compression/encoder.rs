//! How does an answer leave encoded?
//!
//! Piece by piece as it comes from the origin: each piece is flushed, so that nothing waits here for an origin that is
//! slow to say more. Levels are those of servers that compress on the fly; windows are small, since one is held for
//! every answer under way: a client that reads slowly holds it for as long as it reads. The libraries are those
//! `pingora-core` is built on, so that the program holds each of them once.

use std::io::{self, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::Compress;
use flate2::write::ZlibEncoder;
use zstd::stream::raw::CParameter;

use crate::config::compression::Algorithm;

/// zlib-ng's levels below 4 trade a tenth of the size for half of the time.
const GZIP_LEVEL: u32 = 4;
const BROTLI_LEVEL: i32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// How far back a match may reach, as a power of two. Any decoder can hold so much.
const GZIP_WINDOW: u8 = 15;
const WINDOW: u8 = 17;
/// What the smallest answers are given.
const SMALL_WINDOW: u8 = 10;

/// What zstd looks matches up in: larger tables double its memory and gain nothing at this window.
const ZSTD_TABLES: u8 = 15;

/// What brotli writes at a time.
const BROTLI_OUTPUT: usize = 4096;

/// One answer on its way through a coding.
pub struct Encoder(Coding);

enum Coding {
    Gzip(ZlibEncoder<Vec<u8>>),
    /// `None` behind its end.
    Brotli(Option<Box<CompressorWriter<Vec<u8>>>>),
    Zstd(zstd::Encoder<'static, Vec<u8>>),
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// For an answer of `length` bytes, as far as that is known: a small one needs less memory.
    ///
    /// # Errors
    /// The library cannot begin.
    pub fn new(algorithm: Algorithm, length: Option<u64>) -> io::Result<Self> {
        let window = window(length);
        Ok(Self(match algorithm {
            Algorithm::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                let gzip = Compress::new_gzip(level, window.min(GZIP_WINDOW));
                Coding::Gzip(ZlibEncoder::new_with_compress(Vec::new(), gzip))
            }
            Algorithm::Br => {
                let size_hint = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
                let params = BrotliEncoderParams {
                    quality: BROTLI_LEVEL,
                    lgwin: window.into(),
                    size_hint,
                    ..BrotliEncoderParams::default()
                };
                Coding::Brotli(Some(Box::new(CompressorWriter::with_params(Vec::new(), BROTLI_OUTPUT, &params))))
            }
            Algorithm::Zstd => {
                let mut zstd = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                let tables = u32::from(window.min(ZSTD_TABLES));
                zstd.set_parameter(CParameter::WindowLog(window.into()))?;
                zstd.set_parameter(CParameter::HashLog(tables))?;
                zstd.set_parameter(CParameter::ChainLog(tables))?;
                Coding::Zstd(zstd)
            }
        }))
    }

    /// What leaves for this piece of the answer; `end`: it is the last.
    ///
    /// # Errors
    /// The library fails.
    pub fn encode(&mut self, piece: &[u8], end: bool) -> io::Result<Vec<u8>> {
        match &mut self.0 {
            Coding::Gzip(gzip) => {
                gzip.write_all(piece)?;
                if end {
                    gzip.try_finish()?
                } else {
                    gzip.flush()?
                }
                Ok(std::mem::take(gzip.get_mut()))
            }
            Coding::Brotli(brotli) => {
                let Some(mut writer) = brotli.take() else { return Ok(Vec::new()) };
                writer.write_all(piece)?;
                if end {
                    return Ok(writer.into_inner());
                }
                writer.flush()?;
                let encoded = std::mem::take(writer.get_mut());
                *brotli = Some(writer);
                Ok(encoded)
            }
            Coding::Zstd(zstd) => {
                zstd.write_all(piece)?;
                if end {
                    zstd.do_finish()?
                } else {
                    zstd.flush()?
                }
                Ok(std::mem::take(zstd.get_mut()))
            }
        }
    }
}

/// What an encoder for an answer of `length` bytes takes, as measured: tables that are always there, and those that grow
/// with its window.
pub fn memory(algorithm: Algorithm, length: Option<u64>) -> usize {
    const KIB: usize = 1024;
    let window = window(length);
    match algorithm {
        Algorithm::Gzip => 160 * KIB + (4 << window.min(GZIP_WINDOW)),
        Algorithm::Br => 700 * KIB + (11 << window),
        Algorithm::Zstd => 128 * KIB + (4 << window),
    }
}

/// The window that holds `length` bytes.
fn window(length: Option<u64>) -> u8 {
    let bits = length.map_or(u64::BITS, |length| u64::BITS - length.leading_zeros());
    u8::try_from(bits).unwrap_or(WINDOW).clamp(SMALL_WINDOW, WINDOW)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read;

    use super::*;

    /// What a client makes of it.
    pub(in super::super) fn decoded(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match algorithm {
            Algorithm::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap(),
            Algorithm::Br => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain).unwrap(),
            Algorithm::Zstd => zstd::Decoder::new(bytes).unwrap().read_to_end(&mut plain).unwrap(),
        };
        plain
    }

    /// What can be decoded of an answer that has not ended.
    fn seen(algorithm: Algorithm, bytes: &[u8], length: usize) -> Vec<u8> {
        let mut plain = vec![0; length];
        let read = match algorithm {
            Algorithm::Gzip => flate2::read::GzDecoder::new(bytes).read_exact(&mut plain),
            Algorithm::Br => brotli::Decompressor::new(bytes, 4096).read_exact(&mut plain),
            Algorithm::Zstd => zstd::Decoder::new(bytes).unwrap().read_exact(&mut plain),
        };
        read.unwrap();
        plain
    }

    pub(in super::super) const ALL: [Algorithm; 3] = [Algorithm::Zstd, Algorithm::Br, Algorithm::Gzip];

    #[test]
    fn each_piece_can_be_read_before_the_next_comes() {
        for algorithm in ALL {
            let mut encoder = Encoder::new(algorithm, None).unwrap();
            let (mut sent, mut wire) = (Vec::new(), Vec::new());
            for piece in [&b"{\"a\": 1,"[..], b" ", &[b'x'; 3000], b"\"b\": 2}"] {
                sent.extend_from_slice(piece);
                wire.extend(encoder.encode(piece, false).unwrap());
                assert_eq!(seen(algorithm, &wire, sent.len()), sent, "{algorithm}");
            }
            wire.extend(encoder.encode(b"", true).unwrap());
            assert_eq!(decoded(algorithm, &wire), sent, "{algorithm}");
        }
    }

    #[test]
    fn text_shrinks() {
        let text = "the quick brown fox jumps over the lazy dog\n".repeat(500);
        for algorithm in ALL {
            let mut encoder = Encoder::new(algorithm, Some(text.len() as u64)).unwrap();
            let wire = encoder.encode(text.as_bytes(), true).unwrap();
            assert!(wire.len() < text.len() / 50, "{algorithm}: {}", wire.len());
        }
    }

    #[test]
    fn a_small_answer_has_a_small_window() {
        let windows = [Some(0), Some(1024), Some(4095), Some(70_000), Some(u64::MAX), None].map(window);
        assert_eq!(windows, [10, 11, 12, 17, 17, 17]);
        let mib = |algorithm, length| memory(algorithm, length) as f64 / f64::from(1 << 20);
        for (algorithm, large, small) in [(ALL[0], 0.6, 0.13), (ALL[1], 2.1, 0.7), (ALL[2], 0.3, 0.16)] {
            // the figures of docs/bodies.md
            assert!((mib(algorithm, None) - large).abs() < 0.1 && (mib(algorithm, Some(8000)) - small).abs() < 0.1);
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::tests::{ALL, decoded};
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_bytes_in_any_pieces_decode_to_the_same(
            pieces in proptest::collection::vec(prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..2000),
                (any::<u8>(), 0_usize..9000).prop_map(|(byte, count)| vec![byte; count]),
            ], 0..8),
            is_told in any::<bool>(),
            last_is_empty in any::<bool>(),
        ) {
            let plain = pieces.concat();
            for algorithm in ALL {
                let mut encoder = Encoder::new(algorithm, is_told.then_some(plain.len() as u64)).unwrap();
                let mut wire = Vec::new();
                for (number, piece) in pieces.iter().enumerate() {
                    let end = !last_is_empty && number + 1 == pieces.len();
                    wire.extend(encoder.encode(piece, end).unwrap());
                }
                if last_is_empty || pieces.is_empty() {
                    wire.extend(encoder.encode(b"", true).unwrap());
                }
                prop_assert_eq!(&decoded(algorithm, &wire), &plain);
            }
        }
    }
}
