//! Owns how what a tool gave is told to somebody who called it over the Model Context Protocol.

use rmcp::model::ContentBlock;

use crate::tools::image::ModelImage;

/// A text and the images that belong to it.
pub fn content(text: String, images: &[ModelImage]) -> Vec<ContentBlock> {
    let shown = images.iter().map(|image| {
        let kind = image.kind().to_string();
        ContentBlock::image(image.base64(), kind)
    });
    std::iter::once(ContentBlock::text(text))
        .chain(shown)
        .collect()
}
