//! What an agent may have its vendor make as a file: images, and speech from a text.

/// A kind of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MediaKind {
    /// An image.
    Image,
    /// Speech.
    Audio,
}

impl MediaKind {
    /// All of them.
    pub const ALL: [MediaKind; 2] = [MediaKind::Image, MediaKind::Audio];

    /// Returns its name in calls.
    pub const fn name(self) -> &'static str {
        match self {
            MediaKind::Image => "image",
            MediaKind::Audio => "audio",
        }
    }

    /// Returns the config key that enables it for the agent's own vendor.
    pub const fn key(self) -> &'static str {
        match self {
            MediaKind::Image => "enable_image_generation",
            MediaKind::Audio => "enable_audio_generation",
        }
    }

    /// Returns the file name extensions, each with the format that a vendor is asked for.
    const fn formats(self) -> &'static [(&'static str, &'static str)] {
        match self {
            MediaKind::Image => &[
                ("png", "png"),
                ("jpg", "jpeg"),
                ("jpeg", "jpeg"),
                ("webp", "webp"),
            ],
            MediaKind::Audio => &[
                ("mp3", "mp3"),
                ("wav", "wav"),
                ("opus", "opus"),
                ("aac", "aac"),
                ("flac", "flac"),
            ],
        }
    }

    /// Returns the format that the extension of a file name stands for, if it is one of this kind.
    pub fn format(self, path: &str) -> Option<&'static str> {
        let (_, extension) = path.rsplit_once('.')?;
        let mut formats = self.formats().iter();
        let known_format = formats.find(|(known, _)| extension.eq_ignore_ascii_case(known));
        known_format.map(|(_, format)| *format)
    }

    /// Returns the file name extensions, for messages.
    pub fn describe_formats(self) -> String {
        let extensions: Vec<String> = self
            .formats()
            .iter()
            .map(|(extension, _)| format!("`.{extension}`"))
            .collect();
        extensions.join(", ")
    }
}

/// An order for a file of media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaOrder {
    /// The kind.
    pub kind: MediaKind,
    /// What the image shows, or the text to be spoken.
    pub prompt: String,
    /// The format, as the vendor calls it.
    pub format: &'static str,
    /// The voice, as the vendor calls it; `None` for its usual one.
    pub voice: Option<String>,
    /// How the text is spoken, in words.
    pub style: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_decides_the_format() {
        for (kind, path, format) in [
            (MediaKind::Image, "a/b.PNG", Some("png")),
            (MediaKind::Image, "b.jpg", Some("jpeg")),
            (MediaKind::Image, "b.mp3", None),
            (MediaKind::Image, "png", None),
            (MediaKind::Audio, "b.c.mp3", Some("mp3")),
            (MediaKind::Audio, "b.png", None),
        ] {
            assert_eq!(kind.format(path), format, "{path}");
        }
    }
}
