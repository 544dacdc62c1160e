//! Documents, recordings and videos that models accept: of a type detected from their bytes,
//! whatever they are called, and within the vendors' limits.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::tools::page_url::PageUrl;

/// The maximum number of files in one conversation.
const FILES_MAX: usize = 8;
/// The maximum length of all files in one conversation, in bytes of base64. A whole request to
/// Google may have 20 MB, with the images of the conversation:
/// <https://ai.google.dev/gemini-api/docs/document-processing>.
const TOTAL_BASE64_BYTES_MAX: usize = 10 * 1024 * 1024;
/// The length of text that every file counts as at least, in bytes.
const TEXT_BYTES_MIN: usize = 6 * 1024;
/// The length of text that a file of unknown size counts as, in bytes.
const URL_TEXT_BYTES: usize = 64 * 1024;
/// The brands of MP4 files with video: <https://mp4ra.org/registered-types/brands>.
const MP4_BRANDS: &[&[u8]] = &[
    b"isom", b"iso2", b"iso3", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42", b"avc1", b"M4V ",
    b"dash", b"MSNV", b"3gp4", b"3gp5",
];
/// The number of bytes within which the type of a Matroska file is named.
const MATROSKA_HEAD_BYTES: usize = 64;

/// What a file contains, as far as models differ in what they accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFileClass {
    /// A PDF document.
    Document,
    /// A recording.
    Audio,
    /// A video.
    Video,
}

impl ModelFileClass {
    /// Returns the accepted types, in the singular.
    fn accepted_types(self) -> &'static str {
        match self {
            ModelFileClass::Document => "PDF document",
            ModelFileClass::Audio => "WAV or MP3 recording",
            ModelFileClass::Video => "MP4, WebM or QuickTime video",
        }
    }
}

/// Writes the plural, for sentences such as "accepts no PDF documents".
impl fmt::Display for ModelFileClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelFileClass::Document => "PDF documents",
            ModelFileClass::Audio => "recordings",
            ModelFileClass::Video => "videos",
        })
    }
}

/// The file types that models accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFileKind {
    /// Portable Document Format.
    Pdf,
    /// RIFF WAVE.
    Wav,
    /// MPEG audio, layer 3.
    Mp3,
    /// MPEG-4.
    Mp4,
    /// `WebM`.
    Webm,
    /// `QuickTime`.
    QuickTime,
}

impl ModelFileKind {
    /// Detects the type from the beginning of `bytes`.
    fn from_magic_bytes(bytes: &[u8]) -> Option<Self> {
        let has_at = |offset: usize, magic: &[u8]| {
            bytes
                .get(offset..)
                .is_some_and(|rest| rest.starts_with(magic))
        };
        // The sync bits of a frame, and the bits of layer 3.
        let is_mpeg_audio = matches!(bytes, [0xff, second, ..] if second & 0xe6 == 0xe2);
        let head = bytes.get(..MATROSKA_HEAD_BYTES).unwrap_or(bytes);
        if has_at(0, b"%PDF-") {
            Some(Self::Pdf)
        } else if has_at(0, b"RIFF") && has_at(8, b"WAVE") {
            Some(Self::Wav)
        } else if has_at(0, b"ID3") || is_mpeg_audio {
            Some(Self::Mp3)
        } else if has_at(4, b"ftypqt  ") {
            Some(Self::QuickTime)
        } else if has_at(4, b"ftyp") && MP4_BRANDS.iter().any(|brand| has_at(8, brand)) {
            Some(Self::Mp4)
        } else if has_at(0, b"\x1a\x45\xdf\xa3") && head.windows(4).any(|word| word == b"webm") {
            Some(Self::Webm)
        } else {
            None
        }
    }

    /// Returns what files of this type contain.
    fn class(self) -> ModelFileClass {
        match self {
            ModelFileKind::Pdf => ModelFileClass::Document,
            ModelFileKind::Wav | ModelFileKind::Mp3 => ModelFileClass::Audio,
            ModelFileKind::Mp4 | ModelFileKind::Webm | ModelFileKind::QuickTime => {
                ModelFileClass::Video
            }
        }
    }

    /// Returns the usual suffix of its files, without a dot.
    pub fn suffix(self) -> &'static str {
        match self {
            ModelFileKind::Pdf => "pdf",
            ModelFileKind::Wav => "wav",
            ModelFileKind::Mp3 => "mp3",
            ModelFileKind::Mp4 => "mp4",
            ModelFileKind::Webm => "webm",
            ModelFileKind::QuickTime => "mov",
        }
    }
}

