//! Pixels that are drawn on, and the PNG file that they become (RFC 2083: one stretch of RGB rows, each with filter 0).

use std::convert::Infallible;
use std::io::{self, Write};

use embedded_graphics::Pixel;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Size};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// A picture in memory, three bytes a pixel.
pub(super) struct Canvas {
    size: Size,
    bytes: Vec<u8>,
}

impl Canvas {
    /// All of one colour.
    pub(super) fn new(size: Size, color: Rgb888) -> Self {
        let pixel = [color.r(), color.g(), color.b()];
        let count = size.width as usize * size.height as usize;
        Self { size, bytes: pixel.repeat(count) }
    }

    /// Writes the picture as PNG.
    pub(super) fn write_png(&self, out: &mut impl Write) -> io::Result<()> {
        let row = self.size.width as usize * 3;
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
        for pixels in self.bytes.chunks(row.max(1)) {
            packed.write_all(&[0])?;
            packed.write_all(pixels)?;
        }
        let Size { width, height } = self.size;
        // 8 bits of each of red, green and blue; the usual compression and filters, not interlaced.
        let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
        out.write_all(b"\x89PNG\r\n\x1a\n")?;
        chunk(out, *b"IHDR", &head)?;
        chunk(out, *b"IDAT", &packed.finish()?)?;
        chunk(out, *b"IEND", &[])
    }
}

/// Length, name, content, and the checksum of name and content.
fn chunk(out: &mut impl Write, name: [u8; 4], content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut sum = crc32fast::Hasher::new();
    sum.update(&name);
    sum.update(content);
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&name)?;
    out.write_all(content)?;
    out.write_all(&sum.finalize().to_be_bytes())
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    /// What lies outside is not drawn.
    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> Result<(), Infallible> {
        for Pixel(at, color) in pixels {
            let (Ok(x), Ok(y)) = (u32::try_from(at.x), u32::try_from(at.y)) else { continue };
            if x < self.size.width && y < self.size.height {
                let at = (y as usize * self.size.width as usize + x as usize) * 3;
                self.bytes[at..at + 3].copy_from_slice(&[color.r(), color.g(), color.b()]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use embedded_graphics::geometry::Point;
    use embedded_graphics::prelude::WebColors;

    use super::*;

    #[test]
    fn the_file_holds_the_pixels_that_were_drawn() {
        let mut canvas = Canvas::new(Size::new(3, 2), Rgb888::WHITE);
        let outside = [(-1, 0), (3, 0), (0, 2)].map(|(x, y)| Point::new(x, y));
        let inside = Point::new(1, 1);
        let pixels = outside.into_iter().chain([inside]).map(|at| Pixel(at, Rgb888::CSS_TEAL));
        canvas.draw_iter(pixels).expect("it cannot fail");
        let mut file = Vec::new();
        canvas.write_png(&mut file).expect("memory takes all");
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x02"));
        // The checksum that every PNG ends with.
        assert!(file.ends_with(&[b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82]));
        let at = file.windows(4).position(|name| name == b"IDAT").expect("it has content") + 4;
        let mut rows = Vec::new();
        flate2::read::ZlibDecoder::new(&file[at..]).read_to_end(&mut rows).expect("it is whole");
        let white = [255; 3];
        let second = [&[0][..], &white, &[0, 128, 128], &white].concat();
        assert_eq!(rows, [&[0][..], &white, &white, &white, &second].concat());
    }
}
