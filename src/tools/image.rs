//! Images that tools return and models accept: of a type detected from their bytes, whatever they
//! are declared to be, and within the vendors' limits.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use imagesize::{ImageSize, ImageType};
use serde::{Deserialize, Serialize};

/// The longest image, in bytes of base64. Of the vendors that publish a limit, Anthropic has the
/// lowest, 5 MB: <https://platform.claude.com/docs/en/build-with-claude/vision>.
const BASE64_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The maximum width or height of an image, in pixels:
/// <https://platform.claude.com/docs/en/build-with-claude/vision>.
const SIDE_PIXELS_MAX: usize = 8_000;
/// The maximum number of images in one result.
const IMAGES_MAX: usize = 8;
/// The maximum length of all images in one result, in bytes of base64.
const TOTAL_BASE64_BYTES_MAX: usize = 8 * 1024 * 1024;

/// An image that can be sent to models. Records contain its base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Arc<str>", into = "Arc<str>")]
pub struct ModelImage {
    kind: ImageKind,
    pixels: ImageSize,
    base64: Arc<str>,
}

/// The image types that models accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Portable Network Graphics.
    Png,
    /// JPEG.
    Jpeg,
    /// Graphics Interchange Format.
    Gif,
    /// WebP.
    Webp,
}

/// The reason why something is not passed on as an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageRejection {
    /// It is not such an image, or damaged.
    #[error("it is no PNG, JPEG, GIF or WebP image")]
    Unsupported,
    /// It is too large.
    #[error("it is larger than {} MiB in base64", BASE64_BYTES_MAX >> 20)]
    TooLarge,
    /// It is too wide or too high.
    #[error("it is more than {SIDE_PIXELS_MAX} pixels wide or high")]
    TooManyPixels,
    /// The result contains too many images.
    #[error("there are more than {IMAGES_MAX} images, or more than {} MiB of them", TOTAL_BASE64_BYTES_MAX >> 20)]
    TooMany,
}

impl ModelImage {
    /// The largest image file, in bytes: what fits into the longest base64.
    pub const BYTES_MAX: u64 = 3 * 1024 * 1024;

    /// Parses the bytes of an image file.
    ///
    /// # Errors
    /// The image is not of a supported type, is damaged or exceeds a limit.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImageRejection> {
        Self::parse(STANDARD.encode(bytes).into())
    }

    /// Parses an image in base64.
    ///
    /// # Errors
    /// The image is not of a supported type, is damaged or exceeds a limit.
    pub fn parse(base64: Arc<str>) -> Result<Self, ImageRejection> {
        if base64.len() > BASE64_BYTES_MAX {
            return Err(ImageRejection::TooLarge);
        }
        let bytes = STANDARD
            .decode(&*base64)
            .map_err(|_| ImageRejection::Unsupported)?;
        let kind = ImageKind::from_magic_bytes(&bytes).ok_or(ImageRejection::Unsupported)?;
        let pixels = imagesize::blob_size(&bytes).map_err(|_| ImageRejection::Unsupported)?;
        if pixels.width.max(pixels.height) > SIDE_PIXELS_MAX {
            return Err(ImageRejection::TooManyPixels);
        }
        Ok(Self {
            kind,
            pixels,
            base64,
        })
    }

    /// Returns its type.
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// Returns its bytes in base64.
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// Returns it as a data URL: `data:image/png;base64,…`.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.kind, self.base64)
    }
}

/// Describes it for people and models: `image/png, 20 x 10 pixels`.
impl fmt::Display for ModelImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ImageSize { width, height } = self.pixels;
        write!(f, "{}, {width} x {height} pixels", self.kind)
    }
}

/// Omits the bytes.
impl fmt::Debug for ModelImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelImage({self})")
    }
}

impl TryFrom<Arc<str>> for ModelImage {
    type Error = ImageRejection;

    fn try_from(base64: Arc<str>) -> Result<Self, ImageRejection> {
        Self::parse(base64)
    }
}

impl From<ModelImage> for Arc<str> {
    fn from(image: ModelImage) -> Self {
        image.base64
    }
}

impl ImageKind {
    /// Detects the type from the beginning of `bytes`.
    fn from_magic_bytes(bytes: &[u8]) -> Option<Self> {
        match imagesize::image_type(bytes).ok()? {
            ImageType::Png => Some(Self::Png),
            ImageType::Jpeg => Some(Self::Jpeg),
            ImageType::Gif => Some(Self::Gif),
            ImageType::Webp => Some(Self::Webp),
            _ => None,
        }
    }
}

/// Writes its media type.
impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageKind::Png => "image/png",
            ImageKind::Jpeg => "image/jpeg",
            ImageKind::Gif => "image/gif",
            ImageKind::Webp => "image/webp",
        })
    }
}