/// Writes its media type, as Google and `OpenRouter` spell it:
/// <https://ai.google.dev/gemini-api/docs/audio>,
/// <https://ai.google.dev/gemini-api/docs/video-understanding>.
impl fmt::Display for ModelFileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelFileKind::Pdf => "application/pdf",
            ModelFileKind::Wav => "audio/wav",
            ModelFileKind::Mp3 => "audio/mp3",
            ModelFileKind::Mp4 => "video/mp4",
            ModelFileKind::Webm => "video/webm",
            ModelFileKind::QuickTime => "video/mov",
        })
    }
}

/// The reason why something is not passed on as such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelFileRejection {
    /// It is of no accepted type.
    #[error("it is no {}", .0.accepted_types())]
    WrongType(ModelFileClass),
    /// It is too large.
    #[error("it is larger than {} MiB", ModelFile::BYTES_MAX >> 20)]
    TooLarge,
    /// The conversation contains too many files.
    #[error("there are more than {FILES_MAX} files, or more than {} MiB of them in base64", TOTAL_BASE64_BYTES_MAX >> 20)]
    TooMany,
}

/// A document, a recording or a video that can be sent to models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    class: ModelFileClass,
    source: ModelFileSource,
}

/// What a model is sent of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelFileSource {
    /// Its bytes.
    Bytes(ModelFileBytes),
    /// Its address, from which the vendor reads it.
    Url(PageUrl),
}

/// The bytes of a file, and its name.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelFileBytes {
    kind: ModelFileKind,
    name: Arc<str>,
    base64: Arc<str>,
}

impl ModelFileBytes {
    /// Returns its type.
    pub fn kind(&self) -> ModelFileKind {
        self.kind
    }

    /// Returns its name, without directories.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its bytes in base64.
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// Returns it as a data URL: `data:application/pdf;base64,…`.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.kind, self.base64)
    }
}

/// Omits the bytes.
impl fmt::Debug for ModelFileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({}, {:?})", self.kind, self.name)
    }
}

impl ModelFile {
    /// The largest file, in bytes. Of the vendors that publish a limit, Alibaba Cloud has the
    /// lowest, 10 MB of base64: <https://www.alibabacloud.com/help/en/model-studio/vision>.
    pub const BYTES_MAX: usize = 7 * 1024 * 1024;

    /// Parses the bytes of a file called `name`, which must contain `class`.
    ///
    /// # Errors
    /// The file is of another type or too large.
    pub fn from_bytes(
        class: ModelFileClass,
        name: &str,
        bytes: &[u8],
    ) -> Result<Self, ModelFileRejection> {
        if bytes.len() > Self::BYTES_MAX {
            return Err(ModelFileRejection::TooLarge);
        }
        let kind = ModelFileKind::from_magic_bytes(bytes)
            .filter(|kind| kind.class() == class)
            .ok_or(ModelFileRejection::WrongType(class))?;
        let bytes = ModelFileBytes {
            kind,
            name: name_with_suffix(name, kind.suffix()),
            base64: STANDARD.encode(bytes).into(),
        };
        Ok(Self {
            class,
            source: ModelFileSource::Bytes(bytes),
        })
    }

    /// Returns the file at `url`, which the vendor reads.
    pub fn from_url(class: ModelFileClass, url: PageUrl) -> Self {
        Self {
            class,
            source: ModelFileSource::Url(url),
        }
    }

    /// Returns what it contains.
    pub fn class(&self) -> ModelFileClass {
        self.class
    }

    /// Returns what a model is sent.
    pub fn source(&self) -> &ModelFileSource {
        &self.source
    }

    /// Returns the length of its base64, in bytes.
    pub fn base64_bytes(&self) -> usize {
        match &self.source {
            ModelFileSource::Bytes(bytes) => bytes.base64.len(),
            ModelFileSource::Url(_) => 0,
        }
    }

    /// Returns the length of a text that costs about as much, in bytes. The number of tokens is
    /// known only after the first request; until then, the size and the type give its order of
    /// magnitude.
    pub fn text_bytes(&self) -> usize {
        let bytes = match &self.source {
            ModelFileSource::Bytes(bytes) => bytes.base64.len(),
            ModelFileSource::Url(_) => return URL_TEXT_BYTES,
        };
        let text = match self.class {
            ModelFileClass::Document => bytes / 16,
            ModelFileClass::Audio => bytes / 128,
            ModelFileClass::Video => bytes / 256,
        };
        text.max(TEXT_BYTES_MIN)
    }
}

/// Returns `name` with the suffix that belongs to the type of its file: vendors look at it.
fn name_with_suffix(name: &str, suffix: &str) -> Arc<str> {
    let own_suffix = name.rsplit_once('.').map(|(_, own_suffix)| own_suffix);
    if own_suffix.is_some_and(|own_suffix| own_suffix.eq_ignore_ascii_case(suffix)) {
        name.into()
    } else {
        format!("{name}.{suffix}").into()
    }
}

