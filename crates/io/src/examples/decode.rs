//! Decodes PNG and JPEG files.
//!
//! Grayscale or RGB, 8 bits each. A fully opaque alpha channel is dropped, any other
//! is an error. The size that a file states is checked against limits before memory is allocated; JPEG is decoded
//! without CPU-specific instructions, so that pixels are the same everywhere.

use std::io::Cursor;
use std::path::Path;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::guard::guard;
use crate::{Error, Result};

const PNG: &str = "PNG";
const JPEG: &str = "JPEG";
const PNG_SIGNATURE: &[u8] = b"\x89PNG";
const JPEG_SIGNATURE: &[u8] = b"\xFF\xD8";
/// deflate expands one byte to at most 1,032, and a palette of one bit per pixel expands each of them to 24.
const MOST_EXPANSION: usize = 1032 * 24;
/// Memory that the decoder may use besides the pixels.
const OVERHEAD: usize = 16 << 20;

/// A decoded image, row-major, channels last.
#[derive(Debug, PartialEq)]
pub(super) struct Pixels {
    pub height: usize,
    pub width: usize,
    /// 1 or 3.
    pub channels: usize,
    pub values: Vec<u8>,
}

/// Decodes an image of at most `most` values; the format is detected from the first bytes.
pub(super) fn decode(path: &Path, bytes: &[u8], most: usize) -> Result<Pixels> {
    if bytes.starts_with(PNG_SIGNATURE) {
        guard(path, PNG, || png(path, bytes, most))
    } else if bytes.starts_with(JPEG_SIGNATURE) {
        guard(path, JPEG, || jpeg(path, bytes, most))
    } else {
        let what = "it is neither PNG nor JPEG";
        Err(Error::content(path, format!("{what}; convert it to one of them")))
    }
}

fn png(path: &Path, bytes: &[u8], most: usize) -> Result<Pixels> {
    let damaged = |e: png::DecodingError| Error::malformed(path, PNG, e);
    let limits = png::Limits { bytes: most.saturating_add(OVERHEAD) };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let (colors, depth) = reader.output_color_type();
    if depth != png::BitDepth::Eight {
        let what = "has 16 bits per value, but only 8 are supported; convert it";
        return Err(Error::content(path, what));
    }
    let size = reader.output_buffer_size();
    let size = check_size(path, (height, width), size, most)?;
    if size / MOST_EXPANSION > bytes.len() {
        let what = format!("{height} x {width} pixels cannot be stored in {} bytes", bytes.len());
        return Err(Error::malformed(path, PNG, what));
    }
    let mut values = vec![0; size];
    reader.next_frame(&mut values).map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    let channels = colors.samples();
    if matches!(channels, 2 | 4) {
        let is_opaque = |pixel: &[u8]| pixel.last() == Some(&u8::MAX);
        if !values.chunks_exact(channels).all(is_opaque) {
            let what = "has transparent pixels; composite it over a background first";
            return Err(Error::content(path, what));
        }
        let opaque = values.chunks_exact(channels).flat_map(|pixel| &pixel[..channels - 1]);
        values = opaque.copied().collect();
    }
    let channels = if channels < 3 { 1 } else { 3 };
    Ok(Pixels { height, width, channels, values })
}

fn jpeg(path: &Path, bytes: &[u8], most: usize) -> Result<Pixels> {
    let options = DecoderOptions::new_safe().set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|e| Error::malformed(path, JPEG, e))?;
    let (space, channels) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (ColorSpace::Luma, 1),
        Some(ColorSpace::YCbCr | ColorSpace::RGB) => (ColorSpace::RGB, 3),
        other => {
            let what = format!("has the colors {other:?}; convert it to gray or RGB");
            return Err(Error::content(path, what));
        }
    };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    let (width, height) = decoder.dimensions().unwrap_or_default();
    let size = width.checked_mul(height).and_then(|n| n.checked_mul(channels));
    let size = check_size(path, (height, width), size, most)?;
    let values = decoder.decode().map_err(|e| Error::malformed(path, JPEG, e))?;
    if values.len() != size {
        let what = format!("{} values were decoded where {size} are expected", values.len());
        return Err(Error::malformed(path, JPEG, what));
    }
    Ok(Pixels { height, width, channels, values })
}

fn check_size(
    path: &Path,
    (height, width): (usize, usize),
    size: Option<usize>,
    most: usize,
) -> Result<usize> {
    match size {
        Some(0) => Err(Error::content(path, "has no pixels")),
        Some(size) if size <= most => Ok(size),
        _ => {
            let what =
                format!("{height} x {width} pixels are too many; at most {most} values are read");
            Err(Error::content(path, format!("{what}, scale it down")))
        }
    }
}