/// Returns whether the name of a file says that it is an image that models accept.
pub fn is_image_name(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    suffix.is_some_and(|suffix| {
        let suffixes = ["png", "jpg", "jpeg", "gif", "webp"];
        suffixes
            .iter()
            .any(|known| suffix.eq_ignore_ascii_case(known))
    })
}

/// The images of one result.
#[derive(Debug, Default)]
pub struct ImageCollector {
    images: Vec<ModelImage>,
    base64_bytes: usize,
}

impl ImageCollector {
    /// Adds an image in base64, and returns it with its number, counted from 1.
    ///
    /// # Errors
    /// The image is invalid or exceeds a limit.
    pub fn add(&mut self, base64: &str) -> Result<(usize, &ModelImage), ImageRejection> {
        if base64.len() > BASE64_BYTES_MAX {
            return Err(ImageRejection::TooLarge);
        }
        let base64_bytes = self.base64_bytes.saturating_add(base64.len());
        if self.images.len() >= IMAGES_MAX || base64_bytes > TOTAL_BASE64_BYTES_MAX {
            return Err(ImageRejection::TooMany);
        }
        let image = ModelImage::parse(base64.into())?;
        self.base64_bytes = base64_bytes;
        self.images.push(image);
        let number = self.images.len();
        self.images
            .last()
            .map(|last| (number, last))
            .ok_or(ImageRejection::Unsupported)
    }

    /// Returns all images that were added, in order.
    pub fn into_images(self) -> Vec<ModelImage> {
        self.images
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the header of a PNG with these dimensions.
    fn png(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
        STANDARD.encode(bytes)
    }

    #[test]
    fn an_image_is_what_its_bytes_show() {
        #[track_caller]
        fn check(base64: &str, expected: Result<&str, ImageRejection>) {
            let parsed = ModelImage::parse(base64.into()).map(|image| image.to_string());
            assert_eq!(parsed, expected.map(str::to_owned), "{base64}");
        }

        check(&png(20, 10), Ok("image/png, 20 x 10 pixels"));
        check(&png(8_000, 1), Ok("image/png, 8000 x 1 pixels"));
        check(&png(8_001, 1), Err(ImageRejection::TooManyPixels));
        check(&png(1, 8_001), Err(ImageRejection::TooManyPixels));
        let gif = STANDARD.encode(b"GIF89a\x03\0\x02\0\x80\0\0");
        check(&gif, Ok("image/gif, 3 x 2 pixels"));
        let webp = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x02\x40\0\0\0\0\0\0\0\0\0\0\0";
        check(&STANDARD.encode(webp), Ok("image/webp, 3 x 2 pixels"));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04\0\0\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0";
        check(&STANDARD.encode(jpeg), Ok("image/jpeg, 3 x 2 pixels"));
        check(
            &STANDARD.encode("<svg width='3'/>"),
            Err(ImageRejection::Unsupported),
        );
        check(
            &STANDARD.encode(b"BM\x1a\0\0\0"),
            Err(ImageRejection::Unsupported),
        );
        check(
            png(20, 10).get(..12).unwrap(),
            Err(ImageRejection::Unsupported),
        );
        check("no base64", Err(ImageRejection::Unsupported));
        check("", Err(ImageRejection::Unsupported));
        check(
            &"A".repeat(BASE64_BYTES_MAX + 4),
            Err(ImageRejection::TooLarge),
        );
    }

    #[test]
    fn an_answer_has_only_so_many_images() {
        let mut images = ImageCollector::default();
        for number in 1..=IMAGES_MAX {
            assert_eq!(images.add(&png(1, 1)).map(|added| added.0), Ok(number));
        }
        assert_eq!(
            images.add(&png(1, 1)).map(|added| added.0),
            Err(ImageRejection::TooMany)
        );
        let mut images = ImageCollector::default();
        // The data after an image's header is not checked.
        let head = STANDARD.decode(png(1, 1)).unwrap();
        let long = STANDARD.encode([head, vec![0; 3 * 1024 * 1024 - 64]].concat());
        assert_eq!(images.add(&long).map(|added| added.0), Ok(1));
        assert_eq!(
            images.add("bm8=").map(|added| added.0),
            Err(ImageRejection::Unsupported)
        );
        assert_eq!(images.add(&long).map(|added| added.0), Ok(2));
        assert_eq!(
            images.add(&long).map(|added| added.0),
            Err(ImageRejection::TooMany)
        );
        assert_eq!(images.into_images().len(), 2);
    }

    #[test]
    fn a_record_holds_an_image_and_nothing_that_is_none() {
        let image = ModelImage::parse(png(2, 3).into()).unwrap();
        let json = serde_json::to_string(&image).unwrap();
        assert_eq!(json, format!("\"{}\"", png(2, 3)));
        assert_eq!(serde_json::from_str::<ModelImage>(&json).unwrap(), image);
        assert!(serde_json::from_str::<ModelImage>("\"bm8=\"").is_err());
    }
}