/// The files of one conversation.
#[derive(Debug, Default)]
pub struct ModelFileCollector {
    files: Vec<ModelFile>,
    base64_bytes: usize,
}

impl ModelFileCollector {
    /// Adds a file.
    ///
    /// # Errors
    /// There are too many files, or they are too large together.
    pub fn add(&mut self, file: ModelFile) -> Result<(), ModelFileRejection> {
        let base64_bytes = self.base64_bytes.saturating_add(file.base64_bytes());
        if self.files.len() >= FILES_MAX || base64_bytes > TOTAL_BASE64_BYTES_MAX {
            return Err(ModelFileRejection::TooMany);
        }
        self.base64_bytes = base64_bytes;
        self.files.push(file);
        Ok(())
    }

    /// Returns all files that were added, in order.
    pub fn into_files(self) -> Vec<ModelFile> {
        self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MP4: &[u8] = b"\0\0\0\x18ftypisom\0\0\x02\0";

    #[test]
    fn a_file_is_what_its_bytes_show() {
        #[track_caller]
        fn check(class: ModelFileClass, bytes: &[u8], expected: Result<&str, ModelFileRejection>) {
            let parsed = ModelFile::from_bytes(class, "a", bytes);
            let parsed = parsed.map(|file| match file.source() {
                ModelFileSource::Bytes(bytes) => format!("{} {}", bytes.kind(), bytes.name()),
                ModelFileSource::Url(url) => url.to_string(),
            });
            assert_eq!(parsed, expected.map(str::to_owned), "{bytes:?}");
        }

        let (document, audio, video) = (
            ModelFileClass::Document,
            ModelFileClass::Audio,
            ModelFileClass::Video,
        );
        check(document, b"%PDF-1.7\n", Ok("application/pdf a.pdf"));
        check(audio, b"RIFF\x24\0\0\0WAVEfmt ", Ok("audio/wav a.wav"));
        check(audio, b"ID3\x04\0\0", Ok("audio/mp3 a.mp3"));
        check(audio, b"\xff\xfb\x90\0", Ok("audio/mp3 a.mp3"));
        check(video, MP4, Ok("video/mp4 a.mp4"));
        check(video, b"\0\0\0\x14ftypqt  \0\0", Ok("video/mov a.mov"));
        let webm = b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm";
        check(video, webm, Ok("video/webm a.webm"));
        // Others: text, an image in RIFF, AAC, Matroska, a picture and a recording in MP4.
        let others: [(ModelFileClass, &[u8]); 10] = [
            (document, b"a PDF document"),
            (document, b" %PDF-1.7"),
            (document, b""),
            (document, MP4),
            (audio, b"RIFF\x24\0\0\0WEBPVP8 "),
            (audio, b"\xff\xf1\x50\x80"),
            (audio, b"%PDF-1.7\n"),
            (video, b"\x1a\x45\xdf\xa3\x9f\x42\x82\x88matroska"),
            (video, b"\0\0\0\x18ftypheic\0\0\0\0"),
            (video, b"\0\0\0\x18ftypM4A \0\0\0\0"),
        ];
        for (class, bytes) in others {
            check(class, bytes, Err(ModelFileRejection::WrongType(class)));
        }
    }

    #[test]
    fn a_conversation_has_only_so_many_files() {
        let document = |length: usize| {
            let mut bytes = b"%PDF-1.7\n".to_vec();
            bytes.resize(length, b' ');
            ModelFile::from_bytes(ModelFileClass::Document, "report.PDF", &bytes)
        };
        let largest = document(ModelFile::BYTES_MAX).unwrap();
        let too_large = document(ModelFile::BYTES_MAX + 1);
        assert_eq!(too_large, Err(ModelFileRejection::TooLarge));
        let mut collector = ModelFileCollector::default();
        assert_eq!(collector.add(largest.clone()), Ok(()));
        assert_eq!(collector.add(largest), Err(ModelFileRejection::TooMany));
        let small = document(9).unwrap();
        for _ in 1..FILES_MAX {
            assert_eq!(collector.add(small.clone()), Ok(()));
        }
        assert_eq!(
            collector.add(small.clone()),
            Err(ModelFileRejection::TooMany)
        );
        assert_eq!(collector.into_files().len(), FILES_MAX);
        let shown = format!("{small:?}");
        assert!(shown.contains("\"report.PDF\""), "{shown}");
        assert!(!shown.contains("JVBER"), "{shown}");
    }
}
